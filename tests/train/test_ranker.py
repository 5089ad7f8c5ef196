"""Fitting the sentence ranker: labels, folds, trees as arrays, and a linear reading of states."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specextend_cli.errors import InputError
from specextend_cli.summarize.ranking.ranker import Array, StateWeights, Trees
from specextend_cli.train import ranker
from specextend_cli.train.ranker import (
    FOLDS,
    Example,
    Pair,
    example,
    fit_states,
    fit_trees,
    folds,
    held_out_scores,
    of_each_source,
    read_pairs,
    save_states,
    save_trees,
)
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import SENTENCES, text

HIDDEN = 8


def planted(seed: int, rows: int = 40) -> Example:
    """A document whose labels depend on two features, and on a direction of its states."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 4)).astype(np.float32)
    states = random.normal(size=(rows, HIDDEN)).astype(np.float32)
    labels = np.where(values[:, 2] > 0.3, 1.0, -1.0) + np.where(values[:, 0] > 0, 0.5, -0.5)
    usable = random.random(rows) < 0.9
    of: dict[str, Any] = {"group": str(seed), "states": states}
    return Example(str(seed), document("x"), [], [], "", values, labels.astype(np.float32), usable, **of)


def examples(count: int, rows: int = 40) -> list[Example]:
    return [planted(seed, rows) for seed in range(count)]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz"])
def test_pairs_are_lines_of_json(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    lines = [{"text": "a", "summary": "b"}, {"id": 7, "text": "c", "summary": "d", "source": "talks"}]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(read_pairs(path)) == [("1", "a", "b", "pairs", "pairs 1"), ("7", "c", "d", "talks", "talks")]


@pytest.mark.parametrize("content", ['{"text": "a"}', "nonsense", "[1]", "7", "\x00", '{"text": "a", "summary": 1}'])
def test_lines_that_are_no_pairs_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match="holds no pairs"):
        list(read_pairs(path))
    with pytest.raises(InputError):
        list(read_pairs(tmp_path / "nowhere.jsonl"))
    path.rename(tmp_path / "pairs.jsonl.gz")
    with pytest.raises(InputError):
        list(read_pairs(tmp_path / "pairs.jsonl.gz"))


def test_a_sentence_that_the_summary_repeats_has_the_best_label() -> None:
    pytest.importorskip("rouge_score")
    made = example(Pair("a", text(6), f"We say: {SENTENCES[2]}", "talks", "a talk"))
    best = int(made.labels.argmax())
    assert made.document.text[made.sentences[best].start : made.sentences[best].end].endswith(SENTENCES[2].strip())
    assert (made.source, made.group) == ("talks", "a talk")
    assert len(made.labels) == len(made.values) == len(made.sentences) == len(made.usable)
    assert abs(float(made.labels[made.usable].mean())) < 1e-4


@pytest.mark.parametrize("size", [10, 11, 3])
def test_every_example_is_held_out_once(size: int) -> None:
    made = list(folds(examples(size, 5)))
    assert len(made) == FOLDS
    assert sorted(i for _, held in made for i in held) == list(range(size))
    assert all(sorted([*fitted, *held]) == list(range(size)) for fitted, held in made)
    assert made == list(folds(examples(size, 5)))
    assert made != list(folds(examples(size, 5), division=1))


def test_a_source_is_held_out_whole() -> None:
    made = examples(30, 5)
    for number, one in enumerate(made):
        one.group = f"source {number % 7}"
    for fitted, held in folds(made):
        assert held
        assert not {made[i].group for i in fitted} & {made[i].group for i in held}


def test_few_sources_are_divided() -> None:
    made = examples(20, 5)
    for number, one in enumerate(made):
        one.group = f"source {number % 2}"
    assert all(len(held) == 4 for _, held in folds(made))


def test_as_many_pairs_of_each_source_are_taken_as_there_are_up_to_a_number() -> None:
    pairs = [Pair(str(n), "a", "b", "few" if n < 3 else "many", "") for n in range(20)]
    taken = of_each_source(pairs, 5)
    assert [one.source for one in taken] == ["few"] * 3 + ["many"] * 5
    assert len({one.name for one in taken}) == 8
    assert taken == of_each_source(pairs, 5) != of_each_source(pairs[::-1], 5)


