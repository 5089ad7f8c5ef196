"""What a sentence rests on, as people read it: `[p. 3, 7]` behind it, `[?]` behind what its source does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specextend_cli.humanize import format_numbers
from specextend_cli.summarize.events import Sentence, Summary
from specextend_cli.summarize.factcheck import Unsupported
from specextend_cli.ui.streams import Output

_SHOWN = 8


@dataclass(frozen=True)
class Annotations:
    """Which marks are wanted: pages behind every sentence, and question marks behind what is not in the source."""

    cite: bool = False
    check: bool = False

    def __bool__(self) -> bool:
        return self.cite or self.check

    def mark(self, text: str, sentence: Sentence, unit: str) -> str:
        """`text`, which is the sentence with the white space around it, with its marks."""
        if self.check:
            before = text.index(sentence.text)
            for one in reversed(sentence.unsupported):
                at = before + one.end - sentence.start
                text = f"{text[:at]} [?]{text[at:]}"
        if self.cite and sentence.citations:
            body = text.rstrip()
            text = f"{body} {format_citations(sentence, unit)}{text[len(body) :]}"
        return text


def format_citations(sentence: Sentence, unit: str) -> str:
    """ "[p. 3, 7; p. 9 by OCR]", or "[s. 2]" where a document has sections; "" where nothing is cited.

    A page with a label goes by it, with its number in the file behind it: "[p. iv (6), 9 (15)]".
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
    """ "6", or "iv (6)" where the document calls its sixth page iv."""
    return f"{label} ({page})" if label else f"{page}"


def format_unsupported(found: Sequence[Unsupported]) -> str:
    """ "not in the source: 1931, Port Ellery"; "" for nothing."""
    texts = list(dict.fromkeys(one.text for one in found))
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"not in the source: {', '.join(texts[:_SHOWN])}{more}" if texts else ""


def warn_unsupported(output: Output, summary: Summary) -> None:
    """Say in one line on stderr what the summary has that its source has not."""
    if line := format_unsupported(summary.unsupported):
        output.warn(line)
