"""How many threads decode is measured, and reading has its own number."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from specextend_cli.engine.cpu import decoding_threads as module
from specextend_cli.engine.cpu.decoding_threads import decoding_threads, on_threads, quickest
from specextend_cli.engine.lm import LanguageModel
from tests.engine.tiny_models import tiny


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert after == before


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({16: 4.0, 8: 2.0, 4: 3.0, 2: 5.0}, 8),
        ({16: 1.0, 8: 0.97, 4: 1.5, 2: 3.0}, 16),  # as good as the same
        ({16: 9.0, 8: 8.0, 4: 7.0, 2: 1.0}, 2),
        ({3: 1.0}, 3),  # nothing to choose from
    ],
)
def test_the_clearly_fastest_count_is_chosen(seconds: dict[int, float], expected: int) -> None:
    now, steps = [0.0], [0]

    def step() -> None:
        steps[0] += 1
        late = 10.0 if steps[0] < 3 * len(seconds) else 0.0  # the machine is busy in the first rounds
        now[0] += seconds[torch.get_num_threads()] + late

    assert quickest(step, max(seconds), clock=lambda: now[0]) == expected


def test_steps_of_the_model_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    lm, read = LanguageModel(tiny()), list[int]()
    lm.model.get_input_embeddings().register_forward_hook(lambda _, args, __: read.append(args[0].numel()))

    def twice(step: Callable[[], object], most: int) -> int:
        read.clear()
        step()
        step()
        return most - 1

    monkeypatch.setattr(module, "quickest", twice)
    with on_threads(4):
        assert decoding_threads(lm) == 3
    assert read == [1, 8, 1, 8]
