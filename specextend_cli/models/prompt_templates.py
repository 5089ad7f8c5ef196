"""Prompt templates: their placeholders, how these are filled, and the default prompts of every preset."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

PLACEHOLDERS = ("document", "words", "title", "part", "parts", "pages", "language")
"""Placeholders with a value in every prompt."""
WISHES = ("style", "focus")
"""Placeholders that stand for a sentence of the preset: see `spell_out`."""
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_WISH = re.compile(rf"(\s*)\{{({'|'.join(WISHES)})\}}")


def check_prompt(template: str) -> str:
    """The prompt; ValueError where it has an unknown placeholder, or not exactly one `{document}`."""
    if (count := check_names(template, (*PLACEHOLDERS, *WISHES)).count("document")) != 1:
        raise ValueError(f"{{document}} must occur exactly once, not {count} times")
    return template


def check_names(template: str, known: Collection[str]) -> list[str]:
    """The placeholders of a text in order; ValueError where one is not `known`."""
    names: list[str] = _PLACEHOLDER.findall(template)
    if unknown := next((name for name in names if name not in known), None):
        raise ValueError(f"unknown placeholder {{{unknown}}}; there are {', '.join(known)}")
    return names


def spell_out(template: str, sentences: Mapping[str, str]) -> str:
    """A prompt with `{style}` and `{focus}` replaced by sentences, whose own placeholders are not filled yet.

    For an empty sentence, the white space before the placeholder is removed as well.
    """
    return _WISH.sub(lambda found: found[1] + sentences[found[2]] if sentences[found[2]] else "", template)


def fill(template: str, values: Mapping[str, object]) -> tuple[str, str]:
    """A prompt's text before and after the document, the other placeholders replaced by `values`.

    The halves are separate because the document is tokenized on its own. Braces in values stay as they are.
    """
    before, after = (
        _PLACEHOLDER.sub(lambda found: str(values[found[1]]), half) for half in template.split("{document}")
    )
    return before, after


Mode: TypeAlias = Literal["extractive", "abstractive"]
Length: TypeAlias = Literal["short", "medium", "long"]
Style: TypeAlias = Literal["paragraph", "bullets", "abstract", "tldr"]

SYSTEM = "You write faithful summaries. You state only what the text says, with its names, numbers and dates."

SINGLE = """\
Summarize the document below in at most {words} words, in {language}.

Title: {title}

<document>
{document}
</document>

Write only the summary, at most {words} words. {style} {focus}"""

MAP = """\
Below is part {part} of {parts} (pages {pages}) of the document "{title}".

<document>
{document}
</document>

Take notes for a summary, in {language}, at most {words} words: claims, results, names, numbers, dates, in the order \
of the text. {focus} Write only the notes."""

REDUCE = """\
Below are notes on consecutive parts of the document "{title}".

<notes>
{document}
</notes>

Write one coherent summary of the whole document from these notes, in {language}, at most {words} words. Leave out \
repetitions. {style} {focus} Write only the summary."""

STYLES: dict[Style, str] = {
    "paragraph": "",  # the default of the prompts
    "bullets": 'Write it as a list of the main points: one line for each, beginning with "- ".',
    "abstract": "Write it as the abstract of a paper: what was asked, what was done, what was found, what follows.",
    "tldr": "Write one or two sentences: only what matters most.",
}
"""The sentences for `{style}`."""

FOCUS = "Attend above all to what the text says about this question: {question}"
"""The sentence for `{focus}` where there is a question."""
