"""Where training starts, for every architecture: nothing copied that means something else in a Llama layer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_config import default_layers
from specextend_cli.train.config import Architecture
from specextend_cli.train.init_copy_head import init_copy_head
from specextend_cli.train.init_head import init_head, scale_norms
from specextend_cli.train.target_logits import read_states
from specextend_cli.train.unroll import join, unroll
from tests.engine.tiny_models import ARCHITECTURES, tiny


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_newborn_reads_its_target_and_writes_its_tokens(name: str) -> None:
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


@torch.no_grad()
def test_norms_of_the_states_begin_with_their_size() -> None:
    lm = LanguageModel(tiny())
    head = init_head(lm, torch.arange(97), (0, 1, 2), max_position=512, architecture="eagle3.1")
    features = read_states(lm, torch.arange(90), (0, 1, 2))[:, :-64]
    scale_norms(head, features)
    sizes = [part.square().mean().sqrt() for part in features.split(64, -1)]
    normed = [part.square().mean().sqrt() for part in head.normalize(features).split(64, -1)]
    assert torch.allclose(torch.stack(sizes), torch.stack(normed), rtol=0.1)
    assert not torch.allclose(sizes[0], sizes[2], rtol=0.5)  # else it would show nothing


@pytest.mark.parametrize("architecture", ["eagle3", "eagle3.1"])
@torch.no_grad()
def test_a_wired_head_copies_what_followed_before(architecture: Architecture) -> None:
    """Random tokens, twice: in the second half, what came next the first time is far likelier than without."""
    lm, vocabulary = LanguageModel(tiny()), torch.arange(97)
    text = torch.randint(97, (600,), generator=torch.Generator().manual_seed(0))
    once = torch.randperm(97, generator=torch.Generator().manual_seed(1))[:40]
    twice = torch.cat((once, once))
    states = read_states(lm, twice, (0, 1, 2))[:, :-64]
    likelihood = []
    for wired in (False, True):
        torch.manual_seed(0)
        head = init_head(lm, vocabulary, (0, 1, 2), max_position=512, architecture=architecture)
        features = read_states(lm, text, (0, 1, 2))[:, :-64]
        scale_norms(head, features)
        if wired:
            init_copy_head(head, text, features)
        (read,) = unroll(head, join([twice], [states], 41), 1)
        copied = head.lm_head(read[: len(twice) - 42]).log_softmax(-1)[:-1].gather(1, twice[43:, None])
        likelihood.append(float(copied.mean()))
    assert likelihood[1] > likelihood[0] + 1.0


def test_a_head_with_one_key_head_is_left_as_it_is() -> None:
    lm = LanguageModel(tiny("gemma"))
    head = init_head(lm, torch.arange(97), (0, 1, 2), max_position=512)
    head.config = replace(head.config, kv_heads=1)
    before = {name: tensor.clone() for name, tensor in head.state_dict().items()}
    init_copy_head(head, torch.arange(50), torch.randn(50, 3 * 64))
    assert all(torch.equal(before[name], tensor) for name, tensor in head.state_dict().items())
