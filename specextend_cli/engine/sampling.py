"""From logits to one chosen token per tree node.

A tree node is a batch row whose sequence is the committed tokens, the node's ancestors and itself, so repetition
penalty and n-gram blocking are as exact in a tree as in a chain.

Sampling is an exponential race with noise that depends on (seed, position) alone: argmax(p / e) with e ~ Exp(1) draws
from p. Drafting does not see the noise, so the distribution is the target's. All nodes at one position share the noise,
so sampled output, too, equals plain decoding token for token with every drafter.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import TopPLogitsWarper

from specextend_cli.engine import native
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.native.kernels import choose
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import DraftTree, root


class Sampler:
    """Chooses tokens for one sequence or, in a batch, for each of several, which are sampled alike but for their seeds.

    Pass it every committed token with `commit`.
    """

    def __init__(self, config: Sampling, device: torch.device) -> None:
        self.config = config
        self.device = device
        self.context = upload([], device)[None]
        """[sequences, w]: the outputs, right-aligned, if anything looks back at them; -1 pads the shorter ones."""
        self._emitted = [0]  # tokens of each output
        self._seeds = [config.seed]
        self._generator = torch.Generator(device)
        self._noise: dict[tuple[int, int], Tensor] = {}  # by seed and position

    def add(self, other: Sampler) -> None:
        """The sequences of another one, which have written something, behind its own."""
        assert replace(self.config, seed=0) == replace(other.config, seed=0)
        width = max(self.context.shape[1], other.context.shape[1])
        both = [pad(one.context, (width - one.context.shape[1], 0), value=-1) for one in (self, other)]
        self.context = torch.cat(both)
        self._emitted, self._seeds = self._emitted + other._emitted, self._seeds + other._seeds

    def drop(self, slot: int) -> None:
        """Forget one of several sequences; the last one takes its slot."""
        self._emitted[slot], self._seeds[slot] = self._emitted[-1], self._seeds[-1]
        del self._emitted[-1], self._seeds[-1]
        self.context[slot] = self.context[-1]
        self.context = self.context[:-1, -max(self._emitted) :]

    def commit(self, tokens: Tensor) -> None:
        """Append tokens [sequences, n], which are on the device, to the outputs."""
        self._emitted = [count + tokens.shape[1] for count in self._emitted]
        newest = max(self._emitted)
        self._noise = {at: noise for at, noise in self._noise.items() if at[1] >= newest}
        if self.config.looks_back:
            self.context = torch.cat((self.context, tokens), 1)

    def choose(self, logits: Tensor, tree: DraftTree | None = None) -> Tensor:
        """One token [n] for each row of logits [n, vocabulary].

        Row i belongs to node i of `tree`, whose root is committed; without a tree, to the end of sequence i.
        """
        if logits.device.type != "cpu" or not native.is_loaded():
            return self.ranking(logits, tree).argmax(-1)
        # One call: dozens of small operations of torch cost more than a greedy choice.
        penalty, ngram = self.config.repetition_penalty, self.config.no_repeat_ngram
        if not self.config.greedy or logits.dtype != torch.float32:
            logits, penalty, ngram = self.ranking(logits, tree), 1.0, 0
        if tree is not None:
            return choose(logits, self.context[0], tree, penalty, ngram)
        rows = zip(logits.split(1), self.context, self._emitted, strict=True)
        return torch.cat([choose(row, output[-count:], root(0), penalty, ngram) for row, output, count in rows])

    def ranking(self, logits: Tensor, tree: DraftTree | None = None) -> Tensor:
        """The scores [n, vocabulary] float32 that `choose` maximizes: penalized logits, or p / e when sampling."""
        if self.config.looks_back:
            logits = _penalized(logits, self._rows(tree), self.config)
        logits = logits.float()
        if self.config.greedy:
            return logits
        logits = logits / self.config.temperature
        if self.config.top_p < 1:
            logits = TopPLogitsWarper(self.config.top_p)(None, logits)  # no ids are read
        probabilities = logits.softmax(-1)
        if tree is None:
            positions = list(zip(self._seeds, self._emitted, strict=True))
        else:
            positions = [(self._seeds[0], self._emitted[0] + depth) for depth in tree.depths]
        return probabilities / torch.stack([self._noise_at(*at, logits.shape[-1]) for at in positions])

    def _noise_at(self, seed: int, position: int, vocabulary: int) -> Tensor:
        if (seed, position) not in self._noise:
            # Weyl's constant separates neighbouring positions; manual_seed then mixes the bits.
            self._generator.manual_seed((seed * 0x9E3779B97F4A7C15 + position) & (2**63 - 1))
            noise = torch.empty(vocabulary, device=self.device)
            self._noise[seed, position] = noise.exponential_(generator=self._generator)
        return self._noise[seed, position]

    def _rows(self, tree: DraftTree | None) -> Tensor:
        """Tokens [n, w] before each row's choice, as `context` has them."""
        if tree is None or len(tree) == 1:
            return self.context
        n, nodes, deepest = len(tree), tree.on(self.device), max(tree.depths)
        # Behind the context, which ends in the root, come each row's other ancestors, by their depths.
        own = nodes.tokens.new_full((n, deepest + 1), -1)
        own.scatter_reduce_(1, nodes.depths.expand(n, n), torch.where(nodes.mask, nodes.tokens, -1), "amax")
        rows = torch.cat((self.context.expand(n, -1), own[:, 1:]), 1)
        source = torch.arange(rows.shape[1], device=self.device) - (deepest - nodes.depths)[:, None]
        return torch.where(source < 0, -1, rows.gather(1, source.clamp(min=0)))


def _penalized(logits: Tensor, rows: Tensor, config: Sampling) -> Tensor:
    """Logits [n, vocabulary] after the penalties for tokens `rows` [n, w], right-aligned behind padding of -1."""
    logits = logits.to(torch.float32, copy=True)
    if (penalty := config.repetition_penalty) != 1.0 and rows.shape[1]:
        # Padding repeats the row's last token: all writes to one entry have the same value.
        ids = torch.where(rows < 0, rows[:, -1:], rows).clamp(min=0)
        seen = logits.gather(1, ids)
        penalized = (torch.minimum if penalty > 1 else torch.maximum)(seen * penalty, seen / penalty)
        logits.scatter_(1, ids, torch.where(rows[:, -1:] < 0, seen, penalized))  # a row may be all padding
    if (n := config.no_repeat_ngram) and rows.shape[1] >= n:
        # A token may occur in several columns and is banned if one of them bans it: the minimum counts.
        grams = rows.unfold(1, n, 1)  # [n, w - n + 1, n]; one whose beginning is the row's last n - 1 tokens is banned
        ends = rows[:, None, rows.shape[1] - n + 1 :]
        repeats = (grams[..., : n - 1] == ends).all(-1) & (grams[..., 0] >= 0)
        limits = torch.where(repeats, -torch.inf, torch.inf)
        logits.scatter_reduce_(1, rows[:, n - 1 :].clamp(min=0), limits, "amin")
    return logits
