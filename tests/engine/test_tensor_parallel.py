"""A target split over processes writes the same tokens, and looks where the whole one looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from in_company import EVERY, MARKS, NEW, SOME
from tiny_models import generate, prompt, tiny

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.splitting import split

NAMES = ("llama", "llama-mha", "qwen2", "qwen3", "mistral", "gemma")


@pytest.fixture(scope="module")
def company() -> dict[str, Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = Path(__file__).with_name("in_company.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(script), *NAMES], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_tokens_by_every_drafter_and_policy(company: dict[str, Any], name: str) -> None:
    expected = generate(tiny(name), prompt(), NEW)
    written = company[name]["written"]
    assert len(written) == (len(EVERY) if name == NAMES[0] else len(SOME))
    for how, tokens in written.items():
        assert tokens == expected, how


@pytest.mark.parametrize("name", NAMES)
def test_attention_is_that_of_all_heads(company: dict[str, Any], name: str) -> None:
    target = Target(LanguageModel(tiny(name)), score_layers=(-1, 0), look_layers=(1,))
    target.begin(300)
    target.prefill(torch.tensor(prompt()))
    found = company[name]
    assert found["heads"] == target.cache.buffer.shape[2] // 2
    torch.testing.assert_close(torch.tensor(found["scores"]), target.attention_from([-1]), rtol=1e-4, atol=1e-6)
    looks = target.looks([-1], torch.tensor(MARKS))
    torch.testing.assert_close(torch.tensor(found["looks"]), looks, rtol=1e-4, atol=1e-6)


class Three:
    """As far as splitting looks at a crew."""

    rank, size = 0, 3


@pytest.mark.parametrize(
    ("name", "why"), [("llama", "4 and 2 heads"), ("phi3", "no plan of heads"), ("olmo2", "no plan of heads")]
)
def test_what_cannot_be_split_says_why(name: str, why: str) -> None:
    with pytest.raises(ModelError, match="split over several processes") as caught:
        split(tiny(name), Three())  # type: ignore[arg-type]
    assert why in caught.value.why
