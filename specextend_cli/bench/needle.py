"""Table 1 of the paper: whether the draft can tell a sentence hidden in a long text, under each policy.

The target reads everything, the draft what its policy shows. The draft's perplexity and accuracy on the answer's tokens
tell whether the needle is in its working set, by depth of the needle and length of the text.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from statistics import fmean
from typing import get_args

import torch
from torch import Tensor

from specextend_cli.bench.formats import Cell, Experiment, Plot, Point, Table
from specextend_cli.bench.prefilled import Prefilled, read
from specextend_cli.bench.prompts import Prompt
from specextend_cli.bench.results import Running
from specextend_cli.bench.runner import Runner
from specextend_cli.engine.config import Policy, Retrieval, TreeShape
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import root
from specextend_cli.summarize.events import Stage
from specextend_cli.summarize.prompts import PromptBuilder

DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
POLICIES = get_args(Policy)
_LEAST = 1e-10  # probability: a number format may round it to nothing


@dataclass(frozen=True)
class Needle:
    """A prompt of exactly the wanted length that asks for the hidden number, and the answer's tokens."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


def needle(runner: Runner) -> Generator[Running, None, Experiment]:
    """Every document at every depth under every policy; the prompt is read once for all policies."""
    # By policy, prompt length and depth: the probability of each true token, and whether it was the likeliest.
    found: dict[tuple[str, int, float], list[tuple[float, bool]]] = {}
    models, chunk = runner.models, runner.decoding.prefill_chunk
    for prompt in runner.prompts:
        with models.fitted(prompt.length + 32):
            target = Prefilled(models.lm, score_layers=models.retrieval.layers)
            for depth in DEPTHS:
                hidden = hide(runner, prompt, depth)
                yield Stage(f"{prompt.length:,} tokens, {depth:.0%} deep")
                for policy in POLICIES:
                    recipe = models.recipe(models.attending, models.under(policy))
                    of = found.setdefault((policy, prompt.length, depth), [])
                    for draft, token in teacher_forced(target, recipe.drafter(target), hidden, recipe.retrieval, chunk):
                        of.append((float(draft[token]), int(draft.argmax()) == token))
    rows, lines = list[dict[str, Cell]](), dict[str, list[Point]]()
    for length in sorted({prompt.length for prompt in runner.prompts}):
        for policy in POLICIES:
            every = [one for depth in DEPTHS for one in found[policy, length, depth]]
            row: dict[str, Cell] = {
                "prompt (tokens)": length,
                "the draft sees": policy,
                "perplexity": exp(-fmean(log(max(probability, _LEAST)) for probability, _ in every)),
                "accuracy": _accuracy(every),
                **{f"{depth:.0%} deep": _accuracy(found[policy, length, depth]) for depth in DEPTHS},
                "tokens": len(every),
            }
            rows.append(row)
            lines.setdefault(policy, []).append(Point(length, _accuracy(every)))
    note = (
        "Of the answer's tokens but the first, each after the true ones before it. Accuracy: the likeliest is the true "
        "one. Where the target is its own draft, full is the target itself. A prompt no longer than the working set of "
        f"{models.retrieval.size:,} tokens hides nothing."
    )
    table = Table.of("The draft on the answer (Table 1)", rows, note)
    plot = Plot("Accuracy of the draft on a hidden sentence", "prompt (tokens)", "accuracy", lines)
    question = "Can the draft tell a sentence hidden in the document, under each policy?"
    return Experiment("needle", question, (table,), (plot,))


def _accuracy(found: Sequence[tuple[float, bool]]) -> float:
    return fmean(right for _, right in found)


def hide(runner: Runner, prompt: Prompt, depth: float) -> Needle:
    """The document's prompt with a needle at `depth` (0 to 1) in place of as many of its tokens."""
    models = runner.models
    encode = models.encoder.encode
    draw = random.Random(f"{runner.seed} {prompt.document} {depth}")
    city = draw.choice(("Tromso", "Valparaiso", "Kyoto", "Tbilisi", "Windhoek", "Hobart"))
    number = draw.randrange(1_000_000, 10_000_000)
    said = f"The secret number of {city} is"
    ask = f"{{document}}\n\nWhat is the secret number of {city}?"
    prompts = models.preset.prompts.model_copy(update={"system": "", "single": ask})
    preset = models.preset.model_copy(update={"prompts": prompts})
    before, after = PromptBuilder(preset, models.encoder, models.directories.target).frame("single", {})
    needle, lead = encode(f"\n{said} {number}.\n"), encode(said)
    text = prompt.text[: prompt.length - len(before) - len(needle) - len(after) - len(lead)]
    at = int(depth * len(text))
    prompted = (*before, *text[:at], *needle, *text[at:], *after, *lead)
    return Needle(prompted, tuple(encode(f" {number}.")))


@torch.inference_mode()
def teacher_forced(
    target: Target, drafter: Drafter, needle: Needle, retrieval: Retrieval, prefill_chunk: int
) -> Iterator[tuple[Tensor, int]]:
    """The draft's probabilities [vocabulary] before each token of the answer but the first, and the token.

    The first one comes from prefill and is never drafted. The draft's working set is chosen as `decode` chooses it:
    after prefill, and every few steps.
    """
    vocabulary = target.lm.vocabulary
    whole = TreeShape(nodes=vocabulary + 1, depth=1, width=vocabulary, threshold=0.0)  # one level of every token
    read(target, needle.prompt, prefill_chunk, room=len(needle.answer) + 1, drafter=drafter)
    drafter.observe(needle.answer[:1], None)
    if drafter.retrieves:
        drafter.retrieve(target.attention_from(-1))
    for step, (last, token) in enumerate(pairwise(needle.answer), 1):
        tree = drafter.propose(whole)
        draft = torch.zeros(vocabulary)
        draft[tree.tokens[1:]] = torch.tensor(tree.scores[1:], device=draft.device)
        yield draft, token
        record = drafter.is_restricted and retrieval.every > 0 and step % retrieval.every == 0
        out = target.verify(root(last), features=drafter.feature_layers, record=record)
        target.commit([0])
        drafter.observe([token], out.features)
        if record:
            drafter.retrieve(target.attention_from(0))
