"""Batches and preparation on a GPU: tokens a second of many sequences at once, and that nothing is captured later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch

from specextend_cli.bench.roofline import wait
from specextend_cli.bench.suite.synthetic_models import RETRIEVAL, SyntheticModels
from specextend_cli.bench.tables import Cell
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.cuda.graph_check import drop_graphs
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target

PROMPT, TOKENS = 1000, 100
LATER = "captures later"


@torch.inference_mode()
def batches(models: SyntheticModels, sequences: tuple[int, ...]) -> Iterator[dict[str, Cell]]:
    """A row of the table for each number of sequences that are decoded together; preparation is in every row.

    With penalties, as summaries are decoded; prompts of `PROMPT` tokens, `TOKENS` new ones.
    """
    sizes, target = models.sizes, Target(models.lm)
    drafter = EagleDrafter(models.head, target, RETRIEVAL)
    with _counting_captures() as captures:
        try:
            began = perf_counter()
            models.prepare(target, drafter, max(sequences))
            wait(sizes.device)
            preparing, before = perf_counter() - began, len(captures)
            for b in sequences:
                speed = _tokens_per_second(models, b)
                yield {
                    "sequences": b,
                    "tokens/s in all": speed,
                    "preparing graphs (s)": preparing,
                    "captures": before,
                    LATER: len(captures) - before,
                }
        finally:
            drop_graphs(models.lm, drafter)


@contextmanager
def _counting_captures() -> Iterator[list[None]]:
    """A list that grows by one with every capture."""
    found: list[None] = []
    stock = torch.cuda.CUDAGraph.capture_begin

    def counted(graph: torch.cuda.CUDAGraph, *args: Any, **kwargs: Any) -> None:
        found.append(None)
        stock(graph, *args, **kwargs)

    torch.cuda.CUDAGraph.capture_begin = counted  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        torch.cuda.CUDAGraph.capture_begin = stock  # type: ignore[method-assign]


def _tokens_per_second(models: SyntheticModels, b: int) -> float:
    generator = torch.Generator().manual_seed(b)
    prompts = torch.randint(0, models.sizes.vocabulary, (b, PROMPT), generator=generator).tolist()
    requests = [BatchRequest(prompt, Stop(TOKENS), Sampling(repetition_penalty=1.05)) for prompt in prompts]
    tokens, started, ended = 0, 0.0, 0.0
    for _, event in decode_batch(models.lm, requests, slots=b, prefill_chunk=4096):
        if isinstance(event, Step) and event.nodes:
            tokens, ended = tokens + len(event.tokens), perf_counter()
            started = started or ended
    return (tokens - b) / (ended - started)
