"""Marks in the text of a summary: `[?]` after what the source does not say, `[p. 3, 7]` after each sentence."""

from __future__ import annotations

from collections.abc import Sequence

from specextend_cli.humanize import format_numbers
from specextend_cli.summarize.events import Sentence
from specextend_cli.summarize.factcheck import Unsupported

_SHOWN = 8


def annotated(text: str, sentence: Sentence, unit: str) -> str:
    """`text`, the sentence with the white space around it, with its marks."""
    before = text.index(sentence.text)
    for one in reversed(sentence.unsupported):
        at = before + one.end - sentence.start
        text = f"{text[:at]} [?]{text[at:]}"
    if sentence.citations:
        body = text.rstrip()
        text = f"{body} {format_citations(sentence, unit)}{text[len(body) :]}"
    return text


def format_citations(sentence: Sentence, unit: str) -> str:
    """ "[p. 3, 7; p. 9 by OCR]", "[s. 2]" for a document with sections, or "" without citations.

    A labelled page is shown by its label and its number in the file: "[p. iv (6), 9 (15)]".
    """
    pieces = []
    for ocr, how in ((False, ""), (True, " by OCR")):
        labels = {citation.page: citation.label for citation in sentence.citations if citation.ocr == ocr}
        if any(labels.values()):
            pages = ", ".join(format_page(page, label) for page, label in sorted(labels.items()))
        else:
            pages = format_numbers(labels)
        if pages:
            pieces.append(f"{unit[0]}. {pages}{how}")
    return f"[{'; '.join(pieces)}]" if pieces else ""


def format_page(page: int, label: str) -> str:
    """ "6", or "iv (6)" if the sixth page is labelled iv."""
    return f"{label} ({page})" if label else f"{page}"


def format_unsupported(found: Sequence[Unsupported]) -> str:
    """ "not in the source: 1931, Port Ellery"; "" for nothing."""
    texts = list(dict.fromkeys(one.text for one in found))
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"not in the source: {', '.join(texts[:_SHOWN])}{more}" if texts else ""
