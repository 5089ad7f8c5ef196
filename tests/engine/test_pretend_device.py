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
            lambda: torch.cat((there, A)),
            lambda: there.index_select(1, torch.tensor([0])),
            lambda: torch.nn.functional.linear(there, A),
        ):
            with pytest.raises(RuntimeError, match="same device"):
                wrong()
        assert (there * torch.tensor(2.0)).cpu().tolist() == (2 * A).tolist()  # a number of the host


@pytest.mark.parametrize("inference", [False, True])
def test_reads_and_uploads_are_counted(pretend: PretendDevice, inference: bool) -> None:
    with torch.inference_mode(inference):
        there, mask = A.to("cuda"), B.to("cuda")
        for expected, call in (
            ((1, 0, 0), lambda: there.cpu()),
            ((1, 0, 0), lambda: there[0, 0].item()),
            ((1, 0, 0), lambda: bool(there.sum() > 0)),
            ((1, 0, 0), lambda: there.nonzero()),
            ((1, 0, 0), lambda: there[:, mask]),
            ((0, 1, 1), lambda: torch.tensor([1, 2], device="cuda")),
            ((0, 1, 1), lambda: there.copy_(A)),
            ((0, 1, 1), lambda: there[:, [2, 0]]),
            ((0, 1, 0), lambda: A.to("cuda", non_blocking=True)),
            ((0, 0, 0), lambda: torch.where(mask, there, 0.0)),
        ):
            pretend.forget()
            call()
            assert (pretend.reads.total(), pretend.uploads.total(), pretend.waits.total()) == expected
