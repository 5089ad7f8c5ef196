"""A model's first layers as a reader: the hidden states are those of transformers, in whatever pieces it reads."""

from __future__ import annotations

import pytest
import torch
from specextend_cli.engine.reader import Reader

from specextend_cli.engine.lm import LanguageModel
from tests.engine.tiny_models import ARCHITECTURES, VOCABULARY, prompt, tiny

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@torch.inference_mode()
def expected(name: str, tokens: list[int], layers: int) -> torch.Tensor:
    states: torch.Tensor = tiny(name)(torch.tensor([tokens]), output_hidden_states=True).hidden_states[layers][0]
    return states


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", [*ARCHITECTURES, "gemma4", "gemma4-shared"])
def test_states_are_those_of_transformers(name: str, layers: int) -> None:
    tokens = list(prompt(50))
    states = Reader(LanguageModel(tiny(name)), layers).states(tokens)
    torch.testing.assert_close(states, expected(name, tokens, layers), **CLOSE)


def test_states_of_layers_that_attend_to_the_keys_of_others() -> None:
    tokens = list(prompt(50))
    states = Reader(LanguageModel(tiny("gemma4-shared")), 3).states(tokens)
    torch.testing.assert_close(states, expected("gemma4-shared", tokens, 3), **CLOSE)


@torch.inference_mode()
def test_states_after_the_last_layer_are_those_before_the_norm() -> None:
    tokens = list(prompt(50))
    states = Reader(LanguageModel(tiny()), 3).states(tokens)
    torch.testing.assert_close(tiny().model.norm(states), expected("llama", tokens, 3), **CLOSE)


@pytest.mark.parametrize("chunk", [1, 7, 49, 50, 4096])
def test_pieces_make_no_difference(chunk: int) -> None:
    tokens = list(prompt(50))
    states = Reader(LanguageModel(tiny()), 2).states(tokens, chunk=chunk)
    torch.testing.assert_close(states, expected("llama", tokens, 2), **CLOSE)


def test_one_text_leaves_nothing_for_the_next() -> None:
    reader = Reader(LanguageModel(tiny()), 2)
    for size in (60, 20, 90, 1):
        tokens = [(7 * at + size) % VOCABULARY for at in range(size)]
        states = reader.states(tokens)
        assert states.shape == (size, 64)
        torch.testing.assert_close(states, expected("llama", tokens, 2), **CLOSE)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_texts_come_behind_is_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, read = Reader(LanguageModel(tiny(name)), 2), []
    forward = reader.lm.forward
    monkeypatch.setattr(
        reader.lm, "forward", lambda tokens, *rest, **more: read.append(len(tokens)) or forward(tokens, *rest, **more)
    )
    texts = [(range(3, 23), size) for size in (30, 9, 300)] + [(range(5, 12), 30), (range(0), 30), (range(0), 5)]
    for behind, size in texts:
        tokens = [(7 * at + size) % VOCABULARY for at in range(size)]
        states = reader.states(tokens, behind=behind)
        torch.testing.assert_close(states, expected(name, [*behind, *tokens], 2)[len(behind) :], **CLOSE)
    assert read == [20, 30, 9, 300, 7, 30, 30, 5]
    assert reader.states([], behind=[1]).shape == (0, 64)


def test_only_the_layers_that_are_read_are_kept() -> None:
    reader = Reader(LanguageModel(tiny()), 2)
    assert len(reader.lm.model.get_decoder().layers) == 2


@pytest.mark.parametrize("layers", [-1, 0, 4])
def test_layers_that_a_model_has_not(layers: int) -> None:
    with pytest.raises(ValueError, match=f"3 layers, not {layers}"):
        Reader(LanguageModel(tiny()), layers)
