"""Fit what the target's hidden states add to the sentence ranker's trees, and measure it on what was left out.

    python presets/smollm2-135m-ranker/fit_states.py reports.jsonl.gz kinds.jsonl.gz --weights 2 3 --read 14 -o ranker

Documents are those of `../sentence-ranker/fit.py`, by which the trees are fitted, too. Ridge regression of the label on
a sentence's mean state and on the score that trees give to it which were fitted without its document: trees that have
seen it would count for too much.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from specextend_cli.errors import SpecextendError, UsageError
from specextend_cli.runtime.loading_thread import result_of
from specextend_cli.summarize.ranking.ranker import STATES, Array, ReadingPlan, StateWeights, read_states
from specextend_cli.summarize.summarizer import Options, Summarizer

sys.path.insert(0, str(Path(__file__).parents[1] / "sentence-ranker"))
import fit

PENALTY_TREES, PENALTY_STATES = 10.0, 30_000.0  # of standardized columns


def fit_states(
    examples: Sequence[fit.Example], scores: Sequence[Array], factors: Sequence[float], layer: int
) -> StateWeights:
    """Weights for the states after `layer` and for the trees' `scores`; a document's factor counts beside its source's.

    States are taken less their mean over the document, which tells documents apart, not sentences.
    """
    pairs = zip(examples, scores, factors, strict=True)
    chosen = [(one, score, factor) for one, score, factor in pairs if one.usable.sum() >= fit.FEWEST]
    columns = []
    for one, score, _ in chosen:
        assert one.states is not None
        usable = one.states[one.usable]
        columns.append(np.column_stack([score[one.usable], usable - usable.mean(0)]))
    x = np.concatenate(columns).astype(np.float64)
    y = np.concatenate([one.labels[one.usable] for one, _, _ in chosen])
    w = fit.weights([one for one, _, _ in chosen], [factor for _, _, factor in chosen])[:, None]
    mean, spread = (x * w).mean(0), x.std(0) + 1e-6
    z = (x - mean) / spread
    penalty = np.diag([PENALTY_TREES, *[PENALTY_STATES] * (x.shape[1] - 1)])
    solved = np.linalg.solve((z * w).T @ z + penalty, (z * w).T @ y) / spread
    return StateWeights(solved[1:].astype(np.float32), float(-mean @ solved), float(solved[0]), layer)


def guided(one: fit.Example, score: Array, weights: StateWeights) -> Array:
    """The scores that `--mode guided` gives to sentences, [sentences]."""
    assert one.states is not None
    return weights.trees * score + weights.score(one.states)


def held_out_guided(
    examples: Sequence[fit.Example], scores: Sequence[Array], factors: Sequence[float], layer: int, division: int
) -> list[Array]:
    """Each example's guided scores by weights fitted without it; `scores` are of trees fitted without it."""
    found: dict[int, Array] = {}
    for fitted, held in fit.folds(examples, division):
        known, trees = [examples[i] for i in fitted], [scores[i] for i in fitted]
        weights = fit_states(known, trees, [factors[i] for i in fitted], layer)
        found |= {i: guided(examples[i], scores[i], weights) for i in held}
    return [found[i] for i in range(len(examples))]


def read(examples: Sequence[fit.Example], preset: str, layer: int) -> None:
    """Have the preset's target read the examples, which keep its states."""
    with Summarizer(Options(preset=preset)) as summarizer:
        reader, encoder, prefix, size = result_of(summarizer.reader(layer))
        for number, one in enumerate(examples, 1):
            plan = ReadingPlan(one.document.text, one.sentences, encoder, size)
            one.states = np.concatenate([result_of(read_states(reader, plan, chunk, prefix)) for chunk in plan.chunks])
            if number % 10 == 0:
                print(f"{number} of {len(examples)} documents are read", file=sys.stderr, flush=True)


def first_of_each_source(examples: Sequence[fit.Example], most: int) -> Iterator[int]:
    """The numbers of at most so many documents of each source."""
    seen: Counter[str] = Counter()
    for number, one in enumerate(examples):
        seen[one.pair.source] += 1
        if seen[one.pair.source] <= most:
            yield number


def main() -> None:
    """Fit trees without each document, read, fit, write, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", type=Path, help=".jsonl or .jsonl.gz")
    parser.add_argument("--documents", type=int, default=1500, help="of each source and file, at most, for the trees")
    parser.add_argument("--read", type=int, default=450, help="of these, documents that the target reads")
    parser.add_argument("--weights", type=float, nargs="+", help="what each file weighs; the same if not given")
    parser.add_argument("-m", "--model", default="smollm2-135m", help="preset whose target reads")
    parser.add_argument("--layer", type=int, default=16, help="layers of the target that read")
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for states.npz")
    arguments = parser.parse_args()
    if arguments.weights and len(arguments.weights) != len(arguments.pairs):
        raise UsageError("files and weights differ in number", fix="one of --weights for each file")
    files = [fit.read_examples(path, arguments.documents) for path in arguments.pairs]
    examples = [one for found in files for one in found]
    factors: list[float] = []
    for found, weight in zip(files, arguments.weights or [1.0] * len(files), strict=True):
        factors += [weight / len({one.pair.source for one in found})] * len(found)  # a file's, for all its sources
    by_division = [fit.held_out_scores(examples, division) for division in range(fit.DIVISIONS)]
    numbers = list(first_of_each_source(examples, arguments.read))
    known, factors = [examples[i] for i in numbers], [factors[i] for i in numbers]
    read(known, arguments.model, arguments.layer)
    measured = []
    for division, scores in enumerate(by_division):
        trees = [scores[i] for i in numbers]
        if division == 0:
            fitted = fit_states(known, trees, factors, arguments.layer)
            arguments.output.mkdir(parents=True, exist_ok=True)
            scalars = np.array([fitted.bias, fitted.trees, fitted.layer], np.float64)
            np.savez_compressed(arguments.output / STATES, weights=fitted.weights, scalars=scalars)
            print(f"{arguments.output / STATES} is fitted to {len(known)} documents")
        ours = held_out_guided(known, trees, factors, arguments.layer, division)
        measured.append(fit.evaluate(known, {"guided": ours, "trees": trees}))
    fit.report(known, {name: np.mean([one[name] for one in measured], 0) for name in measured[0]})


if __name__ == "__main__":
    try:
        main()
    except SpecextendError as error:
        sys.exit("\n".join(filter(None, (f"error: {error.what}", error.why, error.fix))))
