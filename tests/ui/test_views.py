import io
import json
import re
import sys
import threading
import types
from dataclasses import replace

import pyte
import pytest
from rich.cells import cell_len
from rich.console import Console

from specextend_cli.engine.events import Prefilled, Retrieved, Step
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import (
    ChunkRead,
    ChunkSummarized,
    Coverage,
    Level,
    LevelWork,
    Part,
    Plan,
    Preview,
    Stage,
    Summarized,
    Text,
    Warned,
)
from specextend_cli.ui.annotations import Annotations
from specextend_cli.ui.jsonl import format_event
from specextend_cli.ui.panel import Dashboard, Panel, collapsed, format_memory
from specextend_cli.ui.progress import Progress, View, format_coverage, format_done
from specextend_cli.ui.streams import Output
from specextend_cli.ui.tables import format_statistics
from specextend_cli.ui.views import Plain
from specextend_cli.ui.writers import WRITERS
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


def frames(width, height=40, **options):
    """Every frame of a run, as plain text."""
    progress = Progress("harbour.pdf", Clock())
    for event in stream(**options):
        progress.add(event)
        console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
        tail = progress.tail[-30:] if progress.part and progress.part.final else ""
        console.print(Dashboard(progress, tail, "1.3 GB", console._lock))
        yield console.file.getvalue().rstrip("\n").split("\n")


EXTRACT = "[b]The harbour[/b] was founded in 1871.\x1b[2J " + "Wool and herring were sold on the market. " * 200


def drawn(width, height, *events):
    """A frame after these events, as lines of plain text."""
    progress = Progress("harbour.pdf", Clock())
    for event in events:
        progress.add(event)
    console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
    console.print(Dashboard(progress, "", "1.3 GB", console._lock))
    return console.file.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (20, 6), (12, 12), (100, 60), (40, 8)])
@pytest.mark.parametrize("script", [EXTRACT, "河水漫过堤岸。" * 600, "lore\n\nipsum\n" * 200])
def test_as_much_of_the_first_extract_is_shown_as_there_is_room_for(width, height, script):
    rows = drawn(width, height, Part(1, 3, 1, 1, (1, 4), 9, True), Preview(script))
    assert height - 3 <= len(rows) <= height - 2
    assert all(cell_len(row) <= width for row in rows)
    assert any("first" in row for row in rows)
    assert rows[-1 if height < 12 else -2].strip("│ ").endswith("…")


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24)])
def test_a_short_extract_is_shown_whole(width, height):
    rows = drawn(width, height, Preview("The harbour was founded in 1871.\n\nThe quays silted up by 1931."))
    assert "The harbour was founded in 1871." in " ".join(rows)
    assert "The quays silted up by 1931." in " ".join(rows)
    assert "…" not in " ".join(rows)


def test_terminals_of_five_rows_show_no_extract():
    assert len(drawn(40, 5, Preview(EXTRACT))) == 1


def test_the_first_extract_is_inert_dimmed_and_gone_with_the_summary(terminal):
    output = Output(terminal, terminal)
    with Panel(output, "harbour.pdf") as panel:
        panel.add(Preview(EXTRACT))
        assert re.search(r"\x1b\[2m\[b\]The harbour\[/b\] was founded in 1871\. Wool", terminal.getvalue())
        assert "\x1b[2J" not in terminal.getvalue()
        panel.add(Text("The summary.", True))
        panel.write("The summary.\n")
        panel._live.refresh()
        assert "herring" not in " ".join(terminal.screen(80))
    assert terminal.screen(80) == ["The summary."]


def test_only_the_panel_and_json_lines_show_a_first_extract():
    for view in (Plain, View):
        stderr = io.StringIO()
        with view(
            Output(io.StringIO(), stderr), "harbour.pdf", **({"clock": Clock()} if view is Plain else {})
        ) as made:
            made.add(Preview(EXTRACT))
        assert stderr.getvalue() == ""
    for format in ("text", "md", "json", "jsonl"):
        out = io.StringIO()
        WRITERS[format](out.write, Annotations(), "").add(Preview("The harbour."))
        assert out.getvalue() == ('{"event": "preview", "text": "The harbour."}\n' if format == "jsonl" else "")


