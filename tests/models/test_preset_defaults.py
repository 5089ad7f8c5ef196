"""What presets leave out: the shipped ones' computed settings, and the rules behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from specextend_cli.engine.config import TreeShape
from specextend_cli.errors import UsageError
from specextend_cli.models.choice import Machine
from specextend_cli.models.memory import estimate
from specextend_cli.models.preset_defaults import GRAPHS, HEADROOM, retrieval
from specextend_cli.models.presets import list_presets, load_preset, to_toml

PRESETS = {preset.name: preset for preset in list_presets()}

# preset: context, chunk; of its draft: tokens read at once, chunks and newest tokens of its working set
COMPUTED = {
    "gemma-3-1b": (32768, 24576, None, 32, 128),
    "gemma-4-26b-a4b": (32768, 24576, None, 64, 256),
    "gemma-4-31b": (10240, 7680, None, 64, 256),
    "gemma-4-e2b": (32768, 24576, None, 64, 256),
    "gemma-4-e4b": (32768, 24576, None, 64, 256),
    "granite-4.0-micro": (8192, 6144, None, 32, 128),
    "lfm2-1.2b": (32768, 24576, None, 32, 128),
    "lfm2-2.6b": (32768, 24576, None, 32, 128),
    "llama-3.1-8b-eagle": (26624, 19968, 1024, 56, 128),
    "llama-3.1-8b-eagle3-paper": (32768, 24576, 1024, 56, 128),
    "llama-3.3-70b-4bit-eagle3": (32768, 24576, 1024, 56, 128),
    "longchat-7b-16k": (14336, 10752, 1024, 32, 128),
    "longchat-7b-16k-eagle": (12288, 9216, 1024, 56, 128),
    "qwen3-0.6b": (8192, 6144, None, 32, 128),
    "qwen3-1.7b": (8192, 6144, None, 32, 128),
    "qwen3-1.7b-eagle3": (24576, 18432, 1024, 56, 128),
    "qwen3-14b-4bit-eagle3": (32768, 24576, 2048, 64, 256),
    "qwen3-14b-eagle3": (32768, 24576, 2048, 64, 256),
    "qwen3-30b-a3b-2507-eagle3": (32768, 24576, 1024, 56, 128),
    "qwen3-32b-eagle3": (12288, 9216, 1024, 56, 128),
    "qwen3-4b-4bit-eagle3": (12288, 9216, 2048, 64, 256),
    "qwen3-4b-eagle3": (12288, 9216, 1024, 56, 128),
    "qwen3-8b": (14336, 10752, None, 64, 256),
    "qwen3-8b-4bit-eagle3": (10240, 7680, 1024, 56, 128),
    "qwen3-8b-eagle3": (18432, 13824, 1024, 56, 128),
    "qwen3.5-27b-mtp": (32768, 24576, None, 64, 256),
    "qwen3.5-4b-mtp": (32768, 24576, None, 64, 256),
    "qwen3.5-9b-mtp": (32768, 24576, None, 64, 256),
    "qwen3.8-27b-mtp": (32768, 24576, None, 64, 256),
    "r1-distill-8b-eagle3": (32768, 24576, 1024, 56, 128),
    "smollm2-135m": (8192, 512, 2048, 32, 64),  # typed: its settings were measured
    "smollm3-3b": (8192, 6144, None, 32, 128),
    "vicuna-7b-16k": (14336, 10752, 1024, 32, 128),
    "vicuna-7b-16k-eagle": (12288, 9216, 1024, 56, 128),
}


def test_every_shipped_preset_has_these_values() -> None:
    values = {
        name: (
            preset.window.context,
            preset.window.chunk,
            preset.draft.window,
            preset.retrieval.top_k,
            preset.retrieval.recent,
        )
        for name, preset in PRESETS.items()
    }
    assert values == COMPUTED


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.gpu_memory])
def test_a_preset_fits_the_gpu_that_it_is_made_for(name: str) -> None:
    preset = PRESETS[name]
    need = estimate(preset)
    assert Machine("cuda", preset.gpu_memory * 10**9).holds(need)
    if "window" not in preset.model_fields_set and preset.window.context < 32768:
        larger = estimate(preset, context=preset.window.context + 2048)
        assert larger + GRAPHS > HEADROOM * preset.gpu_memory * 10**9


def test_no_preset_thinks_and_everything_is_shown(tmp_path: Path) -> None:
    for preset in PRESETS.values():
        assert preset.prompts.template_options == {"enable_thinking": False}
    shown = to_toml(PRESETS["qwen3-8b-eagle3"])
    for line in ("context = 18432", "top_k = 56", "window = 1024", "trained = 2048", "enable_thinking = false"):
        assert line in shown.splitlines()
    (tmp_path / "mine.toml").write_text(shown)
    mine = load_preset(tmp_path / "mine.toml")
    assert mine.model_copy(update={"name": "qwen3-8b-eagle3"}) == PRESETS["qwen3-8b-eagle3"]


@pytest.mark.parametrize("trained", [256, 512, 1024, 2048, 4096, 65536])
@pytest.mark.parametrize("depth", [1, 10])
def test_working_sets_stay_within_what_a_draft_was_trained_on(trained: int, depth: int) -> None:
    seen = retrieval(trained, TreeShape(depth=depth))
    assert seen.size + seen.every * (depth + 1) <= trained
    assert seen.positions == "compact"
    assert retrieval(None, TreeShape()).positions == "absolute"


def test_a_gpu_that_is_too_small_is_an_error_of_the_file(tmp_path: Path) -> None:
    text = to_toml(PRESETS["qwen3-32b-eagle3"])
    file = tmp_path / "mine.toml"
    file.write_text(text[: text.index("\n[window]")].replace("gpu_memory = 80", "gpu_memory = 24"))
    with pytest.raises(UsageError, match="a GPU of 24 GB holds no window of 4,096 tokens") as caught:
        load_preset(file)
    assert str(file) in caught.value.what


def test_ranks_follow_the_rule_of_the_manual() -> None:
    """Those below 6% first, or of a family of which all were; then by size, in four or eight bits half of it."""
    ranked = sorted((preset for preset in PRESETS.values() if preset.rank), key=lambda preset: preset.rank or 0)
    assert [preset.rank for preset in ranked] == list(range(1, len(ranked) + 1))

    def key(name: str) -> tuple[bool, float]:
        preset = PRESETS[name]
        faithful = (preset.evidence is not None and preset.evidence.hallucinated < 0.06) or name.startswith("qwen3-")
        small = preset.target.quantization != "none" or preset.target.source.kind == "hub-file"
        return not faithful, -preset.target.shape.weights / (2 if small else 1)

    names = [preset.name for preset in ranked]
    assert names == sorted(names, key=key)
    assert not any(preset.gated for preset in ranked)
    assert all(preset.evidence is None or "Vectara" in preset.evidence.source for preset in ranked)


@pytest.mark.parametrize(
    ("gigabytes", "first"),
    [
        (4, "qwen3-0.6b"),
        (8, "qwen3-4b-4bit-eagle3"),
        (12, "qwen3-8b-4bit-eagle3"),
        (16, "qwen3-8b-4bit-eagle3"),
        (24, "qwen3-8b-eagle3"),
        (48, "qwen3-14b-eagle3"),
        (80, "qwen3-32b-eagle3"),
    ],
)
def test_the_first_that_fits_a_gpu(gigabytes: int, first: str) -> None:
    ranked = sorted((preset for preset in PRESETS.values() if preset.rank), key=lambda preset: preset.rank or 0)
    needs = [(preset.name, estimate(preset)) for preset in ranked]
    assert next(name for name, need in needs if need and Machine("cuda", gigabytes * 10**9).holds(need)) == first
