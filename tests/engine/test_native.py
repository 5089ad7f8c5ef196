"""Our own kernels compute what they stand for, row by row the same, and write the same tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from torch import Tensor

from specextend_cli.engine.attention import split_kv
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention.split_kv import additive
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.native import CannotCompileError, Library
from specextend_cli.engine.native import kernels as single
from specextend_cli.engine.native import shared_library as module
from specextend_cli.engine.packed import KIND_OF_BLOCKS
from specextend_cli.engine.private_files import publish
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.tree import DraftTree, root
from tests.helpers.packed_weights import SMALL, matrix

TYPES = [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)]

ours = pytest.mark.parametrize("kernels", ["ours", "avx2", "portable"], indirect=True, scope="module")


@contextmanager
def filled_with_nan() -> Iterator[None]:
    """What is allocated and never set is no number meanwhile."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(1000).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def attended(n: int, heads: int, total: int, dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Queries as a projection leaves them, keys and values of three heads as a cache with rows to spare has them."""
    torch.manual_seed(0)
    k, v = torch.randn(2, 1, 3, total + 50, dim).to(dtype)[:, :, :, :total]
    return torch.randn(1, n, heads, dim).to(dtype).transpose(1, 2), k, v


def distance(ours: Tensor, expected: Tensor) -> float:
    return float((ours.double() - expected).norm() / expected.norm())


