"""What a mail quotes stands apart from what its sender wrote, and comes second in a summary."""

from __future__ import annotations

import pytest

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.events import Sentence
from specextend_cli.summarize.extract import Extract
from specextend_cli.summarize.request import Request
from tests.documents.made_files import message

REPLY = "I can send forty sacks of flour on the ninth, but the cart has to come before noon."
SUBJECT = "Please confirm the order of the bakers today!"
NOTICE = (
    "The guild of the bakers has an order on its board that no mill has taken yet.",
    "Please make an offer to the guild, or decline the order of the bakers on the board.",
    "If the guild has not heard of a mill by noon, the order of the bakers goes to other mills.",
    "All orders of the guild are paid through the board, which keeps a tenth of the price.",
)
MARKED = "\n> ".join(("", *NOTICE)).strip()
UNMARKED = "\n".join(NOTICE)
TEXTS = {
    "marks": MARKED,
    "en": f"--- On Wed, 4/4/31, bo@x.org <bo@x.org> wrote:\n\n{MARKED}",
    "de": f"Am 4. April 2031 um 21:00 schrieb Bo Ek <bo@x.org>:\n\n{MARKED}",
    "fr, wrapped": f"Le mer. 4 avr. 2031 à 21:00, Bo Ek de la guilde\n<bo@x.org> a écrit :\n\n{MARKED}",
    "es": f"El mié, 4 abr 2031 a las 21:00, Bo Ek (<bo@x.org>) escribió:\n\n{MARKED}",
}
HEADS = {
    "original": "-----Original Message-----\nFrom: Bo Ek\nSent: 4 April 2031 21:00\nTo: Ann; Cy;\n Dee\nSubject: {}\n",
    "yahoo": "--- On Wed, 4/4/31, bo@x.org wrote:\n\n\nFrom: bo@x.org\nSubject: {}\nTo: ann@x.org\nDate: 4 April\n",
    "forwarded": "---------- Forwarded message ---------\nFrom: <bo@x.org>\nDate: 4 April\nSubject: {}\nTo: Ann\n",
    "bold": "*From:* Bo Ek\n*Sent:* 4 April\n*To:* Ann\n*Subject:* {}\n",
    "marks": "> From: Bo Ek\n> To: Ann\n> Subject: {}\n> Date: 4 April\n>",
    "de": "Von: Bo Ek\nGesendet: Mittwoch, 4. April 2031 21:00\nAn: Ann\nBetreff: {}\n",
    "fr": "De : Bo Ek\nEnvoyé : mercredi 4 avril 2031 21:00\nÀ : Ann\nObjet : {}\n",
    "es": "De: Bo Ek\nEnviado el: miércoles, 4 de abril de 2031\nPara: Ann\nAsunto: {}\n",
}
QUOTED = "".join(f"<p>{sentence}</p>" for sentence in NOTICE)
FIELDS = f"<b>From:</b> Bo Ek<br><b>Sent:</b> 4 April<br><b>To:</b> Ann<br><b>Subject:</b> {SUBJECT}"
PAGES = {
    "outlook": f'<hr><div id="divRplyFwdMsg">{FIELDS}</div><div>{QUOTED}</div>',
    "lines": f"<div>{FIELDS.replace('<br>', '</div><div>')}</div>{QUOTED}",
}


def mail(plain: str | None, html: str | None = None) -> Document:
    return read_bytes("a.eml", bytes(message(plain, html)))


def blocks(document: Document, kind: str) -> list[str]:
    return [document.text[one.start : one.end] for one in document.blocks if one.kind == kind]


def summary(document: Document, words: int) -> str:
    events = Extract(document, Request(), words).run()
    return "".join(event.lead + event.text for event in events if isinstance(event, Sentence))


def assert_second(document: Document) -> None:
    """The reply is the sender's, the notice is quoted, and a summary begins with the reply, whatever its length."""
    quoted = " ".join(" ".join(blocks(document, "quote")).replace("> ", "").replace("- ", "").split())
    assert quoted.removesuffix(" Ann").endswith(" ".join(NOTICE))
    assert REPLY in blocks(document, "paragraph")
    for words in (20, 40, 60):
        short = summary(document, words)
        assert short.startswith(REPLY)
        assert SUBJECT not in short


@pytest.mark.parametrize("below", [*TEXTS.values(), *PAGES.values()], ids=(*TEXTS, *PAGES))
def test_a_reply_comes_before_the_message_below_it(below: str) -> None:
    in_html = below.startswith("<")
    assert_second(mail(None, f"<p>{REPLY}</p>{below}") if in_html else mail(f"{REPLY}\n\n{below}\n"))


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_fields_of_a_quoted_message_are_a_heading_and_rows(head: str) -> None:
    notice = MARKED if head.startswith(">") else UNMARKED
    document = mail(f"{REPLY}\n\n{head.format(SUBJECT)}\n{notice}\n")
    assert_second(document)
    assert [page.title for page in document.pages][1:] == [SUBJECT]


def test_a_chain_of_replies_has_a_section_for_each() -> None:
    first, second = (HEADS["original"].format(subject) for subject in ("Re: Order", "Order"))
    document = mail(f"{REPLY}\n\n{first}\nWho has flour?\n\n{second}\n{UNMARKED}\n")
    assert [page.title for page in document.pages][1:] == ["Re: Order", "Order"]
    assert "Who has flour?" in blocks(document, "quote")


ASKED = "Can you send forty sacks of flour to the guild by the ninth of May?"
BETWEEN = (
    f"On 4/4/31 at 9:00, Bo <bo@x.org> wrote:\n> {ASKED[:40]}\n> {ASKED[41:]}\n{REPLY}\n> {NOTICE[3]}\nSo be it.\n"
)


def test_answers_between_keep_their_order() -> None:
    document = mail(BETWEEN)
    assert document.text.index(f"> {ASKED}") < document.text.index(REPLY)
    assert len(document.pages) == 1
    assert blocks(document, "quote")[0] == f"> {ASKED}"
    assert summary(document, 20) == REPLY


def test_quoted_sentences_are_whole() -> None:
    quoted = "> The water rises slowly at first and then within an hour it covers\n> the road.\n>\n> Bo\n"
    deeper = ">> The ferry is closed until the water has fallen below the level of\n>> the quay.\n> Yes.\nSo it is.\n"
    document = mail(f"I agree.\n\nBo wrote:\n{quoted}{deeper}")
    assert document.text.split("\n\n")[2:] == [
        "I agree.",
        "Bo wrote:",
        "> The water rises slowly at first and then within an hour it covers the road.",
        "> Bo",
        "> > The ferry is closed until the water has fallen below the level of the quay.",
        "> Yes.",
        "So it is.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"On page 3 of the book the miller wrote:\n\n{UNMARKED}",
        f"From: the mill\nTo: the market\n\n{UNMARKED}",
        f"De : 9:00\nÀ : 12:00\nDate : 4 avril\n\n{UNMARKED}",
        f"Q: When?\nA: At 12:30.\nQ: Where?\nA: There.\nA: Or here.\nA: Or ann@x.org.\n\n{UNMARKED}",
    ],
)
def test_what_is_no_quoted_message(text: str) -> None:
    document = mail(text)
    assert blocks(document, "quote") == []
    assert len(document.pages) == 1
