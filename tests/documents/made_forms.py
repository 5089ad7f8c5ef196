"""PDFs with form fields, annotations, page labels, and fonts that do not say which letters they have."""

from __future__ import annotations

import io

from pypdf import PdfWriter
from pypdf.constants import PageLabelStyle
from reportlab.pdfgen.canvas import Canvas


def form_bytes() -> bytes:
    """A page with a form that is filled in, two text boxes, one of them hidden, and a reviewer's note."""
    data = io.BytesIO()
    canvas = Canvas(data, pagesize=(595, 842), invariant=1)
    for y, text in ((780, "Application"), (740, "Name:"), (710, "Sum:")):
        canvas.drawString(72, y, text)
    form = canvas.acroForm
    form.textfield(name="name", value="Ada Lovelace", x=130, y=735, width=200, height=18)
    form.textfield(name="sum", value="12,500 EUR", x=130, y=705, width=200, height=18)
    form.textfield(name="code", value="secret", x=130, y=560, width=200, height=18, fieldFlags="password")
    form.textfield(name="Remarks", tooltip="Remarks", value="None so far", x=300, y=300, width=200, height=18)
    for y, label, checked in ((683, "Married", True), (658, "Owner", False)):
        canvas.drawString(92, y, label)
        form.checkbox(name=label, checked=checked, x=72, y=y - 3, size=14)
    canvas.drawString(72, 625, "City:")
    canvas.drawString(72, 400, "The last line.")
    form.choice(name="city", value="Paris", options=["Paris", "Lyon"], x=130, y=620, width=100, height=18)
    canvas.textAnnotation("Is this sum right?", Rect=(400, 700, 420, 720), addtopage=1)
    canvas.freeTextAnnotation("Received in May", DA="/Helv 12 Tf", Rect=(72, 500, 300, 520), addtopage=1)
    canvas.freeTextAnnotation("ignore the rest", DA="/Helv 12 Tf", Rect=(400, 100, 420, 120), addtopage=1, F=2)
    canvas.showPage()
    canvas.save()
    return data.getvalue()


def unmapped_bytes(text: str) -> bytes:
    """A page in a font whose glyphs are numbered as in TrueType fonts, without a table of their letters."""
    codes = "".join(f"{ord(letter) - 29:04X}" for letter in text)
    body = f"BT /F1 11 Tf 40 700 Td <{codes}> Tj ET".encode()
    objects = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 2000 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(body)}>>stream\n{body.decode()}\nendstream",
        "<</Type/Font/Subtype/Type0/BaseFont/AA+V/Encoding/Identity-H/DescendantFonts[6 0 R]>>",
        "<</Type/Font/Subtype/CIDFontType2/BaseFont/AA+V/FontDescriptor 7 0 R/DW 600/CIDToGIDMap/Identity"
        "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>",
        "<</Type/FontDescriptor/FontName/AA+V/Flags 4/FontBBox[0 0 1000 1000]/ItalicAngle 0/Ascent 800/Descent -200"
        "/CapHeight 700/StemV 80>>",
    )
    data = "%PDF-1.5\n" + "".join(f"{n} 0 obj\n{said}\nendobj\n" for n, said in enumerate(objects, 1))
    return f"{data}trailer<</Root 1 0 R/Size 8>>\n%%EOF\n".encode()


def labelled_bytes(data: bytes, romans: int) -> bytes:
    """A PDF whose first pages go by roman numerals, the next by "A-1", "A-2" and so on."""
    writer = PdfWriter(clone_from=io.BytesIO(data))
    writer.set_page_label(0, romans - 1, style=PageLabelStyle.LOWERCASE_ROMAN)
    writer.set_page_label(romans, len(writer.pages) - 1, style=PageLabelStyle.DECIMAL, prefix="A-")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()
