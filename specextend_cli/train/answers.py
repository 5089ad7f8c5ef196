"""The target's own answers: the text a head will have to draft, with the states that it will read there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.batch import BatchRequest, States, decode_batch, slots_for
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.events import Finished, Prefilled, Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.train.files import add_lines, read_lines, replace_whole
from specextend_cli.train.hidden_states import Span, StateFile
from specextend_cli.train.samples import Sample

_TURNS = 2  # times that a batch's slots are filled from prompts of one length


@dataclass(frozen=True)
class Asking:
    """How the target is asked: of each prompt's `copies`, one is answered by `sampling`, as it will be in use, the
    others at `temperature`, for variety. At most `batch` are written at once, in at most `memory` bytes of cache."""

    new_tokens: int = 192
    copies: int = 4
    batch: int = 16
    memory: int = 4 << 30
    temperature: float = 0.7
    sampling: Sampling = field(default_factory=lambda: Sampling(repetition_penalty=1.05))
    seed: int = 0


class AnswerFile:
    """Answers on disk, one JSON line each, so that an interrupted run keeps what it has."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Sample]:
        """All whole lines; the torn last line of a killed run is dropped."""
        return [
            _answer(record["tokens"], record["start"], tuple((first, count) for first, count in record["states"]))
            for record in read_lines(self.path)
        ]

    def append(self, samples: Sequence[Sample]) -> None:
        """Add and flush."""
        add_lines(self.path, map(_record, samples))

    def forget_lost(self, states: StateFile) -> None:
        """Where states lay that `states` no longer holds, others may lie soon: note that there are none."""
        samples = self.read()
        if not all(states.holds(sample.states) for sample in samples):
            kept = [sample if states.holds(sample.states) else replace(sample, states=()) for sample in samples]
            replace_whole(self.path, "".join(json.dumps(_record(sample)) + "\n" for sample in kept))


def _record(sample: Sample) -> dict[str, Any]:
    return {"tokens": sample.tokens, "start": sample.start, "states": sample.states}


def answer(
    lm: LanguageModel,
    prompts: Sequence[list[int]],
    asking: Asking,
    ends: Sequence[int],
    features: Sequence[int],
    file: StateFile | None,
) -> Iterator[Sample]:
    """The target's answers to `prompts`, each as soon as it is written; their states go to `file` while it has room."""
    groups = _groups(prompts, asking)
    # Lengths in random order: whoever stops early has seen all of them.
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(asking.seed)).tolist()
    for at in order:
        yield from _together(lm, groups[at], asking, ends, features if file else (), file)


def _groups(prompts: Sequence[list[int]], asking: Asking) -> list[list[list[int]]]:
    """Prompts of one length are written together, so that no cache is read further than it is filled."""
    most = max(_TURNS * asking.batch // asking.copies, 1)
    groups: list[list[list[int]]] = []
    for prompt in sorted(prompts, key=len):
        if not groups or len(groups[-1]) == most or len(groups[-1][-1]) != len(prompt):
            groups.append([])
        groups[-1].append(prompt)
    return groups


def _together(
    lm: LanguageModel,
    prompts: Sequence[list[int]],
    asking: Asking,
    ends: Sequence[int],
    features: Sequence[int],
    file: StateFile | None,
) -> Iterator[Sample]:
    asked = [(prompt, copy) for prompt in prompts for copy in range(asking.copies)]
    requests = [
        BatchRequest(prompt, Stop(asking.new_tokens, frozenset(ends)), _sampling(asking, prompt, copy))
        for prompt, copy in asked
    ]
    slots = min(asking.batch, slots_for(lm, max(map(len, prompts)) + asking.new_tokens, asking.memory))
    written: list[list[int]] = [[] for _ in requests]
    states: dict[int, list[Tensor]] = {number: [] for number in range(len(requests))}
    of_prompt: dict[tuple[int, ...], Span | None] = {}
    for number, event in decode_batch(lm, requests, slots=slots, features=features):
        prompt, _ = asked[number]
        match event:
            case States():
                states[number].append(event.states)
            case Prefilled():
                of_prompt[tuple(prompt)] = _keep(file, states[number])
                states[number] = []
            case Step():
                written[number].extend(event.tokens)
            case Finished():
                first, own = of_prompt[tuple(prompt)], states.pop(number)
                then = _keep(file, own) if first is not None else None  # one without the other is of no use
                spans = (first, then) if first is not None and then is not None else ()
                # What follows the last token is known without it; row prompt - 2 predicts the answer's first.
                yield _answer([*prompt, *written[number][:-1]], len(prompt) - 2, spans)
            case _:
                pass


def _answer(tokens: list[int], start: int, states: tuple[Span, ...]) -> Sample:
    return Sample(tokens, start, states, output=start + 2)


def _keep(file: StateFile | None, states: Sequence[Tensor]) -> Span | None:
    if file is None or not file.has_room(sum(map(len, states))):
        return None
    return file.append(torch.cat(list(states))) if states else (0, 0)


def _sampling(asking: Asking, prompt: Sequence[int], copy: int) -> Sampling:
    if copy == 0:
        return asking.sampling
    seed = hash((asking.seed, copy, *prompt)) & (2**31 - 1)  # of integers, whose hashes are the same in every process
    return replace(asking.sampling, temperature=asking.temperature, seed=seed)


def unanswered(prompts: Sequence[list[int]], known: Sequence[Sample]) -> list[list[int]]:
    """Prompts that no known answer belongs to."""
    seen = {tuple(sample.tokens[: sample.start + 2]) for sample in known}
    return [prompt for prompt in prompts if tuple(prompt) not in seen]
