"""Prompts with places in them: what may stand there, and how the places are filled."""

from __future__ import annotations

import re
from collections.abc import Mapping

PLACEHOLDERS = {
    "document": "the text to work on: the whole document, a part of it, or notes",
    "words": "how many words to write, at most",
    "title": "the document's title or file name",
    "part": "which part this is, from 1",
    "parts": "how many parts there are",
    "pages": "the pages of this part",
    "language": "the language to write in",
}
"""What a prompt may name, with a value for every text that is written."""
WISHES = {
    "style": "the sentence of the style asked for",
    "focus": "the sentence on the question asked, if there is one",
}
"""What a prompt may name, with a sentence of the preset's for it: see `spell_out`."""
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_WISH = re.compile(rf"(\s*)\{{({'|'.join(WISHES)})\}}")


def check_prompt(template: str) -> None:
    """ValueError where a prompt has a placeholder that nobody fills, or not exactly one place for the document."""
    if (count := check_names(template, {**PLACEHOLDERS, **WISHES}).count("document")) != 1:
        raise ValueError(f"{{document}} must occur exactly once, not {count} times")


def placeholders(template: str) -> set[str]:
    """What a prompt names."""
    return set(_PLACEHOLDER.findall(template))


def check_names(template: str, known: Mapping[str, str]) -> list[str]:
    """The placeholders of a text, one by one; ValueError where one is not `known`."""
    names: list[str] = _PLACEHOLDER.findall(template)
    if unknown := next((name for name in names if name not in known), None):
        raise ValueError(f"unknown placeholder {{{unknown}}}; there are {', '.join(known)}")
    return names


def spell_out(template: str, sentences: Mapping[str, str]) -> str:
    """A prompt with its `{style}` and `{focus}` written out, their own placeholders not yet filled.

    A sentence that is empty takes the white space before it along.
    """
    return _WISH.sub(lambda found: found[1] + sentences[found[2]] if sentences[found[2]] else "", template)


def fill(template: str, values: Mapping[str, object]) -> tuple[str, str]:
    """A prompt's text before and after the document, the other placeholders replaced by `values`.

    Two halves, because the document's tokens are counted and cut on their own. Braces in values stay as they are.
    """
    before, after = (
        _PLACEHOLDER.sub(lambda found: str(values[found[1]]), half) for half in template.split("{document}")
    )
    return before, after
