"""Powers, indices, fractions and formulas (MathML, OMML) as one line of text: 10⁶, 101₂, x^(n+1), (a+b)/2, ∑_(i=1)^n.

No figure may become another: raised digits are superscripts, or follow "^". Those that follow words and punctuation
look like marks of notes, which cleaning removes (`repairs/footnotes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import accumulate, groupby
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
_INVISIBLE = str.maketrans(dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064\u200b\ufeff")))
_MAX_DEPTH = 200
_ACCENTS = frozenset("^~¯‾_˙¨ˇ´`→⃗⏞⏟˘̂̃̄ˉ")


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
    return "^" + grouped(body)


def subscript(before: str, text: str) -> str:
    """A subscript that follows the text `before`: plain (H2O) unless two figures would run together (101₂)."""
    body = text.strip()
    return body.translate(_LOWERED) if before[-1:].isdigit() and _NUMBER.fullmatch(body) else text


def grouped(text: str) -> str:
    """The text in brackets, unless it is a number, a word, or in brackets already."""
    if not text or _ATOM.fullmatch(text):
        return text
    depths = list(accumulate((character == "(") - (character == ")") for character in text))
    bracketed = text[0] == "(" and text[-1] == ")" and 0 not in depths[:-1]  # one pair is around all of it
    return text if bracketed else f"({text})"


def power(base: str, exponent: str) -> str:
    """x², x^(n+1)."""
    base, exponent = grouped(base.strip()), exponent.strip()
    if not exponent:
        return base
    if _NUMBER.fullmatch(exponent) or set(exponent) <= set("′″‴*†°"):
        return base + raised(exponent)
    return f"{base}^{grouped(exponent)}"


def index(base: str, below: str) -> str:
    """x₁, x_(i+1)."""
    base, below = base.strip(), below.strip()
    if not below:
        return base
    return base + (below.translate(_LOWERED) if _NUMBER.fullmatch(below) else f"_{grouped(below)}")


def limits(base: str, below: str, above: str) -> str:
    """∑_(i=1)^n."""
    return index(base, below) + power("", above)


def fraction(above: str, below: str, *, bar: bool = True) -> str:
    """1/2, (a+b)/c; "n over k" without a fraction bar."""
    return f"{grouped(above.strip())}/{grouped(below.strip())}" if bar else f"{above} over {below}"


def root(text: str, degree: str = "") -> str:
    """√x, ³√(x+1)."""
    text, degree = grouped(text.strip()), degree.strip()
    if degree and not _NUMBER.fullmatch(degree):
        return f"root_{grouped(degree)} {text}"
    return f"{raised(degree)}√{text}"


def joined(parts: Iterable[str]) -> str:
    """Parts of a formula in a row, with a space where two numbers or names would become one."""
    made: list[str] = []
    for part in filter(None, parts):
        if made and _run_together(made[-1][-2:], part):
            made.append(" ")
        made.append(part)
    return "".join(made)


def _run_together(end: str, part: str) -> bool:
    """3 and 1/2 do not become 31/2, nor sin and x sinx; 2x and xy are products."""
    left, right = end[-1], part[0]
    if left.isdigit() or right.isdigit():
        return left.isalnum() and right.isalnum() and right.isdigit()
    names = (end.isalpha() and len(end) > 1) or (part[:2].isalpha() and len(part) > 1)
    return left.isalpha() and right.isalpha() and names


_FORMS: dict[str, tuple[Callable[..., str], int | tuple[str, ...]]] = {
    **{"mfrac": (fraction, 2), "msup": (power, 2), "mover": (power, 2), "msub": (index, 2), "munder": (index, 2)},
    **{"msubsup": (limits, 3), "munderover": (limits, 3), "mroot": (root, 2), "f": (fraction, ("num", "den"))},
    **{"sSup": (power, ("e", "sup")), "sSub": (index, ("e", "sub")), "sSubSup": (limits, ("e", "sub", "sup"))},
    **{"limLow": (index, ("e", "lim")), "limUpp": (power, ("e", "lim")), "rad": (root, ("e", "deg"))},
}
"""The function of an element, and how many children (MathML) or which of its parts (OMML) are the arguments."""
_ROWS = {"mtable": "; ", "m": "; ", "eqArr": "; ", "mtr": ", ", "mlabeledtr": ", ", "mr": ", "}
_UNREAD = frozenset(("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "del", "moveFrom", "instrText"))


def formula(element: Any) -> str:
    """The text of a formula in MathML or in OMML (Word); only that of its parts where it is nested too deeply."""
    try:
        return " ".join(_text(element, 0).split())
    except RecursionError:
        return " ".join(" ".join(element.itertext()).split())


def _text(element: Any, depth: int) -> str:
    """The text of an element; of an unknown one that of its children."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    tag = name(element)
    if tag in ("mi", "mn", "mo", "mtext", "ms", "t"):
        body = "".join(element.itertext()).translate(_INVISIBLE)
        return body if tag == "t" else f" {body} " if tag == "mtext" else body.strip()
    if tag in _UNREAD:
        return ""
    children = [child for child in element if name(child) and not name(child).endswith("Pr")]
    texts = [_text(child, depth + 1) for child in (children[:1] if tag == "semantics" else children)]

    def part(key: str) -> str:
        return joined(text for child, text in zip(children, texts, strict=True) if name(child) == key)

    def setting(key: str, default: str = "") -> str:
        """A property of an OMML element."""
        found = element.find(f"{{*}}{tag}Pr/{{*}}{key}")
        return default if found is None else attribute(found, "val") or default

    if tag in _ROWS:
        return _ROWS[tag].join(filter(None, texts))
    if tag in ("mfenced", "d"):
        begin, end = setting("begChr") or attribute(element, "open"), setting("endChr") or attribute(element, "close")
        return (begin or "(") + ", ".join(texts) + (end or ")")
    if tag == "nary":
        return f"{limits(setting('chr', '∫'), part('sub'), part('sup'))} {part('e')}"
    if tag == "msqrt":
        return root(joined(texts))
    function, wanted = _FORMS.get(tag, (None, 0))
    if function and (isinstance(wanted, tuple) or len(texts) == wanted):
        arguments = [part(key) for key in wanted] if isinstance(wanted, tuple) else texts
        if tag in ("mover", "munder") and (attribute(element, "accent") == "true" or texts[1].strip() in _ACCENTS):
            return texts[0]  # without its accent; what stands above an operator or a name is a limit of it
        if setting("type") == "noBar" or attribute(element, "linethickness").startswith("0"):
            return fraction(*arguments, bar=False)
        return function(*arguments)
    parts = [(element.text or "").strip()]
    for kind, run in groupby(zip(children, texts, strict=False), key=lambda pair: name(pair[0])):
        inner = [text for _, text in run]
        parts += ["".join(inner)] if kind == "r" else inner  # Word divides runs anywhere, even within a number
    return joined(parts)
