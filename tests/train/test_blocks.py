"""Blocks in training: what a drafter would propose there; losses and figures as counted by hand."""

from __future__ import annotations

import random

import torch

from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.blocks import block_loss, propose, validate_blocks
from specextend_cli.train.config import Schedule
from specextend_cli.train.samples import Sample
from specextend_cli.train.target_logits import TargetReader
from tests.engine.tiny_blocks import tiny_block
from tests.engine.tiny_models import prompt, tiny

LENGTHS = ((20, 17), (33, 12), (41, 3))
ASKED = prompt(60)[:9]
SAMPLES = [Sample([*ASKED, *prompt(60)[at : at + n]], 7, output=9) for at, n in LENGTHS]


def drafted(head: BlockHead, features: torch.Tensor, last: int) -> torch.Tensor:
    """The final states [depth, hidden] of a block after these states, as the drafter computes them."""
    rows = len(features) + head.config.block
    cache = head.new_cache(rows)
    cache.reserve(rows)
    backend, context = backend_for(features.device, "reference"), head.fuse(features)
    out = head(torch.tensor([last]), context, torch.arange(rows), cache, backend, depth=head.config.depth)
    return out.states


@torch.no_grad()
def test_a_block_in_training_is_what_the_drafter_computes() -> None:
    for name in ("dflash", "deepspec-dflash"):
        lm, head = LanguageModel(tiny()), tiny_block(name)
        target = TargetReader(lm, head.config.feature_layers)
        states = [target.states(sample) for sample in SAMPLES]
        rows = target.rows(SAMPLES, states, torch.float32)
        anchors = (rows.numbers >= 0).nonzero().flatten()
        assert len(anchors) == sum(sample.rows for sample in SAMPLES)
        read, at = propose(head, rows, anchors), 0
        for sample, known in zip(SAMPLES, states, strict=True):
            for row in range(sample.rows):
                position = sample.start + row
                features = known[: position + 1, : -lm.config.hidden_size]
                expected = drafted(head, features, sample.tokens[position + 1])
                assert torch.allclose(read[at], expected, atol=1e-4)
                at += 1


@torch.no_grad()
def test_agreement_and_accepted_length_are_those_of_a_count_by_hand() -> None:
    lm, head = LanguageModel(tiny()), tiny_block("dflash-causal", is_causal=(False, False))
    depth, target = head.config.depth, TargetReader(lm, head.config.feature_layers)
    right, lengths = [0] * depth, []
    for sample in SAMPLES:
        states = target.states(sample)
        likeliest = target.logits([sample], [states]).argmax(-1)[: sample.rows].tolist()
        for row in range(0, sample.rows - depth + 1, 4):
            at = sample.start + row
            features = states[: at + 1, : -lm.config.hidden_size]
            tokens = head.vocabulary[head.lm_head(drafted(head, features, sample.tokens[at + 1])).argmax(-1)].tolist()
            hits = [token == likeliest[row + k] for k, token in enumerate(tokens)]
            right = [sum(pair) for pair in zip(right, hits, strict=True)]
            lengths.append(1 + (hits.index(False) if False in hits else depth))
    agreement, accepted = validate_blocks(target, head, SAMPLES)
    assert agreement == tuple(torch.tensor(right, dtype=torch.float32).div(len(lengths)).tolist())
    assert abs(accepted - sum(lengths) / len(lengths)) < 1e-6


def test_the_loss_is_the_weighed_cross_entropy_and_reaches_every_part_of_the_head() -> None:
    lm, head = LanguageModel(tiny()), tiny_block("dflash")
    head.embedding.requires_grad_(False)
    target = TargetReader(lm, head.config.feature_layers)
    states = [target.states(sample) for sample in SAMPLES[:1]]
    schedule = Schedule(seconds=1, anchors=100)  # every row
    loss = block_loss(target, head, SAMPLES[:1], states, schedule, random.Random(0))
    loss.backward()
    sample = SAMPLES[0]
    wanted = target.logits(SAMPLES[:1], states)[: sample.rows].softmax(-1)
    by_depth: list[list[float]] = [[] for _ in range(head.config.depth)]
    with torch.no_grad():
        for row in range(sample.rows):
            at = sample.start + row
            read = drafted(head, states[0][: at + 1, : -lm.config.hidden_size], sample.tokens[at + 1])
            for depth, logits in enumerate(head.lm_head(read).log_softmax(-1)):
                if row + depth < sample.rows:
                    by_depth[depth].append(-float((wanted[row + depth] * logits).sum()))
    weights = torch.exp(-torch.arange(head.config.depth) / 4)
    means = torch.tensor([sum(losses) / len(losses) for losses in by_depth])
    expected = float((weights * means).sum() / weights.sum() * head.config.depth)
    assert abs(float(loss.detach()) - expected) < 1e-3
    for name, parameter in head.named_parameters():
        assert not parameter.requires_grad or float(parameter.grad.abs().sum()) > 0, name  # type: ignore[union-attr]
