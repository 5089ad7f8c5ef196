"""A story as HTML: for WeasyPrint, web pages, books and mail."""

from __future__ import annotations

from html import escape

from tests.documents.known.story import Block, Run, Story

_TAGS = {"struck": "s", "bold": "b", "sub": "sub", "super": "sup"}
_CLASSES = {"small caps": "caps", "spaced": "spaced"}
_LISTS = {"•": "disc", "–": "square", "1.": "decimal", "a)": "lower-alpha", "(i)": "lower-roman"}


class Html:
    """The blocks of a story as elements. `linked`: notes stand at the end, linked; else they are where their marks are."""

    def __init__(self, story: Story, *, linked: bool = True) -> None:
        self._linked = linked
        self._notes: list[str] = []
        self.blocks = [self._block(block) for block in story.blocks]
        items = (f'<li id="n{at}">{note} <a href="#r{at}">↩</a></li>' for at, note in enumerate(self._notes, 1))
        self.notes = f"<ol>{''.join(items)}</ol>" if self._notes else ""

    @property
    def body(self) -> str:
        return "\n".join([*self.blocks, *([f"<section>{self.notes}</section>"] if self.notes else [])])

    def _run(self, run: Run) -> str:
        text = escape(run.text, quote=False)
        if tag := _TAGS.get(run.style):
            text = f"<{tag}>{text}</{tag}>"
        elif name := _CLASSES.get(run.style):
            text = f'<span class="{name}">{text}</span>'
        if run.note and self._linked:
            self._notes.append(escape(run.note, quote=False))
            at = len(self._notes)
            text += f'<sup id="r{at}"><a href="#n{at}">{at}</a></sup>'
        elif run.note:
            text += f'<span class="note">{escape(run.note, quote=False)}</span>'
        return text

    def _block(self, block: Block) -> str:
        runs = "".join(map(self._run, block.runs)).strip()
        if block.kind == "heading":
            return f"<h{block.level}>{runs}</h{block.level}>"
        if block.kind == "quote":
            return f"<blockquote><p>{runs}</p></blockquote>"
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
        name = {"side": "side", "box": "box"}.get(block.kind)
        return f'<p class="{name}">{runs}</p>' if name else f"<p>{runs}</p>"


def page(body: str, style: str = "", *, language: str = "en", title: str = "Reports", head: str = "") -> str:
    """A page around a body."""
    css = f"<style>{style}</style>" if style else ""
    start = f'<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>{head}{css}</head>'
    return f"{start}<body>{body}</body></html>"
