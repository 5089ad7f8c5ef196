"""Lengths, sources of documents, and prompts of an exact length."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from specextend_cli.bench.prompts import Source, builtin, parse_lengths, sources, summaries
from specextend_cli.errors import InputError, UsageError
from specextend_cli.summarize.prompts import PromptBuilder
from tests.summarize.tiny_preset import text


@pytest.mark.parametrize(
    ("written", "meant"), [("512", (512,)), ("1k", (1024,)), ("16K, 512,1k", (512, 1024, 16384)), ("1k,1024", (1024,))]
)
def test_lengths_are_parsed_ascending_and_once(written: str, meant: tuple[int, ...]) -> None:
    assert parse_lengths(written) == meant


@pytest.mark.parametrize("wrong", ["", "1,", "big", "-5", "1.5k", "3", "999999k", "1kk"])
def test_other_lengths_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="--len"):
        parse_lengths(wrong)


@pytest.mark.parametrize("length", [200, 257, 1024])
def test_prompts_have_exactly_the_length_and_frame_the_document(prompter: PromptBuilder, length: int) -> None:
    body = text(400)
    (prompt,), short = summaries([Source("a.txt", body)], prompter, [length], docs=1)
    assert len(prompt.tokens) == prompt.length == length
    assert (prompt.document, short) == ("a.txt", ())
    written = prompter.encoder.decode(prompt.tokens)
    assert "Title: a.txt" in written
    assert body[:60] in written
    assert written.rstrip().endswith("assistant")


def test_documents_that_lose_least_come_first_and_too_few_are_said(prompter: PromptBuilder) -> None:
    made = [Source(f"{n}", text(n)) for n in (200, 3, 40, 60)]
    prompts, short = summaries(made, prompter, [512], docs=4)
    assert [prompt.document for prompt in prompts] == ["40", "60", "200"]
    assert short == ("3 of 4 documents are long enough for 512 tokens",)
    with pytest.raises(InputError, match="no document is long enough"):
        summaries(made[1:2], prompter, [512], docs=1)


def test_a_prompt_too_short_for_its_own_words_is_refused(prompter: PromptBuilder) -> None:
    with pytest.raises(UsageError, match="no room"):
        summaries([Source("a", text(40))], prompter, [16], docs=1)


def test_names_of_control_tokens_in_a_document_are_text(prompter: PromptBuilder) -> None:
    (prompt,), _ = summaries([Source("<|im_end|>", "<|im_end|> " * 200)], prompter, [256], docs=1)
    end = prompter.encoder.encode_prompt("<|im_end|>")[0]
    (other,), _ = summaries([Source("a", text(40))], prompter, [256], docs=1)
    assert prompt.tokens.count(end) == other.tokens.count(end) >= 1  # the template's own


def test_the_built_in_documents_are_many_long_and_always_the_same() -> None:
    made = builtin()
    assert made == builtin()
    assert len({source.name for source in made}) == len(made) >= 10
    assert all(len(source.text) > 300_000 for source in made)
    assert len({source.text[:500] for source in made}) == len(made)


@pytest.mark.parametrize("packed", [False, True])
def test_a_data_set_is_read_compressed_or_not(tmp_path: Path, packed: bool) -> None:
    lines = [{"id": "one", "text": "a\u2028b", "summary": "b"}, {"text": "c"}]
    data = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode() + b"\n"
    path = tmp_path / f"set.jsonl{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(data) if packed else data)
    one, other = sources([], path)
    assert (one.name, one.text) == ("one", "a\u2028b")
    assert other.name.endswith("-2")


@pytest.mark.parametrize("line", ["no json", "[1]", '{"id": "a"}', '{"text": 1}'])
def test_a_broken_data_set_names_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(InputError, match="line 2"):
        sources([], path)


def test_other_broken_data_sets(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}' * 100)[:20])
    for name, what in (("empty.jsonl", "empty"), ("cut.jsonl.gz", "cannot read")):
        with pytest.raises(InputError, match=what):
            sources([], tmp_path / name)
    with pytest.raises(UsageError, match="there is no data set"):
        sources([], tmp_path / "govreprot")
    with pytest.raises(UsageError, match="contradict"):
        sources([tmp_path], tmp_path)
