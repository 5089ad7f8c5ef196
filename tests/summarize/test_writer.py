"""From tokens to text: whole characters, whole sentences, no control tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from specextend_cli.engine.events import Accepted, Finished
from specextend_cli.models.tokens import load_tokenizer
from specextend_cli.summarize import writer as module
from specextend_cli.summarize.events import Part, Text
from specextend_cli.summarize.prompts import Prompt
from specextend_cli.summarize.writer import TextGenerator


@pytest.fixture(scope="session")
def tokenizer(presets):
    return load_tokenizer(presets["one"].parent / "target")


@pytest.fixture
def write(tokenizer, monkeypatch):
    """What a writer makes of these tokens, some a step: the deltas, and the whole text."""

    def written(tokens, *, size=1, reason="eos"):
        def decode(*_, stop, **__):
            for at in range(0, len(tokens), size):
                new, ended = stop(tokens[at : at + size])
                yield Accepted(tuple(new), 0, 1, 0.0, 0.0, 0.0)
                if ended:
                    break
            yield Finished(ended or reason, stop.count)

        monkeypatch.setattr(module, "decode", decode)
        draft_gate = SimpleNamespace()
        made = TextGenerator(None, tokenizer, None, None, frozenset(), 64, None, draft_gate)
        generating = made.generate(Prompt(Part(1, 1, 1, (1, 1), 1, True), [1], max_tokens=1000))
        deltas = []
        while True:
            try:
                event = next(generating)
            except StopIteration as end:
                return deltas, end.value
            if isinstance(event, Text):
                deltas.append(event.delta)

    return written


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_no_delta_holds_half_a_character(write, tokenizer, size):
    text = "Ships 🙂🙃 bring naïve tea. 你好，世界。 A family: 👩‍👩‍👧! Ωμέγα\N{COMBINING ACUTE ACCENT} ends"
    tokens = tokenizer.encode(text).ids
    assert any("\ufffd" in tokenizer.decode([token]) for token in tokens)
    deltas, whole = write(tokens, size=size)
    assert "".join(deltas) == whole == text
    assert not any("\ufffd" in delta for delta in deltas)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_half_a_character_at_the_end_is_left_out(write, tokenizer, missing):
    tokens = tokenizer.encode("Tea 🙂").ids[:-missing]
    assert write(tokens)[1] == "Tea"


def test_control_tokens_are_no_text(write, tokenizer):
    assert write(tokenizer.encode("Tea<|im_start|> and salt.<|im_end|>").ids)[1] == "Tea and salt."


@pytest.mark.parametrize(("reason", "text"), [("eos", "Tea. And sal"), ("length", "Tea.")])
def test_an_end_by_length_leaves_no_unfinished_sentence(write, tokenizer, reason, text):
    assert write(tokenizer.encode("\n Tea. And sal").ids, reason=reason)[1] == text


@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_going_in_circles_ends_it_however_many_tokens_a_step_accepts(write, tokenizer, size):
    deltas, whole = write(tokenizer.encode("It rains. It snows. " * 3 + "New one. " * 40).ids, size=size)
    assert whole == "It rains. It snows."
    assert "".join(deltas).strip() == whole
