"""The training loop: resumable, within a budget of time, validated by what drafting needs."""

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

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.events import Done, Resumed, Trained, TrainEvent, Validated
from specextend_cli.train.hidden_states import StateFile
from specextend_cli.train.loss import candidates, cross_entropy
from specextend_cli.train.measure import HeldOut, fitting, too_short, validate
from specextend_cli.train.samples import Mixture, Sample
from specextend_cli.train.target_logits import precision, states_of, targets_of, unrolled

_BETWEEN_SAVES = 20  # times what one takes: gigabytes, for a large target's head
_ROWS_AT_ONCE = 64  # of probabilities over the target's whole vocabulary


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. `seconds` and `steps` (0: any number) bound the whole run, with those that it resumes.

    At most `unroll` steps of training-time test, each taken with probability `decay` after the one before: in
    expectation that weighs them, and costs a third less than to take them all. Gradients of `batch` samples make a
    step; the rate rises over `warmup` of the run and falls to a tenth by a cosine. Every `validate` seconds the head is
    measured, and `patience` measurements without a gain end the run; every `keep` seconds the run is kept. At most
    `rows` rows of one sample count in the loss, over `likely` tokens of the draft's vocabulary and a sample of `others`
    (see `loss`).
    """

    seconds: float
    steps: int = 0
    unroll: int = 5
    decay: float = 0.8
    batch: int = 4
    rate: float = 4e-4
    warmup: float = 0.03
    weight_decay: float = 0.01
    validate: float = 120.0
    keep: float = 30.0
    patience: int = 8
    rows: int = 1024
    likely: int = 2048
    others: int = 1024
    seed: int = 0


def train(
    lm: LanguageModel,
    head: EagleHead,
    kinds: Sequence[tuple[float, Sequence[Sample]]],
    held: HeldOut,
    schedule: Schedule,
    checkpoint: Path,
    file: StateFile | None = None,
    sampling: Sampling | None = None,
) -> Iterator[TrainEvent]:
    """Fit `head` (float32) to the target's soft choices; the best one, by the score of `held`, is in it at the end.

    `kinds` are samples, each kind with its share of the draws. In answers, the target's choices are those it has by
    `sampling`: even mild penalties change one choice of seven, and a head that looks back can learn so. Its states are
    read from `file` where they are there; elsewhere they are computed, and kept. The run's own state is written to
    `checkpoint`, whole or not at all; a run that finds one goes on from it.
    InputError: no sample, or no answer held out, is as long as the unroll.
    """
    kinds = [(share, fitting(samples, schedule.unroll)) for share, samples in kinds]
    if not any(share and samples for share, samples in kinds):
        raise too_short("to train on", schedule.unroll)
    held = replace(held, answers=fitting(held.answers, schedule.unroll), quotes=fitting(held.quotes, schedule.unroll))
    if not held.answers:
        raise too_short("to measure the head on", schedule.unroll)
    device = lm.device
    head.to(device)
    trainable = [parameter for parameter in head.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(
        trainable, lr=schedule.rate, betas=(0.9, 0.95), weight_decay=schedule.weight_decay, fused=True
    )
    run = _Progress()
    if checkpoint.exists():
        run = replace(_restore(checkpoint, head, optimizer), since_best=0)  # more time is another chance
        yield Resumed(run.step, run.seconds)
    order = random.Random(schedule.seed + run.step)
    mixture = Mixture(kinds, order)
    began, before = perf_counter(), run.seconds
    next_validation, next_save = run.seconds + schedule.validate, run.seconds + schedule.keep
    reason = "finished"
    while (share := _share(run, schedule)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate * _rate(share, schedule.warmup)
        losses = []
        depth = _depth(schedule, order)
        for _ in range(schedule.batch):
            sample = mixture.draw()
            states = states_of(lm, head, sample, file)
            loss = _loss(lm, head, _clipped(sample, schedule, order), states, depth, schedule, sampling)
            (loss / schedule.batch).backward()
            losses.append(float(loss.detach()) / depth)
            run.tokens += len(sample.tokens)
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        run.step += 1
        run.seconds = before + perf_counter() - began
        yield Trained(run.step, _share(run, schedule), sum(losses) / len(losses), run.tokens, run.seconds)
        validated = None
        if run.seconds >= next_validation or _share(run, schedule) >= 1:
            validated = _validated(lm, head, held, schedule, file, sampling, run)
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
    lm: LanguageModel,
    head: EagleHead,
    held: HeldOut,
    schedule: Schedule,
    file: StateFile | None,
    sampling: Sampling | None,
    run: _Progress,
) -> Validated:
    """How well the head does, noted in `run`, which keeps the best."""
    agreement, accepted = validate(lm, head, held.answers, schedule.unroll, file, sampling)
    quoted = validate(lm, head, held.quotes, schedule.unroll, file, sampling)[1] if held.quotes else None
    score = held.score(accepted, quoted)
    best = score > run.best_score
    run.since_best = 0 if best else run.since_best + 1
    if best:
        run.best_score, run.best_accepted = score, accepted
        run.best = {name: tensor.detach().clone() for name, tensor in _own(head).items()}
    return Validated(run.step, agreement, accepted, quoted, run.seconds, best)


def _loss(
    lm: LanguageModel,
    head: EagleHead,
    sample: Sample,
    states: Tensor,
    steps: int,
    schedule: Schedule,
    sampling: Sampling | None,
) -> Tensor:
    """Cross-entropy to the target's distribution over the draft's vocabulary, summed over the steps."""
    wanted = _wanted(targets_of(lm, sample, states, sampling), head.vocabulary)
    chosen = candidates(wanted, schedule.likely, schedule.others)
    read = unrolled(lm, head, sample, states, steps)
    with precision(lm):
        return torch.stack(cross_entropy(read, head.lm_head.weight, wanted, chosen)).sum()


def _wanted(targets: Tensor, vocabulary: Tensor) -> Tensor:
    """Probabilities [rows, draft vocabulary] of the draft's tokens among all."""
    # A few rows at a time: memory of this size is given back and cleared again every time.
    return torch.cat(
        [
            (some[:, vocabulary].float() - some.float().logsumexp(-1, keepdim=True)).exp()
            for some in targets.split(_ROWS_AT_ONCE)
        ]
    )


