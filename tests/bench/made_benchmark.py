"""A benchmark without a model: figures that a test can reckon by hand, and larger ones that look real."""

from __future__ import annotations

import random
from dataclasses import replace

from specextend_cli.bench.records import Benchmark, Divergence, Machine, Record

MACHINE = Machine(
    processor="Example CPU @ 2.0 GHz",
    device="cpu",
    threads=2,
    python="3.11.7",
    torch="2.13.0",
    transformers="5.23.0",
    version="0.1.0",
    commit="0123456789ab+",
)


def record(method: str = "plain", document: str = "one", *, length: int = 1024, **values: object) -> Record:
    """Ten tokens: a second of prefill, then nine tokens at a second each."""
    defaults: dict[str, object] = {
        "repeat": 0,
        "tokens": tuple(range(10)),
        "prefill_seconds": 1.0,
        "decode_seconds": 9.0,
        "accepted": (1,) * 9,
        "nodes": (1,) * 9,
    }
    return Record(method=method, document=document, length=length, **{**defaults, **values})  # type: ignore[arg-type]


def benchmark(*records: Record, **values: object) -> Benchmark:
    """A benchmark of these records."""
    defaults = Benchmark("small", {"tokens": 10, "decoding": "greedy"}, MACHINE, 7, (), {}, {})
    return replace(defaults, records=records, **values)


def realistic(
    *, documents: int = 5, lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192), seed: int = 0
) -> Benchmark:
    """Seven methods whose figures behave as measured ones do."""
    draw = random.Random(seed)
    speeds = {"plain": 1.0, "standard": 1.5, "streaming": 1.7, "specextend": 2.1}
    speeds |= {"transformers": 0.8, "transformers-prompt-lookup": 1.2, "+flash": 1.05}
    records = []
    for length in lengths:
        for document in (f"report-{number}" for number in range(documents)):
            cost = 0.01 + length * 4e-6
            tokens = tuple(draw.choices(range(400), k=256))
            for method, speed in speeds.items():
                faded = speed if method != "standard" else 1 + (speed - 1) * 512 / length
                accepted: tuple[int, ...] = ()
                while sum(accepted) < 255 and not method.startswith("transformers"):
                    size = 1 if method in ("plain", "+flash") else min(1 + int(draw.expovariate(1 / (faded * 0.9))), 11)
                    accepted = (*accepted, min(size, 255 - sum(accepted)))
                seconds = 255 * cost / faded * draw.uniform(0.93, 1.08)
                drafts = method in ("standard", "streaming", "specextend")
                other = method == "transformers" and length == 8192
                records.append(
                    Record(
                        method=method,
                        length=length,
                        document=document,
                        repeat=0,
                        tokens=(*tokens[:200], *range(56)) if other else tokens,
                        prefill_seconds=length * 0.002 * draw.uniform(0.97, 1.03),
                        decode_seconds=seconds,
                        accepted=accepted,
                        nodes=tuple(min(3 * size, 50) for size in accepted),
                        draft_seconds=seconds * (0.22 if drafts else 0.0),
                        verify_seconds=seconds * (0.66 if drafts else 0.97) if accepted else 0.0,
                        retrieve_seconds=seconds * 0.04 if method == "specextend" else 0.0,
                        hit=draw.uniform(0.6, 0.8) if method in ("streaming", "specextend") else None,
                        peak_bytes=int(6e8 + length * 36864),
                        scaled=length > 4096,
                        text="A summary of the report.",
                        divergence=Divergence(200, draw.uniform(0.001, 0.02)) if other else None,
                    )
                )
    return Benchmark(
        "small",
        {"lengths": list(lengths), "tokens": 256, "decoding": "greedy", "methods": list(speeds), "dtype": "bfloat16"},
        MACHINE,
        seed,
        tuple(records),
        {},
        {"llama.cpp": "llama-cpp-python is not installed"},
    )
