"""Compiled decoder layers write the same tokens, and are used only where they belong."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from specextend_cli.bench.models import stretched
from specextend_cli.engine.attention import NAME, ForwardContext
from specextend_cli.engine.attention.prefix import attend_beside, beside
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cpu.compiled_model import CompiledLayers, programs_for
from specextend_cli.engine.events import Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native import CannotCompileError
from specextend_cli.engine.private_files import publish
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import from_lists
from tests.engine.test_four_bit import broad, four_bit
from tests.engine.test_identity import DRAFTERS, NEW, POLICIES, run, small
from tests.engine.tiny_models import ARCHITECTURES, COMMON, generate, make, prompt, tiny
from tests.helpers.grid import grid
from tests.helpers.once import compiled_files

LONG = prompt(200)
SHAPE = TreeShape(nodes=12, depth=4, width=3, threshold=0.0)

needs_a_compiler = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512") or not shutil.which("g++"),
    reason="no 4-bit kernel for this processor, or no C++ compiler",
)
pytestmark = needs_a_compiler


@dataclass
class Compiled:
    """A model that runs programs; `asked` holds the rows of every call that went to a stock layer nevertheless."""

    lm: LanguageModel
    programs: CompiledLayers
    asked: list[int]

    def pieces(self, *rows: int) -> set[int]:
        """Of pieces of a prompt with so many rows, those for which there is no program."""
        return {n for n in rows if n <= 32 or "prompt" not in self.programs.files}


@pytest.fixture(scope="module")
def made(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, kernels: str
) -> tuple[LanguageModel, CompiledLayers]:
    """A tiny model of four bits a weight, merged, in float32, and its programs; not in use yet."""
    lm = LanguageModel(four_bit(made=broad))
    kinds = ["token", "tree", "batch", "prompt"] if kernels == "ours" else ["token", "tree", "batch"]
    with compiled_files(pytestconfig, tmp_path_factory, "layers") as directory:
        programs = programs_for(lm, directory)
        assert list(programs.files) == kinds
        missing = programs.missing
        assert missing in (kinds, [])  # none where another process or run has made them
        assert list(programs.make()) == missing
        assert not programs.missing
        programs.compared.unlink(missing_ok=True)
    return lm, programs


@pytest.fixture
def compiled(made: tuple[LanguageModel, CompiledLayers]) -> Iterator[Compiled]:
    lm, programs = made
    asked: list[int] = []

    def counting(stock: Callable[..., Tensor], states: Tensor, **given: Any) -> Tensor:
        asked.append(states.shape[0] * states.shape[1])
        return stock(states, **given)

    for layer in programs.layers:
        layer.module.forward = partial(counting, layer.module.forward)  # type: ignore[method-assign]
    programs.use(lm)
    asked.clear()
    yield Compiled(lm, programs, asked)
    programs.drop(lm)


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize(
    ("seen", "parts", "nodes", "batch"), [(301, 1, 1, 3), (300, 2, 1, 1), (301, 2, 5, 1), (303, 4, 3, 1)]
)
def test_attention_beside_the_cache_equals_the_reference(
    seen: int, parts: int, nodes: int, batch: int, looped: bool
) -> None:
    """The reference's attention over the cache and the own keys joined."""
    torch.manual_seed(0)
    keys, values = torch.randn(2, batch, 3, 400, 16)
    k, v = torch.randn(2, batch, 3, nodes, 16)
    q = torch.randn(batch, 9, nodes, 16)
    tree = from_lists(list(range(nodes)), [0] + [i // 2 for i in range(nodes - 1)], [1.0] * nodes, "cpu")
    mask = tree.mask if nodes > 1 else None
    out = attend_beside(q, (k, v), (keys, values), seen, 0.25, beside(mask, seen, parts), parts, looped=looped)
    for i in range(batch):
        own = slice(i, i + 1)
        joined = (torch.cat((cached[own, :, :seen], new[own]), 2) for cached, new in ((keys, k), (values, v)))
        torch.testing.assert_close(out[own], reference(q[own], *joined, 0.25, mask))


@grid(drafter=DRAFTERS, policy=POLICIES)
def test_every_drafter_and_policy(compiled: Compiled, drafter: str, policy: str) -> None:
    expected = generate(four_bit(made=broad), LONG, NEW)
    target = Target(compiled.lm)
    retrieval = small(policy)
    assert run(target, DRAFTERS[drafter](target, retrieval), LONG, retrieval, shape=SHAPE)[0] == expected
    if drafter in ("none", "ngram", "random"):  # others ask the target, or a head of its own, for drafts
        assert set(compiled.asked) == compiled.pieces(64, len(LONG) % 64)


def test_states_queries_and_keys_are_the_stock_ones(compiled: Compiled) -> None:
    tree = from_lists([3, 4, 5, 6], [0, 0, 1, 1], [1.0] * 4, "cpu")

    def verified() -> list[Tensor]:
        target = Target(compiled.lm, score_layers=(0, 2))
        target.begin(300)
        read = target.prefill(torch.tensor(LONG), features=(0, 1, 3))
        looked = target.attention_from([-1])
        out = target.verify(tree, features=(0, 1, 3), record=True)
        target.keep([0, 1, 3])
        assert read.features is not None
        assert out.features is not None
        kept = target.cache.rows(0, target.length)
        return [read.logits, read.features, looked, out.logits, out.features, target.attention_from([3]), kept]

    ours = verified()
    assert set(compiled.asked) == compiled.pieces(len(LONG))
    compiled.programs.drop(compiled.lm)
    for mine, stock in zip(ours, verified(), strict=True):
        torch.testing.assert_close(mine, stock, rtol=1e-4, atol=5e-5)


def test_a_batch_of_unequal_lengths(compiled: Compiled) -> None:
    prompts = [LONG[: 150 + 13 * i] for i in range(3)]

    def written() -> tuple[list[list[int]], list[Tensor]]:
        requests = [
            BatchRequest(tokens, Stop(12 + 4 * i), segment_starts=(0, 50, 150)) for i, tokens in enumerate(prompts)
        ]
        texts: list[list[int]] = [[] for _ in requests]
        attention = []
        for number, event in decode_batch(
            compiled.lm, requests, slots=3, attribution_layers=(1, 2), attribution_interval=1
        ):
            if isinstance(event, Step):
                texts[number].extend(event.tokens)
                if event.attribution is not None:
                    attention.append(event.attribution)
        return texts, attention

    texts, attention = written()
    prompts_only = {len(tokens) for tokens in prompts}
    assert set(compiled.asked) <= compiled.pieces(*prompts_only)  # the last sequence, too, which is alone in the end
    compiled.programs.drop(compiled.lm)
    expected, expected_attention = written()
    assert texts == expected
    torch.testing.assert_close(torch.cat(attention), torch.cat(expected_attention), rtol=1e-4, atol=1e-5)


def test_other_shapes_run_on_the_model_itself(compiled: Compiled) -> None:
    lm, layers = compiled.lm, len(compiled.programs.layers)
    cache = lm.new_cache(300)
    tokens, positions = torch.tensor(LONG), torch.arange(len(LONG))
    lm.forward(tokens[:100], positions[:100], cache)
    cache.commit()
    lm.forward(tokens[100:101], positions[100:101], cache)  # too little is seen yet for torch's operations
    cache.commit()
    lm.forward(tokens[101:150], positions[101:150], cache)
    cache.commit()
    lm.forward(tokens[150:160], positions[150:160], cache)  # ten tokens of a prompt
    cache.commit()
    lm.forward(tokens[160:161], positions[160:161], cache, context=ForwardContext(reference))  # another back end
    pieces = compiled.pieces(100, 49)
    short = () if compiled.programs.by_kernel else (1,)
    expected = (*(100,) * (100 in pieces), *short, *(49,) * (49 in pieces), 10, 1)
    assert compiled.asked == [rows for rows in expected for _ in range(layers)]
    before = len(compiled.asked)
    cache.rollback()
    lm.forward(tokens[160:161], positions[160:161], cache)
    lm.forward(tokens[161:162], positions[161:162], cache)  # over a row that is not committed
    assert compiled.asked[-layers:] == [1] * layers
    assert len(compiled.asked) == before + layers


def test_prefill_has_its_own_number_of_threads(compiled: Compiled) -> None:
    lm, used, before = compiled.lm, set[tuple[bool, int]](), torch.get_num_threads()
    replace(compiled.programs, prefill_threads=before + 3).use(lm)
    embedding = lm.model.get_input_embeddings()
    hook = embedding.register_forward_hook(
        lambda _, args, __: used.add((args[0].numel() > 20, torch.get_num_threads()))
    )
    target = Target(lm)
    whole = LONG[: 3 * 64]  # in pieces of 64
    run(target, DRAFTERS["ngram"](target, small("full")), whole, small("full"), shape=SHAPE)
    for _ in decode_batch(lm, [BatchRequest(LONG, Stop(4)), BatchRequest(LONG[:150], Stop(4))], slots=2):
        pass
    hook.remove()
    assert used == {(True, before + 3), (False, before)}
    compiled.programs.drop(lm)
    assert lm.prefill_threads is None


def test_an_exchanged_rope_replaces_the_table(compiled: Compiled) -> None:
    """The benchmark stretches it for prompts past the trained window."""

    def logits() -> Tensor:
        target = Target(compiled.lm)
        target.begin(300)
        target.prefill(torch.tensor(LONG))
        return target.verify(from_lists([5], [0], [1.0], "cpu")).logits

    plain = logits()
    with stretched(compiled.lm.model, 100, 300):
        ours = logits()
    torch.testing.assert_close(logits(), plain)
    compiled.programs.drop(compiled.lm)
    with stretched(compiled.lm.model, 100, 300):
        torch.testing.assert_close(ours, logits(), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours, plain, rtol=1e-2)


def test_a_decoder_with_other_parts_is_refused(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    del lm.model.get_decoder().norm
    with pytest.raises(CannotCompileError, match="parts"):
        programs_for(lm, tmp_path)


def test_generate_runs_the_model_itself(compiled: Compiled) -> None:
    expected = generate(four_bit(made=broad), LONG, NEW)
    model = compiled.lm.model
    model.set_attn_implementation("sdpa")
    try:
        assert generate(model, LONG, NEW) == expected
    finally:
        model.set_attn_implementation(NAME)
    assert compiled.asked


def test_programs_with_other_results_are_refused(made: tuple[LanguageModel, CompiledLayers]) -> None:
    lm, programs = made
    crossed = {**programs.files, "token": programs.files["tree"], "tree": programs.files["token"]}
    with pytest.raises(CannotCompileError):
        replace(programs, scales=(9.0,) * 3, files=crossed).use(lm)
    assert lm.forward_backend is None


def test_a_damaged_program_is_refused(made: tuple[LanguageModel, CompiledLayers], tmp_path: Path) -> None:
    lm, programs = made
    torn, partial = tmp_path / "torn.pt2", tmp_path / "partial"
    partial.write_bytes(programs.files["token"].read_bytes()[:1000])
    publish(partial, torn)
    damaged = replace(programs, files={**programs.files, "token": torn})
    assert not damaged.missing
    with pytest.raises(CannotCompileError):
        damaged.use(lm)
    assert damaged.missing == ["token"]  # and so it is made again


def test_programs_are_named_by_layer_and_machine(made: tuple[LanguageModel, CompiledLayers]) -> None:
    _, programs = made
    directory = programs.files["token"].parent
    assert programs_for(LanguageModel(four_bit(made=broad)), directory).files == programs.files
    others = [
        programs_for(LanguageModel(model), directory).files for model in (tiny(), tiny("llama-mha"), tiny("qwen2"))
    ]
    every = [file for files in (programs.files, *others) for file in files.values()]
    assert len(set(every)) == len(every)


def test_other_attention_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotCompileError, match="attention"):
        programs_for(LanguageModel(tiny(), backend="reference"), tmp_path)


def test_a_model_that_scales_between_its_parts_is_refused(tmp_path: Path) -> None:
    model = make(transformers.GraniteConfig(**COMMON, embedding_multiplier=12.0, logits_scaling=8.0))
    with pytest.raises(CannotCompileError, match="between its parts"):
        programs_for(LanguageModel(model), tmp_path)


def test_tensor_subclasses_as_weights_are_refused(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    layer: Any = lm.model.get_decoder().layers[1]

    class Packed(torch.Tensor):
        pass

    weight = layer.mlp.up_proj.weight.detach().as_subclass(Packed)
    layer.mlp.up_proj.weight = torch.nn.Parameter(weight, requires_grad=False)
    with pytest.raises(CannotCompileError, match="plain tensors"):
        programs_for(lm, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture(name: str, tmp_path: Path) -> None:
    expected = generate(tiny(name), LONG, NEW)
    lm = LanguageModel(tiny(name))
    programs = programs_for(lm, tmp_path)
    list(programs.make())
    programs.use(lm)
    target = Target(lm)
    for drafter in ("none", "ngram", "random"):
        assert run(target, DRAFTERS[drafter](target, small("retrieval")), LONG, small("retrieval"))[0] == expected
