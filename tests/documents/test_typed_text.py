"""Texts as people type them: items and keys stay lines, encoded data is no text, wrong suffixes are reported."""

from __future__ import annotations

from base64 import b64encode
from random import Random

import pytest

from specextend_cli.documents.document import Document
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.read import read_bytes
from tests.documents.edge_cases import refusal
from tests.documents.made_files import docx, message, p, page

DATA = b64encode(Random(7).randbytes(3_000)).decode()
LINES = "\n".join(DATA[at : at + 76] for at in range(0, len(DATA), 76))


def read(text: str, name: str = "a.txt") -> Document:
    return read_bytes(name, text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "- Hamburgers are delicious\n- Dogs are the best\n- I love fuzzy blankets",
        "1. wash\n2. peel the apples well\n3. cut",
        "Shopping\n• bread and a lot of butter\n• milk",
        "Invoice no.: 14\nBill to: Ann Smith and Sons, Rome\nDue: 4 May",
        "ANN: Where is it?\nBO: Under the old bridge, I think\nANN: No.",
    ],
)
def test_items_and_keys_stay_lines(text: str) -> None:
    document = read(text)
    assert document.text == text
    assert [block.kind for block in document.blocks] == ["paragraph"]
    assert read_bytes("a.eml", bytes(message(text))).text.endswith(text)


@pytest.mark.parametrize(
    "text",
    [
        "The river rose by three metres in a night, and nobody\nsaw it: the mill was under water before\nthe sun rose.",
        "It came in two parts, and the first of them was the old\n- and much repaired - bridge of the village.",
        'And when the old miller replied: "Oh yes, it came," she would mutter\nangrily: "How deaf you are!"',
        "Note: the river rose by three metres in a single night\nand the mill was under water by the morning.",
    ],
)
def test_prose_is_joined(text: str) -> None:
    assert read(text).text == text.replace("\n", " ")


CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{LINES}\n-----END CERTIFICATE-----"
SIGNATURE = "-----BEGIN PGP SIGNATURE-----\n\nabcd\n=12ab\n-----END PGP SIGNATURE-----"


@pytest.mark.parametrize("data", [LINES, CERTIFICATE, SIGNATURE, DATA], ids=["lines", "PEM", "PGP", "one line"])
def test_encoded_data_is_left_out_and_said(data: str) -> None:
    text = f"The bridge is closed.\n\n{data}\n\nIt opens again.\n"
    markdown = f"# A\n\n{text}\n# B\n\nx\n"
    for document in (read(text), read(markdown, "a.md"), read_bytes("a.eml", bytes(message(text, cte="8bit")))):
        assert "The bridge is closed.\n\nIt opens again." in document.text
        assert document.extraction.changes[ENCODED] == 1
        assert document.extraction.left_out == len(data.split())
        said = f"Encoded data of {document.name} (base64 or the like) was left out: {len(data):,} characters."
        assert document.extraction.warnings == (said,)


def test_pictures_in_a_text_and_words_after_data() -> None:
    assert without_encoded(f"x\n{LINES[: 77 * 9]}Regards\nAnn")[0] == "x\n\nRegards\nAnn"
    assert refusal(lambda: read(LINES)).what == "a.txt holds no text"
    document = read(f"# A\n\nSee ![a bridge](data:image/png;base64,{DATA}) here.\n\n# B\n\nx\n", "a.md")
    assert "See ![a bridge]() here." in document.text


@pytest.mark.parametrize(
    "text",
    [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "/usr/lib/Python3/dist/" * 12,
        "ACGTACGTTTGACA" * 12,
        "Donaudampfschifffahrtsgesellschaftskapitaensmuetzenknopf" * 3,
        "31415926535897932384626433832795" * 6,
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA1\n\nIt rains.\n",
        "a" * 5_000,
    ],
)
def test_what_is_no_encoded_data(text: str) -> None:
    assert without_encoded(text) == (text, [])


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        *((name, "") for name in ("a.txt", "a.md", "a", "a.log")),
        ("a.docx", "a.docx is a text, not a Word document (DOCX)."),
        ("a.epub", "a.epub is a text, not an EPUB book."),
        ("a.html", "a.html is a text, not an HTML page."),
        ("a.eml", "a.eml is a text, not an email."),
    ],
)
def test_a_text_with_the_name_of_another_format(name: str, warning: str) -> None:
    warnings = read("The river \\emph{rises}.\n", name).extraction.warnings
    assert [said.startswith(warning) for said in warnings] == [True] * bool(warning)
    assert all("| specextend summarize -" in said for said in warnings if warning.endswith(":"))


def test_encoded_data_in_other_formats() -> None:
    for document in (
        read_bytes("a.html", page(f"<p>It rains.</p><pre>{LINES}</pre><p>A lot.</p>").encode()),
        read_bytes("a.docx", docx(p("It rains.") + p(DATA) + p("A lot."))),
    ):
        assert document.text == "It rains.\n\nA lot."
        assert document.extraction.changes[ENCODED] == 1


def test_comments_of_markdown_are_left_out() -> None:
    text = "# A\n\n<!-- not yet:\n\n# B\n-->\nThe river<!-- which? --> rises, `<!-- code -->` and <!-- open.\n"
    code = "```html\n<!-- shown -->\n```"
    document = read(f"{text}\n{code}\n", "a.md")
    assert document.text == f"# A\n\nThe river rises, `<!-- code -->` and <!-- open.\n\n{code}"
    hidden = [edit.before for edit in document.extraction.edits if edit.kind == "hidden text"]
    assert hidden == ["<!-- not yet: # B -->", "<!-- which? -->"]
    assert document.extraction.left_out == 9


CHINESE = "全市计划改造的218个小区只完成了97个。"
ARABIC = "تقع المحافظة في شمال البلاد، وقد أُنشئت عام 1962."


@pytest.mark.parametrize(
    ("heading", "prose"),
    [("二、调查结果", CHINESE), ("参考文献", CHINESE), ("المراجع", ARABIC), ("참고문헌", "한빛군은 군이다.")],
)
def test_headings_in_scripts_without_capitals(heading: str, prose: str) -> None:
    document = read(f"{prose}\n\n{heading}\n\n{prose}")
    assert [block.kind for block in document.blocks] == ["paragraph", "heading", "paragraph"]


LABELS = (
    "Page {} of 3|Seite {} von 3|Page {} sur 3|Página {} de 3|Pagina {} di 3|Pagina {} van 3|Strona {} z 3|{}쪽|"
    "Страница {} из 3|Стр. {}|Sayfa {} / 3|Σελίδα {} από 3|第 {} 页 共 3 页|第{}页|{} / 3 ページ|صفحة {} من 3|"
    "पृष्ठ {} / 3|Trang {}/3|หน้า {} จาก 3"
)


@pytest.mark.parametrize("label", LABELS.split("|"))
def test_page_numbers_in_other_languages(label: str) -> None:
    prose = "\n\n".join(["The council of Falcaster bought the station for a price that nobody knows."] * 3)
    pages = [f"{prose}\n\n{label.format(number)}" for number in (1, 2, 3)]
    text = read("\f".join(pages)).text
    assert [number for number in (1, 2, 3) if label.format(number) in text] == []
