"""The training loop: resumable, bounded in time, validated by the estimated accepted length."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.blocks import block_loss, validate_blocks
from specextend_cli.train.config import Schedule
from specextend_cli.train.events import Done, Resumed, Trained, TrainEvent, Validated
from specextend_cli.train.loss import candidates, cross_entropy, draft_targets
from specextend_cli.train.measure import HeldOut, fitting, too_short, validate
from specextend_cli.train.optimizer import Optimizer
from specextend_cli.train.samples import Sample, by_prompt, draws
from specextend_cli.train.storage import StateFiles
from specextend_cli.train.target_logits import TargetReader

_BETWEEN_SAVES = 20  # least time between two checkpoints, in times of writing one
_DECAY = 0.5
"""The probability of each further step of the unroll. In expectation that weighs the depths, and costs less than half
of always taking all."""
_WARMUP = 0.03  # the share of the run over which the rate rises; it falls to zero by a cosine
_BLOCK = 128  # where a block of rows begins is a multiple, so that few sizes of matrices occur


def train(
    lm: LanguageModel,
    head: EagleHead | BlockHead,
    kinds: Sequence[tuple[float, Sequence[Sample]]],
    held: HeldOut,
    schedule: Schedule,
    checkpoint: Path,
    files: StateFiles | None = None,
    sampling: Sampling | None = None,
    *,
    measure_first: bool = False,
) -> Iterator[TrainEvent]:
    """Fit `head` (float32) to the target's distributions; at the end it has its best weights, by the score of `held`.

    `kinds` are samples, each kind with its share of the draws. In answers, the penalties of `sampling` apply to the
    target's logits: even mild ones change one choice of seven. The target's states are read from `files` where they are
    there; else they are computed, and kept. The state of the run is written to `checkpoint`, atomically; a run that
    finds one resumes from it. With `measure_first`, the weights that it begins with may be the best.
    InputError: no sample, or no answer held out, is as long as the unroll.
    """
    groups = [(share, by_prompt(fitting(samples, schedule.unroll), schedule.rows)) for share, samples in kinds]
    if not any(share and some for share, some in groups):
        raise too_short("to train on", schedule.unroll)
    held = replace(held, answers=fitting(held.answers, schedule.unroll), quotes=fitting(held.quotes, schedule.unroll))
    if not held.answers:
        raise too_short("to measure the head on", schedule.unroll)
    target = TargetReader(lm, head.config.feature_layers, files, sampling)
    head.to(lm.device)
    optimizer = Optimizer(head)
    run = _Progress()
    if checkpoint.exists():
        run = replace(_restore(checkpoint, head, optimizer), since_best=0)  # a resumed run gets all its patience again
        yield Resumed(run.step, run.seconds)
    order = random.Random(schedule.seed + run.step)
    groups_drawn = draws(groups, order)
    if measure_first and not run.step:
        yield _validated(target, head, held, schedule, run)
    began, before = perf_counter(), run.seconds
    next_validation, next_save = run.seconds + schedule.validate, run.seconds + schedule.keep
    reason = "finished"
    while (share := _share(run, schedule)) < 1:
        losses = []
        depth = head.config.depth if isinstance(head, BlockHead) else _depth(schedule.unroll, order)
        for _ in range(schedule.batch):
            drawn = next(groups_drawn)
            samples = [_clipped(sample, schedule, order) for sample in drawn]
            states = [target.states(sample) for sample in drawn]
            if isinstance(head, BlockHead):
                loss = block_loss(target, head, samples, states, schedule, order)
            else:
                loss = _loss(target, head, samples, states, depth, schedule)
            (loss / schedule.batch).backward()
            losses.append(float(loss.detach()) / depth)
            run.tokens += sum(len(sample.tokens) for sample in drawn)
        optimizer.step(schedule.rate * _rate(share))
        run.step += 1
        run.seconds = before + perf_counter() - began
        yield Trained(run.step, _share(run, schedule), sum(losses) / len(losses), run.tokens, run.seconds)
        validated = None
        if run.seconds >= next_validation or _share(run, schedule) >= 1:
            validated = _validated(target, head, held, schedule, run)
            run.seconds = before + perf_counter() - began
            next_validation = run.seconds + schedule.validate
        if validated or run.seconds >= next_save:
            _save(checkpoint, head, optimizer, run)
            written, run.seconds = run.seconds, before + perf_counter() - began
            next_save = run.seconds + max(schedule.keep, _BETWEEN_SAVES * (run.seconds - written))
        if validated:
            yield replace(validated, seconds=run.seconds)
            if run.since_best >= schedule.patience:
                reason = "no longer improving"
                break
    if run.best:
        head.load_state_dict(run.best, strict=False)
    yield Done(reason, run.step, run.best_accepted)


@dataclass
class _Progress:
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_score: float = 0.0
    best_accepted: float = 0.0
    since_best: int = 0
    best: dict[str, Tensor] | None = None


def _validated(
    target: TargetReader, head: EagleHead | BlockHead, held: HeldOut, schedule: Schedule, run: _Progress
) -> Validated:
    """Measure the head; `run` keeps the best weights."""

    def measured(samples: Sequence[Sample]) -> tuple[tuple[float, ...], float]:
        if isinstance(head, BlockHead):
            return validate_blocks(target, head, samples)
        return validate(target, head, samples, schedule.unroll)

    agreement, accepted = measured(held.answers)
    quoted = measured(held.quotes)[1] if held.quotes else None
    score = held.score(accepted, quoted)
    best = score > run.best_score
    run.since_best = 0 if best else run.since_best + 1
    if best:
        run.best_score, run.best_accepted = score, accepted
        run.best = {name: tensor.detach().clone() for name, tensor in _own(head).items()}
    return Validated(run.step, agreement, accepted, quoted, run.seconds, best)


def _loss(
    target: TargetReader,
    head: EagleHead,
    samples: Sequence[Sample],
    states: Sequence[Tensor],
    steps: int,
    schedule: Schedule,
) -> Tensor:
    """Cross-entropy to the target's distribution over the draft's vocabulary, summed over the steps."""
    wanted = draft_targets(target.logits(samples, states), head.vocabulary)
    rows, read = target.unroll(head, samples, states, steps)
    chosen = candidates(wanted)
    output = head.lm_head.weight[chosen.tokens]
    with target.precision:
        by_step = [cross_entropy(states, output, chosen.wanted, chosen.weights) for states in read]
    # In step k, rows of a number less than k are void.
    return torch.stack([losses[rows.numbers >= step].mean() for step, losses in enumerate(by_step)]).sum()


def _depth(most: int, order: random.Random) -> int:
    """How many steps to unroll: one, and each further one with probability `_DECAY`."""
    depth = 1
    while depth < most and order.random() < _DECAY:
        depth += 1
    return depth


def _clipped(sample: Sample, schedule: Schedule, order: random.Random) -> Sample:
    """A sample with at most `rows` rows of loss: a random block of a longer one, with everything before it."""
    if sample.rows <= schedule.rows:
        return sample
    start = sample.start + order.randrange(0, sample.rows - schedule.rows + 1, _BLOCK)
    return replace(sample, tokens=sample.tokens[: start + schedule.rows + 1], start=start)


def _share(run: _Progress, schedule: Schedule) -> float:
    """The share of the run that is done."""
    steps = run.step / schedule.steps if schedule.steps else 0.0
    return min(max(run.seconds / schedule.seconds, steps), 1.0)


def _rate(share: float) -> float:
    if share < _WARMUP:
        return (share + 1e-3) / _WARMUP
    return 0.5 * (1 + math.cos(math.pi * min((share - _WARMUP) / (1 - _WARMUP), 1.0)))


def _own(head: EagleHead | BlockHead) -> dict[str, Tensor]:
    """All weights but the embedding, which is the target's."""
    return {name: tensor for name, tensor in head.state_dict().items() if not name.startswith("embedding.")}


def _save(path: Path, head: EagleHead | BlockHead, optimizer: Optimizer, run: _Progress) -> None:
    partial = path.with_name(path.name + ".partial")
    torch.save({"head": _own(head), "optimizer": optimizer.state_dict(), "run": vars(run)}, partial)
    partial.replace(path)


def _restore(path: Path, head: EagleHead | BlockHead, optimizer: Optimizer) -> _Progress:
    state: dict[str, Any] = torch.load(path, map_location=head.fc.weight.device, weights_only=True)
    head.load_state_dict(state["head"], strict=False)
    optimizer.load_state_dict(state["optimizer"])
    return _Progress(**state["run"])