def test_trees_as_arrays_predict_what_lightgbm_does(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    made = examples(30)
    x = np.concatenate([one.values for one in made])
    data = lightgbm.Dataset(x, np.concatenate([one.labels for one in made]))
    booster = lightgbm.train({"objective": "regression", "num_leaves": 9, "verbose": -1}, data, 20)
    save_trees(ranker._flat(booster.dump_model()["tree_info"]), tmp_path / "trees.npz")
    trees = Trees.load(tmp_path / "trees.npz")
    assert len(trees.first) == 20
    np.testing.assert_allclose(trees.predict(x), booster.predict(x), atol=1e-4)


def test_fitted_trees_find_what_was_planted() -> None:
    pytest.importorskip("lightgbm")
    fitted, other = fit_trees(examples(40)), planted(99)
    assert np.corrcoef(fitted.predict(other.values), other.labels)[0, 1] > 0.9
    again = fit_trees(examples(40))
    assert (again.predict(other.values) == fitted.predict(other.values)).all()


def test_held_out_scores_are_of_trees_that_never_saw_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    class Remembers:
        def __init__(self, names: set[str]) -> None:
            self.names = names

        def predict(self, values: Array) -> Array:
            seen.append(self.names)
            return values[:, 0]

    monkeypatch.setattr(ranker, "fit_trees", lambda some: Remembers({one.name for one in some}))
    made = examples(11)
    scores = held_out_scores(made, division=1)
    assert all((score == one.values[:, 0]).all() for score, one in zip(scores, made, strict=True))
    order = [i for _, held in folds(made, 1) for i in held]
    assert all(made[i].name not in names for i, names in zip(order, seen, strict=True))


def states_of(made: list[Example], direction: Any, share: float) -> list[Array]:
    """Scores of trees, and labels that are `share` of them and the direction's part of the states."""
    random, scores = np.random.default_rng(5), []
    for one in made:
        assert one.states is not None
        scores.append(random.normal(size=len(one.values)).astype(np.float32))
        one.labels = (share * scores[-1] + one.states @ direction).astype(np.float32)
    return scores


def test_a_planted_direction_is_recovered(tmp_path: Path) -> None:
    made = examples(300, 60)
    direction = np.array([1, -1, 0, 0, 0.5, 0, 0, 0], np.float32)
    scores = states_of(made, direction, 0.7)
    save_states(fit_states(made, scores, 2), tmp_path / "states.npz")
    weights = StateWeights.load(tmp_path / "states.npz")
    found = weights.weights
    assert found @ direction / np.linalg.norm(found) / np.linalg.norm(direction) > 0.99
    assert 0.5 < weights.trees < 0.9
    assert weights.layer == 2
    assert abs(weights.bias) < 0.1


def test_a_long_document_counts_no_more_than_a_short_one() -> None:
    """Half of the documents say one thing, half the contrary, with ten times as many sentences."""
    short, long = [planted(seed, 40) for seed in range(60)], [planted(seed, 400) for seed in range(60, 120)]
    direction = np.eye(HIDDEN, dtype=np.float32)[0]
    scores = [*states_of(short, direction, 0), *states_of(long, -direction, 0)]
    weights = fit_states([*short, *long], scores, 1)
    assert abs(weights.weights[0]) < 0.15
    for one in short:
        one.weight = 5.0
    assert fit_states([*short, *long], scores, 1).weights[0] > 0.2


def test_a_source_of_many_documents_counts_no_more_than_one_of_few() -> None:
    many, few = [planted(seed) for seed in range(90)], [planted(seed) for seed in range(90, 120)]
    direction = np.eye(HIDDEN, dtype=np.float32)[0]
    scores = [*states_of(many, direction, 0), *states_of(few, -direction, 0)]
    by_document = fit_states([*many, *few], scores, 1).weights[0]
    assert by_document > 0.03
    for one in few:
        one.source = "another"
    assert abs(fit_states([*many, *few], scores, 1).weights[0]) < by_document / 3


def test_documents_that_say_nothing_about_ranking_are_left_out() -> None:
    made = examples(40)
    few = planted(99)
    few.usable[:] = False
    few.usable[:4] = True
    few.labels[:] = 1e6
    direction = np.eye(HIDDEN, dtype=np.float32)[0]
    scores = states_of(made, direction, 0)
    alone = fit_states(made, scores, 1)
    both = fit_states([*made, few], [*scores, few.values[:, 0]], 1)
    assert (alone.weights == both.weights).all()
