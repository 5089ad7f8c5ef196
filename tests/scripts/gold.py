"""Does a change of the code change what is decoded? Fixed prompts by every drafter and policy, kept in a file.

    python -m tests.scripts.gold write FILE [--only PATTERN] [--texts DOCUMENTS.jsonl.gz]
    python -m tests.scripts.gold compare OLD NEW

`write` decodes 20 prompts by the embedded pair (1K to 4K tokens; four of 16K with RoPE stretched; two by exchanged
attention back ends) and one by each tiny random model, in float32 and bfloat16, greedy and sampled: in two processes,
13 minutes on two cores that do nothing else. FILE has a JSON line for each case: its tokens; of each verification the
accepted length and the nodes of the tree; of each choice of a working set the sum of its positions. It exits 1 if a
case in float32 differs from plain decoding, or cannot be decoded. `compare` prints the first differences of every case
of NEW's PATTERN; it exits 1 if there are any, or a case is missing.

A case is `model/forward/dtype/prompt/draft/sampling`; PATTERN is a shell's: `--only 'pair/native/*/eagle-*'`. Forwards
are `native` code, transformers' own `layers`, and parts of the ablation: these with masked attention throughout
(`naive`), but for reading the prompt (`+flash`) or verifying (`+hta`). Nothing depends on time: every step drafts as
far as the settings allow or, `gated`, as far as pays by an invented clock.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache, partial
from itertools import groupby, zip_longest
from multiprocessing import get_context
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias
from zlib import crc32

import torch
import transformers

from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.events import Accepted, Retrieved
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.models.heads import load_eagle
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch_pair
from specextend_cli.models.tokens import load_tokenizer
from specextend_cli.runtime.loading import drafter_of, load_language_model, load_target, with_draft
from specextend_cli.runtime.options import Engine
from specextend_cli.runtime.runners import make_library, run_natively
from tests.engine.tiny_models import VOCABULARY
from tests.scripts.gold_models import save_models

Record: TypeAlias = dict[str, list[int]]
NEW_TOKENS = 24
SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(0.8, top_p=0.95, repetition_penalty=1.1, no_repeat_ngram=6, seed=7),
}
PAIR = "smollm2-135m"
TRAINED, LONG = 8192, 16384
LENGTHS = (1024, 1060, 1100, 1150, 1200, 1300, 1400, 1536, 1700, 1900, 2048, 2500, 3100, 4096)
MASKED = {"layers": (False, False), "naive": (True, True), "+flash": (False, True), "+hta": (True, False)}
"""Whether prefill and verification use masked attention."""
TREE, CHAIN = TreeShape(nodes=12, depth=5, width=3), TreeShape(nodes=5, depth=4, width=1, threshold=0.0)
FULL = Retrieval(policy="full")
SEEN = Retrieval(chunk=32, top_k=10, recent=64, every=4, positions="compact")  # less than any prompt of the pair
FEW = Retrieval(chunk=8, top_k=4, recent=16, sinks=2, every=2)


@dataclass(frozen=True)
class Draft:
    """`name` in cases, the drafter's in the registry, and the directory of its head unless the preset's own drafts."""

    name: str
    kind: str
    retrieval: Retrieval = FULL
    tree: TreeShape = TREE
    is_gated: bool = False
    head: str = ""


def by_policies(kind: str, seen: Retrieval, positions: Any = "compact", head: str = "") -> list[Draft]:
    seen = replace(seen, positions=positions)
    shown = {"full": FULL, "streaming": replace(seen, policy="streaming"), "retrieval": seen}
    return [Draft(f"{kind}-{policy}", kind, retrieval, head=head) for policy, retrieval in shown.items()]


PLAIN = Draft("plain", "none")
OF_PAIR = [PLAIN, Draft("ngram", "ngram"), Draft("table", "table"), Draft("gated", "blend", SEEN, is_gated=True)]
OF_PAIR += by_policies("eagle", SEEN) + by_policies("blend", SEEN) + by_policies("self", SEEN, "absolute")
OF_PAIR += [
    Draft("magicdec", "self", replace(SEEN, policy="streaming"), CHAIN),
    Draft("triforce", "self", replace(SEEN, every=0), CHAIN),  # its upper level
]
LONG_ONES = ("plain", "ngram", "eagle-retrieval", "blend-streaming", "blend-retrieval", "self-retrieval", "magicdec")
EXCHANGED_ONES = ("plain", "eagle-retrieval", "blend-full", "blend-streaming", "blend-retrieval", "self-retrieval")
OF_RECURRENT = [PLAIN, Draft("ngram", "ngram")]
OF_TINY = [*OF_RECURRENT, Draft("blend", "blend", FEW)]
OF_TINY += by_policies("self", FEW, "absolute") + by_policies("lm", FEW, "absolute")
EAGLE_1 = by_policies("eagle", FEW, head="eagle1")
FAMILIES = {
    **dict.fromkeys(("llama3-rope", "smollm3", "granite", "qwen3-moe", "gpt-oss", "gemma2", "gemma3"), OF_TINY),
    "lfm2": OF_RECURRENT,
    "gemma4": OF_TINY + by_policies("assistant", FEW, "absolute", head="assistant"),
    "qwen3": OF_TINY + EAGLE_1,
    "qwen3.5": OF_RECURRENT + EAGLE_1 + by_policies("mtp", FEW),
}
"""Tiny models, for the kinds of layers and drafts that the pair lacks. Native code runs `qwen3` alone: head sizes."""


class SteadyGate(DraftGate):
    """A gate with an invented clock: a plain step takes 10 ms, a further node 0.2 ms, a forward of the draft 1 ms."""

    def learn(self, tree: Any, shape: Any, path: Any, draft_seconds: float, verify_seconds: float, length: int) -> bool:
        return super().learn(tree, shape, path, 0.001 * tree.cost[1], 0.01 + 0.0002 * (len(tree) - 1), length)

    def charge(self, seconds: float, length: int) -> None:
        super().charge(0.001, length)


@dataclass(frozen=True)
class Case:
    """One decoding; `tokens` are the prompt's."""

    model: str
    forward: str
    dtype: str
    prompt: str
    draft: Draft
    sampling: str
    tokens: tuple[int, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return "/".join((self.model, self.forward, self.dtype, self.prompt, self.draft.name, self.sampling))

    @property
    def loading(self) -> tuple[str, bool, str, bool]:
        """Models are loaded anew where it changes."""
        return self.model, self.forward == "native", self.dtype, len(self.tokens) > TRAINED


def all_cases(texts: Path | None) -> Iterator[Case]:
    """The pair's prompts are pieces of the `texts`, or of Python's language reference, which every Python has."""
    documents = [topics[name] for name in sorted(topics)]
    if texts is not None:
        documents = [json.loads(line)["text"] for line in gzip.decompress(texts.read_bytes()).splitlines()]
    encode = load_tokenizer(fetch_pair(load_preset(PAIR)).target).encode
    stream, before = encode("\n\n".join(documents)).ids, encode("<|im_start|>user\n").ids
    after = encode("\n\nSummarize the text above.<|im_end|>\n<|im_start|>assistant\n").ids

    assert len(stream) >= LONG, f"the texts have {len(stream):,} tokens, fewer than a prompt"

    def prompt(part: int, length: int, own: int = 0) -> list[int]:
        """From a sixteenth of the stream on; the last `own` tokens before the question are from its end."""
        start = part * len(stream) // 16
        piece = [*before, *stream[start:], *stream[:start]][: length - len(after)]
        return [*piece[: len(piece) - own], *stream[len(stream) - own :], *after]

    some = [draft for draft in OF_PAIR if draft.name in LONG_ONES]
    others = [draft for draft in OF_PAIR if draft.name in EXCHANGED_ONES]
    asked = [("pair", "native", f"{number + 1}-{n}", prompt(number, n), OF_PAIR) for number, n in enumerate(LENGTHS)]
    asked += [("pair", "native", f"{number}-16K", prompt(0, LONG, 10 * number), some) for number in range(15, 19)]
    for number, n in ((19, 1024), (20, 1600)):
        asked += [("pair", forward, f"{number}-{n}", prompt(number - 5, n), others) for forward in MASKED]
    for seed, (model, some) in enumerate(FAMILIES.items()):
        tokens = torch.randint(0, VOCABULARY, (260,), generator=torch.Generator().manual_seed(seed)).tolist()
        tokens[220:] = tokens[20:60]
        asked += [(model, forward, "260", tokens, some) for forward in ("native", "layers")[model != "qwen3" :]]
    for dtype in ("float32", "bfloat16"):
        for model, forward, name, tokens, some in asked:
            for sampling in SAMPLINGS:
                yield from (Case(model, forward, dtype, name, draft, sampling, tuple(tokens)) for draft in some)


@contextmanager
def opened(one: Case, root: Path) -> Iterator[tuple[Target, Callable[[Draft], Drafter]]]:
    """The target of a case, and what makes drafters for it; the tiny models are below `root`."""
    folder, options = root / one.model, Engine(device="cpu", dtype=one.dtype)
    preset = load_preset(PAIR if one.model == "pair" else folder / "preset.toml")
    pair = fetch_pair(preset)
    target = load_target(preset, pair, options)
    load = cache(partial(load_language_model, preset, "none", target.lm.device))
    load_head = cache(partial(load_eagle, target=target.lm, name=preset.name))

    def make_drafter(draft: Draft) -> Drafter:
        chosen = replace(options, draft=draft.kind, draft_head=folder / draft.head if draft.head else None)
        drafted = with_draft(preset, chosen)
        return drafter_of(drafted, chosen, target, draft.retrieval, fetch_pair(drafted).draft, load, load_head)

    if one.forward == "native":
        head = load_head(pair.draft if one.model == "pair" else folder / "eagle1")
        problems = list(run_natively(target.lm, [head], exact=one.dtype == "float32"))
        assert not problems, problems
    with stretched(target, LONG + NEW_TOKENS) if len(one.tokens) > TRAINED else nullcontext():
        yield target, make_drafter


@contextmanager
def stretched(target: Target, length: int) -> Iterator[None]:
    """Stretch RoPE by YaRN to `length` positions, as `bench` does for prompts longer than the trained window."""
    model: Any = target.lm.model
    decoder, config = model.get_decoder(), deepcopy(model.config)
    yarn = {"rope_type": "yarn", "factor": length / TRAINED, "original_max_position_embeddings": TRAINED}
    config.rope_parameters, config.max_position_embeddings = {**config.rope_parameters, **yarn}, length
    before, decoder.rotary_emb = decoder.rotary_emb, type(decoder.rotary_emb)(config=config)
    try:
        yield
    finally:
        decoder.rotary_emb = before


def share_prompts(target: Any, features: tuple[int, ...]) -> None:
    """Let the target read a prompt, or a beginning, once for all drafts, with all `features` that they want.

    Its rows stay in the cache, as decoding writes behind them: they only have to be committed again.
    """
    read = target.prefill
    known: dict[int, tuple[list[int], Any, Any]] = {}  # pieces by where they begin

    def prefill(piece: torch.Tensor, **wanted: Any) -> Any:
        start, ids = target.length, [id(target.prefill_backend), *piece.tolist()]
        if start in known and known[start][0] == ids:
            target.cache.reserve(len(piece))
            target.cache.commit()
        else:
            for later in [at for at in known if at > start]:
                del known[later]
            known[start] = ids, read(piece, features=features), target._queries
        _, out, target._queries = known[start]
        return out if wanted["features"] else out._replace(features=None)

    target.prefill = prefill


def decoded(target: Target, drafter: Drafter, case: Case, draft: Draft) -> Record:
    """What is kept of a case, or of the same with another draft."""
    record: Record = {"tokens": [], "accepted": [], "nodes": [], "sets": []}
    gate = SteadyGate(draft.tree) if draft.is_gated else DraftGate(draft.tree, enabled=False)
    chunk, stop, sampling = 1024 if case.model == "pair" else 64, Stop(NEW_TOKENS), SAMPLINGS[case.sampling]
    options: dict[str, Any] = {"sampling": sampling, "retrieval": draft.retrieval, "prefill_chunk": chunk}
    for event in decode(target, drafter, case.tokens, stop=stop, gate=gate, **options):
        if isinstance(event, Retrieved):
            record["sets"].append(int(event.positions.sum()))
        elif isinstance(event, Accepted):
            record["tokens"] += event.tokens
            if event.nodes:  # the first token comes from prefill
                record["accepted"].append(event.accepted)
                record["nodes"].append(event.nodes)
    return record


def run(cases: Sequence[Case], root: Path) -> list[tuple[Case, Record, bool]]:
    """Cases of one loading, their records, and whether their tokens are plain decoding's. Prints them as they come.

    After an error, which is printed, the others are left out.
    """
    torch.set_num_threads(1)
    list(make_library())
    done, plain = [], dict[tuple[str, ...], Record]()
    try:
        with opened(cases[0], root) as (target, make_drafter):
            backends = cache(partial(backend_for, target.lm.device))
            if cases[0].model == "pair":
                share_prompts(target, make_drafter(Draft("", "eagle")).feature_layers)
            for case in cases:
                if case.forward in MASKED:
                    names = ["reference" if masked else target.lm.attention for masked in MASKED[case.forward]]
                    target.prefill_backend, target.verify_backend = map(backends, names)
                same = case.forward, case.prompt, case.sampling
                if same not in plain:
                    plain[same] = decoded(target, make_drafter(PLAIN), case, PLAIN)
                record = plain[same]
                if case.draft != PLAIN:  # drafters are made anew for each case, as they remember n-grams
                    record = decoded(target, make_drafter(case.draft), case, case.draft)
                is_plain = record["tokens"] == plain[same]["tokens"]
                done.append((case, record, is_plain))
                mean = f"{sum(record['accepted']) / len(record['accepted']):.2f}"
                print(case.name, mean if is_plain else f"{mean}, NOT plain decoding's tokens", flush=True)
    except Exception:  # of a case: the records of those before it are kept, and the run fails
        print(f"{cases[len(done)].name}: {traceback.format_exc()}", flush=True)
    return done


def write(file: Path, only: str, texts: Path | None) -> int:
    """Decode the cases that match; 1 if one cannot be decoded, or is wrong: other tokens in float32."""
    cases = [case for case in all_cases(texts) if fnmatch(case.name, only)]
    print(len(cases), "cases", *(stage.name for stage in make_library()))
    decodings, different = 0, {"float32": 0, "bfloat16": 0}
    with TemporaryDirectory() as folder, file.open("w") as out:
        root, models = Path(folder), dict.fromkeys(case.model for case in cases if case.model != "pair")
        weights = {name: save_models(root / name, name) for name in models}
        versions = {"python": sys.version, "torch": torch.__version__, "transformers": transformers.__version__}
        print(json.dumps({"only": only, **versions, "processor": torch.backends.cpu.get_cpu_capability()}), file=out)
        together = [list(some) for _, some in groupby(cases, key=lambda case: case.loading)]
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            for done in pool.map(partial(run, root=root), together):
                for case, record, is_plain in done:
                    inputs = [crc32(str(case.tokens).encode()), weights.get(case.model, 0)]
                    print(json.dumps({"case": case.name, "inputs": inputs, **record}), file=out, flush=True)
                    decodings, different[case.dtype] = decodings + 1, different[case.dtype] + (not is_plain)
    print(f"{decodings} of {len(cases)} cases; with other tokens than plain decoding's: {different}")
    return 1 if different["float32"] or decodings < len(cases) else 0


def compare(old: Path, new: Path) -> int:
    """Print what differs; 1 if anything does."""
    (settings, *cases), (others, *found) = (map(json.loads, file.read_text().splitlines()) for file in (old, new))
    for name in (name for name in settings if settings[name] != others[name] and name != "only"):
        print(f"{name}: {settings[name]} before, {others[name]} now")
    records = {record.pop("case"): record for record in found}
    cases = [case for case in cases if fnmatch(case["case"], others["only"])]
    differing = 0
    for before in cases:
        name, said = before.pop("case"), []
        for kind in before if name in records else ():
            pairs = enumerate(zip_longest(before[kind], records[name][kind]))
            said += [f"{kind}[{at}] {was} before, {now} now" for at, (was, now) in pairs if was != now][:1]
        if said or name not in records:
            differing += 1
            print(f"{name}: {'; '.join(said) or 'missing'}")
    print(f"{len(cases)} cases, {differing} differ")
    return 1 if differing else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing, comparing = commands.add_parser("write"), commands.add_parser("compare")
    writing.add_argument("file", type=Path)
    writing.add_argument("--only", default="*", metavar="PATTERN")
    writing.add_argument("--texts", type=Path, help="documents to make prompts of instead of Python's reference")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "compare":
        return compare(chosen.old, chosen.new)
    return write(chosen.file, chosen.only, chosen.texts)


if __name__ == "__main__":
    sys.exit(main())
