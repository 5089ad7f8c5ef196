"""How much of a document must a drafter see? The target drafting for itself over small working sets.

    python tests/self_draft.py PAIR_DIRECTORY DOCUMENTS.jsonl[.gz] [--lengths 4096 8192] [--docs 3]

For each length, size and policy: accepted length (bonus included; a chain of four drafts, so at most 5) and the share
of the target's attention that the working set covered, greedy with a repetition penalty so that loops flatter nobody.
A Markdown table on stdout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.meter import Meter
from specextend_cli.engine.stop import Stop

sys.path.insert(0, str(Path(__file__).parent))
from real_documents import OncePrefilled, framed, read

CHAIN = TreeShape(nodes=5, depth=4, width=1, threshold=0.0)


def settings(policy: str, size: int, positions: str) -> Retrieval:
    sinks, chunk = 4, 32
    recent = max(size // 4, 64) - sinks
    retrieval = Retrieval(
        policy=policy,
        chunk=chunk,
        top_k=(size - sinks - recent) // chunk,
        recent=recent,
        sinks=sinks,
        every=4,
        positions=positions,
    )
    assert retrieval.size == size
    return retrieval


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pair", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--positions", default="absolute")
    parser.add_argument("--docs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=96)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.pair / "tokenizer.json"))
    lm = LanguageModel(AutoModelForCausalLM.from_pretrained(args.pair, dtype=torch.bfloat16))
    eos = int(tokenizer.token_to_id("<|im_end|>"))
    texts = [tokenizer.encode(text).ids for text in read(args.documents)]
    print("| length | working set | policy | accepted length | attention covered |\n|---|---|---|---|---|", flush=True)
    for length in args.lengths:
        results: dict[tuple[int, str], list[Meter]] = {}
        for ids in [ids for ids in texts if len(ids) >= length][: args.docs]:
            target = OncePrefilled(lm)
            runs = [(size, policy) for size in args.sizes for policy in ("streaming", "retrieval")]
            for size, policy in [(length, "full"), *runs]:
                retrieval = settings(policy, size if policy != "full" else 1024, args.positions)
                meter = Meter()
                for event in decode(
                    target,
                    LMDrafter(lm, target, retrieval),
                    framed(tokenizer, ids, length),
                    stop=Stop(args.tokens, frozenset([eos])),
                    sampling=Sampling(repetition_penalty=1.1),
                    retrieval=retrieval,
                    budget=DraftGate(CHAIN, gate=False),
                ):
                    meter.add(event)
                results.setdefault((size, policy), []).append(meter)
        for (size, policy), meters in results.items():
            accepted = mean(meter.accepted_length for meter in meters)
            hit = mean(1.0 if meter.hit is None else meter.hit for meter in meters)  # None: nothing was hidden
            print(f"| {length} | {size} | {policy} | {accepted:.2f} | {hit:.2f} |", flush=True)


if __name__ == "__main__":
    main()
