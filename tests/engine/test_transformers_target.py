"""Models that the engine's own forward does not run: by transformers', token for token what `generate` writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.decode import decode
from specextend_cli.engine.drafters import NoDrafter
from specextend_cli.engine.events import Accepted, Finished, Prefilled, Prefilling
from specextend_cli.engine.lm import LanguageModel, UnsupportedModelError
from specextend_cli.engine.plain import TransformersTarget
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop
from specextend_cli.errors import ModelError
from tests.engine.test_support import REFUSED as REFUSED_BY_ENGINE
from tests.engine.tiny_models import OTHERS, generate, make, prompt
from tests.helpers.decoding import NEW, run
from tests.helpers.grid import but_for

SOME = ("deepseek-v3", "llama4", "granite-h", "zamba2", "dynamic-rope")
"""A compressed cache, chunks of positions, Mamba-2, the same beside attention, positions by the input's length."""


def target_of(name: str, seed: int = 0) -> TransformersTarget:
    """As `loading.load_target` makes it."""
    model = make(OTHERS[name](), seed)
    own = model.config._attn_implementation
    with pytest.raises(UnsupportedModelError) as caught:
        LanguageModel(model)
    assert caught.value.model is model
    assert model.config._attn_implementation == own
    return TransformersTarget(model, caught.value.why)


@pytest.mark.parametrize("name", but_for(SOME, OTHERS))
def test_texts_are_those_of_generate(name: str) -> None:
    """One after the other, the first one again at the end."""
    target, texts = target_of(name), (prompt(150), prompt(31, 4), prompt(40)[:3], prompt(150))
    for tokens in texts:
        written, meter = run(target, NoDrafter(), tokens, Retrieval())
        assert written == generate(make(OTHERS[name]()), tokens, NEW)
        assert (meter.prompt_tokens, meter.tokens) == (len(tokens), NEW)


@pytest.mark.parametrize("name", but_for(SOME, sorted({*OTHERS} - {"openai-gpt"})))
def test_samples_are_those_of_reading_everything_at_every_step(name: str) -> None:
    target, tokens = target_of(name), prompt(40)
    model, written = make(OTHERS[name]()), {}
    for seed in (5, 6):
        sampling = Sampling(temperature=0.8, top_p=0.9, repetition_penalty=1.1, seed=seed)
        sampler, expected = Sampler(sampling, model.device), list[int]()
        for _ in range(12):
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([[*tokens, *expected]]), use_cache=False).logits[0, -1:]
            choice = sampler.choose(logits)
            sampler.commit(choice[None])
            expected += choice.tolist()
        written[seed] = run(target, NoDrafter(), tokens, Retrieval(), sampling, new=12)[0]
        assert written[seed] == expected
    assert written[5] != written[6]


def test_what_is_told_of_a_run() -> None:
    """The prompt is read at once, whatever chunks are wished; a step emits a token; an end token stops."""
    target, tokens = target_of("llama4"), prompt(90)
    answer = generate(make(OTHERS["llama4"]()), tokens, 12)
    count = next(at for at in range(3, 12) if answer[at] not in answer[:at])
    events = list(
        decode(
            target, NoDrafter(), tokens, stop=Stop(12, frozenset([answer[count]])), prefill_chunk=16, shared_prefix=20
        )
    )
    assert [type(event) for event in events[:3]] == [Prefilling, Prefilled, Accepted]
    assert [token for event in events if isinstance(event, Accepted) for token in event.tokens] == answer[: count + 1]
    assert events[-1] == Finished("eos", count + 1)
    assert all(event.nodes <= 1 for event in events if isinstance(event, Accepted))
    assert target.length == 90 + count


T5 = {"vocab_size": 97, "d_model": 16, "d_ff": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8}
REFUSED: dict[str, tuple[Callable[[], PreTrainedModel], str]] = {
    "NaN": REFUSED_BY_ENGINE["NaN"],
    "later tokens are seen": (REFUSED_BY_ENGINE["later tokens are seen"][0], "in one piece"),
    "another kind": (
        lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5)),
        "does not run by transformers",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_transformers_do_not_decode_is_refused(what: str) -> None:
    model, why = REFUSED[what]
    with pytest.raises(ModelError) as caught:
        TransformersTarget(model(), "")
    assert why in caught.value.why
