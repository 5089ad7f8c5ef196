"""The whole of `train-draft`: the target's answers, the draft's vocabulary, training, and the head on disk.

Everything lies in one working directory, so that a killed run goes on where it was: answers line by line, the
vocabulary once chosen, the trainer's checkpoint at every validation.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import InputError
from specextend_cli.models.heads import default_layers, save_head
from specextend_cli.train.answers import AnswerFile, Asking, answer
from specextend_cli.train.card import Facts, write_card
from specextend_cli.train.events import Answering, Done, TrainEvent, Validated, VocabularyChosen
from specextend_cli.train.newborn import newborn
from specextend_cli.train.samples import Frame, Sample, cut
from specextend_cli.train.trainer import Schedule, train
from specextend_cli.train.vocabulary import choose, count, coverage

_ANSWER_WEIGHT = 20  # how much more an answer's token counts for the vocabulary than a document's


@dataclass(frozen=True)
class Distillation:
    """What to make, of what, in how much time.

    `schedule.seconds` is the whole time; `answering` is the share of it spent on the target's answers, `answers` at
    most, besides `held_out` that are never trained on. `text` is the share of samples that are plain document text,
    `lengths` the tokens of the excerpts asked about.
    """

    schedule: Schedule
    asking: Asking = field(default_factory=Asking)
    vocabulary: int = 16384
    lengths: tuple[int, ...] = (512, 1024, 2048)
    answering: float = 0.4
    answers: int = 100_000
    held_out: int = 16
    text: float = 0.25
    feature_layers: tuple[int, ...] | None = None


def distill(
    lm: LanguageModel,
    documents: Sequence[Sequence[int]],
    frame: Frame,
    ends: Sequence[int],
    plan: Distillation,
    directory: Path,
    facts: Facts,
) -> Iterator[TrainEvent]:
    """Train a head for `lm` on tokenized `documents`; it ends in `directory` as config.json and model.safetensors.

    InputError: too few or too short documents.
    """
    directory.mkdir(parents=True, exist_ok=True)
    work = directory / "training"
    work.mkdir(exist_ok=True)
    long_enough = [document for document in documents if len(document) >= min(plan.lengths)]
    if len(long_enough) < 2:
        raise InputError(
            f"{len(long_enough)} of {len(documents)} documents have at least {min(plan.lengths)} tokens",
            why="one is kept for validation, the others are trained on",
            fix="give more or longer documents",
        )
    held = max(len(long_enough) // 20, 1)
    learnt, kept = long_enough[held:], long_enough[:held]
    file, held_file = AnswerFile(work / "answers.jsonl"), AnswerFile(work / "held_out.jsonl")
    chosen_file = work / "vocabulary.safetensors"
    if not chosen_file.exists():
        asked = _prompts(kept, frame, plan, plan.held_out, seed=1)
        spent = yield from _answers(lm, asked, held_file, plan, ends, seconds=None)
        left = plan.answering * plan.schedule.seconds - spent
        yield from _answers(lm, _prompts(learnt, frame, plan, plan.answers, seed=2), file, plan, ends, seconds=left)
        save_file({"vocabulary": _vocabulary(lm, file.read(), learnt, plan, ends)}, chosen_file)
    vocabulary = load_file(chosen_file)["vocabulary"]
    answers, held_out = file.read(), held_file.read()
    covered = coverage(vocabulary, count((s.tokens[s.start + 2 :] for s in held_out), lm.vocabulary))
    covered_text = coverage(vocabulary, count(kept, lm.vocabulary))
    yield VocabularyChosen(len(vocabulary), covered, covered_text)

    layers = plan.feature_layers or default_layers(lm.layers)
    head = newborn(lm, vocabulary, layers, max_position=max(plan.lengths) + plan.asking.new_tokens)
    plain = round(len(answers) * plan.text / (1 - plan.text))
    excerpts = [Sample(tokens, 0) for tokens in cut(learnt, plan.lengths, plain, seed=3)]
    schedule = replace(plan.schedule, seconds=(1 - plan.answering) * plan.schedule.seconds)
    for event in train(lm, head, [*answers, *excerpts], held_out, schedule, work / "checkpoint.pt"):
        if isinstance(event, Validated):
            with (work / "curve.jsonl").open("a", encoding="utf-8") as lines:
                record = {"step": event.step, "seconds": event.seconds, "accepted": event.accepted}
                lines.write(json.dumps({**record, "agreement": event.agreement}) + "\n")
        if isinstance(event, Done) or (isinstance(event, Validated) and event.best):
            # A head is on disk from the first validation on.
            save_head(head, directory, dtype=torch.bfloat16)
            write_card(directory, facts, plan, work / "curve.jsonl", covered, len(answers), sum(map(len, learnt)))
        yield event


def _prompts(
    documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation, number: int, seed: int
) -> list[list[int]]:
    """Prompts in batches of one length, so that a batch needs no padding."""
    prompts: list[list[int]] = []
    for at, length in enumerate(plan.lengths):
        share = number // len(plan.lengths) + (at < number % len(plan.lengths))
        fitting = [document for document in documents if len(document) >= length]
        if fitting and share:
            prompts += [frame.around(excerpt) for excerpt in cut(fitting, (length,), min(share, 4096), seed + at)]
    return prompts


def _answers(
    lm: LanguageModel,
    prompts: list[list[int]],
    file: AnswerFile,
    plan: Distillation,
    ends: Sequence[int],
    seconds: float | None,
) -> Generator[TrainEvent, None, float]:
    """Ask until the time is over, or, without a limit, until every prompt has an answer; one batch at least.

    Returns the seconds spent, those of interrupted runs included.
    """
    known = file.read()
    clock = file.path.with_suffix(".seconds")
    spent = float(clock.read_text()) if clock.exists() else 0.0
    done, tokens = len(known), sum(len(s.tokens) - s.start - 2 for s in known)
    began = perf_counter()
    seen = {tuple(s.tokens[: s.start + 2]) for s in known}
    waiting = [prompt for prompt in prompts if tuple(prompt) not in seen]
    yield Answering(done, len(prompts), tokens, spent)
    if done and seconds is not None and spent >= seconds:
        return spent
    now = spent
    for batch in answer(lm, waiting, plan.asking, ends):
        file.append(batch)
        done += len(batch)
        tokens += sum(len(s.tokens) - s.start - 2 for s in batch)
        now = spent + perf_counter() - began
        clock.write_text(f"{now:.1f}")
        yield Answering(done, len(prompts), tokens, now)
        if seconds is not None and now >= seconds:
            break
    return now


def _vocabulary(
    lm: LanguageModel,
    answers: Sequence[Sample],
    documents: Sequence[Sequence[int]],
    plan: Distillation,
    ends: Sequence[int],
) -> Tensor:
    written = count((s.tokens[s.start + 2 :] for s in answers), lm.vocabulary)
    return choose(_ANSWER_WEIGHT * written + count(documents, lm.vocabulary), plan.vocabulary, always=ends)
