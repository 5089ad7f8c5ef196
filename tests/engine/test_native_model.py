"""Models that run natively: the stock model's logits, states, queries and keys, and plain decoding's tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.bench.models import stretched
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native_runner import use_natively
from specextend_cli.engine.packed import PackedEmbedding, PackedLinear
from specextend_cli.engine.step import Step
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root
from tests.engine.tiny_models import COMMON, CONFIGS, generate, make, prompt, tiny
from tests.helpers.decoding import DRAFTERS, NEW, run, small
from tests.helpers.packed_weights import SMALL, broad, four_bit, pack, packed, unpack

LONG = prompt(200)
SHAPE = TreeShape(nodes=12, depth=4, width=3, threshold=0.0)

ours = pytest.mark.parametrize("kernels", ["ours", "avx2"], indirect=True, scope="module")
pytestmark = ours


@dataclass
class Native:
    """A model that runs natively; `asked` holds the rows of every call that went to a stock layer nevertheless."""

    lm: LanguageModel
    asked: list[int]

    def stop(self) -> None:
        """From now on the model runs itself."""
        self.lm.runner = self.lm.stock


def native(lm: LanguageModel) -> Native:
    asked: list[int] = []

    def counting(stock: Callable[..., Tensor], states: Tensor, **given: Any) -> Tensor:
        asked.append(states.shape[0] * states.shape[1])
        return stock(states, **given)

    for layer in lm.model.get_decoder().layers:
        layer.forward = partial(counting, layer.forward)
    use_natively(lm)
    asked.clear()
    return Native(lm, asked)


@pytest.fixture
def made(kernels: str, request: pytest.FixtureRequest) -> Native:
    """A tiny model of four bits a weight, or one of `ARCHITECTURES`, in float32."""
    name = getattr(request, "param", "four bits")
    return native(LanguageModel(four_bit(made=broad) if name == "four bits" else of(name)))


windowed = pytest.mark.parametrize("made", ["four bits", "mistral-window", "gemma2", "gemma3"], indirect=True)
SIZES = {**COMMON, "hidden_size": 96, "intermediate_size": 160, "num_attention_heads": 3, "num_key_value_heads": 1}
CHANGES: dict[str, dict[str, float | bool]] = {
    "llama-mha": {"num_key_value_heads": 3},
    "llama-biases": {"attention_bias": True, "mlp_bias": True},
    "qwen3": {"head_dim": 64},
    "granite": {"residual_multiplier": 0.4, "attention_multiplier": 0.2},
}
UNCHANGED = ("llama", "qwen2", "mistral", "mistral-window", "gemma", "gemma2", "gemma3", "smollm3")
ARCHITECTURES = (*UNCHANGED, *CHANGES)
"""Those that run natively."""


def of(name: str) -> PreTrainedModel:
    """A tiny model of an architecture that runs natively, in float32; biases are not 0."""
    config = CONFIGS[name.removesuffix("-biases")]()
    for key, value in {**SIZES, "head_dim": 32, **CHANGES.get(name, {})}.items():
        setattr(config, key, value)
    model = make(config)
    generator = torch.Generator().manual_seed(1)
    for key, parameter in model.named_parameters():
        if key.endswith("bias") or "norm" in key:
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


@windowed
def test_states_queries_and_keys_are_the_stock_ones(made: Native) -> None:
    """The tree is deeper than Gemma's windows."""
    tree = DraftTree(range(3, 25), [0, 0, 1, 1, *range(3, 21)], [1.0] * 22)

    def verified() -> list[Tensor]:
        target = Target(made.lm, score_layers=(0, 2))
        target.begin(300)
        read = target.prefill(torch.tensor(LONG), features=(0, 1, 3))
        looked = target.attention_from(-1)
        out = target.verify(tree, features=(0, 1, 3), record=True)
        target.commit([0, 1, 3])
        assert read.features is not None
        assert out.features is not None
        (kept,) = target.cache.rows(0, target.length)
        return [read.logits, read.features, looked, out.logits, out.features, target.attention_from(3), kept]

    ours = verified()
    assert not made.asked
    made.stop()
    for mine, stock in zip(ours, verified(), strict=True):
        torch.testing.assert_close(mine, stock, rtol=1e-4, atol=5e-5)


def test_other_shapes_run_on_the_model_itself(made: Native) -> None:
    lm, layers = made.lm, made.lm.layers
    cache = lm.new_cache(300)
    tokens, positions = torch.tensor(LONG), torch.arange(len(LONG))
    for start, end in ((0, 100), (100, 101), (101, 150), (150, 160)):
        lm.forward(tokens[start:end], positions[start:end], cache)
        cache.commit()
    lm.forward(tokens[160:161], positions[160:161], cache)
    lm.forward(tokens[161:162], positions[161:162], cache)  # over a row that is not committed
    assert not made.asked
    cache.rollback()
    lm.forward(tokens[160:161], positions[160:161], cache, backend=reference)  # another back end
    cache.rollback()
    wide = torch.ones(40, 40, dtype=torch.bool).tril()
    lm.forward(tokens[160:200], positions[160:200], cache, wide)  # a tree of many
    assert made.asked == [1] * layers + [40] * layers


