"""Everything that reads a document's text after it was cleaned, on texts of awkward shapes: see the test."""

from __future__ import annotations

from specextend_cli.summarize.answer_checks import flaw, idle
from specextend_cli.summarize.citing import Citer
from specextend_cli.summarize.extractive import stands_alone
from specextend_cli.summarize.factcheck import FactSource
from specextend_cli.summarize.formatting import formatter
from specextend_cli.summarize.provenance import DocumentSentence
from specextend_cli.summarize.quantities import dates, numbers, values
from specextend_cli.summarize.sentences import Sentences, spans, split
from specextend_cli.summarize.tfidf import TfidfIndex, terms

SIZE = 25_000
REPEATED = (
    *(
        "a",
        "a ",
        "A. ",
        "Mr. ",
        "U.S. ",
        "St. \n",
        "1. ",
        "12 of ",
        "1 May ",
        "hundred ",
        "one and ",
        "million million ",
    ),
    *(
        "1\u00a0123",
        "123,",
        "e\u0301\u0323",
        "\u0f73",
        "\ufdfa",
        ".",
        '."',
        "!” ",
        "(",
        "[",
        '"',
        "River ",
        "ABC ",
        "here is ",
    ),
    *(
        "洪水",
        "洪水。",
        "\n",
        " ",
        "- a\n",
        "a-",
        "a'",
        "\u00a0",
        "\ufffd",
        "…",
        "The river, and ",
        "2019-",
        "3/12/",
        "1931-33 ",
    ),
)


def main() -> None:
    for repeated in REPEATED:
        text = (repeated * SIZE)[:SIZE]
        for work in (split, spans, dates, numbers, values, terms, stands_alone, idle):
            work(text)
        flaw(text, 100)
        idle("Please " + text)
        stands_alone(f"The river {text} rises again in the spring.")
        formatter("bullets", 1, 1).feed(text)
        FactSource(text).unsupported("In 2019 the River rose by 12 m on 3 May in Paris.")
        FactSource("Paris").unsupported(text[:2_000])
        Sentences().add(text)
    passages = [f"The river {number} rises to the level of the bridge. " for number in range(20_000)]
    index = TfidfIndex(passages)
    for number in range(0, len(passages), 20):  # notes on chunks: each asks for its own passages alone
        index.shares(index.weights("the level of the river"), range(number, number + 20))
    text = "".join(passages)
    places = [DocumentSentence(at, at + 40, 1) for at in range(0, len(text), 50)]
    Citer(text, places).evidence("The river rises.", {}, range(20))


main()
