"""The wording of sizes, of what was not read, of a run's end and of its details."""

import io
from dataclasses import replace

import pytest

from specextend_cli.engine.events import Accepted, Prefilled
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import ChunkSummarized, Coverage, Part, Sentence, Stage, Text
from specextend_cli.ui.output import Output
from specextend_cli.ui.progress import Progress, format_details, format_done, format_gaps, incomplete
from tests.ui.fake_stream import Clock, stream


def summary(**changes):
    *_, last = stream(parts=changes.pop("parts", 3))
    return replace(last.summary, **changes)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({}, []),
        ({"empty": (31, 88, 89, 90)}, ["4 pages without text (31, 88-90)"]),
        ({"failed": (7,), "dropped": 12}, ["1 page unreadable (7)", "12 tokens not read"]),
        ({"ocr": (2, 3, 7), "left_out": 1_204}, ["3 pages by OCR (2-3, 7)", "1,204 words left out"]),
        ({"unread": 1, "unit": "section"}, ["1 part not read"]),
    ],
)
def test_what_was_not_read_is_said_and_nothing_else(lost, said):
    coverage = Coverage(**{"pages": 212, "empty": (), "failed": (), "tokens": 1000} | lost)
    assert list(format_gaps(coverage)) == said
    error = incomplete("a.pdf", summary(coverage=coverage))
    assert (error is None) == coverage.complete
    assert error is None or error.why == "; ".join(said)


def test_the_last_line_has_no_figures_of_a_model_that_wrote_nothing():
    quoted = summary(method="extractive", meter=Meter(), text="The quays silted up.", seconds=1.6)
    assert format_done(quoted) == "done in 1.6 s · 52 pages · 4 words"
    lost = replace(quoted, coverage=Coverage(52, (31,), (), 9, left_out=12))
    last = "done in 1.6 s · a.pdf · 52 pages · 4 words · 1 page without text (31) · 12 words left out"
    assert format_done(lost, "a.pdf") == last
    reused = summary(meter=Meter(), reused=3, seconds=0.5)
    assert format_done(reused) == "done in 0.5 s · 52 pages · 88 words · 3 of 3 chunk summaries reused"


def test_a_run_without_drafts_says_only_what_was_measured():
    meter = Meter()
    for event in (Prefilled(10, 1.0), *[Accepted((1,), n, 1, 0.0, 0.1, 0.1) for n in range(20)]):
        meter.add(event)
    assert format_done(summary(meter=meter)) == "done in 18 s · 52 pages · 88 words · 10.0 tok/s"


def test_only_summaries_of_chunks_are_saved_chunks():
    progress = Progress(Clock())
    for level in (1, 2):
        for number in range(1, 5):
            progress.add(Part(number, 4, level, (1, 1), 9, False))
            progress.add(ChunkSummarized(number, 4, level, "text"))
    assert progress.saved == 4


def details(progress, model="smollm2-135m (named)"):
    stderr = io.StringIO()
    Output(io.StringIO(), stderr).note(format_details(progress, model))
    return dict(line.split("\t") for line in stderr.getvalue().splitlines())


def test_details_are_five_lines():
    progress = Progress(Clock())
    for event in stream():
        progress.add(event)
    assert details(progress) == {
        "model": "smollm2-135m (named)",
        "start": "0.0 s to the first words",
        "reading": "28,560 tokens in 12 s",
        "writing": "140 tokens in 2.4 s · 57 tok/s",
        "drafting": "eagle · 2.5× plain · accepted 2.9 · hits 77% · accepted lengths 1 19%, 2 38%, 3 17%, 4 11%, 5 2%, "
        "6+ 13% · drafting 0.6 s, verifying 1.8 s, retrieving 0.0 s",
    }


def test_the_start_ends_with_the_first_words_of_the_summary():
    clock = Clock()
    progress = Progress(clock, age=0.6)
    for seconds, event in (
        (2.0, Stage("reading", 1, 2, "pages")),
        (4.0, Text("a chunk's")),
        (0.2, Sentence("", "The summary begins.")),
        (9.0, Sentence(" ", "It ends.")),
    ):
        clock.now += seconds
        progress.add(event)
    progress.summary = summary(method="extractive", meter=Meter())
    assert details(progress) == {"start": "6.8 s to the first words"}
