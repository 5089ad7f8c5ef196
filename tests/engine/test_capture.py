"""Captures and replays by the rules of torch and CUDA, as far as Python sees them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from specextend_cli.engine.cuda import capture
from specextend_cli.engine.cuda.capture import CaptureFailedError, cuda_graph, turn
from specextend_cli.errors import DeviceError
from tests.helpers.fake_cuda import DEVICE, FakeCuda, Stream


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setattr(capture, "_owners", {})
    return FakeCuda(monkeypatch)


def captured(body: Callable[[], Any]) -> Any:
    return cuda_graph(body, DEVICE)


def test_a_host_that_waits_is_found_before_the_capture(cuda: FakeCuda) -> None:
    """What is made once may wait for the device."""
    with pytest.raises(RuntimeError, match="synchronizing"):
        captured(cuda.wait)
    assert cuda.began == cuda.mode == 0
    waits = iter((cuda.wait, int, int))
    assert captured(lambda: next(waits)())[0] == 0
    assert cuda.began == 1


def test_after_a_capture_that_was_broken_off_no_other_is_tried(cuda: FakeCuda) -> None:
    """What waits unseen. The stream is left, and the allocator gives memory back: by torch alone it does neither."""
    first = captured(int)
    with pytest.raises(CaptureFailedError, match="RuntimeError: operation not permitted when stream is capturing"):
        captured(lambda: cuda.wait(is_seen=False))
    assert torch.cuda.current_stream() is cuda.default
    torch.cuda.empty_cache()
    with pytest.raises(CaptureFailedError, match="not permitted"):
        captured(int)
    assert cuda.began == 2
    first[1]()  # what was captured before goes on
    with pytest.raises(RuntimeError, match="previous error"), torch.cuda.graph(torch.cuda.CUDAGraph(), pool=(1, 0)):
        cuda.wait(is_seen=False)
    assert torch.cuda.current_stream() is not cuda.default
    with pytest.raises(AssertionError, match="captures_underway"):
        torch.cuda.empty_cache()


def test_a_device_that_is_dead_is_said(cuda: FakeCuda) -> None:
    cuda.dead = "CUDA error: an illegal memory access was encountered\nCompile with `TORCH_USE_CUDA_DSA`"
    with pytest.raises(DeviceError) as failed:
        captured(lambda: cuda.wait(is_seen=False))
    assert failed.value.why == "CUDA error: an illegal memory access was encountered"


def test_a_capture_without_memory_leaves_the_others_possible(cuda: FakeCuda) -> None:
    def full() -> None:
        if cuda.underway:
            raise torch.OutOfMemoryError("2 GiB are free")

    with pytest.raises(torch.OutOfMemoryError):
        captured(full)
    assert torch.cuda.current_stream() is cuda.default
    torch.cuda.empty_cache()
    captured(int)


def test_a_pool_ends_with_its_graphs(cuda: FakeCuda) -> None:
    """Though a result still lies in it, as where a generator was left."""
    graphs = [captured(int) for _ in range(3)]
    (pool,) = +cuda.uses
    cuda.results[pool] = 1
    del graphs
    captured(int)
    assert not cuda.uses[pool]


def test_threads_take_turns_and_so_do_their_streams(cuda: FakeCuda) -> None:
    replay, stream, told = captured(int)[1], Stream(), list[str]()

    def another() -> None:
        torch.cuda.set_stream(stream)  # type: ignore[arg-type]
        replay()
        told.append("another has replayed")

    other = threading.Thread(target=another)
    with turn(DEVICE):
        replay()
        other.start()
        other.join(timeout=0.2)
        told.append("one has read")
    other.join()
    assert told == ["one has read", "another has replayed"]
    assert [on for _, on in cuda.replayed] == [cuda.default, stream]
    assert stream.waited == [cuda.default]
