"""How good are the summaries? GovReport against its reference summaries: this program, and three plain ways.

    python -m tests.scripts.summary_quality DOCUMENTS.jsonl[.gz] --out rows.jsonl [--lengths 2K 4K 8K] [--skip 3]
        [--docs 3] [--methods specextend truncated naive] [--model PRESET ...] [--seconds 500]

The same target writes with all methods but `lead`:

- specextend: the preset's own way;
- lead: the first sentences of the document, as many words as specextend wrote;
- truncated: one prompt with as much of the document's beginning as the window takes;
- naive: notes on fixed-size pieces of tokens, then one prompt over all notes (of notes, where they are too long).

Rows are kept as they are written: run it again to go on, and without --docs to print what is there. Figures are means
over documents with 95% bootstrap intervals, words and seconds medians. *Not in source*: numbers, dates and names that
the document does not have, per 100 words. *Apart*: share of sentences with two or more of them of which no three
sentences of the document in a row have all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specextend_cli.bench.statistics import Interval, bootstrap_interval, repeated_ngrams
from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.models.presets import load_preset
from specextend_cli.runtime.loading_thread import result_of
from specextend_cli.summarize.events import Part, Summarized
from specextend_cli.summarize.factcheck import FactSource
from specextend_cli.summarize.prompt_builder import Prompt
from specextend_cli.summarize.sentences import split
from specextend_cli.summarize.summarizer import Options, Summarizer

METHODS = ("specextend", "lead", "truncated", "naive")
_ROUGE = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}


@dataclass(frozen=True)
class Row:
    """What one method wrote about one document. `extra` is what only specextend tells."""

    document: str
    method: str
    preset: str
    text: str
    seconds: float
    extra: dict[str, object]

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells a row from another."""
        return self.document, self.method, self.preset


# ----------------------------------------------------------------------------------------------------- writing


def lead(text: str, words: int) -> str:
    """The first sentences of a text, until they have as many words; one at least."""
    taken: list[str] = []
    for sentence in split(text):
        if taken and sum(len(one.split()) for one in (*taken, sentence)) > words:
            break
        taken.append(sentence)
    return "".join(taken).strip()


def truncated(summarizer: Summarizer, document: Document) -> str:
    """One answer to the preset's prompt around the beginning of the document."""
    window = summarizer.preset.window
    return _asked(summarizer, document, "single", document.text, window.summary_tokens)


def naive(summarizer: Summarizer, document: Document) -> str:
    """Notes on every `chunk` tokens, wherever that cuts; then one answer to a prompt around all notes."""
    window, encoder = summarizer.preset.window, summarizer._builder.encoder
    ids = encoder.encode(document.text)
    while len(ids) > window.chunk:
        pieces = [encoder.decode(ids[at : at + window.chunk]) for at in range(0, len(ids), window.chunk)]
        notes = [_asked(summarizer, document, "map", piece, window.chunk_summary_tokens) for piece in pieces]
        shorter = encoder.encode("\n".join(notes))
        if len(shorter) >= len(ids):
            break
        ids = shorter
    return _asked(summarizer, document, "reduce", encoder.decode(ids), window.summary_tokens)


def _asked(summarizer: Summarizer, document: Document, template: str, text: str, most: int) -> str:
    prompter, window = summarizer._builder, summarizer.preset.window
    words = int(most * 0.6)
    names = ("title", "pages", "part", "parts", "language")
    values: dict[str, object] = {**dict.fromkeys(names, "1"), "title": document.name, "words": words}
    values["language"] = "the document's language"
    room = window.context - most - prompter.overhead(template) - 16
    ids = prompter.encoder.encode(text)
    if len(ids) > room:
        text = prompter.encoder.decode(ids[:room])
    generator = result_of(summarizer.load())
    part = Part(1, 1, 1, 1, (1, 1), len(ids), final=True)
    return result_of(generator.generate(Prompt(part, prompter.prompt(template, values, text), most))).text


