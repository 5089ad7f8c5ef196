"""The fingerprint of a run in its plan.json: a run resumes only with the target, corpus and prompt that it began with.

State of different runs, mixed, would train without an error and draft badly. Time and steps are no part of the
fingerprint: a run may be given more of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import UsageError
from specextend_cli.train.config import Distillation
from specextend_cli.train.files import replace_whole
from specextend_cli.train.samples import Frame

_OPENING = 64  # tokens of each document that the digest reads
_EARLIER = {"architecture": "eagle3"}  # what runs of earlier releases did not write


def check_fingerprint(
    work: Path,
    lm: LanguageModel,
    documents: Sequence[Sequence[int]],
    frame: Frame,
    plan: Distillation,
    feature_layers: Sequence[int],
) -> None:
    """Write the fingerprint into `work`; UsageError where an earlier run there has another."""
    path = work / "plan.json"
    now = {
        "target": _target(lm),
        "documents": digest(documents),
        "prompt": {"before": list(frame.before), "after": list(frame.after)},
        "lengths": list(plan.lengths),
        "vocabulary": plan.vocabulary,
        "unroll": plan.schedule.unroll,  # measurements of chains of two depths do not compare
        "feature layers": list(feature_layers),
        "begun from": _weights(plan.init),
        "architecture": plan.architecture or "eagle3",
    }
    if not path.exists():
        replace_whole(path, json.dumps(now, indent=2) + "\n")
        return
    before = _read(path)
    if not before:
        raise UsageError(f"cannot tell what {work} is the training of", why=f"{path.name} is damaged", fix=_fix(work))
    before = {**_EARLIER, **before}
    if differing := [name for name in now if before.get(name) != now[name]]:
        raise UsageError(
            f"{work.parent} holds the training of another head",
            why="; ".join(_difference(name, before.get(name), now[name]) for name in differing),
            fix=_fix(work),
        )


def _fix(work: Path) -> str:
    return f"another -o DIR, or remove {work}"


def _target(lm: LanguageModel) -> dict[str, Any]:
    return {
        "class": type(lm.model).__name__,
        "vocabulary": lm.vocabulary,
        "hidden": int(lm.config.hidden_size),
        "layers": lm.layers,
        "dtype": str(lm.dtype).removeprefix("torch."),
    }


def digest(documents: Sequence[Sequence[int]]) -> dict[str, Any]:
    """A cheap digest: the amount of text, and the beginning of each document."""
    openings = sha256()
    for document in documents:
        opening = np.asarray(document[:_OPENING], dtype="<i8")
        openings.update(len(opening).to_bytes(8, "little") + opening.tobytes())
    return {"number": len(documents), "tokens": sum(map(len, documents)), "openings": openings.hexdigest()}


def _weights(directory: Path | None) -> str | None:
    """A digest of the head that training continues from."""
    if directory is None:
        return None
    files = sorted(file for file in directory.iterdir() if file.suffix in (".safetensors", ".bin"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _read(path: Path) -> dict[str, Any]:
    try:
        before = json.loads(path.read_bytes())
    except ValueError:
        before = None
    return before if isinstance(before, dict) else {}


def _difference(name: str, before: object, now: object) -> str:
    """In words; the tokens of a prompt and a digest of documents are not spelled out."""
    if name in ("documents", "prompt"):
        return f"the {name} differ" if name == "documents" else "the prompt differs"
    if isinstance(before, dict) and isinstance(now, dict):
        inner = (f"{key} {before.get(key)}, now {now[key]}" for key in now if before.get(key) != now[key])
        return f"{name}: {', '.join(inner)}"
    return f"{name}: {before}, now {now}"
