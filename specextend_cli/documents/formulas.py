"""Formulas of web pages (MathML) and Word documents (OMML) as one line of text: (a+b)/2, x², ∑_(i=1)^n."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from specextend_cli.documents.markup import attribute, name
from specextend_cli.documents.notation import fraction, index, joined, power, root

_INVISIBLE = str.maketrans(dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064\u200b\ufeff")))
_DEEPEST = 200
_ANNOTATIONS = ("annotation", "annotation-xml")
_ACCENTS = frozenset("^~¯‾_˙¨ˇ´`→⃗⏞⏟˘̂̃̄ˉ")


def mathml(element: Any) -> str:
    """The text of a `math` element; that of its parts where it is nested absurdly."""
    return _text(_MathML(), element)


def omml(element: Any) -> str:
    """The text of an `oMath` element; likewise."""
    return _text(_OMML(), element)


def _text(form: _MathML | _OMML, element: Any) -> str:
    try:
        return " ".join(form.text(element).split())
    except RecursionError:
        return " ".join(" ".join(element.itertext()).split())


class _MathML:
    """Each element's text by its name; unknown ones are the sequence of their children."""

    def __init__(self) -> None:
        self._depth = 0

    def text(self, element: Any) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError
        made = self._made(name(element).lower(), element)
        self._depth -= 1
        return made

    def _made(self, tag: str, element: Any) -> str:
        if tag in ("mi", "mn", "mo", "mtext", "ms"):
            text = " ".join("".join(element.itertext()).translate(_INVISIBLE).split())
            return f" {text} " if tag == "mtext" and text else text
        if tag in _ANNOTATIONS or tag in ("mphantom", "none", "mprescripts"):
            return ""
        children = [child for child in element if name(child)]
        if tag == "semantics":
            return self.text(children[0]) if children else ""
        form = _FORMS.get(tag)
        if form is not None and len(children) == form[0]:
            return form[1]([self.text(child) for child in children], element)
        if tag in ("msqrt", "mroot"):
            return root(self._row(children))
        if tag == "mtable":
            return "; ".join(filter(None, map(self.text, children)))
        if tag in ("mtr", "mlabeledtr"):
            return ", ".join(filter(None, map(self.text, children)))
        if tag == "mfenced":
            separator = (attribute(element, "separators") or ",").strip()[:1]
            inner = f"{separator} ".join(map(self.text, children))
            return (attribute(element, "open") or "(") + inner + (attribute(element, "close") or ")")
        return joined([*filter(None, [" ".join((element.text or "").split())]), *map(self.text, children)])

    def _row(self, children: list[Any]) -> str:
        return joined([self.text(child) for child in children])


def _over(parts: list[str], element: Any) -> str:
    """Accents are left out; what stands above an operator or a name is a limit of it."""
    accent = attribute(element, "accent") == "true" or parts[1].strip() in _ACCENTS
    return parts[0] if accent else power(parts[0], parts[1])


def _divided(parts: list[str], element: Any) -> str:
    thickness = attribute(element, "linethickness").strip()
    return f"{parts[0]} over {parts[1]}" if thickness.startswith("0") else fraction(*parts)


_Form = tuple[int, Callable[[list[str], Any], str]]
_FORMS: dict[str, _Form] = {
    "mfrac": (2, _divided),
    "msup": (2, lambda parts, _: power(*parts)),
    "msub": (2, lambda parts, _: index(*parts)),
    "msubsup": (3, lambda parts, _: _scripts(*parts)),
    "munder": (2, lambda parts, _: parts[0] if parts[1].strip() in _ACCENTS else index(*parts)),
    "mover": (2, _over),
    "munderover": (3, lambda parts, _: _scripts(*parts)),
    "mroot": (2, lambda parts, _: root(*parts)),
}


def _scripts(base: str, below: str, above: str) -> str:
    """Both at once: ∑_(i=1)^n."""
    exponent = power("", above)
    return index(base, below) + exponent


class _OMML:
    """The same for Word's own elements; properties (names that end in Pr) have no text."""

    def __init__(self) -> None:
        self._depth = 0

    def text(self, element: Any) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError
        made = self._made(name(element), element)
        self._depth -= 1
        return made

    def _made(self, tag: str, element: Any) -> str:
        if tag == "t":
            return (element.text or "").translate(_INVISIBLE)
        if tag.endswith("Pr") or tag in ("del", "moveFrom", "instrText"):
            return ""
        if tag == "f":
            bar = self._property(element, "type")
            above, below = self._part(element, "num"), self._part(element, "den")
            return f"{above} over {below}" if bar == "noBar" else fraction(above, below)
        if tag == "sSup":
            return power(self._part(element, "e"), self._part(element, "sup"))
        if tag == "sSub":
            return index(self._part(element, "e"), self._part(element, "sub"))
        if tag == "sSubSup":
            return _scripts(*(self._part(element, part) for part in ("e", "sub", "sup")))
        if tag == "limLow":
            return index(self._part(element, "e"), self._part(element, "lim"))
        if tag == "limUpp":
            return power(self._part(element, "e"), self._part(element, "lim"))
        if tag == "rad":
            return root(self._part(element, "e"), self._part(element, "deg"))
        if tag == "nary":
            sign = self._property(element, "chr") or "∫"
            limits = _scripts(sign, self._part(element, "sub"), self._part(element, "sup"))
            return f"{limits} {self._part(element, 'e')}"
        if tag == "d":
            inner = (self._property(element, "sepChr") or ", ").join(map(self.text, element.iterfind("{*}e")))
            begin, end = (self._property(element, side) for side in ("begChr", "endChr"))
            return (begin or "(") + inner + (end or ")")
        if tag == "func":
            return joined([self._part(element, "fName"), self._part(element, "e")])
        if tag in ("m", "eqArr"):
            return "; ".join(filter(None, (self.text(row) for row in element if not name(row).endswith("Pr"))))
        if tag == "mr":
            return ", ".join(map(self.text, element))
        # Runs are cut anywhere, in the middle of a number too.
        parts: list[str] = []
        for is_run, children in groupby(element, key=lambda child: name(child) == "r"):
            texts = map(self.text, children)
            parts += ["".join(texts)] if is_run else texts
        return joined(parts)

    def _part(self, element: Any, part: str) -> str:
        return joined(map(self.text, element.iterfind("{*}" + part)))

    def _property(self, element: Any, key: str) -> str:
        """The value of a property, or ""."""
        for properties in element:
            if name(properties).endswith("Pr"):
                return next((attribute(found, "val") for found in properties if name(found) == key), "")
        return ""
