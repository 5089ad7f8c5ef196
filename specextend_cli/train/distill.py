"""The whole of `train-draft`: the target's answers, the draft's vocabulary, training, and the head on disk.

Everything lies in one working directory, so that a killed run goes on where it was: answers line by line, the
vocabulary once chosen, the trainer's checkpoint every half minute.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import InputError, ModelError
from specextend_cli.models.head_config import default_layers
from specextend_cli.models.heads import load_head, save_head
from specextend_cli.train.answers import AnswerFile, Asking, answer, unanswered
from specextend_cli.train.card import Facts, Figures, write_card
from specextend_cli.train.data_mix import held_excerpts, held_quotes, kinds_of, prompts_of
from specextend_cli.train.events import Answering, Done, TrainEvent, Validated, VocabularyChosen
from specextend_cli.train.files import add_lines, read_lines, replace_whole
from specextend_cli.train.hidden_states import StateFile
from specextend_cli.train.init_copy_head import init_copy_head
from specextend_cli.train.init_head import init_head
from specextend_cli.train.measure import HeldOut
from specextend_cli.train.run_fingerprint import claim
from specextend_cli.train.samples import Frame, Sample
from specextend_cli.train.target_logits import read_states, state_layers
from specextend_cli.train.trainer import Schedule, train
from specextend_cli.train.vocabulary import choose, count, coverage

_WIRED_ON = 8  # documents whose beginnings, of 512 tokens each, tell what the target's states look like
_ANSWER_WEIGHT = 20  # how much more an answer's token counts for the vocabulary than a document's


@dataclass(frozen=True)
class Distillation:
    """What to make, of what, in how much time.

    `schedule.seconds` is the whole time; `answering` is the share of it spent on the target's answers, `answers` at
    most, besides `held_out` that are never trained on. `text` is the share of samples that are plain document text,
    `quotes` that of `quotations` different answers of `quoted` tokens quoted from excerpts, which the target has to
    read; `lengths` are the tokens of the excerpts asked about. With `init`, training goes on from the head in that
    directory, whose vocabulary and layers are kept. At most `kept_bytes` of the target's states are kept on disk while
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
    quotes: float = 0.3
    quotations: int = 512
    quoted: int = 384
    feature_layers: tuple[int, ...] | None = None
    init: Path | None = None
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
    begun = _begun(plan.init, lm) if plan.init else None
    layers = begun.config.feature_layers if begun else plan.feature_layers or default_layers(lm.layers)
    claim(work, lm, documents, frame, plan, layers)
    seed = plan.schedule.seed
    held = max(len(long_enough) // 20, 1)
    learnt, kept = long_enough[held:], long_enough[:held]
    file, held_file = AnswerFile(work / "answers.jsonl"), AnswerFile(work / "held_out.jsonl")
    chosen_file = work / "vocabulary.safetensors"
    reading = state_layers(layers, lm)
    states = StateFile(work / "states.bin", len(reading) * lm.config.hidden_size, lm.dtype, limit=plan.kept_bytes)
    for known in (held_file, file):
        known.forget_lost(states)
    if not chosen_file.exists():
        asked = prompts_of(kept, frame, plan, max(plan.held_out // plan.asking.copies, 1), seed + 1)
        spent = yield from _answers(lm, asked, held_file, plan, ends, reading, states, seconds=None)
        left = plan.answering * plan.schedule.seconds - spent
        asked = prompts_of(learnt, frame, plan, plan.answers // plan.asking.copies, seed + 2)
        yield from _answers(lm, asked, file, plan, ends, reading, states, seconds=left)
        chosen = begun.vocabulary.cpu() if begun else _vocabulary(lm, file.read(), learnt, plan, ends)
        replace_whole(chosen_file, save({"vocabulary": chosen}))
    vocabulary = load_file(chosen_file)["vocabulary"]
    answers, held_out = file.read(), held_file.read()
    covered = coverage(vocabulary, count((s.tokens[s.start + 2 :] for s in held_out), lm.vocabulary))
    covered_text = coverage(vocabulary, count(kept, lm.vocabulary))
    yield VocabularyChosen(len(vocabulary), covered, covered_text)

    torch.manual_seed(seed)  # of the weights that start as noise
    head = begun
    if head is None:
        longest = max(plan.lengths) + max(plan.asking.new_tokens, plan.quoted)
        head = init_head(lm, vocabulary, layers, max_position=longest)
        tokens = torch.tensor([token for document in learnt[:_WIRED_ON] for token in document[:512]])
        features = read_states(lm, tokens.to(lm.device), layers)[:, : -lm.config.hidden_size]
        init_copy_head(head, tokens, features.float().cpu())
    kinds = kinds_of(answers, learnt, frame, plan)
    measured_on = "answers"
    if not any(sample.rows >= plan.schedule.unroll for sample in held_out):
        # A target that answers in a word or two: plain text tells more than no measurement.
        held_out, measured_on = held_excerpts(kept, plan), "excerpts of documents"
    measured = HeldOut(held_out, held_quotes(kept, frame, plan), plan.quotes)
    figures = Figures(len(vocabulary), covered, len(answers), sum(map(len, learnt)), measured_on)
    curve = work / "curve.jsonl"
    read_lines(curve)  # drops what a killed run left half written
    schedule = replace(plan.schedule, seconds=(1 - plan.answering) * plan.schedule.seconds)
    for event in train(lm, head, kinds, measured, schedule, work / "checkpoint.pt", states, plan.asking.sampling):
        if isinstance(event, Validated):
            record = {"step": event.step, "seconds": event.seconds, "accepted": event.accepted}
            add_lines(curve, [{**record, "quoted": event.quoted, "agreement": event.agreement, "best": event.best}])
        if isinstance(event, Done) or (isinstance(event, Validated) and event.best):
            # A head is on disk from the first validation on.
            save_head(head, directory, target_layers=lm.layers, dtype=torch.bfloat16)
            write_card(directory, facts, plan, figures, curve)
        if isinstance(event, Done):
            states.remove()  # gigabytes; a run that is given more time computes them again
        yield event


def _begun(directory: Path, lm: LanguageModel) -> EagleHead:
    """The head in `directory`, to be trained further; ModelError for one of another target, or no EAGLE-3 head."""
    # A copy: parts of a loaded head may be the target's own.
    head = deepcopy(load_head(directory, lm).head).float()
    if head.config.generation != 3:
        raise ModelError(
            f"{directory} holds no EAGLE-3 head", why="other heads are not trained here", fix="leave it out"
        )
    embedding = lm.model.get_input_embeddings().weight
    if head.config.feeds_normed or not torch.equal(head.embedding.weight.to(embedding), embedding):
        raise ModelError(
            f"the head in {directory} cannot be trained further",
            why="it has an embedding of its own, or feeds itself its normed states, which are not written here",
            fix="leave it out, or begin from a head that train-draft made",
        )
    head.requires_grad_(True).embedding.requires_grad_(False)
    return head


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