@pytest.mark.parametrize("width", [12, 20, 40, 57, 80, 120, 200])
def test_no_frame_has_more_than_eight_rows_or_is_too_wide(width):
    for rows in frames(width):
        assert len(rows) <= 8
        assert all(len(row) <= width for row in rows)


@pytest.mark.parametrize(("height", "most"), [(3, 1), (5, 1), (6, 3), (10, 3), (11, 3)])
def test_a_low_terminal_gets_three_rows_or_one(height, most):
    shown = list(frames(40, height=height))
    assert max(map(len, shown)) == most
    if most == 3:
        assert any("writing: " in rows[1] and "tok/s" in rows[2] for rows in shown)
        assert any("summary" in rows[1] and "customs" in rows[2] for rows in shown)


def test_without_colours_a_bar_shows_where_it_ends():
    full, rest = set(), set()
    for rows in frames(80):
        for row in rows:
            if found := re.search(r"(━*)(─*) │$", row):
                full.add(len(found[1]))
                rest.add(len(found[2]))
    assert len(full) > 5
    assert len(rest) > 5


def test_what_is_loaded_amid_a_run_is_seen_on_a_low_terminal_too():
    progress = Progress("a.txt", Clock())
    for event in (Plan("a", 1, 9, (9,), 1, work=(LevelWork(1, 9, 9),)), Part(1, 1, 1, 1, (1, 1), 9, True)):
        progress.add(event)
    progress.add(Stage("compiling kernels", 1, 4))
    console = Console(width=60, height=8, file=io.StringIO(), color_system=None)
    console.print(Dashboard(progress, "", "1 B", console._lock))
    assert "compiling kernels  1 of 4" in console.file.getvalue()


def test_the_panel_shows_what_decoding_does():
    text = "\n".join("\n".join(rows) for rows in frames(80))
    for expected in (
        "fetching smollm2-135m  62.0 MB of 93.0 MB",
        "chunks    1/3     reading pages 18-34 (8,192/9,120)",
        "chunks    2/3     reading pages 35-52",
        "tok/s · 2.5× plain · hits 77%",
        "memory 1.3 GB",
    ):
        assert expected in text
    assert re.search(r"accepted  2\.\d\d    1[▁-█]{2} 2██ 3[▁-█]{2} ", text)
    assert re.search(r"summary +writing: \d\d tokens", text)
    assert re.search(r"sees +[▁-█ ]{50}", text)
    assert re.search(r"progress  \d\d%     about \d+ s left +━+", text)


def test_slower_than_plain_is_said_with_a_hint():
    text = "\n".join("\n".join(rows) for rows in frames(80, plain_seconds=0.01))
    assert re.search(r"0\.\d\d× plain  --no-spec is faster here", text)


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
    done = " ".join(screen[end:])
    assert "done · 140 tokens written in 18 s (reading 12 s, writing 2.4 s at 57 tok/s" in done
    assert "2.5× plain · accepted 2.9 · hits 77%" in done
    assert "pages 1-52 read; 0 tokens dropped" in done
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1


def test_the_last_line_names_one_of_many_documents_where_nothing_else_does(terminal):
    with Panel(Output(io.StringIO(), terminal), "2/9 harbour.pdf", many=True) as panel:
        for event in stream():
            panel.add(event)
    assert terminal.screen(80)[0].startswith("done · 2/9 harbour.pdf · 140 tokens written")


