"""Batches and preparation on a GPU: tokens a second of many sequences at once, and that nothing is captured later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from specextend_cli.bench.roofline import wait
from specextend_cli.bench.suite.synthetic_models import RETRIEVAL, SyntheticModels
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.cuda.capture import cuda_graph
from specextend_cli.engine.cuda.graph_check import drop_graphs, use_checked_graphs
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target

PROMPT, TOKENS = 1000, 100


@dataclass(frozen=True)
class Batch:
    """Tokens a second of `sequences` that are decoded together; seconds of preparation, captures then and later."""

    sequences: int
    tokens_per_second: float
    preparing: float
    captures: int
    later: int


@torch.inference_mode()
def batches(models: SyntheticModels, sequences: tuple[int, ...]) -> Iterator[Batch]:
    """With penalties, as summaries are decoded; prompts of `PROMPT` tokens, `TOKENS` new ones."""
    sizes, target, captures = models.sizes, Target(models.lm), 0

    def counted(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        nonlocal captures
        captures += 1
        return cuda_graph(body, device)

    drafter = EagleDrafter(models.head, target, RETRIEVAL)
    began = perf_counter()
    refused = use_checked_graphs(target, drafter, models.shape, batch=max(sequences), capture=counted)
    wait(sizes.device)
    preparing, before = perf_counter() - began, captures
    if refused:
        raise RuntimeError(", ".join(f"{what}: {why}" for what, why in refused.items()))
    generator = torch.Generator().manual_seed(0)
    sampling = Sampling(repetition_penalty=1.05)
    for b in sequences:
        prompts = torch.randint(0, sizes.vocabulary, (b, PROMPT), generator=generator).tolist()
        requests = [BatchRequest(prompt, Stop(TOKENS), sampling) for prompt in prompts]
        tokens, started, ended = 0, 0.0, 0.0
        for _, event in decode_batch(models.lm, requests, slots=b, prefill_chunk=4096):
            if isinstance(event, Step) and event.nodes:
                tokens, ended = tokens + len(event.tokens), perf_counter()
                started = started or ended
        yield Batch(b, (tokens - b) / (ended - started), preparing, before, captures - before)
    drop_graphs(models.lm, drafter)
