"""Table 1 of the paper: a sentence hidden in a long text. Can the *draft* tell it, with what it is shown?

The target reads everything; the draft sees what its policy shows it. Its perplexity and accuracy on the answer's tokens
say whether the needle is in its working set, by depth of the needle and length of the text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from specextend_cli.bench.events import Decoding, Reading
from specextend_cli.bench.experiments.setting import Run, Setting
from specextend_cli.bench.forced import forced
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.tables import Experiment, HeatMap, Table
from specextend_cli.bench.workloads import Prompt, asking
from specextend_cli.summarize.prompt_builder import PromptBuilder

DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
POLICIES = ("full", "streaming", "retrieval")
_FLOOR = 1e-10  # the least probability: what a number format may round to nothing


@dataclass(frozen=True)
class Needle:
    """A prompt of exactly the wanted length that asks for what is hidden in it, and the answer's tokens.

    `hidden` are the places in the prompt at which the number stands.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    hidden: range


def run(setting: Setting) -> Run:
    """Every document at every depth, under every policy; the prompt is read once for all policies."""
    models = setting.models
    said: dict[tuple[str, int, float], list[tuple[float, bool]]] = {}
    for prompt in setting.prompts:
        with models.fitted(prompt.length + 32):
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            for depth in DEPTHS:
                needle = hide(setting, prompt, depth)
                yield Reading(prompt.document, prompt.length, 0)
                for policy in POLICIES:
                    yield Decoding(policy, prompt.document, prompt.length, 0, 0, len(needle.answer))
                    recipe = setting.policy(policy)
                    found = said.setdefault((policy, prompt.length, depth), [])
                    for spoken in forced(
                        target,
                        recipe.drafter(target),
                        needle.prompt,
                        needle.answer,
                        recipe.retrieval,
                        setting.decoding.prefill_chunk,
                    ):
                        probability = float(spoken.draft[spoken.token])
                        found.append((probability, int(spoken.draft.argmax()) == spoken.token))
    return Experiment(
        "needle",
        "Can the draft tell a sentence hidden in the document, under each policy?",
        (_table(setting, said),),
        tuple(_map(setting, said, policy) for policy in POLICIES),
    )


def hide(setting: Setting, prompt: Prompt, depth: float) -> Needle:
    """The document's prompt with a needle at `depth` (0 to 1) in place of as many of its tokens."""
    encoder = setting.models.encoder
    draw = random.Random(f"{setting.seed} {prompt.document} {depth}")
    city = draw.choice(("Tromso", "Valparaiso", "Kyoto", "Tbilisi", "Windhoek", "Hobart"))
    number = draw.randrange(1_000_000, 10_000_000)
    said = f"\nThe secret number of {city} is"
    needle = encoder.encode(f"{said} {number}.\n")
    before, after = _question(setting, city)
    lead = encoder.encode(f"The secret number of {city} is")
    answer = encoder.encode(f" {number}.")
    room = prompt.length - len(before) - len(needle) - len(after) - len(lead)
    text = prompt.text[:room]
    at = int(depth * len(text))
    tokens = (*before, *text[:at], *needle, *text[at:], *after, *lead)
    begins = len(before) + at + len(encoder.encode(said))
    return Needle(tokens, tuple(answer), range(begins, begins + len(encoder.encode(f" {number}"))))


def _question(setting: Setting, city: str) -> tuple[list[int], list[int]]:
    models = setting.models
    ask = f"{{document}}\n\nWhat is the secret number of {city}?"
    return PromptBuilder(asking(models.preset, ask), models.encoder, models.directories.target).frame("single", {})


def _table(setting: Setting, said: dict[tuple[str, int, float], list[tuple[float, bool]]]) -> Table:
    def rows() -> Iterator[tuple[int, str, float, float, int]]:
        for length in setting.lengths:
            for policy in POLICIES:
                every = [pair for depth in DEPTHS for pair in said[policy, length, depth]]
                yield length, policy, _perplexity(every), fmean(right for _, right in every), len(every)

    size = setting.models.retrieval.size
    return Table(
        "The draft on the answer (Table 1)",
        ("prompt (tokens)", "the draft sees", "perplexity", "accuracy", "tokens"),
        tuple(rows()),
        "Of the answer's tokens but the first, each after the true ones before it. Accuracy: the likeliest is the true "
        "one. Where the target is its own draft, full is the target itself. A prompt no longer than the working set of "
        f"{size:,} tokens hides nothing.",
    )


def _map(setting: Setting, said: dict[tuple[str, int, float], list[tuple[float, bool]]], policy: str) -> HeatMap:
    return HeatMap(
        f"Accuracy of the draft: {policy}",
        "prompt (tokens)",
        "depth of the needle",
        tuple(f"{length:,}" for length in setting.lengths),
        tuple(f"{depth:.0%}" for depth in DEPTHS),
        tuple(
            tuple(fmean(right for _, right in said[policy, length, depth]) for length in setting.lengths)
            for depth in DEPTHS
        ),
        low=0.0,
        high=1.0,
        percent=True,
    )


def _perplexity(pairs: Sequence[tuple[float, bool]]) -> float:
    return exp(-fmean(log(max(probability, _FLOOR)) for probability, _ in pairs))
