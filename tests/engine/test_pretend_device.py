"""The pretend device fails where CUDA would, and counts what the host waits for."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.pretend_device import Pretend, PretendDevice

A, B = torch.arange(6.0).reshape(2, 3), torch.tensor([True, False, True])


def test_what_is_computed_there_stays_there(pretend: PretendDevice) -> None:
    there = A.to("cuda")
    for made in (there + 1, there.T @ there, torch.zeros(3, device="cuda:0"), there[:, 1:], there.new_ones(2)):
        assert isinstance(made, Pretend)
        assert made.is_cuda
        assert made.device == torch.device("cuda:0")
    assert torch.equal((there @ there.T).cpu(), A @ A.T)
    there[0] = 7
    there[1].mul_(2)
    assert there.tolist() == [[7, 7, 7], [6, 8, 10]]
    assert torch.randn(3, device="cuda", generator=torch.Generator("cuda").manual_seed(3)).shape == (3,)


@pytest.mark.parametrize("inference", [False, True])
def test_two_devices_are_not_mixed(pretend: PretendDevice, inference: bool) -> None:
    with torch.inference_mode(inference):
        there = A.to("cuda")
        for wrong in (
            lambda: there + A,
            lambda: there @ A.T,
            lambda: torch.cat((there, A)),
            lambda: torch.where(B, there, there),
            lambda: there.index_select(1, torch.tensor([0])),
            lambda: A[torch.tensor([0], device="cuda")],
            lambda: A[0, 0].add_(there[0, 0]),
            lambda: torch.nn.functional.linear(there, A),
        ):
            with pytest.raises(RuntimeError, match="same device"):
                wrong()
        assert (there * torch.tensor(2.0)).cpu().tolist() == (2 * A).tolist()  # a number of the host
        assert there.lerp(there, 0.5).is_cuda


@pytest.mark.parametrize("inference", [False, True])
def test_reads_and_uploads_are_counted(pretend: PretendDevice, inference: bool) -> None:
    with torch.inference_mode(inference):
        there, mask, at = A.to("cuda"), B.to("cuda"), torch.tensor([1, 0], device="cuda")
        pretend.forget()
        for read in (
            lambda: there.cpu(),
            lambda: there.to("cpu"),
            lambda: there.tolist(),
            lambda: there[0, 0].item(),
            lambda: bool(there.sum() > 0),
            lambda: float(there[0, 0]),
            lambda: there.nonzero(),
            lambda: there[:, mask],
            lambda: there[at[0]],
            lambda: there.masked_select(mask),
            lambda: at.repeat_interleave(at),
            lambda: at.unique(),
            lambda: torch.equal(there, there),
        ):
            pretend.forget()
            read()
            assert (pretend.reads.total(), pretend.uploads.total()) == (1, 0)
        for upload in (
            lambda: torch.tensor([1, 2], device="cuda"),
            lambda: A.to("cuda"),
            lambda: there.copy_(A),
            lambda: there[:, [2, 0]],
            lambda: torch.where(mask, there, torch.tensor(0.0)),
        ):
            pretend.forget()
            upload()
            assert [counter.total() for counter in (pretend.reads, pretend.uploads, pretend.waits)] == [0, 1, 1]
        pretend.forget()
        A.to("cuda", non_blocking=True)
        assert (pretend.uploads.total(), pretend.waits.total()) == (1, 0)
        pretend.forget()
        there.masked_fill(mask, 0.0)[:, mask] = 1.0
        there[:, 1:] = 0
        torch.where(mask, there, 0.0)
        there[:, at] = there[:, :2]
        torch.arange(5, device="cuda").repeat_interleave(at.new_ones(5), output_size=5)
        torch.full((2,), 1.5, device="cuda").clamp_(max=1)
        assert (pretend.reads.total(), pretend.uploads.total()) == (0, 0)


def test_the_attention_kernels_have_cuda_s_conditions(pretend: PretendDevice) -> None:
    flash, efficient = (
        getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention") for name in ("flash", "efficient")
    )
    q = torch.randn(1, 4, 3, 16, device="cuda")
    k, v = torch.randn(2, 1, 4, 7, 16, device="cuda")
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.3)
    out, lse, *_ = efficient(q, k, v, None, True, 0.0, False, scale=0.3)
    torch.testing.assert_close(out.cpu(), expected.cpu())
    assert lse.shape == (1, 4, 32)
    half, lse, *_ = flash(q.half(), k.half(), v.half(), 0.0, False, False, scale=0.3)
    torch.testing.assert_close(half.float().cpu(), expected.cpu(), atol=3e-3, rtol=0)
    assert lse.shape == (1, 4, 3)
    for wrong in (
        lambda: flash(q, k, v, 0.0, False, False, scale=0.3),
        lambda: efficient(q, k[:, :2], v[:, :2], None, True, 0.0, False, scale=0.3),
        lambda: efficient(q.transpose(2, 3), k[:, :, :3].transpose(2, 3), v, None, True, 0.0, False, scale=0.3),
        lambda: efficient(q, k[:, :, :0], v[:, :, :0], None, True, 0.0, False, scale=0.3),
        lambda: efficient(q, k.cpu(), v.cpu(), None, True, 0.0, False, scale=0.3),
        lambda: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, scale=0.3),
    ):
        with pytest.raises(RuntimeError):
            wrong()
