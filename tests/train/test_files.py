"""State on disk: whole or not at all, and of one run alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import UsageError
from specextend_cli.train.card import Facts, Figures, write_card
from specextend_cli.train.config import Distillation, Schedule
from specextend_cli.train.distill import _check_same_run
from specextend_cli.train.samples import Frame
from specextend_cli.train.storage import add_lines, read_lines, replace_whole
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


def test_the_card_needs_no_curve_and_says_what_is_estimated(tmp_path: Path) -> None:
    figures, curve = Figures("EAGLE-3.1", 57, 0.9, 10, 1000), tmp_path / "curve.jsonl"
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
    assert "On held-out answers, a chain of 2 drafts has an estimated accepted length" in card
    assert "**1.50**, in quotations **2.25**" in card
    assert "| 9 | 1.5 | 1.600 | 1.00 |" in card
    assert "teacher-forced" in card


def test_a_run_may_be_given_more_time(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    _check_same_run(tmp_path, lm, DOCUMENTS, FRAME, PLAN, (0, 1, 2))
    longer = replace(PLAN, schedule=replace(PLAN.schedule, seconds=120.0, steps=7))
    _check_same_run(tmp_path, lm, DOCUMENTS, FRAME, longer, (0, 1, 2))


@pytest.mark.parametrize(
    "other",
    [
        {"lm": "qwen3"},
        {"dtype": torch.bfloat16},
        {"documents": [DOCUMENTS[0], [5, *DOCUMENTS[1][1:]]]},
        {"frame": Frame([1, 2], [4])},
        {"plan": replace(PLAN, vocabulary=50)},
        {"plan": replace(PLAN, lengths=(48,))},
        {"plan": replace(PLAN, schedule=replace(PLAN.schedule, unroll=4))},
        {"layers": (0, 1, 3)},
        {"damaged": True},
    ],
    ids=str,
)
def test_the_directory_of_another_run_is_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    _check_same_run(tmp_path, LanguageModel(tiny()), DOCUMENTS, FRAME, PLAN, (0, 1, 2))
    if other.get("damaged"):
        (tmp_path / "run.sha256").write_bytes(b"\xff")
    lm = LanguageModel(tiny(other.get("lm", "llama")).to(other.get("dtype", torch.float32)))
    now = (other.get("documents", DOCUMENTS), other.get("frame", FRAME), other.get("plan", PLAN))
    with pytest.raises(UsageError, match="another head") as caught:
        _check_same_run(tmp_path, lm, *now, other.get("layers", (0, 1, 2)))
    assert caught.value.fix == f"another -o DIR, or remove {tmp_path}"
