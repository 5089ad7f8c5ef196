"""A model of Llama 3.1 8B's shape, drafted for by a head of EAGLE-3's shape: times of steps, prompts and batches.

Random weights multiply as fast as trained ones. Their drafts are worthless, so accepted lengths are not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from specextend_cli.bench.prefilled import Prefilled, read
from specextend_cli.bench.roofline import Roofline, seconds, wait, work
from specextend_cli.bench.steps import Plan, Steps
from specextend_cli.bench.suite.device_info import Sizes
from specextend_cli.bench.tables import Cell
from specextend_cli.engine.attention import Backend
from specextend_cli.engine.attention.flash_packages import flash_attn, installed
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.cuda.fused import FusedModel
from specextend_cli.engine.cuda.graph_check import drop_graphs, use_checked_graphs
from specextend_cli.engine.drafters import Drafter, EagleDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.forward import ForwardBackend, ForwardInput, ModelOutput
from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target

_WITH_GRAPHS = ", graphs"
GRAPHS = f"triton{_WITH_GRAPHS}"  # Triton's kernels, in CUDA graphs of whole forwards
RETRIEVAL = Retrieval(positions="compact")
"""The engine's defaults, with dense positions as heads trained on short texts need them."""
PROMPT, TOKENS = 1000, 100  # of each sequence of a batch
LATER = "captures later"


