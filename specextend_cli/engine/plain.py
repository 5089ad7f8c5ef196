"""A target that transformers computes by its own forward and cache: a model that the engine's forward cannot run.

It is decoded plainly and called as `generate` calls it, so its tokens are those of `generate`: the whole prompt at
once, because some models read a prompt in parts otherwise than in one piece, then token by token.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from specextend_cli.engine.lm import UnsupportedModelError, refusing
from specextend_cli.engine.self_check import HALF, SINGLE, distances, some_tokens
from specextend_cli.engine.step import Output
from specextend_cli.engine.temporary import few_threads
from specextend_cli.engine.tree import DraftTree

_PROMPT, _STEPS = 6, 3  # tokens of the check at load
_OUTLIERS = 0.25  # of its rows: long recurrences add rounding up, and it can route a token to other experts


class TransformersModel:
    """A causal language model and what the decoding loop reads of it. `why` the engine's forward cannot run it."""

    def __init__(self, model: PreTrainedModel, why: str) -> None:
        self.model: Any = model.eval()  # its forward's parameters differ from one architecture to the next
        self.why = why
        self.config, self.device, self.dtype = model.config, model.device, model.dtype


class TransformersTarget:
    """Holds one sequence at a time, as `Target` does; it takes trees of one node, from a drafter that drafts nothing.

    ModelError where the model does not run, computes values that are not numbers, or by its cache others than without:
    that needs later tokens, or a cache that transformers does not return.
    """

    def __init__(self, model: PreTrainedModel, why: str) -> None:
        self.lm = TransformersModel(model, why)
        self._takes = frozenset(inspect.signature(model.forward).parameters)
        self.begin(0)
        with few_threads(model), refusing(model, "it does not run by transformers"):
            self._check()
        self.begin(0)

    @property
    def length(self) -> int:
        """Tokens that were read."""
        return self._ids.shape[1]

    def follows_trees(self, nodes: int) -> bool:
        """None that branch."""
        return False

    def begin(self, capacity: int) -> None:
        """Start a new sequence; the cache grows by itself."""
        self._ids = torch.zeros(1, 0, dtype=torch.long, device=self.lm.device)
        self._given: dict[str, Any] = {}

    @torch.inference_mode()
    def prefill(self, tokens: Tensor, *, features: Sequence[int] = ()) -> Output:
        """Read the prompt [n]. The logits are those of its last token, [1, vocabulary]."""
        every = torch.arange(len(tokens), device=self.lm.device)[None]
        given = {"logits_to_keep": 1, "position_ids": every, "attention_mask": torch.ones_like(every)}
        self._given = {name: value for name, value in given.items() if name in self._takes} | {"use_cache": True}
        return self._read(tokens, is_first=True)

    @torch.inference_mode()
    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        """The logits [1, vocabulary] after the only node, which is kept."""
        return self._read(tree.on(self.lm.device).tokens, is_first=False)

    def commit(self, path: Sequence[int]) -> slice:
        """Nothing to do: there is one node, and it is accepted."""
        return slice(len(path))

    def _read(self, tokens: Tensor, *, is_first: bool) -> Output:
        """As in `generate`, by the model's own preparation of inputs: some read all tokens again at some lengths."""
        model = self.lm.model
        self._ids = torch.cat((self._ids, tokens[None]), 1)
        is_cached = any(isinstance(value, Cache) for value in self._given.values())
        new = len(tokens) if is_cached else None
        inputs = model.prepare_inputs_for_generation(
            self._ids, next_sequence_length=new, is_first_iteration=is_first, **self._given
        )
        out = model(**inputs, return_dict=True)
        self._given = model._update_model_kwargs_for_generation(out, self._given)
        return Output(out.logits[0, -1:])

    def _check(self) -> None:
        """Compare what it computes token by token with what it computes in one piece."""
        model = self.lm.model
        ids = some_tokens(model.config.vocab_size, _PROMPT + _STEPS).to(self.lm.device)
        with torch.inference_mode():
            whole = model(input_ids=ids[None]).logits[0, _PROMPT - 1 :]
            found = [self.prefill(ids[:_PROMPT]).logits]
            found += [self.verify(DraftTree([token], [0], [1.0])).logits for token in ids[_PROMPT:].tolist()]
        if not bool(whole.isfinite().all()):
            raise UnsupportedModelError(model, "it computes values that are not numbers")
        near = distances(torch.cat(found), whole) <= (SINGLE if model.dtype == torch.float32 else HALF)
        if float(near.float().mean()) < 1 - _OUTLIERS:
            raise UnsupportedModelError(model, "token by token it computes something else than in one piece")
