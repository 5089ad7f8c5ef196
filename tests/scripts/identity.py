"""Are the tokens the same? Every drafter and policy against transformers' own `generate`, on real documents.

    python -m tests.scripts.identity PAIR_DIRECTORY DOCUMENTS.jsonl[.gz] [--lengths 1024 2048 4096] [--docs 10]
        [--tokens 128]

float32, greedy, plain and with repetition penalty 1.1 and no-repeat 4-grams (over the output). Prints one line a
document and exits 1 if any token differs. Long: minutes for each document.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)

from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import BlendDrafter, Drafter, LMDrafter, NgramDrafter, NoDrafter
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.meter import Meter
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import generate
from tests.helpers.decoding import RandomDrafter
from tests.scripts.real_documents import OncePrefilled, framed, read


def methods(lm: LanguageModel, target: Target) -> Iterator[tuple[str, Drafter, Retrieval]]:
    """Every drafter, every policy, a working set of 256."""
    none = Retrieval(policy="full")
    yield "none", NoDrafter(), none
    yield "ngram", NgramDrafter(), none
    for policy in ("full", "streaming", "retrieval"):
        retrieval = Retrieval(policy=policy, chunk=32, top_k=6, recent=60, sinks=4)
        assert retrieval.size == 256
        yield f"self/{policy}", LMDrafter(lm, target, retrieval), retrieval
    yield "blend", BlendDrafter([NgramDrafter(), LMDrafter(lm, target, retrieval)]), retrieval
    yield "random", RandomDrafter(lm.vocabulary), none


def behind(start: int, processors: LogitsProcessorList) -> Callable[[Tensor, Tensor], Tensor]:
    """The same for the output alone."""
    return lambda ids, scores: processors(ids[:, start:], scores)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("pair", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--docs", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=128)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.pair / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(args.pair, dtype=torch.float32).eval()
    lm = LanguageModel(model)
    eos = int(tokenizer.token_to_id("<|im_end|>"))
    shape = TreeShape(nodes=6, depth=2, width=3, threshold=0.0)
    penalties = Sampling(repetition_penalty=1.1, no_repeat_ngram=4)
    theirs = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(1.1), NoRepeatNGramLogitsProcessor(4)])
    ends = {"eos_token_id": eos, "pad_token_id": eos, "repetition_penalty": 1.0}
    texts = [tokenizer.encode(text).ids for text in read(args.documents)]
    compared = different = 0
    for length in args.lengths:
        for number, ids in enumerate([ids for ids in texts if len(ids) >= length][: args.docs]):
            prompt = framed(tokenizer, ids, length)
            target = OncePrefilled(lm)
            samplings = {"greedy": (Sampling(), []), "penalties": (penalties, [behind(len(prompt), theirs)])}
            for kind, (sampling, processors) in samplings.items():
                began = time.time()
                expected = generate(model, prompt, args.tokens, processors, **ends)
                seconds, report = time.time() - began, []
                lm = LanguageModel(model)
                for name, drafter, retrieval in methods(lm, target):
                    if kind == "penalties" and name in ("self/full", "self/streaming"):
                        continue
                    tokens, meter = [], Meter()
                    gate = DraftGate(shape, enabled=False)
                    stop = Stop(args.tokens, frozenset([eos]))
                    for event in decode(
                        target, drafter, prompt, stop=stop, sampling=sampling, retrieval=retrieval, gate=gate
                    ):
                        meter.add(event)
                        if isinstance(event, Accepted):
                            tokens.extend(event.tokens)
                    compared += 1
                    different += tokens != expected
                    verdict = "=" if tokens == expected else "DIFFERS"
                    report.append(f"{name} {verdict} {meter.accepted_length:.2f}")
                print(f"{length} doc {number} {kind} ({len(expected)} tokens, generate {seconds:.0f} s):", end=" ")
                print(" | ".join(report), flush=True)
    print(f"{compared} runs compared with transformers' generate, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
