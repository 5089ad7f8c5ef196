"""The first layers of a model, which read a text for its hidden states and generate nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.threads import on_threads


class Reader:
    """Reads with the first `layers` layers of `lm`, which loses the others. ValueError where it has fewer."""

    def __init__(self, lm: LanguageModel, layers: int) -> None:
        if not 0 < layers <= lm.layers:
            raise ValueError(f"the model has {lm.layers} layers, not {layers}")
        self.lm = lm
        keep_first_layers(lm.model, layers)
        lm.model.get_decoder().norm = nn.Identity()  # the states are those between layers
        self._cache = lm.new_cache(0)
        self._behind: tuple[int, ...] = ()  # the cache begins with these
        self._nothing = torch.empty(0, lm.config.hidden_size, dtype=lm.dtype, device=lm.device)

    @torch.inference_mode()
    def states(self, tokens: Sequence[int], *, behind: Sequence[int] = (), chunk: int = 4096) -> Tensor:
        """The hidden states [len(tokens), hidden size] after the last layer, read in pieces of `chunk` tokens.

        The tokens come `behind` others, which are read once as long as texts come behind the same ones.
        """
        cache = self._cache
        if tuple(behind) != self._behind or not cache.can_roll_back(len(behind)):
            cache.begin(len(behind) + len(tokens))
            self._behind = ()
            self._read(behind, chunk)
            cache.mark()
            self._behind = tuple(behind)
        cache.rollback(len(behind))
        return torch.cat([self._nothing, *self._read(tokens, chunk)])

    def _read(self, tokens: Sequence[int], chunk: int) -> list[Tensor]:
        """The hidden states of tokens after what the cache has, which then has them, too."""
        lm, cache, states = self.lm, self._cache, []
        for start in range(0, len(tokens), chunk):
            piece = torch.tensor(tokens[start : start + chunk], device=lm.device)
            positions = torch.arange(cache.length, cache.length + len(piece), device=lm.device)
            with on_threads(lm.prefill_threads):
                read = lm.forward(piece, positions, cache, logits_to_keep=1, features=(lm.layers,)).features
            assert read is not None
            cache.commit()
            states.append(read)
        return states


def keep_first_layers(model: PreTrainedModel, layers: int) -> None:
    """Leave a decoder at most its first so many layers, and its configuration what is true of them."""
    decoder, config = model.get_decoder(), model.config
    left_out = max(len(decoder.layers) - layers, 0)
    decoder.layers = decoder.layers[:layers]
    config.num_hidden_layers = len(decoder.layers)
    if shared := getattr(config, "num_kv_shared_layers", None):  # the last layers attend to the keys of others
        config.num_kv_shared_layers = max(shared - left_out, 0)
    if own := left_out and getattr(config, "hidden_size_per_layer_input", None):  # what each layer reads of a token
        width = own * config.num_hidden_layers
        embedding, projection = decoder.embed_tokens_per_layer, decoder.per_layer_model_projection
        embedding.weight = nn.Parameter(embedding.weight[:, :width].clone(), requires_grad=False)
        projection.weight = nn.Parameter(projection.weight[:width].clone(), requires_grad=False)
