"""A run as the pipeline would tell it, without models: realistic counts, invented text, no waiting unless asked."""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Iterable, Iterator

from specextend_cli.engine.events import Accepted, Finished, Prefilled, Prefilling, Retrieved
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import (
    ChunkSummarized,
    Coverage,
    Event,
    LevelWork,
    Part,
    Plan,
    Sentence,
    Stage,
    Summarized,
    Summary,
    Text,
    Warned,
)
from specextend_cli.summarize.sentences import split

SUMMARY = (
    "The report follows the harbour of Port Ellery from its founding in 1871 to the storm of 1953, and argues that"
    " its decline began with the railway rather than with the war.\n\n"
    "Trade doubled between 1880 and 1905 while the town itself barely grew. When the branch line opened, freight"
    " moved inland and the quays silted up; by 1931 only two of nine berths could take a laden ship.\n\n"
    "The authors recommend dredging the northern channel, at a cost of 4.2 million, and keeping the old customs house."
)
NOTE = "Trade doubled between 1880 and 1905; the quays were lengthened twice. The council refused a loan in 1898."


def chosen(hit: float, spans: Iterable[tuple[int, int]], length: int) -> Retrieved:
    """The event with plain numbers for tensors, so that nobody has to import torch."""
    positions = array("q", sorted({at for start, end in spans for at in range(start, end)}))
    return Retrieved(hit, positions, length, 0.002)  # type: ignore[arg-type]


def words(text: str) -> list[str]:
    """Pieces that join to `text`, one a token."""
    pieces = text.split(" ")
    return [pieces[0], *(f" {piece}" for piece in pieces[1:])]


def writing(
    text: str, length: int, *, plain_seconds: float, seconds: float, rng: random.Random, delay: float
) -> Iterator[Event]:
    """Decode `text` after `length` prompt tokens, with a retrieval every few steps."""
    pieces = words(text)
    done, step = 0, 0
    while done < len(pieces):
        size = 1 if step == 0 else min(rng.choices(range(1, 9), (20, 25, 22, 14, 8, 5, 3, 3))[0], len(pieces) - done)
        nodes = 0 if step == 0 else 1 if size == 1 else 24
        draft, verify = (0.0, plain_seconds or seconds) if nodes == 1 else (0.3 * seconds, 0.7 * seconds)
        yield Accepted((7,) * size, length + done + size, nodes, draft, verify, plain_seconds)
        yield Text("".join(pieces[done : done + size]))
        if step % 4 == 2:
            starts = sorted(rng.sample(range(length // 32), min(28, length // 32)))
            spans = (*((start * 32, start * 32 + 32) for start in starts), (length - 64, length))
            yield chosen(rng.uniform(0.7, 0.9), spans, length + done + size)
        done, step = done + size, step + 1
        time.sleep(delay)
    yield Finished("eos", len(pieces))


def sentences(text: str) -> Iterator[Sentence]:
    """A text as its sentences."""
    lead = ""
    for piece in split(text):
        yield Sentence(lead, piece.rstrip())
        lead = piece[len(piece.rstrip()) :]


def stream(
    document: str = "harbour.pdf",
    *,
    parts: int = 3,
    summary: str = SUMMARY,
    plain_seconds: float = 0.045,
    step_seconds: float = 0.052,
    coverage: Coverage | None = None,
    warning: str = "",
    delay: float = 0.0,
    seed: int = 7,
) -> Iterator[Event]:
    """Every event of one document: loading, `parts` notes, the summary."""
    rng = random.Random(seed)
    meter = Meter()
    pages, tokens = 52, 9120 * parts
    final = LevelWork(1, 9120 if parts == 1 else 400 * parts, 96)
    work = (final,) if parts == 1 else (LevelWork(parts, tokens, 18 * parts), final)
    plan = Plan(document, pages, tokens, (9120,) * parts, len(work), work=work, words=21_340)
    notes: list[str] = []

    def count(events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, (Prefilling, Prefilled, Accepted, Retrieved, Finished)):
                meter.add(event)
            yield event

    def prefill(size: int) -> Iterator[Event]:
        for done in range(1024, size, 1024):
            yield Prefilling(done, size, done / 2400)
            time.sleep(delay)
        yield Prefilled(size, size / 2400)

    yield plan
    for done in range(0, 94, 31):
        yield Stage("fetching smollm2-135m", done * 1e6, 93e6, "bytes")
        time.sleep(delay)
    yield Stage("loading smollm2-135m")
    time.sleep(delay)
    if warning:
        yield Warned(warning)
    for number in range(1, parts + 1) if parts > 1 else ():
        span = (pages * (number - 1) // parts + 1, pages * number // parts)
        yield Part(number, parts, 1, span, 9120, False)
        yield from count(prefill(9120))
        yield from count(writing(NOTE, 9120, plain_seconds=plain_seconds, seconds=step_seconds, rng=rng, delay=delay))
        notes.append(NOTE)
        yield ChunkSummarized(number, parts, 1, NOTE)
    size = 9120 if parts == 1 else 400 * parts
    yield Part(1, 1, plan.levels, (1, pages), size, True)
    yield from count(prefill(size))
    written = writing(summary, size, plain_seconds=plain_seconds, seconds=step_seconds, rng=rng, delay=delay)
    left = list(sentences(summary))
    text = ""
    for event in count(written):
        if not isinstance(event, Text):
            yield event
            continue
        text += event.delta
        while left and len(left[0].lead + left[0].text) <= len(text):
            text = text[len(left[0].lead + left[0].text) :]
            yield left.pop(0)
    yield Summarized(
        Summary(
            document,
            summary,
            plan,
            coverage or Coverage(pages, (), (), tokens),
            tuple(notes),
            meter,
            18.0,
            "smollm2-135m",
            "eagle",
            sentences=tuple(sentences(summary)),
        )
    )


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now