@pytest.mark.parametrize("columns", [30, 60, 100])
def test_warnings_wrap_at_words(columns, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    message = "smollm2-135m wrote these sentences, and it often writes what is not so: check them, or quote"
    Output(io.StringIO(), terminal).warn(message)
    with Panel(Output(io.StringIO(), terminal), "harbour.pdf") as panel:
        panel.add(Warned(message))
    rows = terminal.screen(columns)
    shown = rows[: len(rows) // 2]
    assert "".join(f"{row} " for row in shown).split() == f"warning: {message}".split()
    assert rows[len(rows) // 2 :] == shown
    pipe = io.StringIO()
    Output(io.StringIO(), pipe).warn(message)
    assert pipe.getvalue() == f"warning: {message}\n"


def test_an_error_leaves_no_panel_and_the_cursor(terminal):
    output = Output(io.StringIO(), terminal)

    def fail():
        with Panel(output, "harbour.pdf") as panel:
            for event in stream():
                panel.add(event)
                if isinstance(event, Text):
                    raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert terminal.screen(80) == []
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")


def test_a_warning_amid_the_summary_waits_for_its_end(terminal):
    from specextend_cli.summarize.events import Warned

    output = Output(terminal, terminal)
    with Panel(output, "harbour.pdf") as panel:
        panel.add(Warned("before"))
        panel.write("The first line.\nThe second")
        panel.add(Warned("amid"))
        panel.write(" line.\n")
    assert terminal.screen(80) == ["warning: before", "The first line.", "The second line.", "warning: amid"]


def test_memory_may_be_asked_in_the_middle_of_importing_torch(monkeypatch):
    torch = types.ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert "gpu" not in format_memory()
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, memory_reserved=lambda: 4_000_000_000)
    assert re.fullmatch(r"[\d.]+ [MG]B \+ 4\.0 GB gpu", format_memory())


def test_raw_results_are_not_folded(terminal):
    output = Output(terminal, terminal)
    line = json.dumps({"text": "word " * 60})
    with Panel(output, "harbour.pdf", raw=True) as panel:
        panel.write(line + "\n")
    assert line in terminal.getvalue()


def test_hostile_text_is_inert_in_the_panel(terminal):
    output = Output(terminal, terminal)
    with Panel(output, "[red]\x1b]0;x\x07evil[/red].pdf") as panel:
        panel.add(Part(1, 1, 1, 1, (1, 1), 5, True))
        panel.write("\x1b[2J[bold]not bold[/bold]\x1b]0;title\x07\n")
        panel.add(Text("[/nonsense] \x1b[31mred", True))
    assert "\x1b[2J" not in terminal.getvalue()
    assert "\x1b]" not in terminal.getvalue()
    assert "[red]evil[/red].pdf" in terminal.getvalue()
    assert terminal.screen(80)[0] == "[bold]not bold[/bold]"


def test_a_narrower_terminal_is_redrawn_within_its_width(terminal, monkeypatch):
    output = Output(io.StringIO(), terminal)
    with Panel(output, "harbour.pdf") as panel:
        for number, event in enumerate(stream()):
            panel.add(event)
            if number == 20:
                monkeypatch.setattr(type(output.console), "width", 40)
                before = len(terminal.getvalue())
                panel._live.refresh()
                drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()[before:])
                assert max(map(len, drawn.split("\n"))) <= 80
                break


def test_plain_lines_are_few_and_speak_at_least_every_ten_seconds():
    clock, stderr = Clock(), io.StringIO()
    output = Output(io.StringIO(), stderr)
    with Plain(output, "harbour.pdf", clock=clock) as view:
        for event in stream():
            clock.now += 1.5 if isinstance(event, Step) else 0.0
            view.add(event)
    lines = stderr.getvalue().splitlines()
    assert lines[0] == "harbour.pdf: 52 pages, 27,360 tokens, 3 chunks"
    assert lines[1:3] == ["fetching smollm2-135m", "loading smollm2-135m"]
    assert "3 chunk summaries to write" in lines
    assert any(line.startswith("writing the summary · about ") for line in lines)
    status = re.compile(
        r"\d+% · about [\d.]+ s left · chunk summaries 2/3 · writing: \d+ tokens · \d+ tok/s"
        r"( · 2\.\d× plain)? · accepted 2\.\d · hits \d+%"
    )
    assert any(status.fullmatch(line) for line in lines)
    assert not any("level" in line for line in lines)  # how many there will be is not known before the last
    shares = [int(line.partition("%")[0]) for line in lines if "% · about" in line]
    assert shares == sorted(shares)
    assert lines[-1].startswith(
        "done · 140 tokens written in 18 s (reading 12 s, writing 2.4 s at 57 tok/s, loading and the rest 3.7 s)"
    )
    assert len(lines) < 30
    assert "\x1b" not in stderr.getvalue()


def test_silence_keeps_warnings():
    stderr = io.StringIO()
    with View(Output(io.StringIO(), stderr), "harbour.pdf") as view:
        for event in stream(warning="page 31 has no text"):
            view.add(event)
    assert stderr.getvalue() == "warning: page 31 has no text\n"


def written(format, **options):
    out = io.StringIO()
    writer = WRITERS[format](out.write)
    for event in stream(**options):
        writer.add(event)
    return out.getvalue()


def test_text_is_the_summary_and_one_newline():
    assert written("text") == SUMMARY + "\n"
    assert written("text", summary=" Leading and\x1b[31m red") == "Leading and red\n"


def test_markdown_ends_with_sources_and_coverage():
    text = written("md", coverage=Coverage(52, (31,), (), 27360, 0), document="a_b.pdf")
    source = "*Source: a\\_b.pdf, 27,360 tokens; pages 1-52 read; 1 without text (31); 0 tokens dropped.*\n"
    assert text.startswith(f"{SUMMARY}\n\n---\n\n{source}")


def test_json_holds_the_result_and_its_figures():
    record = json.loads(written("json"))
    assert record["text"] == SUMMARY
    assert record["coverage"]["complete"] is True
    assert record["plan"]["chunks"] == [9120] * 3
    assert record["statistics"]["accepted_lengths"]["2"] == 18
    assert record["statistics"]["accepted_length"] == 2.894
    assert (record["preset"], record["drafter"]) == ("smollm2-135m", "eagle")


def test_json_lines_are_all_events():
    events = [json.loads(line) for line in written("jsonl").splitlines()]
    assert [event["event"] for event in events[:2]] == ["plan", "stage"]
    assert {"part", "text", "chunksummarized", "prefilling", "prefilled", "step", "retrieved", "finished"} <= {
        event["event"] for event in events
    }
    (first, *_) = (event for event in events if event["event"] == "retrieved")
    assert list(first) == ["event", "hit", "spans", "length", "changed", "seconds"]
    assert 0.7 < first["hit"] < 0.9
    assert first["spans"][-1] == [9024, 9120]
    assert events[-1]["event"] == "summarized"
    assert events[-1]["text"] == SUMMARY
    assert "".join(event["delta"] for event in events if event["event"] == "text" and event["final"]) == SUMMARY


def test_json_is_inert_on_a_terminal():
    line = format_event(Text("\x1b[2J\x9b2J", True))
    assert json.loads(line)["delta"] == "\x1b[2J\x9b2J"
    assert line.isascii()
    assert "\x1b" not in line


def test_coverage_is_said_in_full():
    coverage = Coverage(212, (31, 88, 89, 90), (7,), 1000, 12)
    assert format_coverage(coverage, (1, 212)) == (
        "pages 1-212 read; 4 without text (31, 88-90); 1 unreadable (7); 12 tokens dropped"
    )
    assert format_coverage(Coverage(8, (), (), 1), (3, 20)) == "8 pages read; 0 tokens dropped"
    scanned = Coverage(8, (), (), 1, ocr=(2, 3, 7))
    assert format_coverage(scanned, (1, 8)) == "pages 1-8 read; 3 by OCR (2-3, 7); 0 tokens dropped"


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({"left_out": 1_204}, "2 pages read; 1,204 words left out"),
        ({"unread": 1}, "2 pages read; 1 part not read"),
        ({"left_out": 1, "unread": 2}, "2 pages read; 1 word left out; 2 parts not read"),
        ({"left_out": 9, "dropped": 3}, "2 pages read; 9 words left out; 3 tokens dropped"),
        ({}, "2 pages read; 0 tokens dropped"),
    ],
)
def test_nothing_dropped_is_said_only_where_it_is_so(lost, said):
    assert format_coverage(Coverage(2, (), (), 100, **lost)) == said


