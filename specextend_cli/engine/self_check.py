"""The check at load: a model's logits by the engine's attention must equal those by its own, on a few tokens.

Some architectures use what a registered attention function does not see: a mask of their own, another order of
positions, attention to later tokens. They would run and produce wrong text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.temporary import exchanged
from specextend_cli.engine.tree import DraftTree

_PROMPT = 11  # tokens, read in two chunks
_PROMPT_ON_GPU = 300  # by the kernels that read long prompts, which may fail where those of short ones do not
_WINDOW = 3  # tokens: what sliding windows are narrowed to meanwhile, so that prompt and tree go beyond them
PARENTS = (0, 0, 0, 1, 3)
"""Of the tree after it."""
SINGLE, HALF = 1e-3, 0.1
"""Of a row's size, what may be rounding in single precision and in others."""
_NAMED = 8  # rows in a message
_OUTLIERS = 0.25  # of the rows in half precision: rounding can route a token to other experts of a mixture

Results: TypeAlias = Iterator[tuple[str, Tensor]]
"""What a forward gives, by what it is called, in an order of its own."""
Read: TypeAlias = Callable[[Tensor, DraftTree], Tensor]
"""(prompt [n], tree) -> logits [n + nodes, vocabulary] of the prompt's tokens and the tree's nodes."""


class NotOursError(Exception):
    """A model cannot run otherwise than by its own modules; the message says why."""


@torch.inference_mode()
def stock_logits(model: PreTrainedModel, attention: str = "eager") -> Tensor:
    """Logits [rows, vocabulary] of the check's tokens by an attention of the model's own.

    A model without it raises its own error.
    """
    selected = model.config._attn_implementation
    prompt, tree = _tokens(model)
    n = len(prompt)
    parents = [0, *range(n), *(n + parent for parent in tree.parents[1:])]  # the prompt is the tree's trunk
    whole = DraftTree([*prompt.tolist(), *tree.tokens], parents, [1.0] * len(parents))

    def read(path: DraftTree) -> Tensor:
        logits: Tensor = model(input_ids=path.on(prompt.device).tokens[None], use_cache=False).logits[0]
        return logits

    try:
        model.set_attn_implementation(attention)
        with _narrow_windows(model):
            return path_by_path(whole, read)
    finally:
        model.set_attn_implementation(selected)


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
    prompt = _prompt_length(model)
    with _narrow_windows(model):
        ours = read(*_tokens(model))
    if not bool(stock.isfinite().all()):
        return "it computes values that are not numbers"

    def results(logits: Tensor) -> Results:
        yield "logits of a prompt", logits[:prompt]
        yield "logits of a draft tree", logits[prompt:]

    try:
        compare(results(ours), list(results(stock)), model.dtype, lambda: results(_rounded_otherwise(model, stock)))
    except NotOursError as error:
        return str(error)
    return None


def _rounded_otherwise(model: PreTrainedModel, stock: Tensor) -> Tensor:
    """`stock` by PyTorch's attention, not eager; the same where that does not run."""
    try:
        return stock_logits(model, "sdpa")
    except (ValueError, ImportError, RuntimeError):
        return stock


def _narrow_windows(model: PreTrainedModel) -> AbstractContextManager[None]:
    """Windows of `_WINDOW` tokens. Masks read them from the configuration, and layers have their own."""
    holders = (one for one in (model.config, *model.modules()) if getattr(one, "sliding_window", None))
    return exchanged((holder, "sliding_window", _WINDOW) for holder in holders)


def distances(ours: Tensor, theirs: Tensor) -> Tensor:
    """How far rows [.., width] are from others, of these' norms."""
    ours, theirs = ours.float(), theirs.float()
    moved: Tensor = (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1).clamp(min=1e-12)
    return moved


def compare(
    results: Results,
    expected: Sequence[tuple[str, Tensor]],
    dtype: torch.dtype | None = None,
    otherwise: Callable[[], Results] | None = None,
) -> None:
    """NotOursError where results differ from the expected ones by more than rounding to `dtype`, by default of keys.

    In single precision no row may. Half precision moves rows of some models far, so that half of the rows of a name
    may differ by a tenth, and twice as much as the model's own results do that are computed `otherwise`; no more than
    a quarter of them by three times that.
    """
    dtype = dtype or next(found.dtype for name, found in expected if name == "keys")  # logits may be in a wider format
    found = _errors(results, expected)
    if dtype == torch.float32:
        wrong = {name: SINGLE for name, errors in found.items() if not errors.max() <= SINGLE}
    else:
        wrong = _beyond(found, {})
        if wrong and otherwise is not None:
            wrong = _beyond(found, _errors(otherwise(), expected))
    for name, allowed in wrong.items():
        rows = (~(found[name] <= allowed)).nonzero().flatten().tolist()
        some = ", ".join(map(str, rows[:_NAMED])) + ", …" * (len(rows) > _NAMED)
        most = float(found[name].max())
        raise NotOursError(f"its {name} differ from transformers' by up to {most:.1%} of their size, in rows {some}")


def _errors(results: Results, expected: Sequence[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """By name, how far every row [width] is from the expected one, of that one's size."""
    found: dict[str, list[Tensor]] = defaultdict(list)
    for (name, ours), (_, theirs) in zip(results, expected, strict=True):
        found[name].append(distances(ours, theirs).flatten())
    return {name: torch.cat(errors) for name, errors in found.items()}


def _beyond(errors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, float]:
    """What may be rounding in half precision, of the names that differ by more."""
    wrong = {}
    for name, some in errors.items():
        allowed = HALF + (2 * float(own[name].median()) if name in own else 0)
        middle, gross = float(some.median()), float((~(some <= 3 * allowed)).float().mean())  # NaN is wrong, too
        if not middle <= allowed or gross > _OUTLIERS:
            wrong[name] = allowed
    return wrong


def _tokens(model: PreTrainedModel) -> tuple[Tensor, DraftTree]:
    """A prompt and a tree."""
    size = _prompt_length(model)
    ids = some_tokens(model.config.vocab_size, size + len(PARENTS))
    return ids[:size].to(model.device), DraftTree(ids[size:].tolist(), PARENTS, [1.0] * len(PARENTS))


def some_tokens(vocabulary: int, count: int) -> Tensor:
    """Tokens [count] from the middle of the vocabulary: after special ones, rounding alone is large."""
    return torch.linspace(vocabulary / 4, 3 * vocabulary / 4, count).long()


def _prompt_length(model: PreTrainedModel) -> int:
    return _PROMPT_ON_GPU if model.device.type == "cuda" else _PROMPT
