"""A drafter's two caches: everything it has read, and the working set that its attention sees.

Both hold keys after RoPE, as the model left them, and the full cache remembers the position each key was rotated for.
Rotations compose, R(b - a) R(a) = R(b), so a working set at dense positions is one gather from the full cache and one
rotation by the difference. The result equals keys stored before RoPE, without undoing RoPE on every step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.retrieval import working_set
from specextend_cli.errors import ModelError


class WorkingSet:
    """`cache` is what the drafter's forwards use; `full` holds the keys of all `read` positions.

    `frequencies` [r / 2] are RoPE's, needed where positions are re-indexed. With `shared`, the full cache is the
    target's and only read here: the target as its own draft uses its own keys. A drafter of its own with the policy
    "full" has one cache for both.
    """

    def __init__(
        self,
        new_cache: Callable[[int], KVCache],
        config: Retrieval,
        *,
        frequencies: Tensor | None,
        shared: KVCache | None = None,
    ) -> None:
        self.config = config
        self._is_shared = shared is not None
        self._is_whole = config.policy == "full" and not self._is_shared
        self._frequencies = frequencies if config.re_indexes else None
        self._full = new_cache(0) if shared is None else shared
        self.cache = self._full if self._is_whole else new_cache(0)
        self.begin(0)

    def begin(self, capacity: int) -> None:
        """Start a new sequence of at most `capacity` tokens."""
        if not self._is_shared:
            self._full.begin(capacity)
        if not self._is_whole:
            self.cache.rollback(0)
        self.read = 0
        self._chosen = self._rotated_at = self._range(0, 0)

    @property
    def full(self) -> KVCache:
        """The keys of all `read` positions: those committed to the working set are copied when they are needed."""
        if not (self._is_whole or self._is_shared) and (rows := self.read - len(self._rotated_at)):
            start = self.cache.length - rows
            self._full.append(self.cache.rows(start, self.cache.length))
            at = start if self.config.re_indexes else self.read - rows
            self._rotated_at = torch.cat((self._rotated_at, self._range(at, at + rows)))
        return self._full

    @property
    def is_restricted(self) -> bool:
        """Whether more was read than is shown, or than a working set holds."""
        return self.read > min(self.cache.length, self.config.size)

    @property
    def visible(self) -> Tensor:
        """Ascending committed positions in the working set: those chosen, and all that came since."""
        since = self.cache.length - len(self._chosen)
        return torch.cat((self._chosen, self._range(self.read - since, self.read)))

    @property
    def next_position(self) -> int:
        """The RoPE position of the next token."""
        return self.cache.length if self.config.re_indexes else self.read

    def positions(self, n: int, offset: int = 0) -> Tensor:
        """RoPE positions of the next `n` tokens, `offset` after the committed ones."""
        start = self.next_position + offset
        return self._range(start, start + n)

    def show(self, chosen: Tensor) -> None:
        """Make the ascending positions `chosen` the working set."""
        if self._is_whole:
            return
        rows = self.full.gather(chosen)
        rotated_at = chosen if self._is_shared else self._rotated_at[chosen]
        rows = self._rotated(rows, rotated_at, self._range(0, len(chosen)))
        self.cache.rollback(0)
        self.cache.append(rows)
        self._chosen = chosen

    def choose(self, scores: Tensor | None) -> None:
        """Show the positions that the policy chooses by the target's attention."""
        if self._is_shared:
            self.read = self._full.length
        self.show(working_set(self.config, self.read, scores, self._full.device))

    def commit(self, rows: int) -> None:
        """The first `rows` rows after the working set's committed ones belong to the sequence."""
        self.cache.commit(range(rows))
        self.read += rows

    def commit_full(self, rows: int) -> None:
        """`rows` rows were read into the full cache at their own positions; the working set is empty."""
        self.full.commit(range(rows))
        self.read += rows
        if not self._is_whole:
            self._rotated_at = torch.cat((self._rotated_at, self._range(self.read - rows, self.read)))
            self.cache.rollback(0)
            self._chosen = self._range(0, 0)

    def follow(self) -> None:
        """Append what the target has added to the shared cache since the last call."""
        if self.read == self._full.length:
            return
        where = self._range(self.read, self._full.length)
        rows = self._full.rows(self.read, self._full.length)
        self.cache.append(self._rotated(rows, where, self.positions(len(where))))
        self.read = self._full.length

    def _range(self, start: int, end: int) -> Tensor:
        return torch.arange(start, end, device=self._full.device)

    def _rotated(self, rows: list[Tensor], rotated_at: Tensor, positions: Tensor) -> list[Tensor]:
        """Rows [2, layers, heads, n, d] with their keys rotated from one position to another."""
        if self._frequencies is None:
            return rows
        angles = (positions - rotated_at).float()[:, None] * self._frequencies
        return [torch.stack((rotate(keys, angles), values)) for keys, values in rows]


def rotate(keys: Tensor, angles: Tensor) -> Tensor:
    """Rotate keys [.., n, d] by angles [n, r / 2] in their first r dimensions, halves paired as in Llama."""
    half = angles.shape[-1]
    x, y, rest = keys[..., :half].float(), keys[..., half : 2 * half].float(), keys[..., 2 * half :]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat(((x * cos - y * sin).to(keys.dtype), (y * cos + x * sin).to(keys.dtype), rest), -1)


@torch.inference_mode()
def rotary_frequencies(lm: LanguageModel) -> Tensor:
    """RoPE's angle per position, [r / 2], checked against the model itself.

    One token's keys are computed at two positions; in every layer, rotating one must give the other. ModelError if it
    does not: the model interleaves its dimensions, or some of its layers have no RoPE.
    """
    frequencies = getattr(getattr(lm.model.get_decoder(), "rotary_emb", None), "inv_freq", None)
    if isinstance(frequencies, Tensor):
        distance, keys = 37, []
        for position in (0, distance):
            cache = lm.new_cache(1)
            token = torch.zeros(1, dtype=torch.long, device=lm.device)
            lm.forward(token, token + position, cache, logits_to_keep=1)
            keys.append([buffer[0, ..., :1, :].float() for buffer in cache.buffers])
        angles = distance * frequencies.float()[None]
        both = zip(*keys, strict=True)
        if all(torch.allclose(rotate(a, angles), b, rtol=0, atol=0.02 * float(b.abs().max())) for a, b in both):
            return frequencies.float()
    raise ModelError(
        f"{type(lm.model).__name__} cannot draft at compact positions",
        why="its position encoding is not one rotation per position",
        fix='set positions = "absolute" under [retrieval] in the preset',
    )