def test_what_was_written_before_is_counted_not_timed():
    *_, last = stream()
    summary = replace(last.summary, meter=Meter(), seconds=0.5, reused=3)
    assert format_done(summary) == "3 of 3 chunk summaries reused · 0.5 s · 52 pages read; 0 tokens dropped"
    part = replace(summary, meter=last.summary.meter, reused=2)
    assert format_done(part).startswith("2 of 3 chunk summaries reused · 140 tokens written in 0.5 s (")
    *_, last = stream(parts=1)
    assert format_done(replace(last.summary, meter=Meter(), seconds=0.5, reused=1)).startswith("summary reused · 0.5 s")


def quoting(parts=3, *, known=1, counted="token"):
    """The events of a run that generates nothing: `parts` chunks are read, the first `known` by an earlier run."""
    *_, last = stream()
    meter = Meter()
    work = (LevelWork(parts, 1000 * parts, 0),) if counted == "token" else ()
    plan = Plan("harbour.pdf", 52, 1000 * parts, (1000,) * parts, 1, work=work, counted=counted)
    yield plan
    for number in range(1, parts + 1):
        yield Part(number, parts, 1, 1, (number, number + 1), 1000, True)
        if number > known and counted == "token":
            read = Prefilled(1040, 2.0)
            meter.add(read)
            yield read
        if counted == "token":
            yield ChunkRead(number, parts, number <= known)
    yield Text("The quays silted up by 1931.", True)
    method, reused = ("guided", known) if counted == "token" else ("extractive", 0)
    text = "The quays silted up by 1931."
    yield Summarized(
        replace(last.summary, plan=plan, meter=meter, method=method, reused=reused, text=text, seconds=4.0)
    )


