"""Where training starts, for every architecture: nothing copied that means something else in a Llama layer."""

from __future__ import annotations

import pytest
import torch

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.heads import default_layers
from specextend_cli.train.init_head import init_head
from tests.engine.tiny_models import ARCHITECTURES, tiny


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_new_head_has_the_targets_output_rows_and_copies_only_what_means_the_same(name: str) -> None:
    model = tiny(name)
    vocabulary = torch.arange(3, 60)
    head = init_head(LanguageModel(model), vocabulary, default_layers(3), max_position=512)
    assert torch.equal(head.vocabulary, vocabulary)
    assert torch.equal(head.lm_head.weight, model.get_output_embeddings().weight[vocabulary])
    assert not head.embedding.weight.requires_grad
    attention = model.get_decoder().layers[-1].self_attn
    copied = torch.equal(head.layers[0].self_attn.q_proj.weight[:, 64:], getattr(attention, "q_proj", head.fc).weight)
    assert copied == (name in ("llama", "llama-mha", "llama3-rope", "mistral", "gemma"))
    # Gemma stores its norms less one; nobody's norm may start near zero.
    assert float(head.norm.weight.detach().mean()) > 0.5
    assert float(head.layers[0].hidden_norm.weight.detach().mean()) > 0.5
