"""Other programs inside our benchmark: the same choices, honestly timed, or a reason why not."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from specextend_cli.bench import external
from specextend_cli.bench.external import LlamaCpp, OurChoice, Transformers
from specextend_cli.bench.measure import Decoding
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.drafters import NoDrafter
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.source_kinds import WheelSource
from tests.engine.tiny_models import prompt
from tests.helpers.decoding import run as decoded

SAMPLINGS = {
    "greedy": Sampling(),
    "penalties": Sampling(repetition_penalty=1.3, no_repeat_ngram=3),
    "sampled": Sampling(temperature=0.9, top_p=0.95, seed=3),
}


def plain(models, tokens: list[int], decoding: Decoding) -> list[int]:
    return decoded(Target(models.lm), NoDrafter(), tokens, Retrieval(), decoding.sampling, new=decoding.tokens)[0]


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("lookup", [False, True])
def test_transformers_chooses_as_we_do(models, lookup: bool, sampling: Sampling) -> None:
    tokens = prompt(120, vocabulary=models.lm.vocabulary)
    decoding = Decoding(sampling, 20, frozenset(), 64)
    peer = Transformers(models, lookup=lookup)
    run = peer(tokens, decoding)
    assert models.lm.model.config._attn_implementation == "specextend"  # again
    assert list(run.tokens) == plain(models, tokens, decoding)
    assert min(run.prefill_seconds, run.decode_seconds) > 0
    assert 0 < sum(run.accepted) <= 19
    if not lookup:
        assert run.accepted == (1,) * 19


def test_prompt_lookup_copies_whoever_chooses(models) -> None:
    """A penalty that changes nothing lets us choose; prompt lookup must gain by that what it gains by itself."""
    tokens = prompt(120, vocabulary=models.lm.vocabulary)
    samplings = Sampling(), Sampling(repetition_penalty=1.0001)
    peer = Transformers(models, lookup=True)
    own, ours = (peer(tokens, Decoding(sampling, 80, frozenset(), 64)) for sampling in samplings)
    assert own.tokens == ours.tokens
    assert own.accepted == ours.accepted
    assert max(ours.accepted) > 1


def test_transformers_ends_at_our_end_tokens(models) -> None:
    tokens = prompt(120, vocabulary=models.lm.vocabulary)
    free = Decoding(Sampling(), 12, frozenset(), 64)
    written = Transformers(models)(tokens, free).tokens
    ended = Transformers(models)(tokens, replace(free, eos=frozenset(written[5:6]))).tokens
    assert ended == written[: written.index(written[5]) + 1]


def test_what_transformers_refuses_is_a_reason(models, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise ValueError("no such thing\nat all")

    monkeypatch.setattr(models.lm.model, "generate", refuse)
    with pytest.raises(ModelError) as caught:
        Transformers(models)([1, 2, 3], Decoding(Sampling(), 4, frozenset(), 64))
    assert caught.value.why == "no such thing"
    assert models.lm.model.config._attn_implementation == "specextend"


class FakeLlama:
    """What the adapter uses of llama-cpp-python, over the target's own logits: `transformers` answers behind it."""

    made: ClassVar[list[dict[str, object]]] = []
    model = None

    def __init__(self, path: str, **options: object) -> None:
        self.made.append({"path": path, **options})
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    @torch.inference_mode()
    def generate(self, tokens, temp, repeat_penalty, reset, logits_processor):
        assert (temp, repeat_penalty, reset, self.resets) == (0.0, 1.0, True, self.resets)
        assert self.resets
        ids = list(tokens)
        while True:
            FakeLlama.model.set_attn_implementation("sdpa")
            scores = FakeLlama.model(torch.tensor([ids])).logits[0, -1].numpy()
            for processor in logits_processor or ():
                scores = processor(np.array(ids, dtype=np.intc), scores)
            ids.append(int(scores.argmax()))
            yield ids[-1]


@pytest.fixture
def llama(models, monkeypatch: pytest.MonkeyPatch, tmp_path) -> LlamaCpp:
    fake = SimpleNamespace(
        Llama=FakeLlama, LogitsProcessorList=list, LLAMA_ROPE_SCALING_TYPE_YARN=2, __spec__=SimpleNamespace()
    )
    FakeLlama.made.clear()
    FakeLlama.model = models.lm.model
    monkeypatch.setitem(sys.modules, "llama_cpp", fake)
    source = WheelSource.model_construct(kind="wheel", package="x", version="1", file="x.gguf")
    models.preset = models.preset.model_copy(
        update={"target": models.preset.target.model_copy(update={"source": source})}
    )
    monkeypatch.setattr(external, "obtain_gguf", lambda source, name: tmp_path / "x.gguf")
    return LlamaCpp(models)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_llama_cpp_is_given_our_settings(llama, models, sampling: Sampling) -> None:
    tokens = prompt(60, vocabulary=models.lm.vocabulary)
    decoding = Decoding(sampling, 10, frozenset(), 64)
    run = llama(tokens, decoding)
    models.lm.model.set_attn_implementation("specextend")
    assert list(run.tokens) == plain(models, tokens, decoding)
    assert run.accepted == (1,) * 9
    assert run.prefill_seconds > 0
    assert run.decode_seconds > 0


def test_llama_cpp_is_loaded_once_and_stretched_like_the_target(llama, models) -> None:
    decoding = Decoding(Sampling(), 3, frozenset(), 64)
    window = models.preset.window.context
    for length in (20, 20, 2 * window - decoding.tokens):
        llama(prompt(length, vocabulary=models.lm.vocabulary), decoding)
    assert "rope_freq_scale" not in FakeLlama.made[0]
    assert FakeLlama.made[1]["rope_freq_scale"] == 0.5
    assert FakeLlama.made[1]["yarn_orig_ctx"] == window
    assert len(FakeLlama.made) == 2


def test_llama_cpp_says_what_is_missing(models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="not installed") as caught:
        LlamaCpp(models)
    assert "pip install" in caught.value.why
    monkeypatch.setattr(external.importlib.util, "find_spec", lambda name: object())
    with pytest.raises(ModelError, match="no GGUF"):
        LlamaCpp(models)


def test_choosing_looks_back_on_the_output() -> None:
    def choice(sampling: Sampling, written: list[int]) -> int:
        logits = torch.tensor([[0.0, 2.0, 1.9]])
        return int(OurChoice(sampling, [1])(torch.tensor([[1, *written]]), logits).argmax())

    sampling = Sampling(repetition_penalty=2.0)
    assert choice(sampling, []) == 1
    assert choice(sampling, [1]) == 2
