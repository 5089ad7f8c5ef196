"""A model of Llama 3.1 8B's shape with random weights, drafted for by a head of EAGLE-3's: what their steps take.

Random weights multiply as fast as trained ones. What is drafted is worthless, so nothing is said of accepted length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from specextend_cli.bench.ceilings import Ceilings
from specextend_cli.bench.floor import work
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.steps import Plan, Steps, measure
from specextend_cli.bench.suite.sizes import Sizes
from specextend_cli.engine.attention import Backend, backend_for
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.cuda.graphs import drop_graphs, use_graphs
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel

_WITH_GRAPHS = ", graphs"
GRAPHS = f"triton{_WITH_GRAPHS}"
"""Triton's kernels, replayed with all that is around them."""
RETRIEVAL = Retrieval(positions="compact")
"""The engine's defaults, as heads that were trained on short texts want them."""


@dataclass(frozen=True)
class Behind:
    """Seconds behind one length on one attention back end; `floors` of a plain step and of a tree's verification."""

    length: int
    backend: str
    prefill: float
    plain: float
    verifying: float
    drafting: float
    drafting_all: float
    choosing: float
    floors: tuple[float, float]

    @property
    def choosing_share(self) -> float:
        """Of a drafted step's time, a working set being chosen every few steps."""
        every = self.choosing / RETRIEVAL.every
        return every / (self.drafting + self.verifying + every)


@dataclass(frozen=True)
class Shaped:
    """The two models."""

    sizes: Sizes
    lm: LanguageModel
    head: EagleHead

    @classmethod
    def made(cls, sizes: Sizes) -> Shaped:
        """On the device, in its number format."""
        config = LlamaConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.hidden,
            intermediate_size=sizes.intermediate,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads,
            head_dim=sizes.head_dim,
            max_position_embeddings=131072,
        )
        torch.manual_seed(0)
        with torch.device(sizes.device):
            model = AutoModelForCausalLM.from_config(config, dtype=sizes.dtype)
            head = EagleHead(_head(sizes)).to(sizes.dtype).eval()
        head.embedding = model.get_input_embeddings()
        return cls(sizes, LanguageModel(model), head)

    def behind(
        self, length: int, ceilings: Ceilings, backends: tuple[str, ...], failed: Callable[[str, Exception], None]
    ) -> Iterator[Behind]:
        """One `Behind` a back end, all over the same prompt, which is read once; those that fail are told of."""
        sizes = self.sizes
        target = Prefilled(self.lm)
        shape = TreeShape(nodes=sizes.nodes, depth=8, width=8, threshold=0.0)
        generator = torch.Generator().manual_seed(length)
        prompt = torch.randint(0, sizes.vocabulary, (length,), generator=generator).tolist()
        working = tuple(sorted({min(RETRIEVAL.size, length // 2), length}))
        plan = Plan((1, sizes.nodes), working, shape, sizes.rounds, 4096 if sizes.is_gpu else 64)
        floors = tuple(work(self.lm, length, nodes).floor(ceilings) for nodes in plan.nodes)
        for name in backends:
            steps = Steps(length)
            try:
                with self._attending(name) as target.verify_backend:
                    for _ in measure(target, EagleDrafter(self.head, target, RETRIEVAL), prompt, plan, steps):
                        pass
            except Exception as error:  # triton's own have no common class
                failed(f"{name} behind {length:,} tokens", error)
                continue
            yield Behind(
                length,
                name,
                target.read_seconds,
                steps.plain,
                median(steps.verifying[sizes.nodes]),
                median(steps.drafting[working[0]]),
                median(steps.drafting[length]),
                median(steps.choosing[working[0]]),
                (floors[0], floors[1]),
            )

    @contextmanager
    def _attending(self, name: str) -> Iterator[Backend]:
        """The back end of that name, of both models; with graphs, where there are any."""
        before = self.lm.backend
        self.lm.backend = backend_for(self.sizes.device, name.removesuffix(_WITH_GRAPHS))
        if name.endswith(_WITH_GRAPHS):
            use_graphs(self.lm, [self.head])
        try:
            yield self.lm.backend
        finally:
            drop_graphs(self.lm, [self.head])
            self.lm.backend = before


def _head(sizes: Sizes) -> HeadConfig:
    layers = sizes.layers
    return HeadConfig(
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
