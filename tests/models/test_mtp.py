"""Multi-token prediction layers: loaded from published layouts, equal to their formula, lossless as drafters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import conversion_mapping
from transformers.modeling_layers import MtpLayer

from specextend_cli.engine.attention.triton_tree import triton_tree
from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native_runner import use_natively
from specextend_cli.engine.step import Step
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.draft_modules import layers_in, load_mtp
from specextend_cli.models.load import load_model
from tests.engine.tiny_models import RECURRENT, generate, make, prompt, tiny
from tests.helpers.decoding import run, small
from tests.helpers.graph_identity import use_few_graphs
from tests.helpers.preset_models import save_wrapped
from tests.helpers.published_mtp import add, prediction_layer, published
from tests.helpers.rehearsed_capture import Rehearsal
from tests.helpers.repeated_capture import Repeated
from tests.helpers.torch_kernels import replace_kernels

TARGETS = ("qwen3.5", "qwen3-next")
pytestmark = pytest.mark.skipif(
    "pre_fc_norm_hidden" not in inspect.getsource(conversion_mapping),
    reason="transformers reads Qwen's layout since it has that of Mellum, which is the same",
)


def config_of(name: str) -> transformers.PreTrainedConfig:
    """Of a target whose last layer attends, as prediction layers do."""
    config = RECURRENT[name]()
    config.layer_types, config.head_dim = ["linear_attention", "linear_attention", "full_attention"], 24
    return config


Load = Callable[..., tuple[LanguageModel, MtpLayer]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a target that was saved with a layer of random weights beside it."""

    def made(name: str, without: str | None = None) -> tuple[LanguageModel, MtpLayer]:
        net = make(config_of(name))
        net.save_pretrained(tmp_path)
        layer = prediction_layer(net)
        tensors = published(layer)
        add(tmp_path, {key: tensor for key, tensor in tensors.items() if without is None or without not in key})
        return LanguageModel(load_model(tmp_path, dtype=torch.float32)), layer

    return made


@pytest.mark.parametrize("name", TARGETS)
@torch.inference_mode()
def test_logits_are_those_of_the_formula(name: str, load: Load) -> None:
    """DeepSeek-V3, equations 21 to 23, in the checkpoints' order: h'(i) = block(M [norm(E(t(i+1))); norm(h(i))])."""
    lm, layer = load(name)
    head = load_mtp(lm)
    tokens = torch.tensor(prompt(40))
    n = len(tokens) - 1
    states = lm.forward(tokens, torch.arange(n + 1), lm.new_cache(40), feature_layers=(lm.layers,)).features
    assert states is not None
    cache = head.new_cache(40)
    found = []
    for start, end in ((0, 30), (30, n)):  # in two pieces, the second a chain of a tree
        order = torch.arange(end - start)
        mask = order <= order[:, None] if start else None
        given = {"backend": lm.backend, "features": states[start:end]}
        found.append(head.run(Step(tokens[start + 1 : end + 1], start + order, cache, tree_mask=mask, **given)).logits)
        cache.commit()

    def norm(x: Tensor, of: Any) -> Tensor:
        scaled = x / (x.pow(2).mean(-1, keepdim=True) + lm.config.rms_norm_eps).sqrt()
        return scaled * (of.weight + 1.0)  # centred at zero

    embedded = lm.model.get_input_embeddings().weight[tokens[1:]]
    joined = torch.cat((norm(embedded, layer.enorm), norm(states[:n], layer.hnorm)), -1) @ layer.eh_proj.weight.T
    layer.config._attn_implementation = "eager"
    rotary = lm.model.get_decoder().rotary_emb(joined[None], position_ids=torch.arange(n)[None])
    hidden = torch.full((n, n), -torch.inf).triu(1)[None, None]
    out = layer.mtp_block(joined[None], position_embeddings=rotary, attention_mask=hidden)
    out = out[0] if isinstance(out, tuple) else out
    expected = norm(out.reshape(n, -1), layer.post_norm) @ lm.model.get_output_embeddings().weight.T
    torch.testing.assert_close(torch.cat(found), expected, atol=1e-3, rtol=1e-3)


def test_one_beside_a_text_model_inside_another(tmp_path: Path) -> None:
    """As Qwen publishes them: the text model's tensors are in `model.language_model`, the layer's are not."""
    layer = save_wrapped(tmp_path, config_of("qwen3.5"))
    head = load_mtp(LanguageModel(load_model(tmp_path, dtype=torch.float32)))
    for name, tensor in layer.state_dict().items():
        assert torch.equal(head.layer.state_dict()[name], tensor), name


def test_a_checkpoint_without_one_is_refused(tmp_path: Path) -> None:
    tiny().save_pretrained(tmp_path)
    lm = LanguageModel(load_model(tmp_path, dtype=torch.float32))
    assert layers_in(tmp_path) == 0
    with pytest.raises(ModelError, match="multi-token prediction") as caught:
        load_mtp(lm)
    assert "no such layer" in caught.value.why
    with pytest.raises(ModelError):
        load_mtp(LanguageModel(tiny()))  # it was not loaded from anywhere


@pytest.mark.parametrize("part", ["self_attn.k_proj", "mtp.norm"])
def test_an_incomplete_one_is_refused(part: str, load: Load) -> None:
    lm, _ = load("qwen3.5", without=part)
    config = lm.model.config
    with pytest.raises(ModelError) as caught:
        load_mtp(lm)
    assert "missing" in caught.value.why
    assert lm.model.config is config
    assert not hasattr(config, "num_mtp_layers")


def test_no_native_forward_takes_it(load: Load) -> None:
    lm, _ = load("qwen3-next")
    with pytest.raises(NotOursError, match="of its target's own make"):
        use_natively(load_mtp(lm))


@pytest.mark.parametrize(
    "capture",
    [pytest.param(Repeated(), id="repeated"), pytest.param(Rehearsal(), id="rehearsed", marks=pytest.mark.full)],
)
@pytest.mark.parametrize("name", TARGETS)
def test_by_graphs_it_drafts_what_it_drafts_without(
    name: str, capture: Repeated | Rehearsal, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What graphs computed before is NaN, or all their operations are compared."""
    lm, _ = load(name)
    replace_kernels(monkeypatch, getattr(capture, "opaque", lambda kernel: kernel))
    use_few_graphs(monkeypatch)
    lm.backend = triton_tree
    shape, retrieval = TreeShape(nodes=12, depth=3, width=3, threshold=0.0), small("retrieval", positions="compact")
    target, found = Target(lm), []
    for with_graphs in (False, True):
        drafter = EagleDrafter(load_mtp(lm), target, retrieval)
        if with_graphs:
            refused = use_checked_graphs(target, drafter, shape, capture=capture)
            assert set(refused) == {f"{which} keeps transformers' layers" for which in ("the model", "the draft head")}
            assert drafter.head.runner is not drafter.head.stock
            assert drafter.head.runner.drafts is not None
            at_load, capture.replays = capture.captures, 0
        written, meter = run(target, drafter, prompt(), retrieval, shape=shape, new=16)
        assert written == generate(make(config_of(name)), prompt(), 16)
        assert meter.nodes > 16  # it proposed something
        found.append(meter.accepted_lengths)
    assert found[0] == found[1] or lm.state_bytes  # whose drafts are chains without graphs
    assert capture.replays > 8
    assert capture.captures == at_load > 0
