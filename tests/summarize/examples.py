"""Sentences that several tests share; and what documentation shows, made runnable with a small pair."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import user_presets
from tests.summarize import tiny_preset

DOCS = Path(__file__).parents[2] / "docs"
HARBOUR = (
    "The harbour of Falcaster was founded by fishermen in 1871.",
    "It was closed in the winter of 1893 after a storm.",
    "The council of Falcaster bought the railway station for 2,925 crowns.",
    "Wool and herring were sold on the market on most Saturdays.",
    "The council of Falcaster bought the railway station for 2,925 crowns in 1902.",
)
GERMAN = """\
Der Hafen von Falkenstein wurde 1871 von Fischern gegründet. Im Winter 1893 zerstörte ein Sturm die äußere Mole. \
„Niemand weiß, warum der Wächter ging“, sagte der alte Bürgermeister. Der Rat kaufte den Bahnhof für 2.925 Kronen.
"""
_THINGS = "harbour bridge tower school market chapel prison quarry garden brewery orchard theatre"
_DEEDS = "built painted closed rented burned enlarged"
COUNCIL = tuple(
    f"The {thing} of the island was {deed} by the council in {1800 + 7 * number} and after {number + 3} years."
    for number, (deed, thing) in enumerate(product(_DEEDS.split(), _THINGS.split()))
)
"""Different sentences, each of 16 words, which do not lean."""


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of that language on a page of docs/."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def stand_in(presets: dict[str, Path]) -> None:
    """Let the default preset's name mean the tiny pair, whose prompts say everything that can be asked."""
    user_presets().mkdir(parents=True, exist_ok=True)
    tiny_preset.with_places(user_presets() / f"{DEFAULT}.toml", presets["one"])
