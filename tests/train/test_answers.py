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
from specextend_cli.train.storage import AnswerFile, StateFile
from specextend_cli.train.target_logits import penalized, read_states
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
    file = StateFile(tmp_path / "states.bin", 3 * 64, torch.float32, limit=1 << 20)
    asking = replace(GREEDY, copies=2, new_tokens=9)
    samples = list(Answerer(lm, asking, [], (1, 2, 3), file).answers([prompt(40), prompt(31)]))
    assert len(samples) == 4
    assert file.rows == 40 + 31 + 4 * 8  # a prompt's states are kept once
    for sample in samples:
        kept = file.read(sample.states)
        torch.testing.assert_close(kept, read_states(lm, torch.tensor(sample.tokens), (1, 2)), atol=1e-4, rtol=1e-4)


def test_states_that_are_gone_are_not_sought_among_others(tmp_path: Path) -> None:
    """A finished run removes them; the next one keeps others in their place."""
    states = StateFile(tmp_path / "states.bin", 2, torch.float32, limit=1000)
    answers = AnswerFile(tmp_path / "answers.jsonl")
    answers.append([Sample([1, 2, 3], 0, ((0, 2), (2, 1)), output=2), Sample([1, 2, 4], 0, ((0, 2), (3, 1)), output=2)])
    states.append(torch.zeros(3, 2))
    answers.drop_missing_states(states)
    assert [sample.states for sample in answers.read()] == [((0, 2), (2, 1)), ()]
    states.remove()
    answers.drop_missing_states(states)
    states.append(torch.ones(9, 2))
    assert [sample.states for sample in answers.read()] == [(), ()]
    assert [sample.tokens for sample in answers.read()] == [[1, 2, 3], [1, 2, 4]]


def test_a_full_file_takes_no_more(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    file = StateFile(tmp_path / "states.bin", 2 * 64, torch.float32, limit=50 * 2 * 64 * 4)
    samples = list(Answerer(lm, GREEDY, [], (1, 3), file).answers([prompt(40), prompt(40, seed=1)]))
    assert sorted(bool(sample.states) for sample in samples) == [False, True]
    assert file.rows == 45


def test_a_torn_row_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "states.bin"
    states = torch.randn(5, 8).bfloat16()
    assert StateFile(path, 8, torch.bfloat16, limit=1000).append(states) == (0, 5)
    with path.open("ab") as raw:
        raw.write(b"torn")
    file = StateFile(path, 8, torch.bfloat16, limit=1000)
    assert file.append(states[:2]) == (5, 2)
    assert torch.equal(file.read([(3, 3), (0, 1)]), states[[3, 4, 0, 0]])


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


def test_states_of_a_text_are_found_again_by_its_tokens(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "states.bin", 2, torch.float32, limit=2 * 4 * 5)
    first = torch.arange(6.0).view(3, 2)
    file.keep([7, 8, 9], first)
    file.keep([7, 8, 9, 9, 9], torch.zeros(5, 2))  # no room
    file.keep([5, 5], torch.ones(2, 2))
    again = StateFile(tmp_path / "states.bin", 2, torch.float32, limit=0)
    found = again.find([7, 8, 9])
    assert found == (0, 3)
    assert torch.equal(again.read([found]), first)
    assert again.find([5, 5]) == (3, 2)
    assert again.find([7, 8, 9, 9, 9]) is again.find([7, 8]) is None
    with (tmp_path / "states.bin").open("ab") as raw:
        raw.truncate(2 * 4 * 4)  # what a kill left of the second
    again = StateFile(tmp_path / "states.bin", 2, torch.float32, limit=1000)
    again.keep([1, 2], first[:2])
    again = StateFile(tmp_path / "states.bin", 2, torch.float32, limit=0)
    assert again.find([5, 5]) is None
    assert again.find([1, 2]) == (4, 2)
