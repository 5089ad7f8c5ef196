"""What is shown while chunk summaries are written side by side, and the statistics of such a run."""

import io
import re
import threading

import pytest
from rich.console import Console

from specextend_cli.engine.events import Prefilled, Prefilling, Retrieved, Step
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import ChunkSummarized, Level, LevelWork, Part, Plan, Text
from specextend_cli.ui.panel import Dashboard
from specextend_cli.ui.progress import Progress
from specextend_cli.ui.streams import Output
from specextend_cli.ui.tables import format_statistics
from specextend_cli.ui.views import Plain
from tests.ui.fake_stream import Clock, stream


def batched(chunks=4, slots=3):
    """Chunk summaries that are written side by side, as the generator tells it."""
    work = LevelWork(chunks, 1000 * chunks, 40 * chunks), LevelWork(1, 200, 90)
    yield Plan("harbour.pdf", 12, 1000 * chunks, (1000,) * chunks, 2, work=work)
    yield Level(1, chunks, 0, False)
    parts = [Part(n, chunks, 1, 2, (3 * n - 2, 3 * n), 1000, False) for n in range(1, chunks + 1)]
    for part in parts[:slots]:
        yield part
        yield Prefilling(512, 1000, 0.5)
        yield Prefilled(1000, 1.0)
        yield Step((1,), 1001, 0, 0.0, 0.0, 0.0)
    for n in range(20):
        for _ in range(slots):
            yield Step((1,), 1002 + n, 1, 0.0, 0.01, 0.0, slots)
        yield Text(f"word{n} ", False)
    yield ChunkSummarized(2, chunks, 1, "The second one.")
    yield parts[3]
    yield Prefilling(512, 1000, 0.5)
    yield Prefilled(1000, 1.0)
    yield Step((1,), 1001, 0, 0.0, 0.0, 0.0)
    for n in range(20, 90):
        for _ in range(slots):
            yield Step((1,), 1002 + n, 1, 0.0, 0.01, 0.0, slots)
        yield Text(f"word{n} ", False)
    yield ChunkSummarized(1, chunks, 1, " ".join(f"word{n}" for n in range(90)))


@pytest.mark.parametrize("width", [12, 20, 40, 100])
def test_frames_of_a_batch_fit(width):
    progress = Progress("harbour.pdf", Clock())
    for event in batched():
        progress.add(event)
        console = Console(width=width, height=30, file=io.StringIO(), color_system=None)
        console.print(Dashboard(progress, "", "1.3 GB", threading.Lock()))
        rows = console.file.getvalue().rstrip("\n").split("\n")
        assert len(rows) <= 8
        assert all(len(row) <= width for row in rows)


def test_the_panel_says_what_a_batch_has_done_and_shows_a_text_of_it():
    progress, seen = Progress("harbour.pdf", Clock()), []
    for event in batched():
        progress.add(event)
        rows = Dashboard(progress, "", "1 B", threading.Lock()).rows(76)
        assert len(rows) <= 6
        assert all(row.cell_len <= 76 for row in rows)
        seen.append([row.plain for row in rows])
    text = ["\n".join(rows) for rows in seen]
    assert any(re.search(r"^chunks    0/4     reading pages 7-9, 2 of 4 read$", one, re.M) for one in text)
    assert "chunks    0/4     writing 3 at once: 6 tokens" in "\n".join(text)
    assert "chunks    2/4     writing 3 at once: 274 tokens" in text[-1]
    assert not any("accepted" in one for one in text)
    assert re.search(r"^speed     100     tok/s, 3 texts together$", text[-1], re.M)
    assert re.match(r"progress  \d+%     about .* left", text[-1])
    assert text[-1].rstrip().endswith("word88 word89")
    assert seen[-1][-3].startswith("… word")
    second = next(n for n, one in enumerate(text) if "1/4" in one)
    assert "word19" in text[second]  # the one that is being written stays, though another one is finished
    assert "word19 word20" in " ".join(text[second + 9].split())


def test_plain_lines_say_what_a_batch_has_done():
    clock, stderr = Clock(), io.StringIO()
    with Plain(Output(io.StringIO(), stderr), "harbour.pdf", clock=clock) as view:
        for event in batched():
            clock.now += 1.0 if isinstance(event, Step) else 0.0
            view.add(event)
    line = stderr.getvalue().splitlines()[-1]
    assert re.fullmatch(r"\d+% · about .* left · chunk summaries 1/4 · writing 3 at once: \d+ tokens · 100 tok/s", line)


def test_statistics_add_up():
    meter = Meter()
    for event in (*batched(), *stream(parts=1)):
        if isinstance(event, (Prefilled, Step, Retrieved)):
            meter.add(event)
    said = format_statistics(meter, "ngram", 30.0).plain
    total, first, batch, single = (
        int(number)
        for number in re.search(
            r"(\d+) tokens in [\d.]+ s: (\d+) by reading, one a prompt, (\d+) in batches in 2.7 s \(100 tok/s\), "
            r"(\d+) one text at a time in ",
            said,
        ).groups()
    )
    assert (first, batch) == (5, 270)
    assert total == first + batch + single == meter.tokens
    seconds = [float(one) for one in re.findall(r"^(?:reading|writing|the rest).*?([\d.]+) s", said, re.M)]
    assert abs(sum(seconds) - 30.0) < 0.6
    assert meter.speedup is None or "speedup" in said
    meter.retrievals = 1
    assert "attention, 1 retrieval\n" in format_statistics(meter, "ngram", 30.0).plain
