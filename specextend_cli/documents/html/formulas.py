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


def _index_and_power(base: str, below: str, above: str) -> str:
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


def mathml(element: Any) -> str:
    """The text of a `math` element; only that of its parts where it is nested too deeply."""
    return _formula(_mathml, element)


def omml(element: Any) -> str:
    """The text of an `oMath` element of a Word document, likewise."""
    return _formula(_omml, element)


_Child = Callable[[Any], str]
"""The text of a child element."""


def _formula(convert: Callable[[str, Any, _Child], str], element: Any) -> str:
    depth = 0

    def text(element: Any) -> str:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise RecursionError
        made = convert(name(element), element, text)
        depth -= 1
        return made

    try:
        return " ".join(text(element).split())
    except RecursionError:
        return " ".join(" ".join(element.itertext()).split())


def _mathml(tag: str, element: Any, text: _Child) -> str:
    """The text of a MathML element by its name; of an unknown one that of its children."""
    tag = tag.lower()
    if tag in ("mi", "mn", "mo", "mtext", "ms"):
        body = " ".join("".join(element.itertext()).translate(_INVISIBLE).split())
        return f" {body} " if tag == "mtext" and body else body
    if tag in ("annotation", "annotation-xml", "mphantom", "none", "mprescripts"):
        return ""
    children = [child for child in element if name(child)]
    if tag == "semantics":
        return text(children[0]) if children else ""
    if tag in _MATHML and len(children) == _MATHML[tag][0]:
        parts = [text(child) for child in children]
        # Accents are left out; what stands above an operator or a name is a limit of it.
        accent = tag == "mover" and attribute(element, "accent") == "true"
        if tag in ("mover", "munder") and (accent or parts[1].strip() in _ACCENTS):
            return parts[0]
        if tag == "mfrac" and attribute(element, "linethickness").strip().startswith("0"):
            return fraction(*parts, bar=False)
        return _MATHML[tag][1](*parts)
    if tag in ("msqrt", "mroot"):
        return root(joined([text(child) for child in children]))
    if tag in ("mtable", "mtr", "mlabeledtr"):
        return ("; " if tag == "mtable" else ", ").join(filter(None, map(text, children)))
    if tag == "mfenced":
        separator = (attribute(element, "separators") or ",").strip()[:1]
        inner = f"{separator} ".join(map(text, children))
        return (attribute(element, "open") or "(") + inner + (attribute(element, "close") or ")")
    return joined([*filter(None, [" ".join((element.text or "").split())]), *map(text, children)])


_MATHML: dict[str, tuple[int, Callable[..., str]]] = {
    "mfrac": (2, fraction),
    "msup": (2, power),
    "msub": (2, index),
    "msubsup": (3, _index_and_power),
    "munder": (2, index),
    "mover": (2, power),
    "munderover": (3, _index_and_power),
    "mroot": (2, root),
}
"""The number of children of an element, and its text from theirs."""


def _omml(tag: str, element: Any, text: _Child) -> str:
    """The text of an OMML element; properties (names that end in Pr) have none."""

    def part(key: str) -> str:
        return joined(map(text, element.iterfind("{*}" + key)))

    def setting(key: str) -> str:
        """The value of a property, or ""."""
        for properties in element:
            if name(properties).endswith("Pr"):
                return next((attribute(found, "val") for found in properties if name(found) == key), "")
        return ""

    if tag == "t":
        return (element.text or "").translate(_INVISIBLE)
    if tag.endswith("Pr") or tag in ("del", "moveFrom", "instrText"):
        return ""
    if tag in _OMML:
        function, keys = _OMML[tag]
        return function(*map(part, keys))
    if tag == "f":
        return fraction(part("num"), part("den"), bar=setting("type") != "noBar")
    if tag == "nary":
        return f"{_index_and_power(setting('chr') or '∫', part('sub'), part('sup'))} {part('e')}"
    if tag == "d":
        inner = (setting("sepChr") or ", ").join(map(text, element.iterfind("{*}e")))
        return (setting("begChr") or "(") + inner + (setting("endChr") or ")")
    if tag == "func":
        return joined([part("fName"), part("e")])
    if tag in ("m", "eqArr"):
        return "; ".join(filter(None, (text(row) for row in element if not name(row).endswith("Pr"))))
    if tag == "mr":
        return ", ".join(map(text, element))
    # Runs may be divided anywhere, even within a number.
    parts: list[str] = []
    for is_run, children in groupby(element, key=lambda child: name(child) == "r"):
        texts = map(text, children)
        parts += ["".join(texts)] if is_run else texts
    return joined(parts)


_OMML: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "sSup": (power, ("e", "sup")),
    "sSub": (index, ("e", "sub")),
    "sSubSup": (_index_and_power, ("e", "sub", "sup")),
    "limLow": (index, ("e", "lim")),
    "limUpp": (power, ("e", "lim")),
    "rad": (root, ("e", "deg")),
}
"""The function of an element, and which of its parts are the arguments."""