def ours(summarizer: Summarizer, document: Document) -> tuple[str, dict[str, object]]:
    """The summary, and what this program says about it."""
    summary = next(event.summary for event in summarizer.run(document) if isinstance(event, Summarized))
    told = {
        "chunk_summaries": list(summary.chunk_summaries),
        "tokens": summary.meter.tokens,
        "retried": len(summary.retried),
    }
    return summary.text, told


def write(summarizer: Summarizer, document: Document, method: str) -> Row:
    """One row, timed. Models are loaded, and the document's tokens counted, before the clock runs."""
    result_of(summarizer.load())
    summarizer.plan(document)
    began = time.perf_counter()
    if method == "specextend":
        text, extra = ours(summarizer, document)
    else:
        text, extra = {"truncated": truncated, "naive": naive}[method](summarizer, document), {}
    return Row(document.name, method, summarizer.preset.name, text, time.perf_counter() - began, extra)


# --------------------------------------------------------------------------------------------------- measuring


def apart(text: str, source: str) -> float | None:
    """The share of sentences whose facts, two or more, no three sentences of the source in a row have; None of none."""
    windows = _windows(source)
    told = [facts for sentence in split(text) if len(facts := _facts(sentence)) > 1]
    if not told:
        return None
    return sum(not any(facts <= window for window in windows) for facts in told) / len(told)


def _windows(source: str) -> list[set[str]]:
    sentences = [_words(sentence) for sentence in split(source)]
    return [set().union(*sentences[at : at + 3]) for at in range(max(len(sentences) - 2, 1))]


def _facts(sentence: str) -> set[str]:
    """Numbers, and capitalized words that do not begin the sentence."""
    return {word for at, word in enumerate(_tokens(sentence)) if word[0].isdigit() or (at and word[0].isupper())}


def _words(sentence: str) -> set[str]:
    return set(_tokens(sentence))


def _tokens(sentence: str) -> list[str]:
    return [re.sub(r"(?:['’]s|[.,])$", "", token) for token in re.findall(r"\d[\d.,]*|[^\W\d_][\w'’-]*", sentence)]


def figures(row: Row, source: str, reference: str, scorer: Any) -> dict[str, float | None]:
    """What the table shows of one row."""
    words = row.text.split()
    rouge = scorer.score(reference, row.text)
    found = FactSource(source).unsupported(row.text)
    return {
        **{name: rouge[key].fmeasure for name, key in _ROUGE.items()},
        "repeated 4-grams": repeated_ngrams([word.lower() for word in words]),
        "not in source": 100 * len(found) / len(words) if words else None,
        "apart": apart(row.text, source),
        "words": len(words),
        "seconds": row.seconds,
    }


def table(measured: dict[str, list[dict[str, float | None]]]) -> Iterator[str]:
    """Markdown: a line a method."""
    names = list(next(iter(measured.values()))[0])
    yield f"| method | documents | {' | '.join(names)} |"
    yield "|" + "---|" * (len(names) + 2)
    for method, rows in measured.items():
        cells = []
        for name in names:
            values = [value for row in rows if (value := row[name]) is not None]
            plain = name in ("words", "seconds")
            cells.append(_cell(bootstrap_interval(values, np.median if plain else np.mean), plain) if values else "")
        yield f"| {method} | {len(rows)} | {' | '.join(cells)} |"


def differences(measured: dict[str, dict[str, dict[str, float | None]]], of: str) -> Iterator[str]:
    """Markdown: how much more of each figure `of` has than the others, paired by document."""
    names = [name for name in next(iter(measured[of].values())) if name not in ("words", "seconds")]
    yield f"| {of} minus | {' | '.join(names)} |"
    yield "|" + "---|" * (len(names) + 1)
    for method, rows in measured.items():
        both = measured[of].keys() & rows.keys()
        if method == of or not both:
            continue
        cells = []
        for name in names:
            pairs = [(measured[of][document][name], rows[document][name]) for document in sorted(both)]
            values = [one - other for one, other in pairs if one is not None and other is not None]
            cells.append(_cell(bootstrap_interval(values, np.mean), False) if values else "")
        yield f"| {method} | {' | '.join(cells)} |"


