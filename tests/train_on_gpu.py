"""Train the embedded pair's head on a machine that has torch and transformers and nothing else of ours.

    python tests/train_on_gpu.py prepare PAIR_DIRECTORY CORPUS TOKENS.npz     here: tokenize
    python tests/train_on_gpu.py train PAIR_DIRECTORY TOKENS.npz OUTPUT_DIRECTORY --minutes 9 [--device cuda]

The second command needs no tokenizer, no preset and no network, prints one line an event, and can be killed and run
again. What it does is `specextend train-draft`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).parents[1]))
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.train.answers import Asking
from specextend_cli.train.card import Facts
from specextend_cli.train.distill import Distillation, distill
from specextend_cli.train.events import Trained
from specextend_cli.train.samples import Frame, read_corpus
from specextend_cli.train.trainer import Schedule


def prepare(pair: Path, corpus: Path, out: Path) -> None:
    from specextend_cli.models.preset import PLACEHOLDERS
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.tokens import TextEncoder
    from specextend_cli.summarize.prompt_builder import PromptBuilder

    preset, encoder = load_preset("smollm2-135m"), TextEncoder.of(pair)
    documents = [np.array(encoder.encode(text), dtype=np.uint16) for text in read_corpus(corpus)]
    before, after = PromptBuilder(preset, encoder, pair).frame("map", dict.fromkeys(PLACEHOLDERS, "1"))
    np.savez_compressed(
        out,
        tokens=np.concatenate(documents),
        ends=np.cumsum([len(document) for document in documents]),
        before=np.array(before),
        after=np.array(after),
    )
    print(f"{len(documents)} documents, {sum(map(len, documents)):,} tokens, {out.stat().st_size / 1e6:.1f} MB")


def train(args: argparse.Namespace) -> None:
    packed = np.load(args.tokens)
    documents = [part.tolist() for part in np.split(packed["tokens"].astype(np.int64), packed["ends"][:-1])]
    frame = Frame(packed["before"].tolist(), packed["after"].tolist())
    model = AutoModelForCausalLM.from_pretrained(args.pair, dtype=torch.bfloat16).to(args.device)
    lm = LanguageModel(model)
    ends = model.generation_config.eos_token_id
    plan = Distillation(
        Schedule(
            seconds=60 * args.minutes,
            unroll=args.unroll,
            batch=args.batch,
            rows=args.rows,
            rate=args.rate,
            validate=args.validate,
        ),
        Asking(
            new_tokens=192,
            batch=args.answers,
            memory=args.memory << 30,
            sampling=Sampling(repetition_penalty=1.05, no_repeat_ngram=8),
        ),
        vocabulary=args.vocabulary,
        lengths=tuple(args.lengths),
        answering=args.answering,
        text=args.text,
    )
    name = torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device
    facts = Facts(
        target="smollm2-135m",
        target_licence="Apache-2.0",
        corpus=f"{len(documents):,} public documents (Federal Reserve, GAO, DOJ, speeches, PEPs, EIPs, RFCs, KEPs)",
        corpus_licences="public domain, CC0, MIT or Apache-2.0, Apache-2.0",
        machine=name,
    )
    last = 0.0
    for event in distill(
        lm, documents, frame, [ends] if isinstance(ends, int) else sorted(ends), plan, args.output, facts
    ):
        if not isinstance(event, Trained) or time.monotonic() - last > 5:
            last = time.monotonic()
            print(event, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    preparing.add_argument("pair", type=Path)
    preparing.add_argument("corpus", type=Path)
    preparing.add_argument("out", type=Path)
    training = commands.add_parser("train")
    training.add_argument("pair", type=Path)
    training.add_argument("tokens", type=Path)
    training.add_argument("output", type=Path)
    training.add_argument("--minutes", type=float, default=9.0)
    training.add_argument("--device", default="cuda")
    training.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 7168])
    training.add_argument("--vocabulary", type=int, default=20480)
    training.add_argument("--unroll", type=int, default=6)
    training.add_argument("--batch", type=int, default=8)
    training.add_argument("--rows", type=int, default=1024)
    training.add_argument("--rate", type=float, default=6e-4)
    training.add_argument("--answers", type=int, default=256)
    training.add_argument("--memory", type=int, default=32, help="GiB of cache for answers")
    training.add_argument("--answering", type=float, default=0.35)
    training.add_argument("--text", type=float, default=0.3)
    training.add_argument("--validate", type=float, default=45.0)
    args = parser.parse_args()
    if args.command == "prepare":
        prepare(args.pair, args.corpus, args.out)
    else:
        train(args)


if __name__ == "__main__":
    main()