@ours
@pytest.mark.parametrize(("columns", "width"), [(1, 1), (5, 3), (100, 6), (12288, 3)])
def test_top_k_is_that_of_softmax(kernels: str, columns: int, width: int) -> None:
    logits = 4 * torch.randn(7, columns, generator=torch.Generator().manual_seed(0))
    logits[1] = logits[1].sort().values  # every column is better than those before
    logits[2, : columns // 2] = -torch.inf
    shares, ids = single.top_k(logits, width)
    expected = logits.softmax(-1).topk(width)
    torch.testing.assert_close(shares, expected.values, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(logits.gather(1, ids), logits.topk(width).values, rtol=0, atol=0)
    logits[3, -1] = torch.nan
    assert single.top_k(logits, width)[0].isfinite().all(-1).tolist() == [True, True, True, False, True, True, True]
    with pytest.raises(ValueError, match="of logits"):
        single.top_k(logits, columns + 1)


@ours
@pytest.mark.parametrize("columns", [7, 64, 1003])
@pytest.mark.parametrize("penalty", [1.0, 1.3, 0.7])
@pytest.mark.parametrize("ngram", [0, 1, 2, 4])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_choice_is_the_largest_of_the_sampler_s_ranking(
    kernels: str, columns: int, penalty: float, ngram: int, temperature: float
) -> None:
    random = torch.Generator().manual_seed(0)
    for committed in (1, 2, 30):
        for nodes in (1, 9):
            parents = [0, *(int(torch.randint(node, (1,), generator=random)) for node in range(1, nodes))]
            tokens = torch.randint(6, (nodes,), generator=random).tolist()
            context = [*torch.randint(6, (committed - 1,), generator=random).tolist(), tokens[0]]
            # Few values, so that there are ties.
            logits = torch.randint(-3, 4, (nodes, columns), generator=random).float() / 3
            logits[-1, -1] = torch.nan if nodes == 9 and committed == 2 else torch.inf
            how = Sampling(temperature, repetition_penalty=penalty, no_repeat_ngram=ngram)
            sampler = Sampler(how, logits.device)
            sampler.commit(torch.tensor([context]))
            tree, before = DraftTree(tokens, parents, [1.0] * nodes), logits.clone()
            expected = sampler.ranking(logits, tree).argmax(-1)
            assert torch.equal(sampler.choose(logits, tree), expected)
            assert torch.equal(logits.nan_to_num(7.0), before.nan_to_num(7.0))
    with pytest.raises(ValueError, match="a choice by logits"):
        single.choose(torch.zeros(2, 5), torch.zeros(1).long(), root(0), 1.0, 0)


@ours
@pytest.mark.parametrize("kind", KIND_OF_BLOCKS)
@pytest.mark.parametrize("columns", [256, 768])
def test_blocks_are_packed_as_what_they_mean(kernels: str, kind: str, columns: int) -> None:
    """Within bfloat16's rounding of scale and zero, which are as large as sixteen steps of a code."""
    tiles, full = matrix(48, columns, Kind[kind])
    unpacked = tiles.unpacked(torch.float32)
    steps = full.unflatten(1, (-1, 16)).abs().amax(-1, keepdim=True).expand(-1, -1, 16).flatten(1)
    assert ((unpacked.double() - full).abs() <= 2**-6 * steps).all()
    assert torch.equal(tiles.unpacked(torch.bfloat16), unpacked.bfloat16())
    rows = torch.tensor([[47, 0, 16], [15, 31, 5]])
    assert torch.equal(tiles.unpacked_rows(rows, torch.float32), unpacked[rows])


@ours
@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (48, 96), (576, 576), (208, 1536)])
@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "Q5_1", "Q6_K"])
def test_products_equal_full_precision(
    kernels: str, kind: str, rows: int, columns: int, dtype: torch.dtype, tolerance: float
) -> None:
    """Every count of rows has its own loop; what a row gets is the same to the bit in all of them."""
    tiles, _ = matrix(rows, columns if kind in SMALL else -(-columns // 256) * 256, Kind[kind])
    x = torch.randn(33, tiles.columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    whole = tiles(x)
    assert whole.dtype == dtype
    assert distance(whole, x.double() @ tiles.unpacked(torch.float32).double().T) < tolerance
    for count in range(1, 33):
        assert torch.equal(tiles(x[:count]), whole[:count])


@ours
def test_rows_in_bfloat16_are_rounded_to_eight_bits_by_groups(kernels: str) -> None:
    tiles, _ = matrix(64, 96, Kind.Q4_1)
    full = tiles.unpacked(torch.float32).double()
    x = torch.randn(7, 96, generator=torch.Generator().manual_seed(1)).bfloat16()
    x[1], x[2, 32:64], x[3, 5], x[4] = 0, 0, 300, x[4] * 1e-30
    groups = x.float().unflatten(1, (-1, 32))
    unit = groups.abs().amax(-1, keepdim=True) / 127
    rounded = ((groups / unit).nan_to_num().round() * unit).flatten(1)
    expected = rounded.double() @ full.T
    for ours, theirs in zip(tiles(x), expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0.005, atol=float(theirs.abs().max()) / 500)
    assert not tiles(x)[1].any()
    x[5, 40] = torch.nan
    assert tiles(x)[5].isnan().all()
    assert not tiles(x)[6].isnan().any()
    assert not tiles(torch.full((1, 96), torch.inf).bfloat16()).isfinite().any()


@ours
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("dim", [32, 64, 96, 128])
@pytest.mark.parametrize("seen", [0, 1, 17, 63, 64, 65, 129, 1000])
def test_attention_equals_the_reference(
    kernels: str, seen: int, dim: int, dtype: torch.dtype, tolerance: float
) -> None:
    for nodes, groups in ((1, 3), (1, 1), (2, 3), (1, 7), (2, 4), (5, 3), (12, 4), (40, 1)):
        q, k, v = attended(nodes, 3 * groups, seen + nodes, dim, dtype)
        tree = DraftTree(list(range(nodes)), [0] + [i // 2 for i in range(nodes - 1)], [1.0] * nodes)
        mask = tree.mask if nodes > 1 else None
        out = single.attend(q, k, v, 0.2, additive(mask))
        assert out.dtype == dtype
        assert distance(out, reference(q.double(), k.double(), v.double(), 0.2, mask)) < tolerance
        with filled_with_nan():
            assert torch.equal(single.attend(q, k, v, 0.2, additive(mask)), out)


@ours
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("dim", [32, 64, 96, 128])
@pytest.mark.parametrize(("seen", "n"), [(0, 1), (0, 33), (0, 200), (1, 31), (64, 64), (130, 97), (1000, 65)])
def test_a_prompt_s_attention_equals_the_reference(
    kernels: str, seen: int, n: int, dim: int, dtype: torch.dtype, tolerance: float
) -> None:
    """Each query sees what is cached, and of what is read with it no more than comes before it."""
    for groups, window, cap in ((1, None, None), (3, None, None), (3, 50, 0.7), (1, 1, None), (3, 64, None)):
        q, k, v = attended(n, 3 * groups, seen + n, dim, dtype)
        out = single.attend_causal(q, k, v, 0.2, window=window, cap=cap)
        assert out.dtype == dtype
        mask = torch.ones(n, seen + n, dtype=torch.bool).tril(seen).triu(seen + 1 - (window or seen + n))
        expected = reference(q.double(), k.double(), v.double(), 0.2, mask, SoftmaxOptions(cap))
        assert distance(out, expected) < tolerance


@ours
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_split_kv_uses_the_kernels(kernels: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tokens, trees, those that are wider than high among them, and prompts."""
    torch.manual_seed(0)
    spy = Mock()
    for kernel in (single.attend, single.attend_causal):
        spy.attach_mock(Mock(wraps=kernel), kernel.__name__)
        monkeypatch.setattr(split_kv, kernel.__name__, getattr(spy, kernel.__name__))
    keys, values = torch.randn(2, 1, 3, 300, 32).to(dtype)
    wide = torch.ones(2, 5, dtype=torch.bool).tril(3)
    tall = torch.ones(70, 70, dtype=torch.bool).tril()  # more queries than the kernel takes
    for mask, n in ((None, 1), (wide, 2), (None, 1), (tall, 70), (wide, 2), (None, 30), (None, 1)):
        q = torch.randn(1, 9, n, 32).to(dtype)
        expected = reference(q, keys, values, 0.2, mask)
        torch.testing.assert_close(split_kv.split_kv(q, keys, values, 0.2, mask), expected, rtol=2e-2, atol=2e-2)
    assert [name for name, *_ in spy.mock_calls] == [*["attend"] * 4, "attend_causal", "attend"]
    split_kv.split_kv(torch.randn(1, 9, 30, 32, requires_grad=True), keys.float(), values.float(), 0.2, None)
    assert len(spy.mock_calls) == 6  # it has no derivative


@ours
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("at", [0, 3, 51, 255, 256, 275, 276])
@pytest.mark.parametrize("later", [1.0, 100.0])
def test_a_nan_key(kernels: str, later: float, at: int, dtype: torch.dtype) -> None:
    """It spoils what sees it, wherever it lies in a block or a part, and however large the scores are that follow."""
    q, k, v = attended(1, 3, 700, 64, dtype)
    k[:, :, at + 1 :] = later * q
    k[:, :, at] = torch.nan
    for seen in (at + 2, at + 41, at + 401):
        assert single.attend(q, k[:, :, :seen], v[:, :, :seen], 0.2, additive(None)).isnan().all(), seen


@ours
@pytest.mark.parametrize("rise", [0.003, 0.05, 0.5, -0.05, -0.5])
@pytest.mark.parametrize("largest", [None, 100, 701])
def test_scores_that_rise_and_fall(kernels: str, largest: int | None, rise: float) -> None:
    """What was gathered is rescaled now and then: when scores have risen by more than a little, if they ever do.

    Beside a score in the middle, or of an own key, that is much larger than the others, nothing is left of these.
    """
    _, k, v = attended(2, 3, 702, 64, torch.float32)
    q = torch.ones(1, 3, 2, 64)
    k += rise / 64 * torch.arange(702)[:, None]
    if largest is not None:
        k[:, :, largest] += 50
    chain = torch.ones(2, 2, dtype=torch.bool).tril()
    expected = reference(q.double(), k.double(), v.double(), 1.0, chain)
    assert distance(single.attend(q, k, v, 1.0, additive(chain)), expected) < 2e-5
    assert distance(single.attend_causal(q, k, v, 1.0), expected) < 2e-5


@ours
def test_attention_to_other_shapes_is_refused(kernels: str) -> None:
    q, (k, v), mask = torch.randn(1, 9, 2, 64), torch.randn(2, 1, 3, 22, 64), torch.zeros(2, 2)
    single.attend(q, k, v, 1.0, mask)
    for wrong in (
        (q[..., :40], k[..., :40], v[..., :40]),
        (q[:, :8], k, v),
        (q, k, v[:, :, :1]),
        (q, k.bfloat16(), v),
        (q.half(), k.half(), v.half()),
        (q.expand(2, -1, -1, -1), k, v),
    ):
        for call in (partial(single.attend, *wrong, 1.0, mask), partial(single.attend_causal, *wrong, 1.0)):
            with pytest.raises(ValueError, match="attention over other"):
                call()
    for other in (mask[:1], mask.double(), torch.zeros(2, 23), torch.zeros(2, 4)[:, ::2]):
        with pytest.raises(ValueError, match="mask"):
            single.attend(q, k, v, 1.0, other)
    with pytest.raises(ValueError, match="keys"):
        single.attend_causal(torch.randn(1, 9, 23, 64), k, v, 1.0)


@ours
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seen", [0, 1, 40, 63, 64, 191, 250, 255, 256, 500])
@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_a_tree_node_equals_plain_decoding_bit_for_bit(
    kernels: str, scale: float, seen: int, dtype: torch.dtype
) -> None:
    """To the bit, wherever blocks and parts of the cache end, in a chain and in a tree with wrong nodes in between."""
    length = 80
    q, keys, values = attended(length, 9, seen + length, 64, dtype)

    def over(end: int, queries: Tensor, mask: Tensor | None = None) -> Tensor:
        return single.attend(queries, keys[:, :, :end], values[:, :, :end], scale, additive(mask))

    plain = torch.cat([over(seen + at + 1, q[:, :, at : at + 1]) for at in range(length)], 2)
    for nodes in (2, 7, length):
        chain = torch.ones(nodes, nodes, dtype=torch.bool).tril()
        assert torch.equal(over(seen + nodes, q[:, :, :nodes], chain), plain[:, :, :nodes])
    right = torch.tensor([0, 2, 5, 6])  # nodes that stand for the first tokens
    tree = DraftTree(range(8), [0, 0, 0, 1, 2, 2, 5, 6], [1.0] * 8).mask
    mixed = torch.randn(1, 9, 8, 64).to(dtype)
    mixed[:, :, right] = q[:, :, : len(right)]
    for rows in (keys, values):
        first = rows[:, :, seen : seen + len(right)].clone()
        rows[:, :, seen : seen + 8].normal_()
        rows[:, :, seen + right] = first
    assert torch.equal(over(seen + 8, mixed, tree)[:, :, right], plain[:, :, : len(right)])


@pytest.mark.parametrize(
    ("flags", "best"),
    [("sse2 avx2", "portable"), ("avx2 fma f16c bmi1 bmi2", "avx2"), ("asimd asimddp", "neon-dotprod")],
)
def test_the_best_instructions_that_a_cpu_has(flags: str, best: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "features", lambda: frozenset(flags.split()))
    monkeypatch.delenv(module.VARIABLE, raising=False)
    assert module.instructions() == best
    monkeypatch.setenv(module.VARIABLE, "portable")
    assert module.instructions() == "portable"
    for other in ("avx512", "avx513"):
        monkeypatch.setenv(module.VARIABLE, other)
        with pytest.raises(CannotCompileError, match=f"{other}: this CPU has .*portable"):
            module.instructions()


@pytest.mark.parametrize(("allowed", "best"), [(True, "avx512-amx"), (False, "avx512-bf16")])
def test_tiles_are_used_where_the_system_allows_it(allowed: bool, best: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = " ".join(sorted(module.INSTRUCTIONS["avx512-amx"][0]))
    monkeypatch.setattr(module.Path, "read_text", lambda _: f"processor : 0\nflags : {flags}\n")
    monkeypatch.setattr(module, "_may_use_tiles", lambda: allowed)
    monkeypatch.setattr(module, "features", module.features.__wrapped__)
    monkeypatch.delenv(module.VARIABLE, raising=False)
    assert module.instructions() == best


BROKEN = """while [ "$1" != -o ]; do shift; done
echo half > "$2"
echo 'kernels.cpp:1: error: no such thing' >&2
exit 1"""


@pytest.mark.parametrize(
    ("script", "longest", "why"), [(BROKEN, 60.0, "no such thing"), ("exec sleep 60", 0.2, "longer than")]
)
def test_a_failing_compiler_is_reported(
    script: str, longest: float, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What went wrong is said, and nothing is left behind."""
    file = tmp_path / "compiler"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    monkeypatch.setattr(module, "compiler", lambda: (str(file),))
    monkeypatch.setattr(module, "_LONGEST", longest)
    library = Library(tmp_path / "made" / "kernels.so", ())
    with pytest.raises(CannotCompileError, match=why):
        library.make()
    assert not list(library.file.parent.iterdir())


def test_a_damaged_library_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = Library(tmp_path / "kernels.so", ())
    (tmp_path / "made").write_bytes(b"no library")
    publish(tmp_path / "made", library.file)
    monkeypatch.setattr(module, "_loaded", None)
    with pytest.raises(CannotCompileError, match=r"remove .*kernels\.so"):
        library.load()