def _cell(interval: Interval, plain: bool) -> str:
    form = "{:.0f}" if plain else "{:.3f}"
    value = form.format(interval.value)
    if plain or interval.low is None or interval.high is None:
        return value
    return f"{value} ({form.format(interval.low)} to {form.format(interval.high)})"


# ------------------------------------------------------------------------------------------------------ running


def load(path: Path) -> dict[str, dict[str, str]]:
    """The documents by their id."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return {record["id"]: record for record in map(json.loads, filter(None, text.split("\n")))}


def rows(path: Path) -> list[Row]:
    """What was written so far; a torn last line is dropped."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return [Row(**json.loads(line)) for line in whole.splitlines()]


def chosen(documents: dict[str, dict[str, str]], lengths: Sequence[str], skip: int, count: int) -> list[str]:
    """`count` documents of each length after the first `skip`."""
    by_length = [[id for id, record in documents.items() if record["length"] == length] for length in lengths]
    return [id for ids in by_length for id in ids[skip : skip + count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lengths", nargs="+", default=["2K", "4K", "8K"])
    parser.add_argument("--skip", type=int, default=3, help="documents of each length on which settings were chosen")
    parser.add_argument("--docs", type=int, default=0, help="documents of each length")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--model", nargs="+", default=[Options().preset], help="presets; baselines use the first")
    parser.add_argument("--seconds", type=float, default=500, help="begin nothing after this")
    given = parser.parse_args()
    began = time.monotonic()
    documents = load(given.documents)
    known = {row.key: row for row in rows(given.out)}
    for model in given.model:
        methods = [method for method in given.methods if method != "lead"]
        methods = methods if model == given.model[0] else ["specextend"]
        with (
            Summarizer(Options(preset=model, cache=False)) as summarizer,
            given.out.open("a", encoding="utf-8") as file,
        ):
            for id in chosen(documents, given.lengths, given.skip, given.docs):
                for method in methods:
                    if (id, method, summarizer.preset.name) in known or time.monotonic() - began > given.seconds:
                        continue
                    row = write(summarizer, read_bytes(id, documents[id]["text"].encode()), method)
                    file.write(json.dumps(asdict(row)) + "\n")
                    file.flush()
                    known[row.key] = row
                    print(f"{id} {row.preset} {method}: {row.seconds:.0f} s, {len(row.text.split())} words", flush=True)
    first = load_preset(given.model[0]).name
    print("\n".join(report(list(known.values()), documents, given.methods, first)))


def report(
    known: Sequence[Row], documents: dict[str, dict[str, str]], methods: Sequence[str], first: str
) -> Iterator[str]:
    """Both tables over what is there; rows of the preset `first` come first, and `lead` is as long as they are."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(_ROUGE.values()), use_stemmer=True)
    many = len({row.preset for row in known}) > 1
    found = [row for row in known if row.method in methods]
    if "lead" in methods:
        found += [
            Row(row.document, "lead", first, lead(documents[row.document]["text"], len(row.text.split())), 0.0, {})
            for row in known
            if row.method == "specextend" and row.preset == first
        ]
    measured: dict[str, dict[str, dict[str, float | None]]] = {}
    for row in sorted(found, key=lambda row: (METHODS.index(row.method), row.preset != first)):
        name = f"{row.method} ({row.preset})" if many else row.method
        record = documents[row.document]
        measured.setdefault(name, {})[row.document] = figures(row, record["text"], record["summary"], scorer)
    if not measured:
        return
    yield from table({name: list(of.values()) for name, of in measured.items()})
    if len(measured) > 1:
        yield ""
        yield from differences(measured, next(iter(measured)))


if __name__ == "__main__":
    main()
