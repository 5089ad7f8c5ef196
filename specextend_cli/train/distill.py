"""The whole of `train-draft`: the target's answers, the draft's vocabulary, training, and the head on disk.

Everything lies in one working directory, so that a killed run goes on where it was: answers line by line, the
vocabulary once chosen, the trainer's checkpoint at every validation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import InputError
from specextend_cli.models.head_config import default_layers
from specextend_cli.models.heads import save_head
from specextend_cli.train.answers import AnswerFile, Asking, answer, unanswered
from specextend_cli.train.card import Facts, Figures, write_card
from specextend_cli.train.events import Answering, Done, TrainEvent, Validated, VocabularyChosen
from specextend_cli.train.files import add_lines, read_lines, replace_whole
from specextend_cli.train.identity import claim
from specextend_cli.train.newborn import newborn
from specextend_cli.train.samples import Frame, Sample, cut
from specextend_cli.train.states import StateFile
from specextend_cli.train.trainer import Schedule, state_layers, train
from specextend_cli.train.vocabulary import choose, count, coverage

_ANSWER_WEIGHT = 20  # how much more an answer's token counts for the vocabulary than a document's


@dataclass(frozen=True)
class Distillation:
    """What to make, of what, in how much time.

    `schedule.seconds` is the whole time; `answering` is the share of it spent on the target's answers, `answers` at
    most, besides `held_out` that are never trained on. `text` is the share of samples that are plain document text,
    `lengths` the tokens of the excerpts asked about. At most `kept_bytes` of the target's states are kept on disk while
    training goes on; what is not kept is computed again each time it is learnt from.
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
    kept_bytes: int = 8 << 30


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

    InputError: too few or too short documents. UsageError: `directory` holds another run (see `identity`).
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
    layers = plan.feature_layers or default_layers(lm.layers)
    claim(work, lm, documents, frame, plan, layers)
    seed = plan.schedule.seed
    held = max(len(long_enough) // 20, 1)
    learnt, kept = long_enough[held:], long_enough[:held]
    file, held_file = AnswerFile(work / "answers.jsonl"), AnswerFile(work / "held_out.jsonl")
    chosen_file = work / "vocabulary.safetensors"
    reading = state_layers(layers, lm)
    states = StateFile(work / "states.bin", len(reading) * lm.config.hidden_size, lm.dtype, limit=plan.kept_bytes)
    if not chosen_file.exists():
        asked = _prompts(kept, frame, plan, max(plan.held_out // plan.asking.copies, 1), seed + 1)
        spent = yield from _answers(lm, asked, held_file, plan, ends, reading, states, seconds=None)
        left = plan.answering * plan.schedule.seconds - spent
        asked = _prompts(learnt, frame, plan, plan.answers // plan.asking.copies, seed + 2)
        yield from _answers(lm, asked, file, plan, ends, reading, states, seconds=left)
        replace_whole(chosen_file, save({"vocabulary": _vocabulary(lm, file.read(), learnt, plan, ends)}))
    vocabulary = load_file(chosen_file)["vocabulary"]
    answers, held_out = file.read(), held_file.read()
    covered = coverage(vocabulary, count((s.tokens[s.start + 2 :] for s in held_out), lm.vocabulary))
    covered_text = coverage(vocabulary, count(kept, lm.vocabulary))
    yield VocabularyChosen(len(vocabulary), covered, covered_text)

    torch.manual_seed(seed)  # of the weights that start as noise
    head = newborn(lm, vocabulary, layers, max_position=max(plan.lengths) + plan.asking.new_tokens)
    samples = _samples(answers, learnt, plan)
    measured_on = "answers"
    if not any(sample.rows >= plan.schedule.unroll for sample in held_out):
        # A target that answers in a word or two: plain text tells more than no measurement.
        held_out, measured_on = _held_excerpts(kept, plan), "excerpts of documents"
    figures = Figures(len(vocabulary), covered, len(answers), sum(map(len, learnt)), measured_on)
    curve = work / "curve.jsonl"
    read_lines(curve)  # drops what a killed run left half written
    schedule = replace(plan.schedule, seconds=(1 - plan.answering) * plan.schedule.seconds)
    for event in train(lm, head, samples, held_out, schedule, work / "checkpoint.pt", states, plan.asking.sampling):
        if isinstance(event, Validated):
            record = {"step": event.step, "seconds": event.seconds, "accepted": event.accepted}
            add_lines(curve, [{**record, "agreement": event.agreement}])
        if isinstance(event, Done) or (isinstance(event, Validated) and event.best):
            # A head is on disk from the first validation on.
            save_head(head, directory, target_layers=lm.layers, dtype=torch.bfloat16)
            write_card(directory, facts, plan, figures, curve)
        if isinstance(event, Done):
            states.remove()  # gigabytes; a run that is given more time computes them again
        yield event


def _samples(answers: Sequence[Sample], documents: Sequence[Sequence[int]], plan: Distillation) -> list[Sample]:
    """Answers, and as much plain text beside them as the plan wants; at a share of 1, text in their place.

    Plain text is, first of all, that of the prompts: what the target thought of it is known already.
    """
    seed = plan.schedule.seed + 3
    only_text = plan.text >= 1
    plain = len(answers) if only_text else round(len(answers) * plan.text / (1 - plan.text))
    prompts = [_prompt(sample) for sample in answers if sample.states]
    read = random.Random(seed).sample(prompts, min(plain, len(prompts)))
    excerpts = [Sample(tokens, 0) for tokens in cut(documents, plan.lengths, plain - len(read), seed)]
    return [*read, *excerpts] if only_text else [*answers, *read, *excerpts]


def _prompt(answer: Sample) -> Sample:
    """What an answer answers, as text to learn from."""
    return Sample(answer.tokens[: answer.start + 2], 0, answer.states[:1])


def _held_excerpts(documents: Sequence[Sequence[int]], plan: Distillation) -> list[Sample]:
    """Plain text that is never trained on, no more rows of each than training reads."""
    excerpts = cut(documents, plan.lengths, plan.held_out, plan.schedule.seed + 4)
    return [Sample(tokens, max(len(tokens) - 1 - plan.schedule.rows, 0)) for tokens in excerpts]


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
    reading: Sequence[int],
    states: StateFile,
    seconds: float | None,
) -> Generator[TrainEvent, None, float]:
    """Ask until the time is over, or, without a limit, until every prompt is answered; one answer at least.

    Returns the seconds spent, those of interrupted runs included.
    """
    known = file.read()
    clock = file.path.with_suffix(".seconds")
    spent = _seconds(clock)
    total = plan.asking.copies * len(prompts)
    done, tokens = len(known), sum(len(s.tokens) - s.start - 1 for s in known)
    began = perf_counter()
    yield Answering(done, total, tokens, spent)
    if done and seconds is not None and spent >= seconds:
        return spent
    now = spent
    for sample in answer(lm, unanswered(prompts, known), plan.asking, ends, reading, states):
        file.append([sample])
        done += 1
        tokens += len(sample.tokens) - sample.start - 1
        now = spent + perf_counter() - began
        replace_whole(clock, f"{now:.1f}")
        yield Answering(done, total, tokens, now)
        if seconds is not None and now >= seconds:
            break
    return now


def _seconds(clock: Path) -> float:
    """What a clock's file says; one that is not there or unreadable counts as 0."""
    try:
        seconds = float(clock.read_text())
    except (OSError, ValueError):
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0


def _vocabulary(
    lm: LanguageModel,
    answers: Sequence[Sample],
    documents: Sequence[Sequence[int]],
    plan: Distillation,
    ends: Sequence[int],
) -> Tensor:
    written = count((s.tokens[s.start + 2 :] for s in answers), lm.vocabulary)
    return choose(_ANSWER_WEIGHT * written + count(documents, lm.vocabulary), plan.vocabulary, always=ends)
