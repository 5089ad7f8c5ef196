"""What the target is asked is what the engine would ask it, and what it thought meanwhile is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from transformers import GenerationConfig

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.answers import Answerer, unanswered
from specextend_cli.train.config import AnswerOptions
from specextend_cli.train.samples import Sample
from specextend_cli.train.storage import StateFiles
from specextend_cli.train.target_logits import TargetReader, penalized, read_states
from tests.engine.tiny_models import generate, prompt, tiny

GREEDY = AnswerOptions(new_tokens=6, copies=1, sampling=Sampling())


def test_answers_without_an_end_run_to_their_length() -> None:
    (sample,) = Answerer(LanguageModel(tiny()), GREEDY).answers([prompt(40)])
    # The last token is what follows the last row.
    assert sample.tokens == [*prompt(40), *generate(tiny(), prompt(40), 6)[:-1]]
    assert (sample.start, sample.rows) == (38, 6)


def test_settings_that_came_with_the_target_stay_out() -> None:
    wanted = generate(tiny(), prompt(40), 6)
    lm = LanguageModel(tiny())
    lm.model.generation_config = GenerationConfig(min_length=60, repetition_penalty=9.0, eos_token_id=[1])
    (sample,) = Answerer(lm, GREEDY, [wanted[2]]).answers([prompt(40)])
    assert sample.tokens == [*prompt(40), *wanted[: wanted.index(wanted[2])]]


def test_copies_differ_and_are_repeatable() -> None:
    asking = replace(GREEDY, copies=3, new_tokens=12, temperature=1.0)
    lm = LanguageModel(tiny())
    first = list(Answerer(lm, asking).answers([prompt(40), prompt(40, seed=1)]))
    assert len({tuple(sample.tokens) for sample in first}) == 6
    greedy = [*prompt(40), *generate(tiny(), prompt(40), 12)[:-1]]
    assert [sample.tokens for sample in first].count(greedy) == 1
    again = list(Answerer(lm, asking).answers([prompt(40), prompt(40, seed=1)]))
    assert again == first
    other = list(Answerer(lm, replace(asking, seed=1)).answers([prompt(40), prompt(40, seed=1)]))
    assert other != first


def test_states_on_disk_are_those_of_the_answer(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    files = StateFiles(tmp_path / "states", limit=1 << 20)
    asking = replace(GREEDY, copies=2, new_tokens=9)
    samples = list(Answerer(lm, asking, [], (1, 2, 3), files).answers([prompt(40), prompt(31)]))
    assert len(samples) == 4
    assert len(list(files.directory.iterdir())) == 2 + 4  # a prompt's states are kept once
    for sample in samples:
        kept = files.find(sample)
        assert kept is not None
        torch.testing.assert_close(kept, read_states(lm, torch.tensor(sample.tokens), (1, 2)), atol=1e-4, rtol=1e-4)


def test_states_are_read_once_and_found_by_their_tokens(tmp_path: Path) -> None:
    """Of an answer, of its prompt as a text of its own, and of an answer of no tokens, whose prompt is all there is."""
    lm, files = LanguageModel(tiny()), StateFiles(tmp_path / "states", limit=1 << 20)
    answer, prompted = Sample([*prompt(40), 5, 6], 38, output=40), Sample(prompt(40), 0)
    expected = TargetReader(lm, (1, 2)).states(answer)
    target = TargetReader(lm, (1, 2), files)
    assert torch.equal(target.states(answer), expected)
    with (tmp_path / "states" / "half.partial").open("wb") as torn:
        torn.write(b"killed")
    lm.model = None  # nothing is computed again
    again = TargetReader(lm, (1, 2), StateFiles(tmp_path / "states", limit=0))
    assert torch.equal(again.states(answer), expected)
    assert torch.equal(again.states(prompted), expected[:40])
    assert torch.equal(again.states(replace(answer, tokens=prompt(40))), expected[:40])
    assert files.find(Sample([*prompt(40), 5], 38, output=40)) is None


def test_full_files_take_no_more(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    files = StateFiles(tmp_path / "states", limit=50 * 2 * 64 * 4)
    samples = list(Answerer(lm, GREEDY, [], (1, 3), files).answers([prompt(40), prompt(40, seed=1)]))
    assert sorted(files.find(sample) is not None for sample in samples) == [False, True]
    again = StateFiles(tmp_path / "states", limit=files.limit)
    again.keep([1, 2], torch.zeros(6, 2 * 64))
    assert not again.has([1, 2])


def test_little_memory_means_few_at_once() -> None:
    lm = LanguageModel(tiny())
    samples = list(Answerer(lm, replace(GREEDY, copies=3, memory=1)).answers([prompt(40)]))
    assert len(samples) == 3


def test_what_was_answered_is_not_asked_again() -> None:
    known = [Sample([1, 2, 3, 9, 9], 1)]
    assert unanswered([[1, 2, 3], [1, 2]], known) == [[1, 2]]


def test_an_answer_is_learnt_as_it_is_chosen() -> None:
    """The likeliest token of every row, penalties applied, is the answer's own next token."""
    sampling = Sampling(repetition_penalty=1.6, no_repeat_ngram=3)
    lm = LanguageModel(tiny())
    (sample,) = Answerer(lm, replace(GREEDY, new_tokens=24, sampling=sampling)).answers([prompt(40)])
    states = read_states(lm, torch.tensor(sample.tokens), (1,))
    logits = lm.model.get_output_embeddings()(states[sample.start + 1 :, -64:])
    written = sample.tokens[sample.start + 2 :]
    assert penalized(logits, sample, sampling).argmax(-1).tolist()[:-1] == written
    assert logits.argmax(-1).tolist()[:-1] != written
    later = replace(sample, start=sample.start + 7)  # a block of the answer, behind what it does not count
    assert torch.equal(penalized(logits[7:], later, sampling), penalized(logits, sample, sampling)[7:])
