"""Held-out figures: of several answers behind one prompt as of each alone, and as counted by hand."""

from __future__ import annotations

import torch

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.measure import validate
from specextend_cli.train.samples import Sample
from specextend_cli.train.target_logits import TargetReader
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import prompt, tiny


@torch.no_grad()
def test_agreement_and_accepted_length_are_those_of_a_count_by_hand() -> None:
    lm, head = LanguageModel(tiny()), tiny_head("eagle3")
    head.lm_head.weight.copy_(lm.model.get_output_embeddings().weight[head.vocabulary])
    target = TargetReader(lm, head.config.feature_layers)
    asked = prompt(60)[:9]
    samples = [Sample([*asked, *prompt(60)[at : at + n]], 7, output=9) for at, n in ((20, 17), (33, 12), (41, 3))]
    steps = 3

    right, counted, lengths = [0] * steps, [0] * steps, []
    for sample in samples:
        states = target.states(sample)
        likeliest = target.logits([sample], [states]).argmax(-1)[: sample.rows]
        _, outputs = target.unroll(head, [sample], [states], steps)
        drafted = [head.vocabulary[head.lm_head(out).argmax(-1)][: sample.rows] for out in outputs]
        for step in range(steps):
            right[step] += sum(bool(drafted[step][row] == likeliest[row]) for row in range(step, sample.rows))
            counted[step] += sample.rows - step
        for start in range(sample.rows - steps + 1):
            accepted = 1
            while accepted <= steps and drafted[accepted - 1][start + accepted - 1] == likeliest[start + accepted - 1]:
                accepted += 1
            lengths.append(accepted)

    agreement, accepted_length = validate(target, head, samples, steps)
    assert agreement == tuple(torch.tensor(right, dtype=torch.float32).div(torch.tensor(counted)).tolist())
    assert abs(accepted_length - sum(lengths) / len(lengths)) < 1e-6
    assert sum(right) > 0  # else it would show nothing
