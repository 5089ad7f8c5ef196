"""A model of Llama 3.1 8B's shape, drafted for by a head of EAGLE-3's shape: times of steps, prompts and batches.

Random weights multiply as fast as trained ones. Their drafts are worthless, so accepted lengths are not reported. A
step's floor is what must be read and multiplied, at the speeds that the machine reaches at best.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaConfig

from specextend_cli.bench.formats import Cell
from specextend_cli.bench.prefilled import Prefilled, read, wait
from specextend_cli.engine.attention import Backend
from specextend_cli.engine.attention.flash_package import flash_attn, is_installed
from specextend_cli.engine.attention.hybrid import Kernel, hybrid
from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.cache import row_shapes
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.cuda.fused import FusedBody
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.drafters import Drafter, EagleDrafter
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.step import Output, Runner, Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, accept, root
from tests.helpers.graph_identity import drop_graphs

_RESERVE = 6e9  # bytes for activations, kernels' rings, and what else is on the GPU
_LAYER = 0.44e9  # bytes of a layer of Llama 3.1 8B in bfloat16
_ROWS = 2 * 8 * 128 * 2  # bytes of keys and values, a token and layer
_ENDS = 2.2e9  # bytes of embedding and output head, and about as much of a head that drafts
MOST_LAYERS = 32
_BUFFER, _WIDTH = 1 << 30, 8192  # bytes of a buffer, several times any cache; rows of a square matrix


@dataclass(frozen=True)
class Sizes:
    """Of models, kernels' inputs and runs; by default those of a rehearsal.

    `label` names the device in every row, or says that the figures are no GPU's. `exact`, `head_dims` and `trees`
    (nodes, and keys before them) are for the kernel checks; `ring` is the bytes of keys and values in the ring of the
    timings: several times any cache. `ceiling` scales the roofline's buffers. `piece`: tokens of prompts that are read
    at once. `prompt`: tokens of the embedded pair's prompt; it writes a quarter as many.
    """

    device: torch.device
    model: str = "tiny"
    label: str = "no GPU: a rehearsal"
    dtype: torch.dtype = torch.float32
    exact: tuple[torch.dtype, ...] = (torch.float32, torch.float16)
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    head_dims: tuple[int, ...] = (32,)
    trees: tuple[tuple[int, int], ...] = ((1, 40), (12, 70))
    lengths: tuple[int, ...] = (32,)
    nodes: int = 4
    ring: int = 1
    layers: int = 2
    hidden: int = 128
    intermediate: int = 256
    vocabulary: int = 512
    draft_vocabulary: int = 256
    rounds: int = 1
    ceiling: float = 0.02
    piece: int = 16
    prompt: int = 256

    @property
    def is_gpu(self) -> bool:
        """True if the figures are a GPU's."""
        return self.device.type == "cuda"

    def of_small(self) -> Sizes:
        """With SmolLM2 135M's shape, or another tiny one."""
        if not self.is_gpu:
            return replace(self, model="tiny, too")
        wide = {"heads": 9, "kv_heads": 3, "head_dim": 64, "hidden": 576, "intermediate": 1536}
        return replace(self, model="135M", layers=30, vocabulary=49152, draft_vocabulary=49152, **wide)


