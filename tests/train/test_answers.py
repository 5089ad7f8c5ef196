"""What the target is asked is what the engine would ask it, whatever came with the model."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import generate, prompt, tiny
from transformers import GenerationConfig
from transformers.utils import logging

from specextend_cli.engine.attention import NAME
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.answers import Asking, _settings, answer

GREEDY = Asking(new_tokens=6, repetition_penalty=1.0)


def test_answers_without_an_end_run_to_their_length() -> None:
    ((sample,),) = answer(LanguageModel(tiny()), [prompt(40)], GREEDY, [])
    assert sample.tokens == [*prompt(40), *generate(tiny(), prompt(40), 6)]
    assert sample.start == 38


def test_settings_that_came_with_the_target_stay_out() -> None:
    wanted = generate(tiny(), prompt(40), 6)
    lm = LanguageModel(tiny())
    own = GenerationConfig(min_length=60, top_k=3, repetition_penalty=9.0, suppress_tokens=wanted, eos_token_id=[1])
    lm.model.generation_config = own
    ((sample,),) = answer(lm, [prompt(40)], GREEDY, [wanted[2]])
    assert sample.tokens == [*prompt(40), *wanted[: wanted.index(wanted[2]) + 1]]
    assert lm.model.generation_config is own
    assert lm.model.config._attn_implementation == NAME


def test_samples_come_from_all_tokens() -> None:
    settings = _settings(Asking(temperature=0.5), [4, 5], sampled=True)
    assert (settings.do_sample, settings.temperature, settings.top_k) == (True, 0.5, 0)
    assert (settings.eos_token_id, settings.pad_token_id) == ([4, 5], 4)


def test_transformers_stays_quiet_while_it_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    before, lm = logging.get_verbosity(), LanguageModel(tiny())
    during, stock = [], lm.model.generate

    def watched(*args: Any, **kwargs: Any) -> Any:
        during.append((logging.get_verbosity(), logging.is_progress_bar_enabled()))
        return stock(*args, **kwargs)

    monkeypatch.setattr(lm.model, "generate", watched)
    list(answer(lm, [prompt(40)], GREEDY, []))
    assert during == [(logging.ERROR, False)]
    assert logging.get_verbosity() == before