@windowed
def test_rows_that_are_not_committed_are_seen(made: Native) -> None:
    """A model that drafts grows its tree level by level."""
    tokens, tree = torch.tensor(LONG[:6]), DraftTree(range(6), [0, 0, 0, 1, 2, 4], [1.0] * 6)

    def grown() -> Tensor:
        cache, found = made.lm.new_cache(100), []
        made.lm.forward(torch.tensor(LONG[:49]), torch.arange(49), cache)
        cache.commit()
        made.lm.forward(torch.tensor(LONG[49:50]), torch.tensor([49]), cache)
        cache.commit()
        for start, end in ((0, 1), (1, 3), (3, 6)):
            positions = 50 + torch.tensor(tree.depths[start:end])
            found.append(made.lm.forward(tokens[start:end], positions, cache, tree.mask[start:end, :end]).logits)
        return torch.cat(found)

    ours = grown()
    made.stop()
    torch.testing.assert_close(ours, grown(), rtol=1e-4, atol=5e-5)


BROAD = {"sixteen": broad} | {name: partial(of, name) for name in ("mistral-window", "gemma2", "gemma3")}


@pytest.mark.parametrize("name", ["four", *BROAD])
def test_rows_of_bfloat16_do_not_depend_on_each_other(name: str, kernels: str) -> None:
    """To the bit: the nodes of a tree get what a token alone gets."""
    model = four_bit(torch.bfloat16, broad) if name == "four" else BROAD[name]().to(torch.bfloat16)
    made = native(LanguageModel(model))
    target, tokens = Target(made.lm), prompt(300)
    steps = []
    target.begin(300)
    target.prefill(torch.tensor(tokens[:250]))
    for token in tokens[250:266]:
        steps.append(target.verify(root(token)).logits)
        target.commit([0])
    alone = torch.cat(steps)
    target.cache.rollback(250)
    chain = DraftTree(tokens[250:266], [0, *range(15)], [1.0] * 16)
    assert torch.equal(target.verify(chain).logits, alone)
    target.cache.rollback(250)
    right = [0, *range(2, 17)]  # beside a wrong node
    assert torch.equal(
        target.verify(DraftTree([tokens[250], 5, *tokens[251:266]], [0, 0, 0, *right[1:-1]], [1.0] * 17)).logits[right],
        alone,
    )
    assert not made.asked


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["four", *BROAD])
def test_sequences_of_a_batch_get_what_they_get_alone(name: str, dtype: torch.dtype, kernels: str) -> None:
    """To the bit, step by step, also after one of them has ended."""
    made = native(LanguageModel(four_bit(dtype, broad) if name == "four" else BROAD[name]().to(dtype)))
    cache, alone = made.lm.new_cache(1200, slots=3), []
    for tokens in (prompt(1028), prompt(700, seed=3), prompt(900, seed=4)):
        target, steps = Target(made.lm), []
        target.begin(len(tokens) + 3)
        target.prefill(torch.tensor(tokens))
        cache.add(target.cache)
        for step in range(3):
            steps.append(target.verify(root(len(tokens) % 97 + step)).logits)
            target.commit([0])
        alone.append((len(tokens) % 97, steps))
    for step, order in enumerate(([0, 1, 2], [0, 1, 2], [2, 1])):
        asked = torch.tensor([alone[number][0] + step for number in order])
        out = made.lm.run(Step(asked, cache.lengths, cache, sequences=len(order)))
        assert torch.equal(out.logits, torch.cat([alone[number][1][step] for number in order]))
        cache.grow()
        if step == 1:
            cache.drop(0)
    assert not made.asked


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture(name: str, kernels: str) -> None:
    """In float32 `generate` is the judge, in bfloat16 plain decoding."""
    expected = generate(of(name), LONG, NEW)
    for dtype in (torch.float32, torch.bfloat16):
        made = native(LanguageModel(of(name).to(dtype)))
        target = Target(made.lm)
        plain, *drafted = (
            run(target, DRAFTERS[drafter](target, small("retrieval")), LONG, small("retrieval"))[0]
            for drafter in ("none", "ngram", "random")
        )
        assert drafted == [plain, plain]
        assert dtype == torch.bfloat16 or plain == expected
        assert not made.asked


