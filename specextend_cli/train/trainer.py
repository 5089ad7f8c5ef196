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
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.tree import from_lists
from specextend_cli.errors import InputError
from specextend_cli.train.events import Done, Resumed, Trained, TrainEvent, Validated
from specextend_cli.train.samples import Sample
from specextend_cli.train.states import StateFile
from specextend_cli.train.unroll import unroll


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. `seconds` and `steps` (0: any number) bound the whole run, with those that it resumes.

    `unroll` steps of training-time test, the loss of each weighing `decay` of the one before; gradients of `batch`
    samples make a step; the rate rises over `warmup` of the run and falls to a tenth by a cosine. Every `validate`
    seconds the head is measured and kept, and `patience` measurements without a gain end the run. At most `rows` rows
    of one sample count in the loss.
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
    patience: int = 8
    rows: int = 1024
    seed: int = 0


def train(
    lm: LanguageModel,
    head: EagleHead,
    samples: Sequence[Sample],
    held_out: Sequence[Sample],
    schedule: Schedule,
    checkpoint: Path,
    file: StateFile | None = None,
    sampling: Sampling | None = None,
) -> Iterator[TrainEvent]:
    """Fit `head` (float32) to the target's soft choices on `samples`; the best head is in it when this ends.

    In answers, its choices are those it has by `sampling`: even mild penalties change one choice of seven, and a head
    that looks back can learn so. The target's states are read from `file` where samples have theirs there, and computed
    elsewhere. The run's own state is written to `checkpoint` at every validation, whole or not at all; a run that finds
    one goes on from it.
    InputError: no sample, or none of those held out, is as long as the unroll.
    """
    usable = long_enough(samples, schedule.unroll, "to train on")
    held_out = long_enough(held_out, schedule.unroll, "to measure the head on")
    device = lm.device
    head.to(device)
    trainable = [parameter for parameter in head.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=schedule.rate, betas=(0.9, 0.95), weight_decay=schedule.weight_decay)
    run = _Progress()
    if checkpoint.exists():
        run = _restore(checkpoint, head, optimizer)
        yield Resumed(run.step, run.seconds)
    order = random.Random(schedule.seed + run.step)
    began, before = perf_counter(), run.seconds
    next_validation = run.seconds + schedule.validate
    reason = "finished"
    while (share := _share(run, schedule)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate * _rate(share, schedule.warmup)
        losses = []
        for sample in order.sample(usable, min(schedule.batch, len(usable))):
            loss = _loss(lm, head, _clipped(sample, schedule, order), schedule, file, sampling)
            (loss / schedule.batch).backward()
            losses.append(float(loss.detach()))
            run.tokens += len(sample.tokens)
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        run.step += 1
        run.seconds = before + perf_counter() - began
        yield Trained(run.step, _share(run, schedule), sum(losses) / len(losses), run.tokens, run.seconds)
        if run.seconds >= next_validation or _share(run, schedule) >= 1:
            agreement, accepted = validate(lm, head, held_out, schedule.unroll, file, sampling)
            best = accepted > run.best_accepted
            run.since_best = 0 if best else run.since_best + 1
            if best:
                run.best_accepted = accepted
                run.best = {name: tensor.detach().clone() for name, tensor in _own(head).items()}
            run.seconds = before + perf_counter() - began
            next_validation = run.seconds + schedule.validate
            _save(checkpoint, head, optimizer, run)
            yield Validated(run.step, agreement, accepted, run.seconds, best)
            if run.since_best >= schedule.patience:
                reason = "no longer improving"
                break
    if run.best:
        head.load_state_dict(run.best, strict=False)
    yield Done(reason, run.step, run.best_accepted)


def long_enough(samples: Sequence[Sample], unroll: int, purpose: str) -> list[Sample]:
    """Those in which `unroll` steps fit; InputError where there are none."""
    usable = [sample for sample in samples if sample.rows >= unroll]
    if not usable:
        raise InputError(
            f"there is no text {purpose}",
            why=f"{unroll} steps of training do not fit into any of {len(samples)} answers and excerpts",
            fix="longer documents, longer --lengths, or a smaller --unroll",
        )
    return usable


@torch.no_grad()
def validate(
    lm: LanguageModel,
    head: EagleHead,
    samples: Sequence[Sample],
    steps: int,
    file: StateFile | None = None,
    sampling: Sampling | None = None,
) -> tuple[tuple[float, ...], float]:
    """Agreement with the target's likeliest token by depth, and about the accepted length of a chain, bonus included.

    An estimate, teacher-forced: each depth is fed the sample's own tokens, not those that the head drafted before it.
    """
    right = torch.zeros(steps)
    rows = torch.zeros(steps)
    chains, starts = 0.0, 0
    for sample in samples:
        logits, targets = _forward(lm, head, sample, steps, file, sampling)
        likeliest = targets.argmax(-1).cpu()
        hits = []
        for step, out in enumerate(logits):
            hit = (head.vocabulary[out.argmax(-1)].cpu() == likeliest[step:]).float()
            right[step] += hit.sum()
            rows[step] += len(hit)
            hits.append(hit)
        # Step k has lost k rows at its left, so that its j-th row ends the chain that starts at the j-th row of step 0.
        whole = len(hits[-1])
        alive = torch.ones(whole)
        for hit in hits:
            alive = alive * hit[:whole]
            chains += float(alive.sum())
        starts += whole
    agreement = tuple((right / rows.clamp(min=1)).tolist())
    return agreement, 1.0 + chains / max(starts, 1)


@dataclass
class _Progress:
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_accepted: float = 0.0
    since_best: int = 0
    best: dict[str, Tensor] | None = None


def _forward(
    lm: LanguageModel,
    head: EagleHead,
    sample: Sample,
    steps: int,
    file: StateFile | None,
    sampling: Sampling | None,
) -> tuple[list[Tensor], Tensor]:
    """The head's logits by step, and the target's [rows, vocabulary] at the rows of step 0, penalties applied."""
    tokens = torch.tensor(sample.tokens, device=lm.device)
    if sample.states and file is not None and file.holds(sample.states):
        states = file.read(sample.states)[: len(tokens)].to(lm.device)
    else:
        states = read_states(lm, tokens, head.config.feature_layers)
    last = lm.config.hidden_size
    features = states[:, :-last].to(head.fc.weight.dtype)
    with torch.autocast(lm.device.type, dtype=torch.bfloat16, enabled=lm.dtype == torch.bfloat16):
        logits = unroll(head, tokens, features, sample.start, steps)
    with torch.no_grad():
        targets = lm.model.get_output_embeddings()(states[sample.start + 1 :, -last:])
        if sampling is not None and sample.output is not None:
            targets = _bound(targets, sample, sampling)
    return logits, targets


def _bound(logits: Tensor, sample: Sample, sampling: Sampling) -> Tensor:
    """Logits as penalties leave them, each behind its own part of the answer: the rows are a chain of a draft tree."""
    assert sample.output is not None
    tokens, behind = sample.tokens, sample.start + 2
    sampler = Sampler(replace(sampling, temperature=0.0), tokens[: sample.output], logits.device)
    sampler.commit(tokens[sample.output : behind])
    chain = tokens[behind - 1 :]
    parents = [0, *range(len(chain) - 1)]
    return sampler.ranking(logits, from_lists(chain, parents, [1.0] * len(chain), logits.device))


def state_layers(feature_layers: Sequence[int], lm: LanguageModel) -> tuple[int, ...]:
    """The states that training reads: those that the head fuses, and the last one, which the output head reads."""
    return (*feature_layers, lm.layers)


def read_states(lm: LanguageModel, tokens: Tensor, feature_layers: Sequence[int]) -> Tensor:
    """The target's states [n, widths of `state_layers`] at tokens [n], fit for training what reads them."""
    positions = torch.arange(len(tokens), device=lm.device)
    layers = state_layers(feature_layers, lm)
    out = lm.forward(tokens, positions, lm.new_cache(len(tokens)), logits_to_keep=1, features=layers)
    assert out.features is not None
    return out.features.clone()  # tensors made in inference mode cannot take part in a backward pass; copies can


def _loss(
    lm: LanguageModel,
    head: EagleHead,
    sample: Sample,
    schedule: Schedule,
    file: StateFile | None,
    sampling: Sampling | None,
) -> Tensor:
    """Cross-entropy to the target's distribution over the draft's vocabulary, by step; mass outside counts nothing."""
    logits, targets = _forward(lm, head, sample, schedule.unroll, file, sampling)
    wanted = targets.float().softmax(-1)[:, head.vocabulary]
    loss = wanted.new_zeros(())
    for step, out in enumerate(logits):
        ce = -(wanted[step:] * out.float().log_softmax(-1)).sum(-1)
        loss = loss + schedule.decay**step * ce.mean()
    return loss


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
