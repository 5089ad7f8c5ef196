"""Compiled heads: the stock head's logits, states and keys, and plain decoding's tokens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cpu.compiled_head import KINDS, CompiledHead, programs_for
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.forward import ForwardInput, HeadOutput
from specextend_cli.engine.four_bit import round_to_four_bit
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native import CannotCompileError
from specextend_cli.engine.target import Target
from tests.engine.test_identity import NEW, POLICIES, run, small
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.once import compiled_files

LONG = prompt(200)
SHAPE = TreeShape(nodes=12, depth=4, width=3, threshold=0.0)

ours = pytest.mark.parametrize("kernels", ["ours"], indirect=True, scope="module")
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")


def made(name: str, directory: Path) -> CompiledHead:
    """Of a tiny head of four bits a weight, in float32."""
    head = tiny_head(name, head_dim=32)
    round_to_four_bit(head)
    programs = programs_for(head, directory)
    missing = programs.missing
    assert missing in (list(KINDS), [])  # none where another process or run has made them
    assert list(programs.make()) == missing
    assert not programs.missing
    programs.compared.unlink(missing_ok=True)
    return programs


@pytest.fixture(scope="module")
def programs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, kernels: str) -> CompiledHead:
    with compiled_files(pytestconfig, tmp_path_factory, "head") as directory:
        return made("eagle3-2-layers", directory)


@pytest.fixture
def asked(programs: CompiledHead) -> Iterator[list[int]]:
    """The head uses its programs; the rows of every forward that its own modules ran nevertheless."""
    rows: list[int] = []
    stock = programs.head.run_model

    def counting(inputs: ForwardInput) -> HeadOutput:
        rows.append(len(inputs.tokens))
        return stock(inputs)

    programs.head.run_model = counting  # type: ignore[method-assign]
    programs.use()
    rows.clear()
    yield rows
    programs.drop()
    programs.head.run_model = stock  # type: ignore[method-assign]


def check_forwards(programs: CompiledHead, asked: Sequence[int] = ()) -> None:
    """A row, a chain, and three rows of a tree behind others: logits, states and keys are the stock head's."""
    torch.manual_seed(0)
    head = programs.head
    config = head.config
    cached = torch.randn(2, config.layers, config.kv_heads, 37, config.head_dim)
    states, tokens = torch.randn(9, config.hidden), torch.randint(0, config.vocabulary, (9,))
    own = torch.eye(3, dtype=torch.bool)
    masks = [None, torch.ones(5, 5, dtype=torch.bool).tril(), torch.cat((torch.rand(3, 6) < 0.5, own), 1)]

    @torch.inference_mode()
    def found() -> list[Tensor]:
        cache, out = head.new_cache(60), []
        cache.append(cached)
        for at, mask, keep in ((slice(0, 1), masks[0], 0), (slice(1, 6), masks[1], 1), (slice(6, 9), masks[2], 0)):
            if at.start == 1:  # a chain begins where rows are committed
                cache.rollback()
            elif at.start == 6:
                cache.reserve(1)
            n = at.stop - at.start
            cache.reserve(n)
            positions = torch.arange(40, 40 + n)
            context = ForwardContext(SplitKV(), mask)
            forward = head(tokens[at], states[at], positions, cache, context, logits_to_keep=keep)
            out += [*forward, cache.rows(cache.start, cache.end).clone()]
            if at.start == 1:
                cache.buffer[..., cache.end, :] = 0.5
        return out

    compiled = found()
    assert not asked
    programs.drop()
    for mine, stock in zip(compiled, found(), strict=True):
        torch.testing.assert_close(mine, stock, rtol=1e-4, atol=1e-5)


@ours
def test_compiled_forwards_equal_the_head_s_own(programs: CompiledHead, asked: list[int], kernels: str) -> None:
    check_forwards(programs, asked)


@ours
@pytest.mark.parametrize("policy", POLICIES)
def test_a_compiled_head_is_lossless(programs: CompiledHead, asked: list[int], policy: str, kernels: str) -> None:
    target, retrieval = Target(LanguageModel(tiny())), small(policy)
    drafter = EagleDrafter(programs.head, target, retrieval)
    assert run(target, drafter, LONG, retrieval, shape=SHAPE)[0] == by_generate(NEW, 200)
    assert not asked


@ours
def test_other_shapes_run_on_the_head_itself(programs: CompiledHead, asked: list[int], kernels: str) -> None:
    head = programs.head
    cache = head.new_cache(60)
    for n, backend in ((1, SplitKV()), (17, SplitKV()), (3, SplitKV()), (1, None)):
        cache.rollback()
        cache.reserve(n)
        states = torch.randn(n, head.config.hidden)
        context = ForwardContext(backend or (lambda q, k, v, scale, mask: torch.zeros_like(q)))
        with torch.inference_mode():
            head(torch.arange(n), states, torch.arange(n), cache, context)
        if n == 1:
            cache.commit()
    assert asked == [1, 17, 3, 1]  # nothing is seen; too many; a prompt's; another back end


@ours
def test_a_damaged_program_is_refused_and_made_again(programs: CompiledHead, tmp_path: Path, kernels: str) -> None:
    torn = tmp_path / "torn.pt2"
    torn.write_bytes(programs.files["row"].read_bytes()[:1000])
    damaged = replace(programs, files={**programs.files, "row": torn})
    with pytest.raises(CannotCompileError):
        damaged.use()
    assert damaged.missing == ["row"]


@ours
def test_programs_with_other_results_are_refused(programs: CompiledHead, kernels: str) -> None:
    other = tiny_head("eagle3-2-layers", seed=5, head_dim=32)
    with pytest.raises(CannotCompileError, match="something else"):
        replace(programs, head=other, files=dict.fromkeys(KINDS, programs.files["rows"])).use()
    assert other.forward_backend is None


@ours
def test_programs_are_named_by_the_head_s_shape(programs: CompiledHead, tmp_path: Path, kernels: str) -> None:
    with pytest.raises(CannotCompileError, match="kernels"):
        programs_for(tiny_head("eagle3"), tmp_path)
    directory = programs.files["row"].parent
    assert programs_for(programs.head, directory).files == programs.files
    assert programs_for(tiny_head("eagle3-2-layers", head_dim=32), directory).missing == list(KINDS)


@ours
@pytest.mark.slow
@pytest.mark.parametrize("name", ["eagle1", "eagle3", "eagle3.1", "eagle3-residual", "eagle3-whole-vocabulary"])
def test_every_generation(name: str, tmp_path: Path, kernels: str) -> None:
    every = made(name, tmp_path)
    every.use()
    check_forwards(every)
