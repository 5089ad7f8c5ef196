"""How fast, and in how much memory, the processors' presets run: random weights of exactly their shapes.

    python -m tests.scripts.processor_presets FOLDER [--presets NAME ...] [--lengths 1024 4096 8192] [--tokens 64]
        [--threads 2] [--llama-python PYTHON] [--tiny]

Writes a GGUF file of each preset's shape and kinds of weights to FOLDER (up to 2.1 GB each, 4 to 9 GB converted) and
measures, each in a process of its own: plain decoding; the preset's drafter behind the gate; llama.cpp on that file,
where `--llama-python` (or this Python) has llama-cpp-python. The continuation is forced to be a passage of the prompt,
so the second row is what drafting gains on copied text; plain decoding takes the same time whatever it writes. Results
are kept in FOLDER/results.jsonl: what is there is not measured again. A Markdown table on stdout.
`--tiny` replaces the shapes, to try the script.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gguf
from gguf import GGMLQuantizationType as Kind

from specextend_cli.models.presets import load_preset
from tests.helpers.gguf_files import Kinds, _add_settings, q4_k_m, random_blocks
from tests.helpers.gguf_writer import CHAT, finish


class Shape(NamedTuple):
    """The sizes of a model whose embedding is its output head."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int


PRESETS = {
    "qwen3-0.6b": Shape(28, 1024, 16, 8, 128, 3072, 151936),
    "qwen3-1.7b": Shape(28, 2048, 16, 8, 128, 6144, 151936),
    "smollm3-3b": Shape(36, 2048, 16, 4, 128, 11008, 128256),
    "granite-4.0-micro": Shape(40, 2560, 40, 8, 64, 8192, 100352),
    "qwen3-4b": Shape(36, 2560, 32, 8, 128, 9728, 151936),
    "gemma3-1b": Shape(26, 1152, 4, 1, 256, 6912, 262144),
    "gemma3-4b": Shape(34, 2560, 8, 4, 256, 10240, 262144),
}
"""Presets, and files that users of ollama have."""
OURS = {"plain": False, "drafted, copied text": True}
"""Method: whether anything is drafted."""
LLAMA = "llama.cpp"
TINY = Shape(layers=4, hidden=256, heads=4, kv_heads=2, head_dim=64, intermediate=512, vocab=1024)
_SCALES = {Kind.Q8_0: 2e-4, Kind.Q4_K: 1e-4, Kind.Q6_K: 5e-6, Kind.Q5_0: 1e-3}
_IN_BLOCKS_OF_32 = {Kind.Q4_K: Kind.Q5_0, Kind.Q6_K: Kind.Q8_0}
"""What llama.cpp's Q4_K_M has where rows are no multiple of 256 numbers."""


def config_of(name: str, shape: Shape) -> tuple[str, Any]:
    """GGUF's architecture, and a configuration of that shape."""
    import transformers

    sizes = {"hidden_size": shape.hidden, "intermediate_size": shape.intermediate, "num_hidden_layers": shape.layers}
    sizes |= {"num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "vocab_size": shape.vocab}
    sizes |= {"max_position_embeddings": 32768, "tie_word_embeddings": True}
    if name.startswith("qwen3"):
        return "qwen3", transformers.Qwen3Config(**sizes, head_dim=shape.head_dim)
    if name.startswith("smollm3"):
        return "smollm3", transformers.SmolLM3Config(**sizes, pad_token_id=None)
    if name.startswith("gemma3"):
        full = {"rope_type": "linear", "factor": 8.0} if name == "gemma3-4b" else {"rope_type": "default"}
        rope = {
            "full_attention": {"rope_theta": 1e6, **full},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }
        window = {"sliding_window": 1024 if name == "gemma3-4b" else 512, "query_pre_attn_scalar": shape.head_dim}
        return "gemma3", transformers.Gemma3TextConfig(**sizes, **window, head_dim=shape.head_dim, rope_parameters=rope)
    scales = {"attention_multiplier": 0.015625, "embedding_multiplier": 12.0}
    return "granite", transformers.GraniteConfig(**sizes, **scales, residual_multiplier=0.22, logits_scaling=10.0)


def tensors(name: str, shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes."""
    q, kv, hidden = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.hidden
    yield "token_embd.weight", (shape.vocab, hidden)
    yield "output_norm.weight", (hidden,)
    layer = {"attn_norm": (hidden,), "attn_q": (q, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden)}
    layer |= {"attn_output": (hidden, q), "ffn_norm": (hidden,), "ffn_gate": (shape.intermediate, hidden)}
    layer |= {"ffn_up": (shape.intermediate, hidden), "ffn_down": (hidden, shape.intermediate)}
    if name.startswith("gemma3"):
        layer |= {"post_attention_norm": (hidden,), "post_ffw_norm": (hidden,)}
    if name.startswith(("qwen3", "gemma3")):
        layer |= {"attn_q_norm": (shape.head_dim,), "attn_k_norm": (shape.head_dim,)}
    for number in range(shape.layers):
        for part, size in layer.items():
            yield f"blk.{number}.{part}.weight", size


def write_file(file: Path, name: str, shape: Shape) -> None:
    """A GGUF file of the preset's shape and kinds of weights, complete or not at all."""
    import numpy as np

    architecture, config = config_of(name, shape)
    kinds: Kinds = Kind.Q8_0 if name == "qwen3-0.6b" else q4_k_m(shape.layers)
    part = file.with_suffix(".part")
    writer = gguf.GGUFWriter(part, architecture, use_temp_file=True)
    _add_settings(writer, architecture, config)
    letters = sorted({chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256))} | {"Ġ", "Ċ", "ġ"})
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, "ab"]
    tokens += [f"<unused{number}>" for number in range(shape.vocab - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * (shape.vocab - 3)])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT)
    for number, (tensor, size) in enumerate(tensors(name, shape)):
        if len(size) == 1:
            writer.add_tensor(tensor, np.ones(size, np.float32))
            continue
        kind = kinds if isinstance(kinds, Kind) else kinds(tensor)
        kind = _IN_BLOCKS_OF_32.get(kind, kind) if size[-1] % 256 else kind
        data = random_blocks(kind, size, seed=number, scale=_SCALES[kind])
        writer.add_tensor(tensor, data, raw_shape=data.shape, raw_dtype=kind)
    finish(writer)
    part.replace(file)


