"""Training a draft head on a tiny target: it is interrupted, goes on, learns; its head loads and changes no text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.errors import InputError, UsageError
from specextend_cli.models.heads import load_head
from specextend_cli.models.ngram_table import load_table
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import VOCABULARY, generate, prompt, tiny


@pytest.fixture
def train(program, monkeypatch):
    """The program, with fewer samples."""
    module = program("smollm2-135m-draft/train")
    few = {"HELD_OUT": 1, "PROMPTS_AT_ONCE": 2, "QUOTATIONS": 8, "HELD_QUOTATIONS": 1, "TEXTS": 4, "QUOTED": 32}
    for name, value in {**few, "RATE": 3e-3}.items():
        monkeypatch.setattr(module, name, value)
    return module


def documents() -> list[list[int]]:
    """Documents that repeat a few phrases, so that there is something to learn."""
    order = random.Random(0)
    phrases = [[order.randrange(8, VOCABULARY) for _ in range(5)] for _ in range(4)]
    return [[token for _ in range(16) for token in order.choice(phrases)] for _ in range(12)]


def distill(train, directory: Path, steps: int, texts=None, known: Path | None = None, **changes):
    frame = train.Frame([1, 2], [3], (0,), Sampling(repetition_penalty=1.05))
    small = {"lengths": (32, 48), "new_tokens": 12, "vocabulary": 60, "unroll": 3, "rows": 64, "prompts": 4}
    settings = train.Settings(steps=steps, **{"pause": 0.0, **small, **changes})
    return train.distill(LanguageModel(tiny()), texts or documents(), frame, settings, directory, known)


def interrupt(train, monkeypatch, words: str) -> list[str]:
    """Stop a run when it says `words`; what it says is returned."""
    said: list[str] = []

    def report(line: str) -> None:
        said.append(line)
        if words in line:
            raise KeyboardInterrupt

    monkeypatch.setattr(train, "report", report)
    return said


def test_an_interrupted_run_goes_on_and_its_head_changes_no_text(train, monkeypatch, tmp_path):
    said = interrupt(train, monkeypatch, "answered 2 of 4")
    with pytest.raises(KeyboardInterrupt):
        distill(train, tmp_path, 3)
    said = interrupt(train, monkeypatch, "step 3,")
    with pytest.raises(KeyboardInterrupt):
        distill(train, tmp_path, 3)
    assert "the target has answered 2 of 2 prompts" in said
    assert (tmp_path / "model.safetensors").exists()  # the best so far
    said = interrupt(train, monkeypatch, "nothing")
    trainer = distill(train, tmp_path, 3)
    assert said[0].startswith("going on from step 2")
    assert [line.partition(",")[0] for line in said[1:]] == ["step 3"]
    assert trainer.step == 3
    load_table(tmp_path, VOCABULARY)

    target = Target(LanguageModel(tiny()))
    retrieval = Retrieval(policy="retrieval", chunk=8, top_k=2, recent=16, sinks=2)
    drafter = EagleDrafter(load_head(tmp_path, target.lm).head, target, retrieval)
    asked, drafted, tokens = [1, 2, *documents()[-1][:48], 3], 0, list[int]()
    gate = DraftGate(TreeShape(nodes=4, depth=3, width=1, threshold=0.0), enabled=False)
    for event in decode(target, drafter, asked, stop=Stop(24), retrieval=retrieval, gate=gate):
        if isinstance(event, Accepted):
            tokens += event.tokens
            drafted += event.nodes
    assert tokens == generate(tiny(), asked, 24)
    assert drafted > 0

    said.clear()
    distill(train, tmp_path / "second", 1, known=tmp_path / "training" / "answers.npz")
    assert [line for line in said if "answered" in line] == ["the target has answered 1 of 1 prompts"]  # held out
    with pytest.raises(UsageError, match="answers"):
        distill(train, tmp_path, 1, texts=documents()[1:])
    with pytest.raises(InputError, match="too little"):
        distill(train, tmp_path / "third", 1, lengths=(500,))


@pytest.mark.full
def test_a_head_learns(train, monkeypatch, tmp_path):
    losses: list[float] = []
    loss_of = train.loss_of

    def remembered(*arguments):
        loss = loss_of(*arguments)
        losses.append(float(loss.detach()) / arguments[-1])
        return loss

    monkeypatch.setattr(train, "loss_of", remembered)
    distill(train, tmp_path, 60, prompts=20, batch=4, pause=1e6)
    assert sum(losses[-40:]) < 0.85 * sum(losses[:40])


@torch.no_grad()
def test_every_step_of_training_equals_a_drafted_chain_of_that_depth(train):
    """Row i of step k: the target's states up to i - k, then the head's own, over the sequence's own tokens."""
    head, lm = tiny_head("eagle3"), LanguageModel(tiny())
    n, start, steps = 24, 9, 4
    tokens, features = prompt(60)[:n], torch.randn(n, 3 * 64)
    other = [*tokens[: start + 1], *prompt(60)[40:58]]
    others = torch.cat((features[:start], torch.randn(len(other) - start, 3 * 64)))
    # The other sample behind the same prompt comes first, and changes nothing.
    rows = train.Rows.of([train.Sample(other, start), train.Sample(tokens, start)], [others, features], 3 * 64)
    before = len(other) - 1 - start
    unrolled = [states[before : before + n - 1 - start] for states in train.unroll(head, rows, steps)]
    ids = torch.tensor(tokens)
    for first in range(start, n - steps):
        cache = head.new_cache(n)
        read, at = ids[1 : first + 2], torch.arange(first + 1)
        out = head.run(Step(read, at, cache, backend=lm.backend, features=features[: first + 1]))
        for step in range(steps):
            row = first + step
            assert torch.allclose(out.logits[-1], head.lm_head(unrolled[step][row - start]), atol=1e-4)
            if row + 2 < n:
                cache.commit()
                assert out.state is not None
                at, states = torch.tensor([row + 1]), out.state[-1:]
                out = head.run(Step(ids[row + 2 : row + 3], at, cache, backend=lm.backend, states=states))
