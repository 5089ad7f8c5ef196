"""From logits to one chosen token per tree node.

A tree node is a batch row whose sequence is the committed tokens, the node's ancestors and itself, so repetition
penalty and n-gram blocking are as exact in a tree as in a chain.

Sampling is an exponential race with noise that depends on (seed, position) alone: argmax(p / e) with e ~ Exp(1) draws
from p. Drafting does not see the noise, so the distribution is the target's. All nodes at one position share the noise,
so sampled output, too, equals plain decoding token for token with every drafter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from transformers import LogitsProcessorList, MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper
from transformers.generation.logits_process import TemperatureLogitsWarper

from specextend_cli.engine import native
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.native.kernels import choose
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree, root

_BLOCK = 256  # columns whose maximum is found first


class Sampler:
    """Chooses tokens for one sequence. Pass it every committed token with `commit`."""

    def __init__(self, config: Sampling, prompt: Sequence[int], device: torch.device) -> None:
        self.config = config
        self.device = device
        self.emitted = 0
        self.context = upload(prompt if config.penalty_scope == "all" else [], device)
        self._warpers = _warpers(config)
        self._generator = torch.Generator(device)
        self._noise: dict[int, Tensor] = {}

    def commit(self, tokens: Sequence[int], ids: Tensor | None = None) -> None:
        """Append tokens to the output; `ids` are the same on the device, if they are there already."""
        self.emitted += len(tokens)
        self._noise = {position: noise for position, noise in self._noise.items() if position >= self.emitted}
        if self.config.looks_back:
            self.context = torch.cat((self.context, upload(tokens, self.device) if ids is None else ids))

    def count(self) -> None:
        """A token was chosen and appended elsewhere."""
        self.emitted += 1
        self._noise = {}

    def truncated(self, logits: Tensor) -> Tensor:
        """Logits [n, vocabulary] after temperature, top-k, top-p and min-p."""
        warped: Tensor = self._warpers(None, logits)  # type: ignore[arg-type]  # warpers ignore the ids
        return warped

    def choose(self, logits: Tensor, tree: DraftTree | None = None) -> Tensor:
        """One token [n] for each row of logits [n, vocabulary].

        Row i belongs to node i of `tree`, whose root is committed; without a tree the one row is the prompt's last.
        """
        if self.config.greedy and logits.device.type == "cpu" and logits.dtype == torch.float32 and native.is_loaded():
            # One call: dozens of small operations of torch cost more than the choice.
            penalty, ngram = self.config.repetition_penalty, self.config.no_repeat_ngram
            return choose(logits, self.context, tree or root(0), penalty, ngram)
        return _largest(self.ranking(logits, tree))

    def ranking(self, logits: Tensor, tree: DraftTree | None = None) -> Tensor:
        """The scores [n, vocabulary] float32 that `choose` maximizes: penalized logits, or p / e when sampling."""
        if self.config.looks_back:
            logits = _penalized(logits, *self._sequences(len(logits), tree), self.config)
        logits = logits.float()
        if self.config.greedy:
            return logits
        probabilities = self.truncated(logits).softmax(-1)
        deepest = 0 if tree is None else max(tree.depths)
        noise = [self.noise(logits.shape[-1], depth) for depth in range(deepest + 1)]
        if tree is None or not deepest:
            return probabilities / noise[0]
        return probabilities / torch.stack(noise)[tree.on(self.device).depths]

    def noise(self, vocabulary: int, ahead: int = 0) -> Tensor:
        """That of the token so far `ahead` of the next one, [vocabulary]."""
        position = self.emitted + ahead
        if position not in self._noise:
            # Weyl's constant separates neighbouring positions; manual_seed then mixes the bits.
            self._generator.manual_seed((self.config.seed * 0x9E3779B97F4A7C15 + position) & (2**63 - 1))
            noise = torch.empty(vocabulary, device=self.device)
            self._noise[position] = noise.exponential_(generator=self._generator)
        return self._noise[position]

    def _sequences(self, n: int, tree: DraftTree | None) -> tuple[Tensor, Tensor | None]:
        """Tokens [n, w] before each row's choice, right-aligned, and which are no padding [n, w]; None if all are."""
        committed = self.context.expand(n, -1)
        if tree is None or n == 1:
            return committed, None
        valid = torch.ones_like(committed, dtype=torch.bool)
        # The root is the context's last token; each row adds its other ancestors in order of depth, right-aligned by a
        # stable sort of the ancestor mask.
        nodes = tree.on(self.device)
        ancestors = nodes.mask[:, 1:]
        order = ancestors.long().argsort(dim=1, stable=True)
        own = nodes.tokens[1:].expand(n, -1).gather(1, order)
        own_valid = ancestors.gather(1, order)
        width = committed.shape[1] + own.shape[1]
        rows = torch.cat((committed, own), 1)
        valid = torch.cat((valid, own_valid), 1)
        # Close the gap between the committed tokens and the ancestors, so that n-grams cross it.
        depth = own_valid.sum(1, keepdim=True)
        column = torch.arange(width, device=self.device).expand(n, -1)
        source = torch.where(column >= width - depth, column, column - (own.shape[1] - depth))
        filled = source >= 0
        return rows.gather(1, source.clamp(min=0)), filled & valid.gather(1, source.clamp(min=0))