def test_an_exchanged_rope_replaces_the_table(made: Native) -> None:
    """The benchmark stretches it for prompts past the trained window."""

    def logits() -> Tensor:
        target = Target(made.lm)
        target.begin(300)
        target.prefill(torch.tensor(LONG))
        return target.verify(DraftTree([5], [0], [1.0])).logits

    plain = logits()
    with stretched(made.lm.model, 100, 300):
        ours = logits()
    torch.testing.assert_close(logits(), plain)
    made.stop()
    with stretched(made.lm.model, 100, 300):
        torch.testing.assert_close(ours, logits(), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours, plain, rtol=1e-2)


class Packed(torch.Tensor):
    """A weight of another make."""


def exchange(where: str, value: object) -> Callable[[PreTrainedModel], object]:
    """Put another part in the place of one."""
    owner, _, name = where.rpartition(".")
    return lambda model: setattr(model.get_submodule(owner), name, value)


PACKED = torch.nn.Parameter(torch.ones(96, 64).as_subclass(Packed), requires_grad=False)
REFUSED: dict[str, tuple[Callable[[PreTrainedModel], object], str]] = {
    "no norm at the end": (lambda model: delattr(model.model, "norm"), "no attribute 'norm'"),
    "another activation": (exchange("model.layers.1.mlp.act_fn", torch.nn.GELU()), "SiLU"),
    "norms that differ": (exchange("model.layers.1.post_attention_layernorm.variance_epsilon", 1e-3), "epsilon"),
    "another norm": (exchange("model.layers.1.input_layernorm", torch.nn.LayerNorm(64, 1e-6)), "its weight and 1"),
    "packed weights": (exchange("model.layers.1.mlp.up_proj.weight", PACKED), "plain tensors"),
    "a bias": (exchange("lm_head.bias", torch.nn.Parameter(torch.ones(97))), "output layer has a bias"),
    "a parameter that nobody reads": (
        exchange("model.layers.1.self_attn.extra_norm", torch.nn.LayerNorm(32)),
        r"layers\.1\.self_attn\.extra_norm",
    ),
    "scaled logits": (lambda model: setattr(model.config, "logit_scale", 0.5), "logit_scale"),
    "scaled states": (
        lambda model: model.model.layers[0].register_forward_hook(lambda layer, given, out: 1.5 * out),
        "its logits of a prompt differ",
    ),
}


OTHERS = ("phi3", "olmo2", "gemma3", "gemma4", "gpt-oss", "mistral-window", "qwen3.5", "lfm2")


@pytest.mark.parametrize("what", [*REFUSED, *OTHERS, "another back end"])
def test_what_cannot_run_natively_is_refused(what: str, kernels: str) -> None:
    """And runs itself."""
    edit, why = REFUSED.get(what, (lambda model: None, "attention" if what == "another back end" else r"\w"))
    lm = LanguageModel(tiny(what) if what in OTHERS else broad(), backend="reference" if "end" in what else "split")
    edit(lm.model)
    with pytest.raises(NotOursError, match=why):
        use_natively(lm)
    assert lm.runner is lm.stock


@pytest.mark.parametrize(("low", "kind"), [("v_proj", "Q8_0"), ("q_proj", "Q5_1"), ("up_proj", "Q5_0")])
def test_layers_of_four_and_eight_bits_beside_each_other(low: str, kind: str, kernels: str) -> None:
    def mixed() -> PreTrainedModel:
        return pack(broad(), lambda name: SMALL[kind if low in name else "Q4_1"])

    made, judge = native(LanguageModel(mixed())), unpack(mixed())
    target = Target(made.lm)
    assert run(target, DRAFTERS["ngram"](target, small("full")), LONG, small("full"))[0] == generate(judge, LONG, NEW)
    assert not made.asked


def test_an_embedding_of_packed_weights_that_the_head_shares(kernels: str) -> None:
    """Sizes that whole tiles divide."""

    def shared() -> PreTrainedModel:
        return make(transformers.LlamaConfig(**{**SIZES, "vocab_size": 96}), 0)

    tiles, _ = packed(shared().get_input_embeddings().weight.detach(), SMALL["Q8_0"])
    judge, model = shared(), shared()
    for part in ("model.embed_tokens", "lm_head"):
        judge.get_submodule(part).weight = torch.nn.Parameter(tiles.unpacked(torch.float32))
    model.set_submodule("model.embed_tokens", PackedEmbedding(tiles, torch.float32))
    model.set_submodule("lm_head", PackedLinear(tiles, None, torch.float32))
    asked = [token % 96 for token in LONG]
    target = Target(native(LanguageModel(model)).lm)
    assert run(target, DRAFTERS["ngram"](target, small("full")), asked, small("full"))[0] == generate(judge, asked, NEW)


def test_tokens_that_the_model_does_not_have(made: Native) -> None:
    cache = made.lm.new_cache(10)
    for token in (-1, 97):
        with pytest.raises(IndexError, match="vocabulary of 97"):
            made.lm.forward(torch.tensor([token]), torch.tensor([0]), cache)
        cache.rollback()
