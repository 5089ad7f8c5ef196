"""`train-draft` from end to end: the target's answers, the draft's vocabulary, training, and the head on disk.

All state is in one working directory, so that a killed run resumes: answers line by line, the chosen vocabulary, the
trainer's checkpoint every half minute.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import torch
from safetensors.torch import load_file, save

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import InputError, ModelError, UsageError
from specextend_cli.models.block_heads import default_block_layers, save_block_head
from specextend_cli.models.heads import default_layers, load_head, save_head
from specextend_cli.models.ngram_table import FILE, table_file
from specextend_cli.train.answer_archive import load_answers, save_answers
from specextend_cli.train.answers import Answerer, unanswered
from specextend_cli.train.card import Facts, Figures, write_card
from specextend_cli.train.config import Distillation
from specextend_cli.train.data_mix import held_out_copies, sample_prompts, training_mix
from specextend_cli.train.events import Answering, Done, Observing, TrainEvent, Validated, VocabularyChosen
from specextend_cli.train.init_block import check_source, copy_eagle, init_block
from specextend_cli.train.init_head import head_sizes, init_head
from specextend_cli.train.measure import HeldOut, fitting
from specextend_cli.train.samples import Frame, digest
from specextend_cli.train.storage import StateFiles, add_answers, add_lines, read_answers, read_lines, replace_whole
from specextend_cli.train.target_logits import TargetReader, state_layers
from specextend_cli.train.trainer import train
from specextend_cli.train.vocabulary import count, coverage, draft_vocabulary, unused_token

_STATES = 3  # of the target, that a new block head reads
_STATE_BYTES = 8 << 30  # of the target's hidden states on disk; others are recomputed whenever they are needed
_OBSERVED = 96  # answers that show what the EAGLE head computes from which a block head begins


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

    InputError: too few or too short documents. UsageError: `directory` holds another run.
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
    initial, is_block = _initial_head(plan, lm), plan.architecture == "dflash"
    layers = default_block_layers(lm.layers, _STATES) if is_block else default_layers(lm.layers)
    layers = initial.config.feature_layers if initial else layers
    _check_same_run(work, lm, documents, frame, plan, layers)
    seed = plan.schedule.seed
    held = max(len(long_enough) // 20, 1)
    training_documents, held_documents = long_enough[held:], long_enough[:held]
    answers_file, held_out_file = work / "answers.jsonl", work / "held_out.jsonl"
    vocabulary_file = work / "vocabulary.safetensors"
    states = StateFiles(work / "states", limit=_STATE_BYTES)
    if not vocabulary_file.exists():
        answerer = Answerer(lm, plan.asking, ends, state_layers(layers, lm), states)
        prompts = sample_prompts(held_documents, frame, plan, max(plan.held_out // plan.asking.copies, 1), seed + 1)
        spent = yield from _answers(answerer, prompts, held_out_file, seconds=None)
        if plan.archive is not None and plan.archive.exists():
            if not read_answers(answers_file):
                known = load_answers(plan.archive, documents, frame, lm.vocabulary, without=held_documents)
                add_answers(answers_file, known)
        else:
            left = plan.answering * plan.schedule.seconds - spent
            prompts = sample_prompts(training_documents, frame, plan, plan.answers // plan.asking.copies, seed + 2)
            yield from _answers(answerer, prompts, answers_file, seconds=left)
            if plan.archive is not None:
                save_answers(plan.archive, read_answers(answers_file), documents, frame)
        answers = read_answers(answers_file)
        chosen = (
            initial.vocabulary.cpu()
            if initial
            else draft_vocabulary(lm.vocabulary, answers, training_documents, plan.vocabulary, ends)
        )
        mask = unused_token(lm.vocabulary, [*documents, *(sample.tokens for sample in answers)], ends)
        replace_whole(vocabulary_file, save({"vocabulary": chosen, "mask": torch.tensor(mask)}))
    kept = load_file(vocabulary_file)
    vocabulary = kept["vocabulary"]
    answers, held_out = read_answers(answers_file), read_answers(held_out_file)
    replace_whole(directory / FILE, table_file((answer.tokens, answer.output or 0) for answer in answers))
    answer_coverage = coverage(vocabulary, count((s.tokens[s.start + 2 :] for s in held_out), lm.vocabulary))
    text_coverage = coverage(vocabulary, count(held_documents, lm.vocabulary))
    yield VocabularyChosen(len(vocabulary), answer_coverage, text_coverage)

    torch.manual_seed(seed)  # some weights start random
    checkpoint = work / "checkpoint.pt"
    longest = max(plan.lengths) + max(plan.asking.new_tokens, plan.quoted)
    if is_block:
        sizes = head_sizes(lm, vocabulary, layers, max_position=longest)
        if initial:
            sizes = replace(sizes, intermediate=initial.config.intermediate)
        block = init_block(lm, sizes, plan.schedule.unroll, plan.block_layers, int(kept["mask"]), vocabulary)
        if initial and not checkpoint.exists():
            shown = fitting(answers, plan.schedule.unroll)[:_OBSERVED]
            reader = TargetReader(lm, layers, states)
            for number, sample in enumerate(shown, 1):
                reader.states(sample)  # kept on disk
                yield Observing(number, len(shown))
            copy_eagle(block, initial, reader, shown)
        head: EagleHead | BlockHead = block
    else:
        head = initial or init_head(lm, vocabulary, layers, max_position=longest)
    kinds = training_mix(answers, training_documents, frame, plan, states)
    measured = HeldOut(held_out, held_out_copies(held_documents, frame, plan), plan.quotes)
    text_tokens = sum(map(len, training_documents))
    figures = Figures(
        "DFlash" if is_block else head.config.name, len(vocabulary), answer_coverage, len(answers), text_tokens
    )
    curve = work / "curve.jsonl"
    read_lines(curve)  # drops a line that a killed run left incomplete
    share = 1 - plan.answering if _clock(answers_file).exists() else 1.0
    schedule = replace(plan.schedule, seconds=share * plan.schedule.seconds)
    for event in train(
        lm, head, kinds, measured, schedule, checkpoint, states, plan.asking.sampling, measure_first=initial is not None
    ):
        if isinstance(event, Validated):
            record = {"step": event.step, "seconds": event.seconds, "accepted": event.accepted}
            add_lines(curve, [{**record, "quoted": event.quoted, "agreement": event.agreement, "best": event.best}])
        if isinstance(event, Done) or (isinstance(event, Validated) and event.best):
            # The best head is on disk from the first validation on.
            if isinstance(head, BlockHead):
                save_block_head(head, directory, dtype=torch.bfloat16)
            else:
                save_head(head, directory, target_layers=lm.layers, dtype=torch.bfloat16)
            write_card(directory, facts, plan, figures, curve)
        if isinstance(event, Done):
            states.remove()  # gigabytes; a run that is given more time recomputes them
        yield event


def _check_same_run(
    work: Path,
    lm: LanguageModel,
    documents: Sequence[Sequence[int]],
    frame: Frame,
    plan: Distillation,
    layers: Sequence[int],
) -> None:
    """Write a hash of what makes the run into `work`; UsageError where an earlier run there has another one.

    State of different runs, mixed, would train without an error and draft badly. Time and steps are not in it: a run
    may be given more of them. The unroll is, because measurements of chains of two depths do not compare.
    """
    target = [type(lm.model).__name__, lm.vocabulary, int(lm.config.hidden_size), lm.layers, str(lm.dtype), *layers]
    asked: list[object] = [frame.before, frame.after, plan.lengths, plan.vocabulary, plan.schedule.unroll]
    if plan.architecture != "eagle3":
        asked += [plan.architecture, plan.block_layers]
    files = sorted(plan.init.iterdir()) if plan.init else []
    begun = [sha256(file.read_bytes()).hexdigest() for file in files if file.suffix in (".safetensors", ".bin")]
    now = sha256(json.dumps([target, digest(documents).hex(), asked, begun]).encode()).hexdigest()
    path = work / "run.sha256"
    if path.exists() and path.read_text(errors="replace") != now:
        raise UsageError(
            f"{work.parent} holds the training of another head",
            why="its target, documents, prompt, --lengths, --vocabulary, --unroll or --init were others",
            fix=f"another -o DIR, or remove {work}",
        )
    replace_whole(path, now)


def _initial_head(plan: Distillation, lm: LanguageModel) -> EagleHead | None:
    """The head to begin from, if the plan has one. ModelError: it is of another target, or no EAGLE-3 head."""
    directory = plan.init
    if directory is None:
        return None
    # A copy, because a loaded head may share modules with the target.
    head = deepcopy(load_head(directory, lm).head).float()
    if head.config.generation != 3:
        raise ModelError(
            f"{directory} holds no EAGLE-3 head", why="other heads are not trained here", fix="leave it out"
        )
    embedding = lm.model.get_input_embeddings().weight
    can_write = not head.config.sliding_window and (head.config.fc_norm or not head.config.feeds_normed)
    if not can_write or not torch.equal(head.embedding.weight.to(embedding), embedding):
        raise ModelError(
            f"the head in {directory} cannot be trained further",
            why="it has an embedding of its own, a sliding window, or fed back normed states without fc_norm, which "
            "are not written here",
            fix="leave it out, or begin from a head that train-draft made",
        )
    if plan.architecture == "dflash":
        check_source(head)
    head.requires_grad_(True).embedding.requires_grad_(False)
    return head


def _answers(
    answerer: Answerer, prompts: list[list[int]], path: Path, *, seconds: float | None
) -> Generator[TrainEvent, None, float]:
    """Add answers to the file for so many `seconds`, or, without a limit, to every prompt; at least one.

    Returns the seconds spent, interrupted runs included.
    """
    known, clock = read_answers(path), _clock(path)
    spent = float(clock.read_text()) if clock.exists() else 0.0
    total = answerer.asking.copies * len(prompts)
    done, tokens = len(known), sum(sample.rows for sample in known)
    began = perf_counter()
    yield Answering(done, total, tokens, spent)
    if done and seconds is not None and spent >= seconds:
        return spent
    now = spent
    for sample in answerer.answers(unanswered(prompts, known)):
        add_answers(path, [sample])
        done += 1
        tokens += sample.rows
        now = spent + perf_counter() - began
        replace_whole(clock, f"{now:.1f}")
        yield Answering(done, total, tokens, now)
        if seconds is not None and now >= seconds:
            break
    return now


def _clock(answers: Path) -> Path:
    """The file of the seconds that were spent on these answers."""
    return answers.with_suffix(".seconds")
