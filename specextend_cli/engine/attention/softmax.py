"""What a layer's softmax may have besides scaled products of queries and keys: capped scores, and sinks.

Gemma 2 bends scores towards a limit (logit soft-capping, arXiv 2408.00118). gpt-oss gives each head a learned score
without a key (an attention sink): it takes its share of the softmax and adds nothing to the output.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SoftmaxOptions(NamedTuple):
    """A score s becomes softcap * tanh(s / softcap); `sinks` [H] are scores that join each query's softmax."""

    softcap: float | None = None
    sinks: Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether there is neither."""
        return self.softcap is None and self.sinks is None

    def join(self, out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
        """Attention [1, H, n, d] over some keys and its log-sum-exps [1, H, n], and the same with the sinks."""
        if self.sinks is None:
            return out, lse
        sinks = self.sinks.float()[:, None]
        return out * torch.sigmoid(lse - sinks)[..., None].to(out.dtype), torch.logaddexp(lse, sinks)

    def scores(self, products: Tensor, seen: Tensor | None) -> Tensor:
        """What the softmax is of: scaled products [.., H, n, T], which are overwritten; `seen` (bool) broadcasts."""
        if self.softcap is not None:
            products.div_(self.softcap).tanh_().mul_(self.softcap)
        return products if seen is None else products.masked_fill_(~seen, -torch.inf)

    def weights(self, products: Tensor, seen: Tensor | None = None) -> Tensor:
        """Attention by `scores`, in float32. A row sums to 1, or with a sink to what that leaves."""
        scores = self.scores(products, seen)
        if self.sinks is None:
            return scores.softmax(-1)
        lse = torch.logaddexp(scores.logsumexp(-1), self.sinks.float()[:, None])
        return (scores - lse[..., None]).exp_()


PLAIN = SoftmaxOptions()
