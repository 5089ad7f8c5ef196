"""What is drawn on a terminal, and the lines elsewhere."""

import io
import json
import re

import pyte
import pytest
from rich.cells import cell_len
from rich.console import Console

from specextend_cli.engine.events import Accepted, Prefilled, Prefilling
from specextend_cli.summarize.events import ChunkSummarized, LevelWork, Part, Plan, Sentence, Stage, Text, Warned
from specextend_cli.ui.output import Output
from specextend_cli.ui.panel import Panel, View, draw, open_view
from specextend_cli.ui.progress import Progress
from specextend_cli.ui.results import WRITERS
from tests.ui.fake_stream import SUMMARY, Clock, chosen, stream


class Terminal(io.StringIO):
    """Says that it is a terminal; what is written to it can be looked at on a screen."""

    def isatty(self):
        return True

    def fileno(self):
        return 0

    def screen(self, columns, lines=60):
        screen = pyte.Screen(columns, lines)
        pyte.Stream(screen).feed(self.getvalue().replace("\n", "\r\n"))
        return [line.rstrip() for line in screen.display if line.strip()]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return Terminal()


def frames(events, width=80, height=40):
    """The frame after each event, as lines of plain text."""
    progress = Progress(Clock())
    for event in events:
        progress.add(event)
        console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
        tail = progress.text[-30:] if progress.part and progress.part.final else ""
        console.print(draw("harbour.pdf", progress, tail, console))
        yield console.file.getvalue().rstrip("\n").split("\n")


def batched(chunks=4, slots=3):
    """Chunk summaries that are written side by side, as the generator tells it."""
    work = LevelWork(chunks, 1000 * chunks, 40 * chunks), LevelWork(1, 200, 90)
    yield Plan("harbour.pdf", 12, 1000 * chunks, (1000,) * chunks, 2, work=work)
    parts = [Part(n, chunks, 1, (3 * n - 2, 3 * n), 1000, False) for n in range(1, chunks + 1)]
    for part in parts[:slots]:
        yield part
        yield from (Prefilling(512, 1000, 0.5), Prefilled(1000, 1.0), Accepted((1,), 1001, 0, 0.0, 0.0, 0.0))
    for n in range(90):
        for _ in range(slots):
            yield Accepted((1,), 1002 + n, 1, 0.0, 0.01, 0.0, slots)
        yield Text(f"word{n} ")
        if n == 20:
            yield from (ChunkSummarized(2, chunks, 1, "The second one."), parts[3])
    yield ChunkSummarized(1, chunks, 1, " ".join(f"word{n}" for n in range(90)))


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (30, 6), (12, 3), (3, 1), (200, 60)])
@pytest.mark.parametrize("events", [stream, batched])
def test_a_frame_fits_the_terminal(size, events):
    width, height = size
    for rows in frames(events(), *size):
        assert len(rows) <= min(max(height - 1, 3), 8)
        assert all(cell_len(row) <= width for row in rows)


@pytest.mark.parametrize(
    ("height", "kept"), [(6, ["progress", "summary", "customs"]), (5, ["progress", "summary"]), (4, ["summary"])]
)
def test_the_most_important_rows_are_kept(height, kept):
    *_, rows, _ = frames(stream(), height=height)
    assert len(rows) == len(kept) + 2
    assert all(word in row for word, row in zip(kept, rows[1:], strict=False))


def test_the_panel_shows_what_decoding_does():
    text = "\n".join("\n".join(rows) for rows in frames(stream()))
    for expected in (
        "fetching smollm2-135m  62.0 MB of 93.0 MB",
        "chunks   1/3    reading pages 18-34 (8,192/9,120 tokens)",
        "chunks   2/3    reading pages 35-52",
        "tok/s · 2.5× plain · accepted 2.9 · hits 77%",
    ):
        assert expected in text
    assert re.search(r"accepted 2\.\d\d   1[▁-█] 2█ 3[▁-█] ", text)
    assert re.search(r"summary +writing: \d\d tokens", text)
    assert re.search(r"retrieved +[▁-█ ]{50}", text)
    assert re.search(r"progress \d\d%    about \d+ s left +━+─+ │", text)
    slow = "\n".join("\n".join(rows) for rows in frames(stream(plain_seconds=0.01)))
    assert re.search(r"0\.\d\d× plain · --draft none is faster here", slow)


def test_retrieved_positions_are_drawn_only_where_something_was_left_out():
    events = [
        Part(1, 1, 1, (1, 1), 500, True),
        Accepted((1, 1), 502, 8, 0.01, 0.02, 0.0),
        chosen(0.99, [(0, 502)], 502),
    ]
    *_, whole, part = frames([*events, chosen(0.8, [(0, 32), (64, 96)], 502)])
    assert not any("retrieved" in row for row in whole)
    assert any("retrieved" in row for row in part)


def test_the_panel_says_what_a_batch_has_done_and_shows_a_text_of_it():
    text = ["\n".join(rows) for rows in frames(batched())]
    assert any("chunks   0/4    reading pages 7-9 (512/1,000 tokens)" in one for one in text)
    assert "chunks   2/4    writing 3 at once: 271 tokens" in text[-1]
    assert "speed    100    tok/s, 3 texts together" in text[-1]
    assert "word88 word89" in text[-1]
    assert not any("accepted" in one for one in text)


def test_the_summary_is_above_the_panel_and_one_line_remains(terminal):
    output = Output(terminal, terminal)
    with Panel(output, "harbour.pdf") as panel:
        writer = WRITERS["text"](panel.write)
        for event in stream():
            panel.add(event)
            writer.add(event)
    screen = terminal.screen(80)
    end = next(n for n, row in enumerate(screen) if row.startswith("done"))
    assert " ".join(screen[:end]).split() == SUMMARY.split()
    done = "done in 18 s · 52 pages · 88 words · 57 tok/s · 2.5× plain · accepted 2.9 · hits 77%"
    assert " ".join(screen[end:]) == done
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1


