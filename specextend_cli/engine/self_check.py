"""The check at load: a model's logits by the engine's attention must equal those by its own, on a few tokens.

Some architectures use what a registered attention function does not see: a mask of their own, another order of
positions, attention to later tokens. They would run and produce wrong text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.tree import DraftTree

_PROMPT = 11  # tokens, read in two chunks
_PROMPT_ON_GPU = 300  # by the kernels that read long prompts, which may fail where those of short ones do not
_WINDOW = 3  # tokens: what sliding windows are narrowed to meanwhile, so that prompt and tree go beyond them
_PARENTS = (0, 0, 0, 1, 3)  # of the tree after it
_ROUNDING = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}  # of a row's norm
_OUTLIERS = 0.25  # of the rows in half precision: rounding can route a token to other experts of a mixture

Read = Callable[[Tensor, DraftTree], Tensor]
"""(prompt [n], tree) -> logits [n + nodes, vocabulary] of the prompt's tokens and the tree's nodes."""


@torch.inference_mode()
def stock_logits(model: PreTrainedModel, attention: str = "eager") -> Tensor:
    """Logits [rows, vocabulary] of the check's tokens by the model's own attention, which stays selected.

    A model without it raises its own error.
    """
    model.set_attn_implementation(attention)
    prompt, tree = _tokens(model)
    of_prompt = Tensor()

    def read(path: DraftTree) -> Tensor:
        nonlocal of_prompt
        ids = torch.cat((prompt, path.on(prompt.device).tokens))
        with _narrow_windows(model):
            logits: Tensor = model(input_ids=ids[None], use_cache=False).logits[0]
        of_prompt, of_nodes = logits.tensor_split([len(prompt)])
        return of_nodes

    of_tree = path_by_path(tree, read)
    return torch.cat((of_prompt, of_tree))


def path_by_path(tree: DraftTree, read: Callable[[DraftTree], Tensor]) -> Tensor:
    """Rows [nodes, width] of a tree of which `read` takes one path at a time, and returns the rows of its nodes."""
    rows = [Tensor()] * len(tree)
    for path in tree.paths():
        for node, row in zip(path, read(tree.subtree(path)), strict=True):
            rows[node] = row
    return torch.stack(rows)


@torch.inference_mode()
def difference(model: PreTrainedModel, stock: Tensor, read: Read) -> str | None:
    """How the logits by `read` differ from `stock` beyond rounding, in words; None if they do not."""
    with _narrow_windows(model):
        ours = read(*_tokens(model)).float()
    stock = stock.float()
    if not bool(stock.isfinite().all()):
        return "it computes values that are not numbers"
    prompt = _prompt_length(model)
    for part, rows in (("a prompt", slice(None, prompt)), ("a draft tree", slice(prompt, None))):
        if disagreement(ours[rows], stock[rows], model.dtype) is None:
            continue
        wrong = ~(
            distances(ours, stock) <= 2 * _own_rounding(model, stock).clamp(min=_ROUNDING.get(model.dtype, 0.1) / 2)
        )
        if float(wrong[rows].float().mean()) > (0 if model.dtype == torch.float32 else _OUTLIERS):
            most = float(distances(ours[rows], stock[rows]).max())
            found = f"rows {', '.join(str(row) for row in wrong[rows].nonzero().flatten().tolist())}"
            return f"its logits of {part} differ from those by its own attention, in {found}, by up to {most:.0%}"
    return None


def _own_rounding(model: PreTrainedModel, stock: Tensor) -> Tensor:
    """How far each row of the model's logits moves when its own attention is PyTorch's, not eager.

    At least the median. Half precision alone moves rows of some models by a quarter of their size. 0 in float32, and
    where PyTorch's does not run.
    """
    if model.dtype == torch.float32:
        return torch.zeros(len(stock), device=stock.device)
    attention = model.config._attn_implementation
    try:
        moved = distances(stock_logits(model, "sdpa").float(), stock)
    except (ValueError, ImportError, RuntimeError):
        moved = torch.zeros(len(stock), device=stock.device)
    finally:
        model.set_attn_implementation(attention)
    return moved.clamp(min=float(moved.median()))


@contextmanager
def _narrow_windows(model: PreTrainedModel) -> Iterator[None]:
    """Windows of `_WINDOW` tokens. Masks read them from the configuration, and layers have their own."""
    every: list[Any] = [model.config, *model.modules()]
    holders = [holder for holder in every if getattr(holder, "sliding_window", None)]
    widths = [holder.sliding_window for holder in holders]
    try:
        for holder in holders:
            holder.sliding_window = _WINDOW
        yield
    finally:
        for holder, width in zip(holders, widths, strict=True):
            holder.sliding_window = width


def distances(ours: Tensor, theirs: Tensor) -> Tensor:
    """How far rows [.., width] are from others, of these' norms."""
    ours, theirs = ours.float(), theirs.float()
    moved: Tensor = (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1).clamp(min=1e-12)
    return moved


def disagreement(
    ours: Tensor, theirs: Tensor, dtype: torch.dtype | None = None, *, outliers: float = 0.0
) -> float | None:
    """By what part of its size the median row [.., width] differs; None if that may be rounding (`dtype`: theirs).

    In single precision so large a share of rows may be `outliers`.
    """
    dtype = dtype or theirs.dtype
    errors = distances(ours, theirs)
    wrong = ~(errors <= _ROUNDING.get(dtype, 0.1))  # NaN is wrong, too
    allowed = outliers if dtype == torch.float32 else _OUTLIERS
    return float(errors.median()) if float(wrong.float().mean()) > allowed else None


def _tokens(model: PreTrainedModel) -> tuple[Tensor, DraftTree]:
    """A prompt and a tree from the middle of the vocabulary: after special tokens, rounding alone is large."""
    vocabulary = int(model.config.vocab_size)
    size = _prompt_length(model)
    ids = torch.linspace(vocabulary / 4, 3 * vocabulary / 4, size + len(_PARENTS)).long()
    tree = DraftTree(ids[size:].tolist(), _PARENTS, [1.0] * len(_PARENTS))
    return ids[:size].to(model.device), tree


def _prompt_length(model: PreTrainedModel) -> int:
    return _PROMPT_ON_GPU if model.device.type == "cuda" else _PROMPT