def _depth(schedule: Schedule, order: random.Random) -> int:
    """Steps to take: one, and each further one with probability `decay`."""
    depth = 1
    while depth < schedule.unroll and order.random() < schedule.decay:
        depth += 1
    return depth


def _clipped(sample: Sample, schedule: Schedule, order: random.Random) -> Sample:
    """At most `rows` rows of loss: of longer ones, a block anywhere, with all that comes before it."""
    if sample.rows <= schedule.rows:
        return sample
    start = sample.start + order.randrange(sample.rows - schedule.rows + 1)
    return replace(sample, tokens=sample.tokens[: start + schedule.rows + 1], start=start)


def _share(run: _Progress, schedule: Schedule) -> float:
    """How much of the run is done."""
    steps = run.step / schedule.steps if schedule.steps else 0.0
    return min(max(run.seconds / schedule.seconds, steps), 1.0)


def _rate(share: float, warmup: float) -> float:
    if share < warmup:
        return (share + 1e-3) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min((share - warmup) / (1 - warmup), 1.0)))


def _own(head: EagleHead) -> dict[str, Tensor]:
    """Everything but the embedding, which is the target's."""
    return {name: tensor for name, tensor in head.state_dict().items() if not name.startswith("embedding.")}


def _save(path: Path, head: EagleHead, optimizer: torch.optim.Optimizer, run: _Progress) -> None:
    partial = path.with_name(path.name + ".partial")
    torch.save({"head": _own(head), "optimizer": optimizer.state_dict(), "run": vars(run)}, partial)
    partial.replace(path)


def _restore(path: Path, head: EagleHead, optimizer: torch.optim.Optimizer) -> _Progress:
    state: dict[str, Any] = torch.load(path, map_location=head.fc.weight.device, weights_only=True)
    head.load_state_dict(state["head"], strict=False)
    optimizer.load_state_dict(state["optimizer"])
    return _Progress(**state["run"])
