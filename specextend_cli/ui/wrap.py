"""Words folded into lines while they arrive."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


class Lines:
    """Feed it text, take complete lines of at most `width` cells; the unfinished one is `tail`."""

    def __init__(self) -> None:
        self.tail = ""

    def feed(self, text: str, width: int) -> list[str]:
        """The lines that `text` completed."""
        *paragraphs, self.tail = (self.tail + text).expandtabs(4).split("\n")
        done = []
        for paragraph in paragraphs:
            *full, last = fold(paragraph, width)
            done += [*full, last.rstrip()]
        *full, self.tail = fold(self.tail, width)
        return done + full

    def close(self) -> list[str]:
        """The unfinished line, if there is one."""
        tail, self.tail = self.tail.rstrip(), ""
        return [tail] if tail else []


def fold(paragraph: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces where there are any. The last one keeps its trailing space."""
    lines = []
    while cell_len(paragraph.rstrip()) > width:
        fits = set_cell_size(paragraph, width + 1)
        space = fits.rfind(" ", 1)
        cut = space if space > 0 and paragraph[:space].strip() else len(set_cell_size(paragraph, width).rstrip())
        cut = max(cut, 1)
        lines.append(paragraph[:cut].rstrip())
        paragraph = paragraph[cut:].lstrip(" ")
    return [*lines, paragraph]