def test_of_what_only_quotes_nothing_is_said_to_be_written():
    clock, stderr = Clock(), io.StringIO()
    with Plain(Output(io.StringIO(), stderr), "harbour.pdf", clock=clock) as view:
        for event in quoting():
            clock.now += 12.0 if isinstance(event, Prefilled) else 0.0
            view.add(event)
    first, *status, last = stderr.getvalue().splitlines()
    assert first == "harbour.pdf: 52 pages, 3,000 tokens, 3 chunks"
    assert re.fullmatch(r"\d+% · .* left · chunks 3/3 · reading pages 3-4", status[-1])
    assert last.startswith("done · 1 of 3 chunks known · 6 words quoted in 4.0 s · 52 pages read; 0 tokens dropped")
    assert view.progress.saved == 3
    assert not re.search("writ|summar|tok/s|accepted", stderr.getvalue())


def test_the_panel_of_what_only_quotes_has_no_rows_of_drafting():
    progress = Progress("harbour.pdf", Clock())
    for event in quoting():
        progress.add(event)
        drawn = "\n".join(row.plain for row in Dashboard(progress, "", "1 B", threading.Lock()).rows(70))
        assert not re.search("writing|speed|accepted|sees", drawn)
    assert "chunks    3/3" in drawn
    assert format_statistics(progress.meter, "none", 4.5).plain.splitlines() == [
        "reading   2,080 tokens in 4.0 s",
        "the rest  0.5 s: loading, the document, evidence",
    ]