@dataclass(frozen=True)
class SyntheticModels:
    """Target and head."""

    sizes: Sizes
    lm: LanguageModel
    head: EagleHead

    @classmethod
    def create(cls, sizes: Sizes) -> SyntheticModels:
        """On the device, in its number format."""
        layers = sizes.layers
        config = LlamaConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.hidden,
            intermediate_size=sizes.intermediate,
            num_hidden_layers=layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads,
            head_dim=sizes.head_dim,
            max_position_embeddings=131072,
        )
        head_config = HeadConfig(
            generation=3,
            hidden=sizes.hidden,
            target_hidden=sizes.hidden,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            head_dim=sizes.head_dim,
            intermediate=sizes.intermediate,
            layers=1,
            vocabulary=sizes.vocabulary,
            draft_vocabulary=sizes.draft_vocabulary,
            feature_layers=(min(2, layers), layers // 2, max(layers - 3, 0)),
            max_position=131072,
        )
        torch.manual_seed(0)
        with torch.device(sizes.device):
            model = AutoModelForCausalLM.from_config(config, dtype=sizes.dtype)
            head = EagleHead(head_config).to(sizes.dtype).eval()
        head.embedding = model.get_input_embeddings()
        return cls(sizes, LanguageModel(model), head)

    def measured(
        self, length: int, machine: Roofline, backends: tuple[str, ...], failed: Callable[[str, Exception], None]
    ) -> Iterator[dict[str, Cell]]:
        """A row of the table of steps for each back end, over one prompt, read once; failures go to `failed`."""
        sizes, target = self.sizes, Prefilled(self.lm)
        shape = self.shape
        generator = torch.Generator().manual_seed(length)
        prompt = torch.randint(0, sizes.vocabulary, (length,), generator=generator).tolist()
        working = (min(RETRIEVAL.size, length // 2), length)
        plan = Plan((1, sizes.nodes), working, shape, sizes.rounds, sizes.piece)
        for name in backends:
            drafter = EagleDrafter(self.head, target, RETRIEVAL)
            steps = Steps(target, drafter, plan)
            try:
                with counting_captures() as captures, self._attending(name, target, drafter) as target.verify_backend:
                    before = len(captures)
                    for _ in steps.measure(prompt):
                        pass
            except Exception as error:  # triton's own have no common class
                failed(f"{name} behind {length:,} tokens", error)
                continue
            plain, verifying = steps.plain, median(steps.verifying[sizes.nodes])
            choosing, drafting = median(steps.choosing[working[0]]), median(steps.drafting[working[0]])
            yield {
                "prompt (tokens)": length,
                "attention": name,
                "prefill (s)": target.read_seconds,
                "plain step (ms)": 1e3 * plain,
                "times its floor": plain / work(self.lm, length, 1).seconds(machine),
                f"verification, {sizes.nodes} nodes (ms)": 1e3 * verifying,
                "verification, times its floor": verifying / work(self.lm, length, sizes.nodes).seconds(machine),
                "times a plain step": verifying / plain,
                "drafting (ms)": 1e3 * drafting,
                "drafting, all seen (ms)": 1e3 * median(steps.drafting[length]),
                "one choice (ms)": 1e3 * choosing,
                "choosing, share of a step": choosing / (choosing + RETRIEVAL.every * (drafting + verifying)),
                LATER: len(captures) - before,
            }

    @property
    def shape(self) -> TreeShape:
        """Of its drafts."""
        return TreeShape(nodes=self.sizes.nodes, depth=8, width=8, threshold=0.0)

    def prepare(self, target: Target, drafter: Drafter, batch: int = 1) -> None:
        """Capture all graphs. RuntimeError where something does not run by them."""
        if refused := use_checked_graphs(target, drafter, self.shape, batch=batch):
            raise RuntimeError(", ".join(f"{what}: {why}" for what, why in refused.items()))

    @contextmanager
    def _attending(self, name: str, target: Target, drafter: EagleDrafter) -> Iterator[Backend]:
        """The back end of that name for both models, with CUDA graphs if it names them; auto: that of the target."""
        before = self.lm.backend
        try:
            if name != "auto":
                self.lm.backend = backend_for(self.sizes.device, name.removesuffix(_WITH_GRAPHS))
            if name.endswith(_WITH_GRAPHS):
                self.prepare(target, drafter)
            yield self.lm.backend
        finally:
            drop_graphs(self.lm, drafter)
            self.lm.backend = before


@dataclass
class _FusedReader(ForwardBackend[ModelOutput]):
    """Prompts by the fused forward and any attention back end; `GraphedModel` takes the default one only."""

    model: FusedModel

    def run(self, inputs: ForwardInput) -> ModelOutput:
        """See `ForwardBackend`."""
        assert isinstance(inputs.cache, KVCache)
        return self.model.read(inputs, inputs.cache)


@torch.inference_mode()
def prompts(models: SyntheticModels, *, fused: bool) -> Iterator[dict[str, Cell]]:
    """A row of the table for the engine's choice of an attention kernel, and for each that may read prompts on a GPU.

    `fused`: by the fused forward, instead of transformers' layers. The result of a kernel that fails is its error.
    """
    sizes, lm, target = models.sizes, models.lm, Target(models.lm)
    kernels = {"the engine's choice": lm.backend}
    if sizes.is_gpu:
        kernels["cuDNN"] = partial(hybrid, kernel="cudnn")
        kernels["FlashAttention of torch"] = partial(hybrid, kernel="flash")
        kernels["memory-efficient"] = partial(hybrid, kernel="efficient")
        kernels |= {"flash-attn": flash_attn} if installed() else {}
    prompt = torch.arange(sizes.read).remainder(sizes.vocabulary).tolist()
    reader = _FusedReader(FusedModel(lm)) if fused else None
    for name, target.prefill_backend in kernels.items():
        spent, result = None, ""
        lm.forward_backend = reader
        try:
            call = partial(read, target, prompt, sizes.piece, room=0)
            call()  # warms up
            spent = median(seconds(call, sizes.device) for _ in range(min(sizes.rounds, 3)))
        except Exception as error:  # what a kernel does not take, each says in its own way
            result = f"{type(error).__name__}: {error}".splitlines()[0]
        finally:
            lm.forward_backend = None
        yield {"prompt (tokens)": sizes.read, "attention": name, "seconds": spent, "result": result}


@torch.inference_mode()
def batches(models: SyntheticModels, sequences: tuple[int, ...]) -> Iterator[dict[str, Cell]]:
    """A row of the table for each number of sequences that are decoded together; preparation is in every row.

    With penalties, as summaries are decoded; prompts of `PROMPT` tokens, `TOKENS` new ones.
    """
    sizes, target = models.sizes, Target(models.lm)
    drafter = EagleDrafter(models.head, target, RETRIEVAL)
    with counting_captures() as captures:
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
def counting_captures() -> Iterator[list[None]]:
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
