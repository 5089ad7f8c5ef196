"""A target split over processes writes the same tokens, and has the same attention."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.splitting import split
from tests import ROOT
from tests.engine.tensor_parallel_ranks import EVERY, NEW, SOME
from tests.engine.tiny_models import generate, prompt, tiny

NAMES = ("llama", "llama-mha", "qwen2", "qwen3", "mistral", "gemma", "qwen2-window")


@pytest.fixture(scope="module")
def company(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What two processes write and see together, by each model that a test of this run asks for."""
    asking = [item for item in request.session.items if "company" in getattr(item, "fixturenames", ())]
    names = dict.fromkeys(item.callspec.params["name"] for item in asking)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--module", "tests.engine.tensor_parallel_ranks", *names],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_tensor_parallel_output_is_identical(company: dict[str, Any], name: str) -> None:
    expected = generate(tiny(name), prompt(), NEW)
    written = company[name]["written"]
    assert len(written) == (len(EVERY) if name == NAMES[0] else len(SOME))
    for how, tokens in written.items():
        assert tokens == expected, how


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_attention_is_averaged_over_all_heads(company: dict[str, Any], name: str) -> None:
    target = Target(LanguageModel(tiny(name)), score_layers=(-1, 0))
    target.begin(300)
    target.prefill(torch.tensor(prompt()))
    found = company[name]
    assert found["heads"] == target.cache.buffer.shape[2] // 2
    torch.testing.assert_close(torch.tensor(found["scores"]), target.attention_from(-1), rtol=1e-4, atol=1e-6)


class Three:
    """As far as splitting looks at a crew."""

    rank, size = 0, 3


@pytest.mark.parametrize(
    ("name", "why"), [("llama", "4 and 2 heads"), ("phi3", "no plan of heads"), ("olmo2", "no plan of heads")]
)
def test_models_that_cannot_be_split_are_refused(name: str, why: str) -> None:
    with pytest.raises(ModelError, match="split over several processes") as caught:
        split(tiny(name), Three())  # type: ignore[arg-type]
    assert why in caught.value.why