def test_without_a_model_words_are_counted():
    stderr = io.StringIO()
    with Plain(Output(io.StringIO(), stderr), "harbour.pdf", clock=Clock()) as view:
        for event in quoting(1, counted="word"):
            view.add(event)
    first, last = stderr.getvalue().splitlines()
    assert first == "harbour.pdf: 52 pages, 1,000 words"
    assert last.startswith("done · 6 words quoted in 4.0 s · 52 pages read; 0 words dropped")
    assert format_statistics(view.progress.meter, "none", 4.0).plain == "reading   no model was needed"


def test_chunks_that_were_written_before_are_one_line():
    stderr = io.StringIO()
    view = Plain(Output(io.StringIO(), stderr), "harbour.pdf", clock=Clock())
    view.add(Level(1, 300, 298, False))
    for number in range(1, 299):
        view.add(Part(number, 300, 1, 3, (number, number), 100, False))
        view.add(ChunkSummarized(number, 300, 1, "text", True))
    assert stderr.getvalue().splitlines() == ["298 of 300 chunk summaries reused"]
    assert view.progress.saved == 298


def test_notes_on_notes_are_no_chunks_that_are_saved():
    progress = Progress("a.txt", Clock())
    for level in (1, 2):
        progress.add(Level(level, 4, 0, False))
        for number in range(1, 5):
            progress.add(ChunkSummarized(number, 4, level, "text"))
    assert progress.saved == 4


def test_while_notes_are_written_together_the_whole_run_is_in_sight():
    clock, stderr = Clock(), io.StringIO()
    view = Plain(Output(io.StringIO(), stderr), "harbour.pdf", clock=clock)
    view.add(Plan("harbour.pdf", 9, 1600, (100,) * 16, 2, work=(LevelWork(16, 1600, 1024), LevelWork(1, 1024, 100))))
    view.add(Level(1, 16, 0, False))
    for number in range(1, 17):
        view.add(Part(number, 16, 1, 2, (number, number), 100, False))
        clock.now += 2
        view.add(Prefilled(100, 2.0))
        view.add(Step((1,), 101, 0, 0.0, 0.0, 0.0))
    for _ in range(60):
        clock.now += 1
        for _ in range(16):
            view.add(Step((1,), 102, 1, 0.0, 1 / 16, 0.0, 16))
    lines = stderr.getvalue().splitlines()
    writing = [line for line in lines if "writing 16 at once" in line]
    assert len(writing) >= 5
    left = [float(re.search(r"about ([\d:]+)", line)[1].replace(":", "")) for line in writing]
    assert left == sorted(left, reverse=True)
    assert left[-1] > 10


def test_the_map_of_what_drafts_see_is_drawn_only_where_something_was_chosen():
    progress = Progress("a.txt", Clock())
    progress.add(Part(1, 1, 1, 1, (1, 1), 500, True))
    progress.add(Step((1, 1), 502, 8, 0.01, 0.02, 0.0))
    progress.add(chosen(0.99, [(0, 502)], 502, 0))
    rows = [row.plain for row in Dashboard(progress, "", "1 B", threading.Lock()).rows(76)]
    assert any(row.startswith("speed") and "hits 99%" in row for row in rows)
    assert not any(row.startswith("sees") for row in rows)
    progress.add(chosen(0.8, [(0, 32), (64, 96)], 502, 50))
    rows = [row.plain for row in Dashboard(progress, "", "1 B", threading.Lock()).rows(76)]
    assert any(row.startswith("sees") for row in rows)


def test_a_run_without_speculation_says_only_what_was_measured():
    progress = Progress("a.txt", Clock())
    for event in stream(parts=1, plain_seconds=0.0):
        if not isinstance(event, Retrieved):
            progress.add(event)
    progress.summary.meter.retrievals = 0
    assert "plain" not in collapsed(progress).plain
    assert "hits" not in collapsed(progress).plain
