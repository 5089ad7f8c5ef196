"""A story as HTML: for WeasyPrint, web pages, books and mail."""

from __future__ import annotations

from html import escape

from tests.documents.known.story import Block, Run, Story

_STYLES = {
    **{"struck": "<s>{}</s>", "bold": "<b>{}</b>", "sub": "<sub>{}</sub>", "super": "<sup>{}</sup>"},
    **{"spaced": '<span class="spaced">{}</span>', "caps": '<span class="caps">{}</span>'},
}
_KINDS = {
    **{"heading": "<h1>{}</h1>", "side": '<p class="side">{}</p>', "box": '<p class="box">{}</p>'},
    "quote": "<blockquote><p>{}</p></blockquote>",
}
_LISTS = {"•": "disc", "–": "square", "1.": "decimal", "a)": "lower-alpha", "(i)": "lower-roman"}


class Html:
    """The blocks of a story as elements; notes stand at the end, `linked`, or else where their marks are."""

    def __init__(self, story: Story, *, linked: bool = True) -> None:
        self._linked, self._notes = linked, list[str]()
        self.blocks = [self._block(block) for block in story.blocks]
        items = (f'<li id="n{at}">{note} <a href="#r{at}">↩</a></li>' for at, note in enumerate(self._notes, 1))
        self.body = "\n".join(self.blocks) + (f"<section><ol>{''.join(items)}</ol></section>" if self._notes else "")

    def _run(self, run: Run) -> str:
        text = _STYLES.get(run.style, "{}").format(escape(run.text, quote=False))
        if run.note and not self._linked:
            return f'{text}<span class="note">{escape(run.note, quote=False)}</span>'
        if run.note:
            self._notes.append(escape(run.note, quote=False))
            at = len(self._notes)
            text += f'<sup id="r{at}"><a href="#n{at}">{at}</a></sup>'
        return text

    def _block(self, block: Block) -> str:
        runs = "".join(map(self._run, block.runs)).strip()
        if block.kind == "items":
            tag = "ul" if block.marker in "•–" else "ol"
            items = "".join(f"<li>{escape(text, quote=False)}</li>" for [text] in block.rows)
            return f'<{tag} style="list-style-type: {_LISTS[block.marker]}">{items}</{tag}>'
        if block.kind == "figure":
            labels = "".join(f"<span> {escape(label)} </span>" for label in block.rows[0])
            return f'<figure><div class="picture">{labels}</div><figcaption>Figure. {runs}</figcaption></figure>'
        if block.kind == "table":
            head, *rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in block.rows)
            body = "".join(f"<tr>{row}</tr>" for row in rows)
            return f"<table><thead><tr>{head.replace('td>', 'th>')}</tr></thead><tbody>{body}</tbody></table>"
        return _KINDS.get(block.kind, "<p>{}</p>").format(runs)


def page(body: str, style: str = "") -> str:
    """A page around a body."""
    css = f"<style>{style}</style>" if style else ""
    head = f'<head><meta charset="utf-8"><title>Reports</title>{css}</head>'
    return f'<!DOCTYPE html><html lang="en">{head}<body>{body}</body></html>'
