"""A preset's head, loaded for its target; of EAGLE heads, the configuration is read the way that agrees best."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.errors import UsageError
from specextend_cli.models.checkpoint import checked_weights
from specextend_cli.models.head_config import PublishedHead, is_assistant
from specextend_cli.models.ngram_table import has_table
from specextend_cli.models.preset import Draft, Preset
from specextend_cli.models.source_kinds import LocalSource

if TYPE_CHECKING:
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel

WINDOW = 1024  # tokens that a head of unknown training sees of a prompt at a time: published ones were trained to 2,048

_WARM_UP = """\
The river has been gauged at the old bridge since 1904. In most years the water is highest in April, when the snow of \
the upper valley melts, and lowest in September. Twice it rose above the quay: in 1926, after eleven days of rain, and \
in 1978, when the dam upstream had to be opened. The committee was asked to find out what a third flood would cost. It \
visited the mills, the railway station and the school, spoke with forty residents, and read the accounts of both \
insurers. Its report, published in March, recommends a second channel east of the town, to be paid for by the county \
over twelve years. The council will vote on the plan in June."""


def with_head(preset: Preset, directory: str | Path) -> Preset:
    """The preset, drafting with n-grams and the head (and n-gram table) in `directory` instead of its own draft.

    Its working set takes compact positions, which suit every head; an assistant's ignores that. UsageError: there is no
    such directory. ModelError: it holds no head, or a damaged one; said now, without reading its weights, not when
    everything else is loaded.
    """
    path = Path(directory).expanduser().absolute()
    if not path.is_dir():
        why = "--draft-head names a directory with a draft head: config.json beside its weights"
        fix = "fetch or train one for this model: docs/models.md"
        raise UsageError(f"there is no directory {directory}", why=why, fix=fix)
    kind = "assistant" if is_assistant(path) else "eagle"
    if kind == "eagle":
        PublishedHead.read(path)
    checked_weights(path, "")
    of = (kind, "ngram", *(["table"] if has_table(path) else []))
    draft = Draft(kind="blend", of=of, source=LocalSource(kind="local", path=path), window=WINDOW)
    retrieval = replace(preset.retrieval, positions="compact")
    return preset.model_copy(update={"draft": draft, "retrieval": retrieval})


def load_eagle(directory: Path, target: LanguageModel, name: str) -> EagleHead:
    """The head in `directory`; `name` is what the user calls the preset. ModelError as `load_head`.

    Where its configuration can be read in several ways, all continue a short text, and the best one is kept. What
    speaks against it is in its `remarks`.
    """
    import torch

    from specextend_cli.engine.packed import round_to_four_bit
    from specextend_cli.models.heads import LEAST, load_head, probe
    from specextend_cli.models.tokens import TextEncoder

    head, readings = load_head(directory, target, name=name)
    if len(readings) > 1:
        tokens = TextEncoder.of(Path(target.model.name_or_path)).encode(_WARM_UP)
        share = probe(head, readings, target, torch.tensor(tokens, device=target.device))
        if share < LEAST:
            head.remarks += (f"whichever way its configuration is read, it agrees with the target on {share:.0%} only",)
    round_to_four_bit(head)
    return head