class Forced:
    """The engine's sampler, but for its choices, which are given: every node at depth d chooses token d of the rest."""

    tokens: Sequence[int] = ()

    def __init__(self, *arguments: Any) -> None:
        from specextend_cli.engine.sampling import Sampler

        self._own, self._done = Sampler(*arguments), 0

    def choose(self, logits: Any, tree: Any = None) -> Any:
        import torch

        depths = [0] if tree is None else tree.depths
        return torch.tensor([self.tokens[(self._done + depth) % len(self.tokens)] for depth in depths])

    def commit(self, tokens: Any) -> None:
        self._own.commit(tokens)
        self._done += tokens.shape[1]


def measure(file: Path, method: str, length: int, tokens: int, threads: int) -> dict[str, float]:
    """One of our methods, in this process."""
    import torch

    from specextend_cli.engine import decode as decoding
    from specextend_cli.engine.events import Accepted, Prefilled
    from specextend_cli.engine.stop import Stop
    from specextend_cli.models import fast_import
    from specextend_cli.runtime.loading_thread import result_of
    from specextend_cli.runtime.options import Engine
    from specextend_cli.summarize.summarizer import Summarizer

    fast_import.own_process = True  # as in the program
    torch.set_num_threads(threads)
    with Summarizer(Engine(model=f"{file}", device="cpu")) as summarizer:
        summarizer.plain = not OURS[method]
        generator = result_of(summarizer.load())
    shape = load_preset(file).target.shape
    assert shape is not None
    lm = generator.target.lm
    assert lm.runner is not lm.stock or shape.weights < 2e7, "the native library does not run it"
    prompt = random.Random(0).choices(range(shape.vocab), k=length)
    Forced.tokens = prompt[length // 3 :][: tokens + 32]
    decoding.Sampler = Forced  # type: ignore[misc, assignment]
    first = seconds = 0.0
    written = steps = 0
    for event in decoding.decode(
        generator.target,
        generator.drafter,
        prompt,
        stop=Stop(tokens, frozenset()),
        sampling=generator.sampling,
        retrieval=generator.retrieval,
        gate=generator.draft_gate,
        prefill_chunk=generator.prefill_chunk,
    ):
        if isinstance(event, Prefilled):
            first = event.seconds
        elif isinstance(event, Accepted) and event.nodes:
            seconds += event.draft_seconds + event.verify_seconds
            written, steps = written + len(event.tokens), steps + 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"first": first, "speed": written / seconds, "peak": peak, "accepted": written / max(steps, 1)}


def results(file: Path) -> dict[tuple[str, int, str], dict[str, float]]:
    lines = file.read_text().splitlines() if file.exists() else []
    kept = [json.loads(line) for line in lines if line.endswith("}")]
    return {(one["preset"], one["length"], one["method"]): one for one in kept}


def run(arguments: argparse.Namespace, file: Path, name: str, length: int, method: str) -> dict[str, Any] | None:
    """A measurement in a process of its own; None where the program is missing."""
    vocabulary = (TINY if arguments.tiny else PRESETS[name]).vocab
    numbers = [str(number) for number in (length, arguments.tokens, arguments.threads)]
    if method == LLAMA:
        script = Path(__file__).with_name("llama_cpp_speed.py")
        command = [arguments.llama_python, str(script), str(file), *numbers, str(vocabulary)]
    else:
        command = [sys.executable, "-m", "tests.scripts.processor_presets", "--one", str(file), method, *numbers]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "XDG_CACHE_HOME": str(arguments.folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"{name}, {length}, {method}: {done.stderr.strip()[-600:]}", file=sys.stderr)
        return None
    return {"preset": name, "length": length, "method": method, **json.loads(done.stdout.splitlines()[-1])}


def table(found: dict[tuple[str, int, str], dict[str, float]]) -> None:
    print("| preset | prompt | method | first token (s) | tokens a second | accepted | peak memory (GB) |")
    print("|---|---|---|---|---|---|---|")
    for (name, length, method), one in sorted(found.items()):
        accepted = f"{one['accepted']:.2f}" if "accepted" in one else "–"
        numbers = f"{one['first']:.1f} | {one['speed']:.1f} | {accepted} | {one['peak'] / 1e9:.1f}"
        print(f"| {name} | {length:,} | {method} | {numbers} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--presets", nargs="+", default=list(PRESETS))
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096, 8192])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--llama-python", default=sys.executable)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    kept = arguments.folder / "results.jsonl"
    for name in arguments.presets:
        file = arguments.folder / f"{name}{'-tiny' * arguments.tiny}.gguf"
        if not file.exists():
            write_file(file, name, TINY if arguments.tiny else PRESETS[name])
        for length in arguments.lengths:
            for method in (*OURS, LLAMA):
                if (name, length, method) in results(kept):
                    continue
                if one := run(arguments, file, name, length, method):
                    with kept.open("a") as out:
                        out.write(json.dumps(one) + "\n")
    table(results(kept))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:7]))))
    else:
        main()
