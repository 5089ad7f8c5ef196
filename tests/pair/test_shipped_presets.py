"""Every shipped preset on tiny checkpoints: its target's architecture, its draft's published layout, its own prompts.

Random weights stand in for published ones; greedy decoding in float32 must not differ from plain decoding by a token.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from specextend_cli.engine.decode import decode
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.stop import Stop
from specextend_cli.errors import ModelError, UsageError
from specextend_cli.models.ngram_table import FILE
from specextend_cli.models.preset import Draft, Preset, Window
from specextend_cli.models.presets import list_presets, load_preset
from specextend_cli.models.source_kinds import LocalSource
from specextend_cli.models.sources import fetch_pair, is_present
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.loading import describe, heads_of, with_head
from specextend_cli.runtime.loading_thread import result_of
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.prompts import PromptBuilder
from specextend_cli.summarize.writer import TextGenerator, load_writer
from tests.engine.tiny_models import generate
from tests.helpers.draft_files import table_file
from tests.helpers.grid import but_for
from tests.helpers.preset_models import LAYOUTS, found, save_assistant, save_model
from tests.helpers.published_heads import safeailab_3
from tests.summarize import tiny_preset

PRESETS = {preset.name: preset for preset in list_presets()}


def local(path: Path) -> LocalSource:
    return LocalSource(kind="local", path=path)


def shrink(preset: Preset, folder: Path) -> Preset:
    """The preset with tiny models in place of its own, of the same architectures and layouts."""
    vocabulary = tiny_preset.tokenizer().get_vocab_size()
    save_model(folder / "target", preset.target.source, layers=3, seed=0)
    draft = preset.draft
    if draft.model == "eagle":
        (folder / "draft").mkdir()
        found(LAYOUTS, draft.source, safeailab_3)(folder / "draft", vocabulary)
        if "table" in draft.drafters:
            answers = [(list(range(at, at + 4)) * 3, 4) for at in range(20)] * 5
            (folder / "draft" / FILE).write_bytes(table_file(answers))
    elif draft.model == "assistant":
        save_assistant(folder / "draft", vocabulary)
    elif draft.model == "lm":
        save_model(folder / "draft", draft.source, layers=2, seed=1)
    # The architecture is what counts here, and bitsandbytes may not be installed.
    target = {"source": local(folder / "target"), "shape": None, "dtype": "float32", "quantization": "none"}
    own: dict[str, Any] = {"source": local(folder / "draft") if draft.model else None, "shape": None}
    layers = tuple(layer if layer < 0 else place % 3 for place, layer in enumerate(preset.retrieval.layers))
    update = {
        "target": preset.target.model_copy(update=target),
        "draft": draft.model_copy(update=own),
        "retrieval": replace(preset.retrieval, chunk=8, top_k=4, recent=16, every=2, layers=layers),
    }
    return preset.model_copy(update=update)


def write(generator: TextGenerator, prompt: list[int], new: int = 32) -> tuple[list[int], int]:
    """Tokens that were written, and the largest tree that was verified."""
    generator.draft_gate.enabled = False
    how = {"sampling": generator.sampling, "retrieval": generator.retrieval, "gate": generator.draft_gate}
    stop = Stop(new, frozenset())
    events = decode(generator.target, generator.drafter, prompt, stop=stop, prefill_chunk=64, **how)
    steps = [event for event in events if isinstance(event, Accepted)]
    return [token for step in steps for token in step.tokens], max(step.nodes for step in steps)


def prompt_of(preset: Preset, folder: Path) -> list[int]:
    """The preset's own words and template around a document."""
    prompter = PromptBuilder(preset, TextEncoder.of(folder / "target"), folder / "target")
    values = {"title": "a", "words": 9, "pages": "1", "part": 1, "parts": 2, "language": "English"}
    return prompter.prompt("map", values, tiny_preset.text(4))


def loaded(preset: Preset, draft: str | None = None) -> TextGenerator:
    engine = Engine(device="cpu", draft=draft)
    return result_of(load_writer(preset, fetch_pair(preset, offline=True), engine, batch=None))


@pytest.mark.parametrize("name", but_for(["gemma-4-e4b", *list(PRESETS)[::5]], PRESETS))
def test_every_shipped_preset_is_lossless_on_its_own_architectures(name: str, tmp_path: Path) -> None:
    preset = shrink(PRESETS[name], tmp_path)
    assert is_present(preset)
    generator, prompt = loaded(preset), prompt_of(preset, tmp_path)
    tokens, nodes = write(generator, prompt)
    plain, one = write(generator.without_drafts(), prompt)
    assert tokens == plain
    assert one == 1 < nodes
    if generator.sampling.repetition_penalty == 1 and not generator.sampling.no_repeat_ngram:
        model = generator.target.lm.model
        model.generation_config.eos_token_id = None
        assert plain == generate(model, prompt, len(plain))


