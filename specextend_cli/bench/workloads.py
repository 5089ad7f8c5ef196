"""Prompts of an exact length, from documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specextend_cli.bench.texts import Source
from specextend_cli.errors import InputError, UsageError
from specextend_cli.summarize.prompt_builder import PromptBuilder
from specextend_cli.summarize.request import WORDS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of exactly `length` `tokens`; `reference`: a human summary; `text`: the document's start."""

    document: str
    length: int
    tokens: tuple[int, ...]
    reference: str | None = None
    text: tuple[int, ...] = ()


def summaries(
    sources: Sequence[Source], prompter: PromptBuilder, lengths: Sequence[int], docs: int
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    """For each length, the beginnings of the `docs` documents that lose least by the cut, in the preset's own prompt.

    The second part has a warning for each length with fewer documents. InputError for a length with none.
    """
    prompts: list[Prompt] = []
    short: list[str] = []
    encoded = [(source, prompter.encoder.encode(source.text)) for source in sources]
    encoded.sort(key=lambda one: len(one[1]))  # it is stable: documents of one size keep the order they came in
    for length in lengths:
        fitting = [prompt for source, ids in encoded if (prompt := _framed(source, ids, prompter, length))][:docs]
        if not fitting:
            raise InputError(
                f"no document is long enough for a prompt of {length:,} tokens",
                why=f"the longest has {len(encoded[-1][1]) if encoded else 0:,}",
                fix="a smaller --len, or longer documents with --input",
            )
        if len(fitting) < docs:
            short.append(f"{len(fitting)} of {docs} documents are long enough for {length:,} tokens")
        prompts += fitting
    return tuple(prompts), tuple(short)


def asking(prompter: PromptBuilder, prompt: str) -> PromptBuilder:
    """Builds another prompt than that for a summary, around its `{document}`."""
    prompts = prompter.preset.prompts.model_copy(update={"system": "", "single": prompt})
    return PromptBuilder(prompter.preset.model_copy(update={"prompts": prompts}), prompter.encoder, prompter.directory)


def _framed(source: Source, ids: Sequence[int], prompter: PromptBuilder, length: int) -> Prompt | None:
    """A prompt of exactly `length` tokens; None if the document has too few."""
    values = {
        "title": source.name,
        "words": max(int(min(length / 3, prompter.preset.window.summary_tokens * 0.8) * WORDS_PER_TOKEN), 10),
        "pages": "1",
        "part": 1,
        "parts": 1,
        "language": "the document's language",
    }
    before, after = prompter.frame("single", values)
    room = length - len(before) - len(after)
    if room < 1:
        raise UsageError(
            f"a prompt of {length} tokens has no room for a document",
            why=f"the preset's own words take {len(before) + len(after)}",
            fix="a larger --len",
        )
    if len(ids) < room:
        return None
    return Prompt(source.name, length, (*before, *ids[:room], *after), source.summary, tuple(ids[:length]))
