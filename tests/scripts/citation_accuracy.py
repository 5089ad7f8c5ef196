"""How often does a cited page say what the sentence says? By words, by attention, and by both, with the embedded pair.

    python -m tests.scripts.citation_accuracy [--docs 4] [--pages 30] [--seed 100] [--seconds 200] [-v]

Documents with a fact on every page that no other page has (`planted.py`). Of the sentences of their summaries that
state such a fact, counted are the pages cited, and those of them that contain it. Sentences that mix the facts of
several pages into one that no page has are counted by themselves.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar
from unittest.mock import patch

from specextend_cli.runtime.loading_thread import result_of
from specextend_cli.summarize.events import Plan, Sentence
from specextend_cli.summarize.evidence import Citer, document_sentences
from specextend_cli.summarize.mapreduce import plan_work
from tests.helpers.asked import asked
from tests.helpers.planted import Planted, plant

WAYS = ("words", "attention", "both")


class Recorder(Citer):
    """Keeps the attention and the range that was read for each sentence."""

    heard: ClassVar[dict[str, tuple[Mapping[int, float], range]]] = {}

    def evidence(self, sentence, attention, read=None):
        self.heard[sentence] = dict(attention), read
        return super().evidence(sentence, attention, read)


def judge(
    planted: Planted, citer: Citer, sentence: str, attention: Mapping[int, float], read: range
) -> dict[str, list[int]]:
    """The pages that each way cites for a sentence."""
    by_words = Citer(planted.document.text, citer.sentences, trust=0.0).evidence(sentence, {}, read)
    by_attention = [max(attention, key=lambda i: attention[i])] if attention else []
    both = citer.evidence(sentence, attention, read)
    return {
        "words": [citer.sentences[one.sentence].page for one in by_words],
        "attention": [citer.sentences[i].page for i in by_attention],
        "both": [citer.sentences[one.sentence].page for one in both],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=4)
    parser.add_argument("--pages", type=int, default=30)
    parser.add_argument("--filler", type=int, default=3)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=200, help="begin no document after this")
    parser.add_argument("-v", action="store_true", help="print every sentence that states a fact")
    given = parser.parse_args()
    began = time.monotonic()
    stated, cited, right = Counter[str](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with (
        asked(cache=False, device="cpu", mode="abstractive") as summarizer,
        patch("specextend_cli.summarize.evidence.Citer", Recorder),
    ):
        for number in range(given.docs):
            if time.monotonic() - began > given.seconds:
                break
            planted = plant(given.pages, given.seed + number, filler=given.filler)
            sentences = []
            for event in summarizer.run(planted.document):
                if isinstance(event, Sentence):
                    sentences.append(event.text)
                elif isinstance(event, Plan):
                    plan = event
            _, chunks = plan_work(planted.document, result_of(summarizer._prompts(summarizer.request)))
            citer = Citer(planted.document.text, document_sentences(planted.document, chunks))
            for sentence in sentences:
                pages = planted.stated(sentence)
                if not pages:
                    continue
                kind = "mixed" if planted.mixed(sentence) else "of one page"
                stated[kind] += 1
                ways = judge(planted, citer, sentence, *Recorder.heard[sentence])
                for way, found in ways.items():
                    cited[kind, way] += len(found)
                    right[kind, way] += sum(page in pages for page in found)
                if given.v:
                    print(f"  {kind} {sorted(pages)} {ways} {sentence!r}")
            print(
                f"{number + 1} documents of {given.pages} pages, {len(plan.chunks)} parts, {plan.levels} levels,"
                f" {time.monotonic() - began:.0f} s; right of cited pages:"
            )
            for kind, count in stated.items():
                shares = (f"{way} {right[kind, way]}/{cited[kind, way]}" for way in WAYS)
                print(f"  {count} sentences {kind}:", *shares, flush=True)


if __name__ == "__main__":
    main()
