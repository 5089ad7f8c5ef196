"""Documents whose every page states one fact that no other page has, among sentences that all pages share in kind."""

from __future__ import annotations

import random
from dataclasses import dataclass

from specextend_cli.documents.document import Block, Document, Extraction, Page

_STEMS = ("Mar", "Ard", "Hol", "Quen", "Tres", "Bel", "Cor", "Dun", "Esk", "Fal", "Gar", "Hex", "Ing", "Kel", "Ner")
_TAILS = ("low", "enby", "wick", "tonbury", "caster", "mere", "stow", "field")
_WORKS = ("bridge", "mill", "reservoir", "school", "harbour wall", "railway station", "hospital", "library", "quarry")
_DEEDS = (
    "The {work} at {place} was opened in {year} and cost {sum} crowns.",
    "In {year} the council of {place} bought the {work} for {sum} crowns.",
    "A flood in {year} destroyed the {work} at {place}, a loss of {sum} crowns.",
    "The {work} at {place} was closed in {year} after {sum} complaints.",
    "{place} sold its {work} to the county in {year} for {sum} crowns.",
)
_FILLER = (
    "Most of the families in the town lived by fishing and by the wool trade.",
    "The winters there are long, and the roads to the coast are often closed by snow.",
    "Travellers praised the market, where cloth and salted herring were sold on Saturdays.",
    "The old church stands on the hill, and its tower can be seen from the sea.",
    "Young people left for the cities, and many of the houses near the river stood empty.",
    "A steamer called twice a week and brought letters, tools and flour.",
    "The fields around the town were poor, and the farmers kept sheep rather than cattle.",
    "The people of the town are proud of their choir, which sings every year in the capital.",
)


@dataclass(frozen=True)
class Fact:
    """What page `page` alone says: `sentence`, known by its place, its year and its sum."""

    page: int
    sentence: str
    place: str
    year: str
    sum: str


@dataclass(frozen=True)
class Planted:
    """A document and the facts in it, one a page."""

    document: Document
    facts: tuple[Fact, ...]


def plant(pages: int, seed: int) -> Planted:
    """A report of that many pages; on each, the fact stands anywhere among five other sentences."""
    rng = random.Random(seed)
    places = [stem + tail for stem in _STEMS for tail in _TAILS]
    rng.shuffle(places)
    years, sums = rng.sample(range(1801, 1990), pages), rng.sample(range(211, 9999), pages)
    facts, bodies = [], []
    for number in range(1, pages + 1):
        work, place, amount = rng.choice(_WORKS), places[number - 1], f"{sums[number - 1]:,}"
        stated = rng.choice(_DEEDS).format(work=work, place=place, year=years[number - 1], sum=amount)
        facts.append(Fact(number, stated, place, str(years[number - 1]), amount))
        body = rng.sample(_FILLER, 5)
        body.insert(rng.randrange(len(body) + 1), stated)
        half = len(body) // 2
        bodies.append(" ".join(body[:half]) + "\n\n" + " ".join(body[half:]))
    return Planted(_document(bodies), tuple(facts))


def _document(bodies: list[str]) -> Document:
    text, pages, blocks = "", [], []
    for number, body in enumerate(bodies, 1):
        start = len(text)
        for paragraph in body.split("\n\n"):
            blocks.append(Block("paragraph", len(text), len(text) + len(paragraph)))
            text += paragraph + "\n\n"
        pages.append(Page(number, start, len(text)))
    return Document("planted.txt", "text", text, tuple(pages), tuple(blocks), Extraction(len(bodies)))
