"""Powers, indices and fractions in a line of text, so that no figure becomes another: 10⁶, 101₂, x^(n+1), 1/2.

Raised digits after words and punctuation are what cleaning knows as marks of notes (`repairs/notes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_RAISED = str.maketrans("0123456789+-\N{MINUS SIGN}\N{EN DASH}", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_LOWERED = str.maketrans("0123456789+-\N{MINUS SIGN}\N{EN DASH}", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋")
_BRACKETED = re.compile(r"[\[(]\s*(\d{1,4})\s*[\])]")
_NUMBER = re.compile("[+\N{MINUS SIGN}\N{EN DASH}-]?[0-9]{1,9}")
_CHARGE = re.compile("[0-9]?[+\N{MINUS SIGN}\N{EN DASH}-]")
_NOTES = re.compile(r"[\[(]?\s*\d{1,4}(?:\s*[,;\u2013-]\s*\d{1,4})+\s*[\])]?")
_NOTED = re.compile(r"(?:[^\W\d_]{3}|[.,;:)\]”’\"'?!])\s*$")
_POWER_OF = re.compile(r"(?:[0-9)\]}]|(?<![^\W\d_])[^\W\d_])$")  # a number, a bracket, or a letter that stands alone
_WORDY = re.compile(r"[^\W\d_]{2,}|[ºª°]|[aeo]")  # of an ordinal or an abbreviation: 2nd, 1er, 3a, 5º
_ATOM = re.compile("[+\N{MINUS SIGN}-]?[0-9]+(?:[.,][0-9]+)*|[^\\W\\d_]+[₀-₉]*")


def raised(before: str, text: str) -> str:
    """A superscript, to be put behind `before`.

    Numbers are raised digits; "^" and brackets stand for what has none, where it is an exponent and no ending (5th).
    """
    body = text.strip()
    if bracketed := _BRACKETED.fullmatch(body):
        body = bracketed[1]
    if _NUMBER.fullmatch(body) or (_CHARGE.fullmatch(body) and before[-1:].isalnum()):
        return body.translate(_RAISED)
    if _NOTES.fullmatch(body) and _NOTED.search(before):
        return "".join(filter(str.isdigit, body)).translate(_RAISED)
    if not any(map(str.isalnum, body)) or _WORDY.fullmatch(body) or not _POWER_OF.search(before):
        return text
    return "^" + grouped(body)


def lowered(before: str, text: str) -> str:
    """A subscript, to be put behind `before`: plain (H2O) where no figure would run into another one (101₂)."""
    body = text.strip()
    return body.translate(_LOWERED) if before[-1:].isdigit() and _NUMBER.fullmatch(body) else text


def grouped(text: str) -> str:
    """In brackets where it is more than a number or a word."""
    return text if not text or _ATOM.fullmatch(text) or _is_bracketed(text) else f"({text})"


def power(base: str, exponent: str) -> str:
    """In a formula, where every raised number is an exponent."""
    base, exponent = grouped(base.strip()), exponent.strip()
    if not exponent:
        return base
    if _NUMBER.fullmatch(exponent) or set(exponent) <= set("′″‴*†°"):
        return base + exponent.translate(_RAISED)
    return f"{base}^{grouped(exponent)}"


def index(base: str, below: str) -> str:
    """In a formula: x₁, x_(i+1)."""
    base, below = base.strip(), below.strip()
    if not below:
        return base
    return base + (below.translate(_LOWERED) if _NUMBER.fullmatch(below) else f"_{grouped(below)}")


def fraction(above: str, below: str) -> str:
    """In a formula: 1/2, (a+b)/c."""
    return f"{grouped(above.strip())}/{grouped(below.strip())}"


def root(text: str, degree: str = "") -> str:
    """In a formula: √x, ³√(x+1)."""
    degree = degree.strip()
    sign = (
        f"{degree.translate(_RAISED)}√" if _NUMBER.fullmatch(degree) else f"root_{grouped(degree)} " if degree else "√"
    )
    return sign + grouped(text.strip())


def joined(parts: Iterable[str]) -> str:
    """Parts of a formula one after the other, with a space where two numbers or names would become one."""
    made: list[str] = []
    for part in filter(None, parts):
        if made and _touch(made[-1][-2:], part):
            made.append(" ")
        made.append(part)
    return "".join(made)


def _touch(end: str, part: str) -> bool:
    """3 and 1/2 do not become 31/2, nor sin and x sinx; 2x and xy are products."""
    left, right = end[-1], part[0]
    if left.isdigit() or right.isdigit():
        return left.isalnum() and right.isalnum() and right.isdigit()
    return (
        left.isalpha()
        and right.isalpha()
        and ((end.isalpha() and len(end) > 1) or (part[:2].isalpha() and len(part) > 1))
    )


def _is_bracketed(text: str) -> bool:
    """Whether one pair of brackets is around all of it."""
    if text[0] != "(" or text[-1] != ")":
        return False
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and at < len(text) - 1:
            return False
    return True