def sizes_for(device: torch.device) -> Sizes:
    """Llama 3.1 8B's sizes on CUDA, with as many layers as fit; tiny ones elsewhere."""
    if device.type != "cuda":
        return Sizes(device)
    free = torch.cuda.mem_get_info(device)[0]
    longest = 16384
    layers = int((free - _RESERVE - _ENDS) // (_LAYER + longest * _ROWS))
    layers = max(min(layers, MOST_LAYERS), 0)
    return Sizes(
        device=device,
        model="8B" if layers == MOST_LAYERS else f"8B, {layers} of {MOST_LAYERS} layers",
        label=torch.cuda.get_device_name(device),
        dtype=torch.bfloat16,
        exact=(torch.bfloat16, torch.float16, torch.float32),
        heads=32,
        kv_heads=8,
        head_dim=128,
        head_dims=(64, 128),
        trees=((1, 0), (1, 9000), (7, 63), (33, 301), (60, 2000), (70, 7000)),
        lengths=(1024, 8192, longest),
        nodes=60,
        ring=512 << 20,
        layers=layers,
        hidden=4096,
        intermediate=14336,
        vocabulary=128256,
        draft_vocabulary=32000,
        rounds=15,
        ceiling=1.0,
        piece=4096,
        prompt=2048,
    )


_WITH_GRAPHS = ", graphs"
GRAPHS = f"triton{_WITH_GRAPHS}"  # Triton's kernels, in CUDA graphs of whole forwards
RETRIEVAL = Retrieval(positions="compact")
"""The engine's defaults, with dense positions as heads trained on short texts need them."""
PROMPT, TOKENS = 1000, 100  # of each sequence of a batch
LATER, CHOSEN, VERIFYING = "captures later", "the engine's choice", "verification, {} nodes"


class Ceilings(NamedTuple):
    """Bytes read a second, and floating-point operations a second (a multiply-add is two), at best."""

    bandwidth: float
    arithmetic: float

    @classmethod
    def measured(cls, sizes: Sizes) -> Ceilings:
        """The best of a few: summing or copying a large buffer, the product of two large matrices."""
        size, width = (max(int(whole * sizes.ceiling), 16) for whole in (_BUFFER, _WIDTH))
        buffer = torch.ones(size // 4, dtype=torch.float32, device=sizes.device)
        copy = torch.empty_like(buffer)
        a, b = (torch.ones(width, width, dtype=sizes.dtype, device=sizes.device) for _ in range(2))

        def fastest(call: Callable[[], object]) -> float:
            return min(seconds(call, sizes.device) for _ in range(7))

        summed = buffer.nbytes / fastest(lambda: buffer.sum())
        copied = 2 * buffer.nbytes / fastest(lambda: copy.copy_(buffer))
        return cls(max(summed, copied), 2 * width**3 / fastest(lambda: a @ b))

    def floor(self, lm: LanguageModel, length: int, nodes: int) -> float:
        """Seconds of a step of `nodes` nodes after `length` tokens: reading and multiplying can overlap."""
        rows = row_shapes(lm.config).values()
        linear = [module for module in lm.model.modules() if isinstance(module, nn.Linear)]
        products = sum(2 * module.in_features * module.out_features for module in linear)
        attention = 4 * int(lm.config.num_attention_heads) * sum(width for _, width in rows) * length
        weights = sum(module.weight.nbytes for module in linear)
        keys = 2 * sum(heads * width for heads, width in rows) * length * lm.dtype.itemsize
        return max((weights + keys) / self.bandwidth, nodes * (products + attention) / self.arithmetic)

    def reading(self, lm: LanguageModel, length: int) -> float:
        """Seconds of a prompt's products; a token sees half of the keys on average, and one needs logits."""
        linear = [module for module in lm.model.get_decoder().modules() if isinstance(module, nn.Linear)]
        products = sum(2 * module.in_features * module.out_features for module in linear)
        attention = 4 * int(lm.config.num_attention_heads) * sum(width for _, width in row_shapes(lm.config).values())
        return length * (products + attention * length / 2) / self.arithmetic


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call; the device is idle before and after."""
    wait(device)
    began = perf_counter()
    call()
    wait(device)
    return perf_counter() - began


Times = defaultdict[int, list[float]]  # seconds of every round, by nodes or by tokens of a working set


@dataclass
class Steps:
    """Times after one prompt: verification by nodes, drafting by the size of the working set.

    Every round measures all sizes, so that a slow moment affects all alike.
    """

    target: Target
    drafter: EagleDrafter
    nodes: Sequence[int]
    working: Sequence[int]
    shape: TreeShape
    verifying: Times = field(default_factory=lambda: defaultdict(list))
    drafting: Times = field(default_factory=lambda: defaultdict(list))

    @torch.inference_mode()
    def measure(self, prompt: Sequence[int], rounds: int, chunk: int) -> None:
        """Read the prompt and time every round."""
        target, drafter = self.target, self.drafter
        room = (rounds + 2) * len(self.working) + max(*self.nodes, self.shape.nodes) + 1
        logits = read(target, prompt, chunk, room=room, drafter=drafter)
        sampler = Sampler(Sampling(), target.lm.device)
        choice = sampler.choose(logits)
        sampler.commit(choice[None])
        last = int(choice)
        drafter.observe([last], None)
        drafter.retrieve(target.attention_from(-1))
        for number in range(rounds + 1):  # the first warms up
            for nodes in self.nodes:
                self._verify(nodes, prompt, sampler)
            for size in self.working:
                last = self._draft(last, size)
            if number == 0:
                self.verifying.clear()
                self.drafting.clear()

    def _verify(self, nodes: int, tokens: Sequence[int], sampler: Sampler) -> None:
        """Time a step on a binary tree, after another of as many nodes, so that caches are as in decoding."""
        parents = [max(0, (node - 1) // 2) for node in range(nodes)]
        tree = DraftTree([tokens[node % len(tokens)] for node in range(nodes)], parents, [1.0] * nodes)

        def step() -> None:
            self.target.cache.rollback()
            accept(tree, sampler.choose(self.target.verify(tree).logits, tree))

        step()
        self._time(self.verifying, nodes, step)
        self.target.cache.rollback()

    def _draft(self, last: int, size: int) -> int:
        """A plain step after `last`, a choice of `size` tokens and a draft over them; returns the next token.

        The choice does not affect the time, so the tokens are spread evenly.
        """
        target, drafter, device = self.target, self.drafter, self.target.lm.device
        out = target.verify(root(last), features=drafter.feature_layers, record=True)
        token = int(out.logits[0].argmax())
        target.commit([0])
        length = drafter.working.read
        chosen = torch.linspace(0, length - 1, min(size, length), device=device).long().unique()
        drafter.working.show(chosen)
        self._time(self.drafting, size, lambda: drafter.propose(self.shape))
        drafter.observe([token], out.features)
        return token

    def _time(self, times: Times, size: int, call: Callable[[], object]) -> None:
        times[size].append(seconds(call, self.target.lm.device))


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
            embedding=sizes.vocabulary,
            draft_vocab=sizes.draft_vocabulary,
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
        self, length: int, ceilings: Ceilings, backends: tuple[str, ...], failed: Callable[[str, Exception], None]
    ) -> Iterator[dict[str, Cell]]:
        """A row of the table of steps for each back end, over one prompt, read once; failures go to `failed`."""
        sizes, target = self.sizes, Prefilled(self.lm)
        generator = torch.Generator().manual_seed(length)
        prompt = torch.randint(0, sizes.vocabulary, (length,), generator=generator).tolist()
        working = (min(RETRIEVAL.size, length // 2), length)
        for name in backends:
            drafter = EagleDrafter(self.head, target, RETRIEVAL)
            steps = Steps(target, drafter, (1, sizes.nodes), working, self.shape)
            try:
                with counting_captures() as captures, self._attending(name, target, drafter) as target.verify_backend:
                    before = len(captures)
                    steps.measure(prompt, sizes.rounds, sizes.piece)
            except Exception as error:  # triton's own have no common class
                failed(f"{name} behind {length:,} tokens", error)
                continue
            plain, verifying = median(steps.verifying[1]), median(steps.verifying[sizes.nodes])
            drafting = median(steps.drafting[working[0]])
            yield {
                "model": sizes.model,
                "prompt (tokens)": length,
                "attention": name,
                "prefill (s)": target.read_seconds,
                "plain step (ms)": 1e3 * plain,
                "its floor (ms)": 1e3 * ceilings.floor(self.lm, length, 1),
                f"{VERIFYING.format(sizes.nodes)} (ms)": 1e3 * verifying,
                "verification, times its floor": verifying / ceilings.floor(self.lm, length, sizes.nodes),
                "times a plain step": verifying / plain,
                "drafting (ms)": 1e3 * drafting,
                "drafting, all seen (ms)": 1e3 * median(steps.drafting[length]),
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
class _FusedReader(Runner):
    """Prompts by the fused forward and any attention back end; `GraphRunner` takes the default one only."""

    model: FusedBody

    def run(self, step: Step) -> Output:
        """See `Runner`."""
        return self.model.read(step)


def _attend_by(kernel: Kernel, *given: Any) -> Tensor:
    """`hybrid`, by that kernel."""
    with patch("specextend_cli.engine.attention.hybrid._kernel_for", lambda q, k: kernel):
        return hybrid(*given)


@torch.inference_mode()
def prompts(models: SyntheticModels, ceilings: Ceilings, length: int, *, fused: bool) -> Iterator[dict[str, Cell]]:
    """A row of the table for the engine's choice of an attention kernel, and for each that may read prompts on a GPU.

    `fused`: by the fused forward, instead of transformers' layers. The result of a kernel that fails is its error.
    """
    sizes, lm, target = models.sizes, models.lm, Target(models.lm)
    kernels = {CHOSEN: lm.backend}
    if sizes.is_gpu:
        kernels["cuDNN"] = partial(_attend_by, "cudnn")
        kernels["FlashAttention of torch"] = partial(_attend_by, "flash")
        kernels["memory-efficient"] = partial(_attend_by, "efficient")
        kernels |= {"flash-attn": flash_attn} if is_installed() else {}
    prompt = torch.arange(length).remainder(sizes.vocabulary).tolist()
    reader = _FusedReader(FusedBody(lm)) if fused else lm.stock
    for name, target.prefill_backend in kernels.items():
        spent, result = None, ""
        lm.runner = reader
        try:
            call = partial(read, target, prompt, sizes.piece, room=0)
            call()  # warms up
            spent = median(seconds(call, sizes.device) for _ in range(min(sizes.rounds, 3)))
        except Exception as error:  # what a kernel does not take, each says in its own way
            result = f"{type(error).__name__}: {error}".splitlines()[0]
        finally:
            lm.runner = lm.stock
        floor = ceilings.reading(lm, length)
        row: dict[str, Cell] = {"model": sizes.model, "prompt (tokens)": length, "attention": name, "seconds": spent}
        yield {**row, "floor (s)": floor, "result": result}


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
                    "model": sizes.model,
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
        if isinstance(event, Accepted) and event.nodes:
            tokens, ended = tokens + len(event.tokens), perf_counter()
            started = started or ended
    return (tokens - b) / (ended - started)
