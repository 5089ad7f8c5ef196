"""PDFs that draw their text in another order, or with characters that stand for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.documents.edge_case_pdfs import RIVER, numbered_text
from tests.documents.edge_cases import EdgeCase
from tests.documents.made_pdfs import wrap
from tests.documents.raw_pdf import BOLD, pieces, raw_pdf, show, width

Drawn = tuple[float, float, str]
"""Left end, base line and text."""


def drawn(items: Sequence[Drawn], size: float = 12) -> str:
    return "".join(show(x, y, text, size) for x, y, text in items)


# --------------------------------------------------------------------------------------------------------- notes


def noted_in_gap(before: float, behind: float) -> Callable[[], bytes]:
    """A mark in a gap between words that was left for it, so many points from either, drawn after both."""

    def make() -> bytes:
        mark = 72 + width(NOTED_HEAD, 12) + before
        right = mark + width("3", 7.2) + behind
        rest = "four new limitations on liability for online service providers."
        items = (
            show(72, 700, NOTED_HEAD)
            + show(right, 700, "to create")
            + show(mark, 704.6, "3", 7.2)
            + show(72, 686, rest)
        )
        return raw_pdf([items])

    return make


NOTED_HEAD = "The council adds a new section to the Copyright Act"
NOTED_IN_GAP = f"{NOTED_HEAD} to create four new limitations on liability for online service providers."

# ------------------------------------------------------------------------------------------------ right to left

PEACE = ("ا", "ل", "س", "لا", "م", " ", "ع", "ل", "ي", "ك", "م")
GOD = ("ا", "لله", " ", "ا", "ك", "ب", "ر")
VOWELS = ("م", "حّ", "م", "د", " ", "لإ", "س", "لا", "م")
HEBREW = ("שׁ", "ל", "ו", "ם", " ", "ע", "ו", "ל", "ם")


def right_to_left(glyphs: Sequence[str], *, reverse: bool = False, apart: bool = False) -> Callable[[], bytes]:
    """A line of glyphs in the order of reading; `reverse`: the map has the letters of each in reversed order."""

    def make() -> bytes:
        codes = {letters: chr(65 + at) for at, letters in enumerate(dict.fromkeys(glyphs)) if letters != " "}
        unicode = {code: letters[::-1] if reverse else letters for letters, code in codes.items()} | {" ": " "}
        line = "".join(codes.get(letters, " ") for letters in reversed(glyphs))
        if not apart:
            return raw_pdf([show(72, 700, line)], unicode)
        return raw_pdf(["".join(show(x, 700, code) for x, code in pieces(line, 72, letters=True))], unicode)

    return make


# ----------------------------------------------------------------------------------------------------- ligatures

SPOILED = (
    "The e{ff}orts of the o{ffi}ce were di{ff}erent and it was di{ffi}cult to {fi}nd\n"
    "a de{fi}nition of the {fl}ow; the re{fl}ected coe{ffi}cients had an e{ff}ect on\n"
    "all of the a{ff}ected sta{ff} o{ff}ers, which su{ff}ered in the {fi}rst {fl}ood."
)
WHOLE = " ".join(SPOILED.replace("{", "").replace("}", "").split())


def spoiled(characters: str, text: str = SPOILED) -> Callable[[], bytes]:
    """Text in which ligatures are single characters that the font maps to these: of ff, fi, fl and ffi."""

    def make() -> bytes:
        unicode = {chr(code): chr(code) for code in range(32, 127)}
        lines = text
        for at, (ligature, character) in enumerate(zip(("ff", "fi", "fl", "ffi"), characters, strict=True)):
            unicode[chr(0xA1 + at)] = character
            lines = lines.replace(f"{{{ligature}}}", chr(0xA1 + at))
        return raw_pdf([drawn([(72, 700 - 14 * row, line) for row, line in enumerate(lines.split("\n"))])], unicode)

    return make


# ------------------------------------------------------------------------------------- heads

GAZETTE = "Gazette of the River / Vol. 85, No. 152 / Thursday, August 6, 2020"


def headed(
    head: Callable[[int], Sequence[tuple[float, float, str, float, int]]], pages: int = 6
) -> Callable[[], bytes]:
    """Pages with a head: for each number, what is drawn (left end, base line, text, size, font)."""

    def make() -> bytes:
        made = []
        for number in range(1, pages + 1):
            lines = wrap(f"{chr(64 + number) * 3} is the sign of this page. {RIVER}", 84)
            body = drawn([(54, 690 - 12 * at, line) for at, line in enumerate(lines)], 10)
            made.append("".join(show(*item) for item in head(number)) + body)
        return raw_pdf(made)

    return make


DRAWING = (
    *(
        EdgeCase(f"late-mark-in-gap-{before}-{behind}.pdf", noted_in_gap(before, behind), NOTED_IN_GAP)
        for before, behind in ((0.5, 3), (2, 2), (4, 2), (4, 4))
    ),
    *(
        EdgeCase(
            f"right-to-left-{name}{'-apart' * apart}{'-reversed' * reverse}.pdf",
            right_to_left(glyphs, reverse=reverse, apart=apart),
            "".join(glyphs),
        )
        for name, glyphs in (("peace", PEACE), ("god", GOD), ("vowels", VOWELS), ("hebrew", HEBREW))
        for apart, reverse in ((False, False), (True, False), (False, True))
    ),
    *(
        EdgeCase(f"ligatures-{at}.pdf", spoiled(characters), WHOLE)
        for at, characters in enumerate(
            (
                "\x0b\x0c\x0e\x0f",
                "\x1b\x1c\x1d\x1e",
                "↵\ufb01\ufb02\ufb03",
                "\ufffd" * 4,
                "\ue001\ue002\ue003\ue004",
                "\x01\x02\x03\x04",
                "\r\x0b\x0c\x0e",
            )
        )
    ),
    EdgeCase(
        "ligatures-unknown.pdf",
        spoiled("\ue001\ue002\ue003\ue004", f"{RIVER[:59]} xyli{{ff}}orm and zu{{fl}}ib."),
        f"{RIVER[:59]} xyli\ufffdorm and zu\ufffdib.",
        warning="2 characters of ligatures-unknown.pdf could not be read",
    ),
    *(
        EdgeCase(f"large-heads-{at}.pdf", headed(head), numbered_text())
        for at, head in enumerate(
            (
                lambda n: [(54, 740, f"{47699 + n} {GAZETTE}" if n % 2 else f"{GAZETTE} {47699 + n}", 13, 0)],
                lambda n: [(54, 740, f"{n + 30} River Board of the Valley", 14, BOLD)],
                lambda n: [(54, 740, f"{n + 8} Levels and Floods" if n < 4 else f"The Old Bridge {n + 8}", 14, 0)],
                lambda n: [(520, 740, str(40 + n), 18, BOLD)],
                lambda n: [(300, 40, str(n), 16, 0)],
            )
        )
    ),
    EdgeCase(
        "large-titles.pdf",
        headed(lambda n: [(54, 740, f"Chapter {n}", 18, BOLD)]),
        "\n\n".join(f"Chapter {at}\n\n{text}" for at, text in enumerate(numbered_text().split("\n\n"), 1)),
    ),
    EdgeCase(
        "large-years.pdf",
        headed(lambda n: [(54, 740, f"Budget of the Board {2000 + n}", 18, BOLD)]),
        "\n\n".join(
            f"Budget of the Board {2000 + at}\n\n{text}" for at, text in enumerate(numbered_text().split("\n\n"), 1)
        ),
    ),
)