def test_the_last_line_names_one_of_many_documents(terminal):
    with open_view(Output(io.StringIO(), terminal), "harbour.pdf", "2/9") as panel:
        assert isinstance(panel, Panel)
        for event in stream():
            panel.add(event)
    assert "2/9 harbour.pdf" in terminal.getvalue()
    assert terminal.screen(80)[0].startswith("done in 18 s · harbour.pdf · 52 pages")


@pytest.mark.parametrize("columns", [30, 100])
def test_warnings_wrap_at_words(columns, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    message = "smollm2-135m wrote these sentences, and it often writes what is not so: check them, or quote"
    with Panel(Output(io.StringIO(), terminal), "harbour.pdf") as panel:
        panel.add(Warned(message))
    assert " ".join(terminal.screen(columns)) == f"warning: {message}"


def test_an_error_leaves_no_panel_and_the_cursor(terminal):
    output = Output(io.StringIO(), terminal)

    def fail():
        with Panel(output, "harbour.pdf") as panel:
            for event in stream():
                panel.add(event)
                if isinstance(event, Sentence):
                    raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert terminal.screen(80) == []
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")


def test_a_warning_amid_the_summary_waits_for_its_end(terminal):
    with Panel(Output(terminal, terminal), "harbour.pdf") as panel:
        panel.add(Warned("before"))
        panel.write("The first line.\nThe second")
        panel.add(Warned("amid"))
        panel.write(" line.\n")
    assert terminal.screen(80) == ["warning: before", "The first line.", "The second line.", "warning: amid"]


def test_raw_results_are_not_wrapped(terminal):
    line = json.dumps({"text": "word " * 60})
    with Panel(Output(terminal, terminal), "harbour.pdf", raw=True) as panel:
        panel.write(line + "\n")
    assert line in terminal.getvalue()


def test_hostile_text_is_inert_in_the_panel(terminal):
    with Panel(Output(terminal, terminal), "[red]\x1b]0;x\x07evil[/red].pdf") as panel:
        panel.add(Part(1, 1, 1, (1, 1), 5, True))
        panel.add(Stage("[b]\x1b[2Jstage"))
        panel.write("\x1b[2J[bold]not bold[/bold]\x1b]0;title\x07\n")
        panel.add(Text("[/nonsense] \x1b[31mred"))
    assert "\x1b[2J" not in terminal.getvalue()
    assert "\x1b]" not in terminal.getvalue()
    assert "[red]evil[/red].pdf" in terminal.getvalue()
    assert terminal.screen(80)[0] == "[bold]not bold[/bold]"


# -------------------------------------------------------------------------------------------------------------- lines


def told(events, pace=lambda event: 0.0, **options):
    """The lines about `events`; `pace` gives the seconds before each."""
    clock, stderr = Clock(), io.StringIO()
    with View(Output(io.StringIO(), stderr, **options), "harbour.pdf", clock=clock) as view:
        for event in events:
            clock.now += pace(event)
            view.add(event)
    return stderr.getvalue().splitlines()


def test_lines_are_few_and_at_least_one_every_ten_seconds():
    lines = told(stream(), lambda event: 1.5 if isinstance(event, Accepted) else 0.0)
    assert lines[:3] == ["harbour.pdf: 52 pages, 21,340 words", "fetching smollm2-135m", "loading smollm2-135m"]
    assert "3 chunk summaries" in lines
    assert any(line.startswith("writing the summary · about ") for line in lines)
    status = re.compile(
        r"progress \d+% about [\d.]+ s left · chunks 2/3 writing: \d+ tokens · speed [\d.]+ tok/s"
        r"( · 2\.\d× plain)? · accepted 2\.\d · hits \d+%"
    )
    assert any(status.fullmatch(line) for line in lines)
    shares = [int(line.split()[1].rstrip("%")) for line in lines if line.startswith("progress")]
    assert shares == sorted(shares)
    assert lines[-1] == "done in 18 s · 52 pages · 88 words · 57 tok/s · 2.5× plain · accepted 2.9 · hits 77%"
    assert len(lines) < 30
    assert not any("\x1b" in line for line in lines)


def test_silence_keeps_warnings():
    assert told(stream(warning="page 31 has no text"), quiet=True) == ["warning: page 31 has no text"]


def test_lines_say_what_a_batch_has_done():
    lines = told(batched(), lambda event: 1.0 if isinstance(event, Accepted) else 0.0)
    assert re.fullmatch(r"progress \d+% .* · chunks 1/4 writing 3 at once: \d+ tokens · speed 100 tok/s, .*", lines[-1])
    left = [float(re.search(r"about ([\d:]+)", line)[1].replace(":", "")) for line in lines if "at once" in line]
    assert left == sorted(left, reverse=True)


def test_chunks_that_were_written_before_are_one_line():
    parts = [Part(n, 300, 1, (n, n), 100, False, reused=n < 299) for n in range(1, 301)]
    done = [ChunkSummarized(n, 300, 1, "text", True) for n in range(1, 299)]
    assert told([*parts[:298], *done, *parts[298:]]) == ["300 chunk summaries, 298 of them reused"]


def test_downloads_have_a_line_each():
    stderr = io.StringIO()
    with open_view(Output(io.StringIO(), stderr), "tiny") as view:
        for done in (0, 50, 100):
            view.fetched("fetching tiny", done, 100)
    assert stderr.getvalue() == "fetching tiny\n"
