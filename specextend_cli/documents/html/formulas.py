"""Powers, indices, fractions and formulas (MathML, OMML) as one line of text: 10⁶, 101₂, x^(n+1), (a+b)/2, ∑_(i=1)^n.

No figure may become another: raised digits are superscripts, or follow "^". Those that follow words and punctuation
look like marks of notes, which cleaning removes (`repairs/notes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from specextend_cli.documents.line import raised
from specextend_cli.documents.markup import attribute, name

_LOWERED = str.maketrans("0123456789+-\N{MINUS SIGN}\N{EN DASH}", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋")
_BRACKETED = re.compile(r"[\[(]\s*(\d{1,4})\s*[\])]")
_NUMBER = re.compile("[+\N{MINUS SIGN}\N{EN DASH}-]?[0-9]{1,9}")
_CHARGE = re.compile("[0-9]?[+\N{MINUS SIGN}\N{EN DASH}-]")
_NOTES = re.compile(r"[\[(]?\s*\d{1,4}(?:\s*[,;\u2013-]\s*\d{1,4})+\s*[\])]?")
_NOTED = re.compile(r"(?:[^\W\d_]{3}|[.,;:)\]”’\"'?!])\s*$")
_POWER_OF = re.compile(r"(?:[0-9)\]}]|(?<![^\W\d_])[^\W\d_])$")  # a number, a bracket, or a single letter
_WORDY = re.compile(r"[^\W\d_]{2,}|[ºª°]|[aeo]")  # of an ordinal or an abbreviation: 2nd, 1er, 3a, 5º
_ATOM = re.compile("[+\N{MINUS SIGN}-]?[0-9]+(?:[.,][0-9]+)*|[^\\W\\d_]+[₀-₉]*")
_ENCLOSED = re.compile(r"\([^()]*\)")
_INVISIBLE = str.maketrans(dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064\u200b\ufeff")))
_PRIMES = frozenset("′″‴*†°")
_UNREAD = frozenset(("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "del", "moveFrom", "instrText"))
_SCRIPTS = {
    **{"msup": "^", "msub": "_", "msubsup": "_^", "munder": "_", "mover": "^", "munderover": "_^", "limLow": "_"},
    **{"sSup": "^", "sSub": "_", "sSubSup": "_^", "limUpp": "^"},
}
"""What the children after the first are to it: below, above."""
_ROWS = {"mtable": "; ", "m": "; ", "eqArr": "; ", "mtr": ", ", "mr": ", "}


def superscript(before: str, text: str) -> str:
    """A superscript that follows the text `before`.

    Numbers become superscript digits. Other exponents follow "^", in brackets where needed; endings (5th) stay.
    """
    body = text.strip()
    if bracketed := _BRACKETED.fullmatch(body):
        body = bracketed[1]
    if _NUMBER.fullmatch(body) or (_CHARGE.fullmatch(body) and before[-1:].isalnum()):
        return raised(body)
    if _NOTES.fullmatch(body) and _NOTED.search(before):
        return raised("".join(filter(str.isdigit, body)))
    if not any(map(str.isalnum, body)) or _WORDY.fullmatch(body) or not _POWER_OF.search(before):
        return text
    return "^" + _grouped(body)


def subscript(before: str, text: str) -> str:
    """A subscript that follows the text `before`: plain (H2O) unless two figures would run together (101₂)."""
    body = text.strip()
    return body.translate(_LOWERED) if before[-1:].isdigit() and _NUMBER.fullmatch(body) else text


def formula(element: Any) -> str:
    """The text of a formula in MathML or in OMML (Word); only that of its parts where it is nested too deeply."""
    try:
        return " ".join(_text(element).split())
    except RecursionError:
        return " ".join(" ".join(element.itertext()).split())


def _text(element: Any) -> str:
    """The text of an element; of an unknown one that of its children."""
    tag = name(element)
    if tag in ("mi", "mn", "mo", "mtext", "ms", "t"):
        body = "".join(element.itertext()).translate(_INVISIBLE)
        return body if tag == "t" else f" {body} " if tag == "mtext" else body.strip()
    children = [child for child in element if name(child) not in _UNREAD and not name(child).endswith("Pr")]
    parts = [_text(child) for child in children]
    if tag in ("mfenced", "d"):
        return _sign(element, "begChr", "open", "(") + ", ".join(parts) + _sign(element, "endChr", "close", ")")
    if tag in _ROWS:
        return _ROWS[tag].join(filter(None, parts))
    if tag in _SCRIPTS or tag in ("mfrac", "f", "mroot", "rad", "nary"):
        parts = [part.strip() for part in parts]
    if tag == "nary":
        below, above, *inner = parts if len(parts) == 3 else ("", "", *parts)
        return f"{_sign(element, 'chr', '', '∫')}{_index(below)}{_power(above)} {_joined(inner)}"
    if tag in ("mfrac", "f") and len(parts) == 2:
        bar = not attribute(element, "linethickness").startswith("0") and _sign(element, "type", "", "bar") != "noBar"
        return "/".join(map(_grouped, parts)) if bar else " over ".join(parts)
    if tag == "msqrt":
        return "√" + _grouped(_joined(parts))
    if tag in ("mroot", "rad") and len(parts) == 2:
        base, degree = parts if tag == "mroot" else reversed(parts)
        return f"{raised(degree)}√{_grouped(base)}"
    if (kinds := _SCRIPTS.get(tag)) and len(parts) == len(kinds) + 1:
        if not any(map(str.isalnum, parts[1])) and tag in ("mover", "munder"):
            return parts[0]  # without its accent
        scripts = (_index(part) if kind == "_" else _power(part) for kind, part in zip(kinds, parts[1:], strict=True))
        return (_grouped(parts[0]) if kinds == "^" else parts[0]) + "".join(scripts)
    runs = groupby(zip(children, parts, strict=True), lambda pair: name(pair[0]) == "r" or pair[0])
    return _joined(((element.text or "").strip(), *("".join(part for _, part in run) for _, run in runs)))


def _sign(element: Any, key: str, plain: str, default: str) -> str:
    """A sign that an element has for its own: in OMML a property, in MathML the attribute `plain`."""
    found = element.find(f"{{*}}{name(element)}Pr/{{*}}{key}")
    return attribute(element, plain) or (attribute(found, "val") if found is not None else "") or default


def _grouped(text: str) -> str:
    """The text in brackets, unless it is a number, a word, or in brackets already."""
    return text if not text or _ATOM.fullmatch(text) or _ENCLOSED.fullmatch(text) else f"({text})"


def _power(text: str) -> str:
    return raised(text) if _NUMBER.fullmatch(text) or set(text) <= _PRIMES else f"^{_grouped(text)}"


def _index(text: str) -> str:
    return text.translate(_LOWERED) if _NUMBER.fullmatch(text) or not text else f"_{_grouped(text)}"


def _joined(parts: Iterable[str]) -> str:
    """Parts in a row, with a space where two numbers or names would become one: 3 1/2, sin x; but 2x and xy."""
    made = ""
    for part in filter(None, parts):
        numbers = made[-1:].isalnum() and part[0].isdigit()
        words = (len(made) > 1 and made[-2:].isalpha()) or (len(part) > 1 and part[:2].isalpha())
        names = made[-1:].isalpha() and part[0].isalpha() and words
        made += f" {part}" if numbers or names else part
    return made
