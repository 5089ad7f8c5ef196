"""What configurations say of recurrent layers is what a model keeps for a sequence."""

from __future__ import annotations

import pytest

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.state_shape import attending_layers, layer_types, state_numbers
from tests.engine.tiny_models import RECURRENT, tiny


@pytest.mark.parametrize("name", RECURRENT)
def test_sizes_are_those_of_the_model(name: str) -> None:
    net = tiny(name)
    config, lm = net.config.to_dict(), LanguageModel(net)
    assert attending_layers(config) == len(lm.new_cache(1).attending)
    assert 4 * state_numbers(config) == lm.state_bytes


@pytest.mark.parametrize(
    ("config", "types"),
    [
        ({"num_hidden_layers": 2}, []),
        ({"num_hidden_layers": 3, "full_attn_idxs": [1]}, ["conv", "full_attention", "conv"]),
        (
            {"num_hidden_layers": 4, "linear_num_value_heads": 4},
            ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
        ),
    ],
)
def test_published_configurations(config: dict[str, object], types: list[str]) -> None:
    assert layer_types(config) == types
    assert attending_layers(config) == (types.count("full_attention") or 2)


def test_a_model_without_them_has_no_states() -> None:
    assert state_numbers({"num_hidden_layers": 2, "hidden_size": 64}) == 0
