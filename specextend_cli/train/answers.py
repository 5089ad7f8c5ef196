"""The target's own answers, which a head learns to draft, with the hidden states that it reads there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specextend_cli.engine.batch import BatchRequest, States, decode_batch, slots_for
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.events import Finished, Prefilled, Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.train.config import AnswerOptions
from specextend_cli.train.samples import Sample
from specextend_cli.train.storage import StateFiles

_TURNS = 2  # how often the slots of a batch are filled from prompts of one length


@dataclass(frozen=True)
class Answerer:
    """Asks the target `lm` for answers that end at the tokens `ends`.

    The states of its `layers` go to `files` while they have room.
    """

    lm: LanguageModel
    asking: AnswerOptions
    ends: Sequence[int] = ()
    layers: Sequence[int] = ()
    files: StateFiles | None = None

    def answers(self, prompts: Sequence[list[int]]) -> Iterator[Sample]:
        """Yield each answer when it ends."""
        groups = _groups(prompts, self.asking)
        # Lengths in random order, so that a run that stops early has answers of all of them.
        order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(self.asking.seed)).tolist()
        for at in order:
            yield from self._batch(groups[at])

    def _batch(self, prompts: Sequence[list[int]]) -> Iterator[Sample]:
        asking = self.asking
        asked = [prompt for prompt in prompts for _ in range(asking.copies)]
        requests = [
            BatchRequest(prompt, Stop(asking.new_tokens, frozenset(self.ends)), _sampling(asking, prompt, copy))
            for prompt in prompts
            for copy in range(asking.copies)
        ]
        slots = min(asking.batch, slots_for(self.lm, max(map(len, prompts)) + asking.new_tokens, asking.memory))
        written: list[list[int]] = [[] for _ in requests]
        states: list[list[Tensor]] = [[] for _ in requests]
        for number, event in decode_batch(self.lm, requests, slots=slots, features=self.layers if self.files else ()):
            prompt = asked[number]
            match event:
                case States():
                    states[number].append(event.states)
                case Prefilled():
                    self._keep(prompt, states[number])
                case Step():
                    written[number].extend(event.tokens)
                case Finished():
                    # The last token is no input of the head; row prompt - 2 predicts the answer's first token.
                    tokens = [*prompt, *written[number][:-1]]
                    self._keep(tokens, states[number])
                    yield Sample(tokens, len(prompt) - 2, output=len(prompt))
                case _:
                    pass

    def _keep(self, tokens: Sequence[int], states: list[Tensor]) -> None:
        """Store the states at the last tokens, and forget them here."""
        if self.files is not None and states:
            self.files.keep(tokens, torch.cat(states))
        states.clear()


def _groups(prompts: Sequence[list[int]], asking: AnswerOptions) -> list[list[list[int]]]:
    """Prompts of one length share a batch, so that no part of its cache is padding."""
    most = max(_TURNS * asking.batch // asking.copies, 1)
    groups: list[list[list[int]]] = []
    for prompt in sorted(prompts, key=len):
        if not groups or len(groups[-1]) == most or len(groups[-1][-1]) != len(prompt):
            groups.append([])
        groups[-1].append(prompt)
    return groups


def _sampling(asking: AnswerOptions, prompt: Sequence[int], copy: int) -> Sampling:
    if copy == 0:
        return asking.sampling
    seed = hash((asking.seed, copy, *prompt)) & (2**31 - 1)  # hashes of integers are the same in every process
    return replace(asking.sampling, temperature=asking.temperature, seed=seed)


def unanswered(prompts: Sequence[list[int]], known: Sequence[Sample]) -> list[list[int]]:
    """The prompts without an answer in `known`."""
    seen = {tuple(sample.tokens[: sample.start + 2]) for sample in known}
    return [prompt for prompt in prompts if tuple(prompt) not in seen]
