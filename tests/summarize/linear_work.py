"""Everything that reads a document's text after it was cleaned, on texts of awkward shapes: see the test."""

from __future__ import annotations

from specextend_cli.documents.document import Block, Document, Extraction, Page
from specextend_cli.summarize.answers import flaw
from specextend_cli.summarize.citations import DocumentSentence, Origin, SentenceIndex
from specextend_cli.summarize.facts import FactSource, dates, numbers, values
from specextend_cli.summarize.layout import AnswerLayout
from specextend_cli.summarize.ranking.candidates import candidates, speakers
from specextend_cli.summarize.ranking.readable import is_whole, printed
from specextend_cli.summarize.ranking.score import score
from specextend_cli.summarize.ranking.select import Selector
from specextend_cli.summarize.ranking.wording import wording
from specextend_cli.summarize.sentences import Sentences, idle, spans, split
from specextend_cli.summarize.words import language_of, terms

SIZE = 25_000
REPEATED = "".join(
    (
        "a¦a ¦A. ¦Mr. ¦p.m. ¦a.b.¦“A ¦Smith, J. ¦if you have ¦this message ¦Board ¦must ¦U.S. ¦St. \n¦1. ¦12 of ¦",
        '1 May ¦hundred ¦one and ¦million million ¦1\xa0123¦123,¦e\u0301\u0323¦\u0f73¦\ufdfa¦.¦."¦!” ¦(¦[¦"¦',
        "River ¦ABC ¦here is ¦洪水¦洪水。¦\n¦ ¦- a\n¦a-¦a'¦\xa0¦\ufffd¦…¦The river, and ¦2019-¦3/12/¦1931-33 ¦",
        "# Heading\n\n¦# The river\n\nThe river rises to the level of the bridge again.\n\n¦",
        "The river rises to the level of the bridge again. ¦It rises to the level of the bridge again in spring. ¦",
        "a | b ¦| a ¦+--¦ ----¦-¦```\n¦.. ¦:a¦However, ¦\"'`¦ก¦ก ¦<!--¦「あ。¦“あ。」¦l'art. ¦z. B. ¦Τι;¦« . » ¦[a¦((¦",
        "A\n=\n",
    )
).split("¦")


def readable(text: str) -> None:
    for language in ("en", "de", "fr", "ru", "zh"):
        own, line = wording(language), printed(text, language)
        own.leans.match(line)
        is_whole(line, language)


def rank(text: str) -> None:
    """All that is done to a document's sentences before a model reads them, in one block and in a block a paragraph."""
    starts = [0, *(at + 2 for at in range(len(text) - 2) if text[at : at + 2] == "\n\n" and text[at + 2] != "\n")]
    kinds = ["heading" if text.startswith("#", start) else "paragraph" for start in starts]
    several = tuple(
        Block(kind, start, end) for kind, start, end in zip(kinds, starts, [*starts[1:], len(text)], strict=True)
    )
    for blocks in ((Block("paragraph", 0, len(text)),), several):
        document = Document("a.txt", "text", text, (Page(1, 0, len(text)),), blocks, Extraction(1))
        found = candidates(document)
        if not found:
            continue
        scores, bags = score(text, "a.txt", found)
        selector = Selector(text, found, bags, conversation=bool(speakers(text, found)))
        for exact in (False, True):
            selector.select(scores, 200, exact=exact)
        selector.lead(200)


def main() -> None:
    for repeated in REPEATED:
        text = (repeated * SIZE)[:SIZE]
        for work in (split, spans, language_of, dates, numbers, values, terms, rank, readable, idle):
            work(text)
        flaw(text, 100)
        idle("Please " + text)
        readable(f"The river {text} rises again in the spring.")
        AnswerLayout("bullets", first=True).place(text)
        AnswerLayout("paragraph", first=True).place(text)
        FactSource(text).unsupported("In 2019 the River rose by 12 m on 3 May in Paris.")
        FactSource("Paris").unsupported(text[:2_000])
        Sentences().add(text)
    passages = [f"The river {number} rises to the level of the bridge. " for number in range(20_000)]
    text, places, at = "".join(passages), [], 0
    for passage in passages:
        places.append(DocumentSentence(at, at + len(passage), 1))
        at += len(passage)
    index = SentenceIndex(text, places)
    for number in range(0, len(passages), 20):  # summaries of chunks: each asks for its own passages alone
        index.support("The level of the river rises.", (Origin(range(number, number + 20)),))


main()