class BatchSampler:
    """Chooses a token for each of several sequences at once, and appends it to them; nothing is read back.

    Sequences that are sampled alike, but for their seeds, are chosen for together; others one by one. `width` is the
    longest that a sequence looks back.
    """

    def __init__(self, slots: int, width: int, device: torch.device) -> None:
        self._samplers: list[Sampler] = []
        self._lengths: list[int] = []  # of the contexts
        self._context = torch.zeros(slots, width, dtype=torch.long, device=device)

    def add(self, sampler: Sampler) -> None:
        """A sequence in the next slot, sampled as `sampler` would go on."""
        context = sampler.context
        self._context[len(self._samplers), : len(context)] = context
        self._samplers.append(sampler)
        self._lengths.append(len(context))

    def drop(self, slot: int) -> None:
        """Free a slot; the last one moves there."""
        last, length = self._samplers.pop(), self._lengths.pop()
        if slot < len(self._samplers):
            self._context[slot] = self._context[len(self._samplers)]
            self._samplers[slot], self._lengths[slot] = last, length

    def choose(self, logits: Tensor) -> Tensor:
        """One token [slots in use] for each row of logits, committed."""
        samplers, config = self._samplers, self._samplers[0].config
        if logits.device.type == "cpu":
            return self._one_by_one(logits)
        if len({replace(one.config, seed=0) for one in samplers}) > 1:
            for slot, (one, length) in enumerate(zip(samplers, self._lengths, strict=True)):
                one.context = self._context[slot, :length]  # it lacks what was chosen for all together
            choice = self._one_by_one(logits)
        else:
            choice = self._together(logits, config)
        if any(one.config.looks_back for one in samplers):
            at = torch.tensor(self._lengths).to(logits.device, non_blocking=True)
            self._context[: len(samplers)].scatter_(1, at[:, None], choice[:, None])
            self._lengths = [length + 1 for length in self._lengths]
        return choice

    def _one_by_one(self, logits: Tensor) -> Tensor:
        chosen = [one.choose(logits[slot : slot + 1]) for slot, one in enumerate(self._samplers)]
        for one, token in zip(self._samplers, chosen, strict=True):
            one.commit([-1], token)
        return torch.cat(chosen)

    def _together(self, logits: Tensor, config: Sampling) -> Tensor:
        samplers = self._samplers
        if config.looks_back:
            logits = _penalized(logits, *self._sequences(), config)
        logits = logits.float()
        if not config.greedy:
            noise = torch.stack([one.noise(logits.shape[-1]) for one in samplers])
            logits = samplers[0].truncated(logits).softmax(-1) / noise
        for one in samplers:
            one.count()
        return logits.argmax(-1)

    def _sequences(self) -> tuple[Tensor, Tensor]:
        """The contexts, right-aligned [b, w], and what is no padding [b, w]."""
        width, device = max(self._lengths), self._context.device
        lengths = torch.tensor(self._lengths).to(device, non_blocking=True)[:, None]
        source = torch.arange(width, device=device) - (width - lengths)
        return self._context[: len(lengths)].gather(1, source.clamp(min=0)), source >= 0


def _largest(rows: Tensor) -> Tensor:
    """The index of each row's first maximum: the block with it, then the place in the block.

    On CPUs amax is several times as fast as argmax.
    """
    if rows.device.type != "cpu" or rows.shape[-1] % _BLOCK:
        return rows.argmax(-1)
    blocks: Tensor = rows.unflatten(-1, (-1, _BLOCK))
    block = blocks.amax(-1).argmax(-1)
    within: Tensor = blocks[torch.arange(len(rows)), block].argmax(-1)
    return block * _BLOCK + within


def _warpers(config: Sampling) -> LogitsProcessorList:
    """transformers' own truncations, in its order."""
    chosen = LogitsProcessorList()
    if not config.greedy and config.temperature != 1.0:
        chosen.append(TemperatureLogitsWarper(config.temperature))
    if config.top_k:
        chosen.append(TopKLogitsWarper(config.top_k))
    if config.top_p < 1.0:
        chosen.append(TopPLogitsWarper(config.top_p))
    if config.min_p > 0.0:
        chosen.append(MinPLogitsWarper(config.min_p))
    return chosen


def _penalized(logits: Tensor, rows: Tensor, valid: Tensor | None, config: Sampling) -> Tensor:
    """Logits [n, vocabulary] after the penalties for tokens `rows` [n, w], right-aligned; not `valid`: padding."""
    logits = logits.to(torch.float32, copy=True)
    if (penalty := config.repetition_penalty) != 1.0 and rows.shape[1]:
        # Padding repeats the row's last token, so that all writes to one entry have the same value.
        ids = rows if valid is None else torch.where(valid, rows, rows[:, -1:])
        seen = logits.gather(1, ids)
        penalized = (torch.minimum if penalty > 1 else torch.maximum)(seen * penalty, seen / penalty)
        if valid is not None:  # a row may be all padding
            penalized = torch.where(valid[:, -1:], penalized, seen)
        logits.scatter_(1, ids, penalized)
    if (n := config.no_repeat_ngram) and rows.shape[1] >= n:
        # A token may occur in several columns and is banned if one of them bans it: the minimum counts.
        limits = torch.where(_repeats(rows, valid, n), -torch.inf, torch.inf)
        logits.scatter_reduce_(1, rows[:, n - 1 :], limits, "amin")
    return logits


def _repeats(rows: Tensor, valid: Tensor | None, n: int) -> Tensor:
    """Columns [rows, w - n + 1], from the n-th on, whose token would complete an n-gram that the row contains."""
    tail = rows[:, rows.shape[1] - n + 1 :]  # the last n - 1 tokens, which begin the next n-gram
    grams = rows.unfold(1, n, 1)
    same = (grams[..., : n - 1] == tail[:, None]).all(-1)
    if valid is not None:
        same = same & valid.unfold(1, n, 1).all(-1) & valid[:, rows.shape[1] - n + 1 :].all(-1, keepdim=True)
    return same