def test_every_layout_that_is_published_is_among_the_presets() -> None:
    heads = [preset.draft.source for preset in PRESETS.values() if preset.draft.model == "eagle"]
    assert {found(LAYOUTS, source, safeailab_3) for source in heads} == set(LAYOUTS.values())


@pytest.fixture
def pair(tmp_path: Path) -> Preset:
    """An EAGLE-3 preset whose head names its layers, so that it is probed."""
    return shrink(load_preset("qwen3-8b-eagle3"), tmp_path)


def test_what_drafts_is_said_with_the_layers_that_were_kept(pair: Preset) -> None:
    """The tiny head has random numbers, and it is said that it agrees with nothing."""
    drafter = loaded(pair).drafter
    assert describe(drafter) in {f"blend (eagle3 of layers {layers} + ngram)" for layers in ("0, 1, 2", "1, 2, 3")}
    assert describe(loaded(pair, "ngram").drafter) == "ngram"
    (remark,) = heads_of(drafter)[0].remarks
    assert remark.startswith("whichever way its configuration is read, it agrees with the target on ")


def test_a_head_takes_the_place_of_the_presets_draft(tmp_path: Path) -> None:
    preset, folder, says = shrink(PRESETS["qwen3-8b"], tmp_path), tmp_path / "head", "eagle3 of layers 2, 1, 0"
    folder.mkdir()
    safeailab_3(folder, tiny_preset.tokenizer().get_vocab_size())
    changed = with_head(preset, folder)
    assert (changed.draft.of, changed.draft.model, changed.draft.window) == (("eagle", "ngram"), "eagle", 1024)
    assert changed.retrieval == replace(preset.retrieval, positions="compact")
    generator, prompt = loaded(changed), prompt_of(changed, tmp_path)
    assert describe(generator.drafter) == f"blend ({says} + ngram)"
    generator.drafter.suspend()  # as the gate does where a head does not pay
    assert describe(generator.drafter) == f"blend ({says} + ngram)"
    assert write(generator, prompt)[0] == write(generator.without_drafts(), prompt)[0]
    assert describe(loaded(changed, "eagle").drafter) == says
    (folder / FILE).touch()
    assert with_head(preset, folder).draft.of == ("eagle", "ngram", "table")
    with pytest.raises(UsageError, match="no directory") as caught:
        with_head(preset, tmp_path / "nowhere")
    assert "docs/models.md" in caught.value.fix


@pytest.mark.parametrize(
    ("draft", "has_head", "lacks"),
    [("lm", True, "draft model"), ("assistant", True, "assistant model"), ("eagle", False, "EAGLE head")],
)
def test_asking_for_a_draft_that_a_preset_does_not_have(pair: Preset, draft: str, has_head: bool, lacks: str) -> None:
    with pytest.raises(UsageError, match=f"has no {lacks}") as caught:
        loaded(pair if has_head else pair.model_copy(update={"draft": Draft(kind="ngram")}), draft)
    assert ("--draft-head DIR" in caught.value.fix) == (draft != "lm")


def test_layers_that_the_target_has_not_are_refused(tmp_path: Path) -> None:
    built = shrink(PRESETS["smollm2-135m"], tmp_path)
    with pytest.raises(ModelError) as caught:
        loaded(built.model_copy(update={"retrieval": replace(built.retrieval, layers=(1, 3))}))
    assert caught.value.why == "it has layers 0 to 2"


def test_a_window_beyond_the_positions_that_a_model_learnt_is_refused(tmp_path: Path) -> None:
    """Its table ends there, and reading on would end in an error of torch."""
    built = shrink(PRESETS["qwen3-0.6b"], tmp_path)
    sizes = {"vocab_size": tiny_preset.tokenizer().get_vocab_size(), "n_embd": 64, "n_layer": 3, "n_head": 4}
    config = transformers.GPT2Config(**sizes, n_positions=1024, bos_token_id=0, eos_token_id=tiny_preset.END)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "target")
    with pytest.raises(UsageError, match="has 1,024 positions") as caught:
        loaded(built)
    assert caught.value.fix == f"set context = {1024 - built.tree.depth} under [window], and a smaller chunk"
    fits = Window(context=1024 - built.tree.depth, chunk=512, summary_tokens=64, chunk_summary_tokens=64)
    assert loaded(built.model_copy(update={"window": fits})).target.lm.config.n_positions == 1024
