"""State on disk: whole or not at all, and of one run alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import UsageError
from specextend_cli.train.card import Facts, Figures, write_card
from specextend_cli.train.config import Distillation, Schedule
from specextend_cli.train.distill import _seconds
from specextend_cli.train.files import add_lines, read_lines, replace_whole
from specextend_cli.train.run_fingerprint import check_fingerprint
from specextend_cli.train.samples import Frame
from tests.engine.tiny_models import prompt, tiny

FACTS = Facts("a target", "none", "random tokens", "none", "a machine")
FRAME = Frame([1, 2], [3])
DOCUMENTS = [prompt(80), prompt(90, seed=1)]
PLAN = Distillation(Schedule(seconds=60), vocabulary=60, lengths=(32,))


def test_a_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state"
    replace_whole(file, "old")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        replace_whole(file, b"new")
    assert file.read_text() == "old"
    monkeypatch.undo()
    replace_whole(file, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert file.read_text() == "new"


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "curve.jsonl"
    assert read_lines(file) == []
    add_lines(file, [{"step": 1}])
    with file.open("ab") as raw:
        raw.write(b'{"st')
    assert read_lines(file) == [{"step": 1}]
    add_lines(file, [{"step": 2}])
    assert read_lines(file) == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize("content", [b"", b"12.", b"x", b"nan", b"\xff"])
def test_an_unreadable_clock_counts_as_nothing(tmp_path: Path, content: bytes) -> None:
    clock = tmp_path / "answers.seconds"
    assert _seconds(clock) == 0.0
    clock.write_bytes(content)
    assert _seconds(clock) == (12.0 if content == b"12." else 0.0)


def test_the_card_needs_no_curve_and_says_what_is_estimated(tmp_path: Path) -> None:
    figures, curve = Figures("EAGLE-3.1", 57, 0.9, 10, 1000, "excerpts of documents"), tmp_path / "curve.jsonl"
    write_card(tmp_path, FACTS, PLAN, figures, curve)
    card = (tmp_path / "README.md").read_text()
    assert "**Vocabulary** 57 tokens" in card
    assert "# EAGLE-3.1 draft head for" in card
    assert "Validation" not in card
    add_lines(
        curve, [{"step": 3, "seconds": 60.0, "accepted": 1.5, "quoted": 2.25, "agreement": [0.4, 0.1], "best": True}]
    )
    add_lines(curve, [{"step": 9, "seconds": 90.0, "accepted": 1.6, "quoted": 1.0, "agreement": [0, 0], "best": False}])
    with curve.open("ab") as raw:
        raw.write(b'{"step"')
    write_card(tmp_path, FACTS, PLAN, figures, curve)
    card = (tmp_path / "README.md").read_text()
    assert "On held-out excerpts of documents, a chain of 2 drafts has an estimated accepted length" in card
    assert "**1.50**, in quotations **2.25**" in card
    assert "| 9 | 1.5 | 1.600 | 1.00 |" in card
    assert "teacher-forced" in card


def test_a_directory_is_of_one_run(tmp_path: Path) -> None:
    lm, work = LanguageModel(tiny()), tmp_path / "training"
    work.mkdir()
    check_fingerprint(work, lm, DOCUMENTS, FRAME, PLAN, (0, 1, 2))
    written = (work / "plan.json").read_bytes()
    longer = replace(PLAN, schedule=replace(PLAN.schedule, seconds=120.0, steps=7))
    check_fingerprint(work, lm, DOCUMENTS, FRAME, longer, (0, 1, 2))
    assert (work / "plan.json").read_bytes() == written
    saved = json.loads(written)
    assert saved["target"] == {
        "class": "LlamaForCausalLM",
        "vocabulary": 97,
        "hidden": 64,
        "layers": 3,
        "dtype": "float32",
    }
    assert saved["documents"]["tokens"] == 170


def test_another_run_is_refused(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    check_fingerprint(tmp_path, lm, DOCUMENTS, FRAME, PLAN, (0, 1, 2))
    others = {
        "class Llama.*, now Qwen3": (LanguageModel(tiny("qwen3")), DOCUMENTS, FRAME, PLAN, (0, 1, 2)),
        "dtype float32, now bfloat16": (
            LanguageModel(tiny().to(torch.bfloat16)),
            DOCUMENTS,
            FRAME,
            PLAN,
            (0, 1, 2),
        ),
        "the documents differ": (lm, [DOCUMENTS[0], [5, *DOCUMENTS[1][1:]]], FRAME, PLAN, (0, 1, 2)),
        "the prompt differs": (lm, DOCUMENTS, Frame([1, 2], [4]), PLAN, (0, 1, 2)),
        "vocabulary: 60, now 50": (lm, DOCUMENTS, FRAME, replace(PLAN, vocabulary=50), (0, 1, 2)),
        r"lengths: \[32\], now \[48\]": (lm, DOCUMENTS, FRAME, replace(PLAN, lengths=(48,)), (0, 1, 2)),
        "feature layers: .* now": (lm, DOCUMENTS, FRAME, PLAN, (0, 1, 3)),
    }
    for why, other in others.items():
        with pytest.raises(UsageError, match="another head") as caught:
            check_fingerprint(tmp_path, *other)
        assert re.search(why, caught.value.why), (why, caught.value.why)
        assert caught.value.fix == f"another -o DIR, or remove {tmp_path}"
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(UsageError, match="cannot tell"):
        check_fingerprint(tmp_path, lm, DOCUMENTS, FRAME, PLAN, (0, 1, 2))
