"""The command line from outside: real pipes, real terminals, exact exit codes."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from specextend_cli.cli import main, signals
from tests.cli.shell import HIDE, SHOW, Terminal, bash, command, environment, run
from tests.helpers.grid import but_for
from tests.ui.fake_stream import SUMMARY

SLOW = {"delay": 0.01}


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "harbour.txt"
    path.write_text("A harbour is a place where ships stay.\n\nIt was founded in 1871.\n")
    return path


# ---------------------------------------------------------------------------------------------------------- streams


def test_stdout_holds_the_summary_and_nothing_else(document):
    done = run("summarize", document)
    assert (done.returncode, done.stdout) == (0, SUMMARY + "\n")
    assert done.stderr.splitlines()[-1].startswith("done in 18 s · 52 pages · 88 words · 57 tok/s")
    assert "\x1b" not in done.stderr


def test_a_file_is_clean_while_the_panel_is_on_the_terminal(document, tmp_path):
    out = tmp_path / "out.txt"
    with out.open("wb") as stdout:
        terminal = Terminal("summarize", document, redirect={"stdout": stdout}, **SLOW)
        assert terminal.wait() == 0
    assert out.read_text() == SUMMARY + "\n"
    assert HIDE in terminal.output
    assert "accepted" in terminal.output.decode()
    assert terminal.screen()[0].startswith("done in 18 s · 52 pages · 88 words")


def test_a_process_ends_with_its_terminal(document):
    process = Terminal("summarize", document, hang=30).process
    assert process.returncode is not None


def test_nothing_is_drawn_once_a_pipe_has_text_which_its_reader_may_print_on_the_terminal(document, tmp_path):
    second = tmp_path / "river.txt"
    second.write_text(document.read_text())
    terminal = Terminal("summarize", document, second, redirect={"stdout": subprocess.PIPE}, **SLOW)
    assert terminal.wait() == 0
    with terminal.process.stdout as pipe:
        assert pipe.read().decode().count(SUMMARY) == 2
    _, after = terminal.output.split(SHOW)  # the panel was shown once
    assert after.rindex(b"\x1b[1A") < after.index(b"done")
    assert b"2/2 river.txt: 52 pages, 21,340 words" in after


def test_on_a_terminal_the_summary_is_above_and_one_line_remains(document):
    terminal = Terminal("summarize", document, **SLOW)
    assert terminal.wait() == 0
    screen = terminal.screen()
    done = next(i for i, line in enumerate(screen) if line.startswith("done in "))
    assert " ".join(screen[:done]).split() == SUMMARY.split()
    assert not any("╭" in line or "│" in line for line in screen)
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0


@pytest.mark.parametrize("size", but_for([(20, 24), (80, 8)], [(40, 24), (20, 24), (80, 8), (200, 50)]))
def test_terminals_of_any_size(document, size):
    columns, rows = size
    terminal = Terminal("summarize", document, columns=columns, rows=rows, **SLOW)
    assert terminal.wait() == 0
    text = " ".join(terminal.screen())
    assert "╭" not in text
    assert "customs house." in text


def test_a_terminal_that_changes_its_size(document):
    terminal = Terminal("summarize", document, **SLOW)
    terminal.until(b"accepted")
    terminal.resize(40, 20)
    terminal.until(b"customs house.")
    terminal.resize(120, 40)
    assert terminal.wait() == 0


def test_no_color(document):
    terminal = Terminal("summarize", document, env={"NO_COLOR": "1"}, **SLOW)
    assert terminal.wait() == 0
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7][;m]|\x1b\[9[0-7]m|\x1b\[38", terminal.output)


def test_colour_where_it_is_wanted(document):
    terminal = Terminal("summarize", document, **SLOW)
    assert terminal.wait() == 0
    assert b"\x1b[36m" in terminal.output


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_plain_lines(document, term):
    terminal = Terminal("summarize", document, env={"TERM": term})
    assert terminal.wait() == 0
    assert b"\x1b" not in terminal.output
    assert b"3 chunk summaries to write" in terminal.output


def test_quiet_is_quiet(fake, document):
    done = fake("summarize", "-q", document)
    assert (done.stdout, done.stderr) == (SUMMARY + "\n", "")


def test_hostile_text_reaches_no_terminal_as_a_command(fake, document):
    evil = "\x1b[2J[bold red]A[/] \x1b]0;owned\x07\x9b31mB :smile: [link=x]"
    terminal = Terminal("summarize", document, summary=evil, **SLOW)
    assert terminal.wait() == 0
    assert b"\x1b[2J" not in terminal.output
    assert b"\x1b]0" not in terminal.output
    assert terminal.screen()[0] == "[bold red]A[/] B :smile: [link=x]"
    done = fake("summarize", document, summary=evil)
    assert done.stdout == "[bold red]A[/] B :smile: [link=x]\n"


def test_a_hostile_file_name_is_inert(tmp_path):
    path = tmp_path / "a\x1b[2J[red]b.txt"
    path.write_text("Some words.\n")
    terminal = Terminal("summarize", path, **SLOW)
    assert terminal.wait() == 0
    assert b"\x1b[2J" not in terminal.output


# ------------------------------------------------------------------------------------------------------------ stdin


def test_a_pipe_without_a_file_is_read(fake):
    assert run("summarize", stdin="Some words.\n").stdout == SUMMARY + "\n"
    assert fake("summarize", "-", stdin="Some words.\n").stdout == SUMMARY + "\n"
    assert fake("summarize", "-", "-", stdin="Some words.\n").returncode == 2


def test_no_file_and_a_terminal_is_a_usage_error():
    terminal = Terminal("summarize")
    assert terminal.wait() == 2
    assert terminal.screen()[0] == "error: no document is named"


def test_an_empty_pipe_is_an_input_error(fake):
    assert fake("summarize").returncode == 3


# ---------------------------------------------------------------------------------------------------------- signals


def test_a_closed_pipe_is_141_without_a_traceback(document):
    done = bash('$SPECEXTEND summarize "$F" | head -1; echo "${PIPESTATUS[0]}"', F=str(document))
    assert done.stdout.splitlines() == [SUMMARY.split("\n")[0], "141"]
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr


def test_a_closed_pipe_under_the_panel_restores_the_terminal(document):
    reader, writer = os.pipe()
    os.close(reader)
    terminal = Terminal("summarize", document, redirect={"stdout": writer}, **SLOW)
    os.close(writer)
    assert terminal.wait() == 141
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0
    assert terminal.screen() == []


@pytest.mark.parametrize("arguments", [("--help",), ("summarize", "--help"), ("presets", "list")])
def test_a_closed_pipe_is_141_everywhere(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command(*arguments), stdout=writer, stderr=subprocess.PIPE, env=environment(), check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_ctrl_c_stops_cleanly_and_says_what_is_saved(document):
    terminal = Terminal("summarize", document, hang=30, **SLOW)
    terminal.until("╭".encode())
    terminal.until(b"chunks")
    terminal.until(b"2/3")
    terminal.until(b"in 1898.")
    terminal.redrawn(b"in 1898.", 12)  # only the hang draws one frame so often
    terminal.press(b"\x03")
    terminal.until(b"run again to continue")
    assert terminal.wait() == 130
    assert terminal.screen() == ["2/3 chunks saved; run again to continue"]
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0


def test_ctrl_c_with_nothing_saved(document):
    terminal = Terminal("summarize", document, "--no-cache", hang=30, **SLOW)
    terminal.until(b"2/3")
    terminal.press(b"\x03")
    assert terminal.wait() == 130
    assert terminal.screen()[-1].endswith("stopped; nothing was saved")


def test_what_a_module_makes_of_ctrl_c_is_no_defect(monkeypatch):
    def imported(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("cannot load module more than once per process") from None

    monkeypatch.setattr(main.typer.main, "get_command", imported)
    with signals.handled(), pytest.raises(KeyboardInterrupt):
        main.run(["doctor"])


def test_ctrl_c_while_the_command_line_is_imported_ends_it_without_a_word():
    code = (
        "import sys\n"
        "from specextend_cli.__main__ import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_the_second_ctrl_c_is_immediate():
    code = (
        "import time\n"
        "from specextend_cli.cli import signals\n"
        "with signals.handled():\n"
        "    try:\n"
        "        print('ready', flush=True); time.sleep(30)\n"
        "    except KeyboardInterrupt:\n"
        "        print('stopping', flush=True); time.sleep(30)\n"
    )
    root = os.fspath(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))  # noqa: PTH120
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"stopping\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    process.stdout.close()


def test_sigterm_restores_the_terminal(document):
    terminal = Terminal("summarize", document, hang=30, **SLOW)
    terminal.until(b"2/3")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait() == 143
    assert terminal.screen() == ["2/3 chunks saved; run again to continue"]
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0


def test_sigterm_in_a_pipe_says_what_is_kept(document):
    process = subprocess.Popen(
        command("summarize", document, hang=30, native="note\n"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    notes = 0
    for line in process.stderr:
        notes += line == "note\n"
        if notes == 2:
            break
    process.send_signal(signal.SIGTERM)
    assert process.stderr.readlines()[-1] == "2/3 chunks saved; run again to continue\n"
    assert process.wait(20) == 143
    process.stderr.close()


def test_a_deadline_is_124(fake, document):
    done = fake("summarize", document, "--timeout", "1", hang=30)
    assert done.returncode == 124
    assert "2/3 chunks saved; run again to continue\nerror: stopped after 1 s\n" in done.stderr
    assert done.stderr.endswith("try:   allow more time\n")  # whether another run goes on is said above


# ------------------------------------------------------------------------------------------------- errors and codes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--help",), 0),
        (("-h",), 0),
        (("-V",), 0),
        ((), 2),
        (("nonsense",), 2),
        (("summarize", "--nonsense"), 2),
        (("summarize", "absent.pdf"), 3),
        (("summarize", "absent.pdf", "--draft", "lm", "--no-spec"), 2),
        (("summarize", "absent.pdf", "--json", "-f", "md"), 2),
        (("summarize", "absent.pdf", "--pages", "9-3"), 2),
        (("presets", "show", "absent"), 2),
    ],
)
def test_exit_codes(cli, arguments, code):
    assert cli(*arguments).returncode == code


def test_version():
    assert re.fullmatch(r"specextend \d+\.\d+\.\d+\n", run("-V").stdout)


def test_an_error_says_what_why_and_what_to_do(fake, document):
    done = fake("summarize", document, fail=[document.name])
    assert done.returncode == 3
    assert done.stderr.endswith("error: harbour.txt is encrypted\nwhy:   it needs a password\ntry:   --password-file\n")
    assert done.stdout == ""


def test_a_defect_is_1_and_short_unless_debugging(fake, document):
    short = fake("summarize", document, crash=True)
    assert short.returncode == 1
    assert "Traceback" not in short.stderr
    assert "error: something unexpected went wrong (ZeroDivisionError: no such luck)" in short.stderr
    assert "try:   run again with --debug" in short.stderr
    for arguments in (("summarize", document, "--debug"), ("--debug", "summarize", document)):
        long = fake(*arguments, crash=True)
        assert long.returncode == 1
        assert "Traceback" in long.stderr
        assert "ZeroDivisionError: no such luck" in long.stderr


def test_an_incomplete_summary_is_6(fake, document):
    coverage = {"pages": 52, "empty": [], "failed": [7, 8], "tokens": 100, "dropped": 0}
    done = fake("summarize", document, coverage=coverage)
    assert done.returncode == 6
    assert done.stdout == SUMMARY + "\n"
    assert "why:   2 pages unreadable (7-8)\n" in done.stderr


# -------------------------------------------------------------------------------------------------- several inputs


def test_a_batch_goes_on_and_says_what_failed(fake, document, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("More words.\n")
    done = fake("summarize", document, tmp_path / "absent.txt", other, "-q")
    assert done.returncode == 6
    assert done.stdout == f"==> harbour.txt <==\n\n{SUMMARY}\n==> other.txt <==\n\n{SUMMARY}\n"
    assert "absent.txt does not exist" in done.stderr
    assert "error: 1 of 3 documents failed" in done.stderr


def test_what_failed_before_the_run_was_stopped_is_said(fake, document, tmp_path):
    done = fake("summarize", tmp_path / "absent.txt", document, "--timeout", 0.5, hang=30)
    assert done.returncode == 124
    assert re.search(r"absent\.txt\tabsent\.txt does not exist", done.stderr)


def test_a_directory_gets_a_file_each_and_keeps_what_it_has(fake, document, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("More words.\n")
    out = tmp_path / "out"
    done = fake("summarize", document, other, "-o", out, "-f", "md")
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == ["harbour.md", "other.md"]
    (out / "other.md").write_text("mine")
    again = fake("summarize", document, other, "-o", out, "-f", "md")
    assert "exists already" in again.stderr
    assert (out / "other.md").read_text() == "mine"
    assert fake("summarize", document, other, "-o", out, "-f", "md", "--force").returncode == 0
    assert (out / "other.md").read_text().startswith(SUMMARY)


def test_two_inputs_of_one_name_do_not_share_a_file(fake, document, tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / document.name).write_text("Other words.\n")
    out = tmp_path / "out"
    assert fake("summarize", document, folder / document.name, "-o", out).returncode == 0
    written = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.txt"))
    assert written == ["b/harbour.txt", "harbour.txt"]


# ---------------------------------------------------------------------------------------------------------- formats


def test_an_output_file_is_whole_or_not_there(fake, document, tmp_path):
    out = tmp_path / "new" / "summary.json"
    assert fake("summarize", document, "-o", out, "--timeout", "1", hang=30).returncode == 124
    assert list(out.parent.iterdir()) == []
    assert fake("summarize", document, "-o", out).returncode == 0
    assert json.loads(out.read_text())["text"] == SUMMARY
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_json(fake, document):
    record = json.loads(fake("summarize", document, "--json").stdout)
    assert record["document"] == "harbour.txt"
    assert (record["model"]["tokens"], record["seconds"]) == (140, 18.0)


def test_json_lines(fake, document):
    (line,) = fake("summarize", document, "-f", "jsonl").stdout.splitlines()
    assert json.loads(line)["text"] == SUMMARY


def test_verbose_adds_figures(fake, document):
    done = fake("summarize", document, "-v")
    *_, model, start, reading, writing, drafting = done.stderr.splitlines()
    assert model == "model\tsmollm2-135m, as configured"
    assert re.match(r"start\t\S.* to the first words: starting \d", start)
    assert reading == "reading\t28,560 tokens in 12 s"
    assert writing == "writing\t140 tokens in 2.4 s · 57 tok/s"
    assert drafting.startswith("drafting\teagle · 2.5× plain · accepted 2.9 · hits 77% · accepted lengths 1 19%, 2 38%")
    assert "to the first words" not in fake("summarize", document).stderr


# --------------------------------------------------------------------------------------------------- other commands


def test_dry_run_and_plan_show_the_plan_and_run_nothing(fake, document):
    for arguments in (("summarize", "-n", document), ("plan", document)):
        done = fake(*arguments, crash=True)
        assert done.returncode == 0
        assert re.search(r"^harbour\.txt\t3\t1,234\t2\t617\t2\tabout 42 s\t[\d.]+ [MG]B$", done.stdout, re.M)
    planned = json.loads(fake("plan", document, "--json").stdout)
    assert (planned["chunks"], planned["seconds"]) == ([617, 617], 42.0)


def test_extract_prints_what_the_model_would_see(fake, document):
    done = fake("extract", document)
    assert done.stdout == document.read_text()
    assert done.stderr == "1 page · 63 characters\n"
    assert json.loads(fake("extract", document, "--json").stdout)["text"] == document.read_text().rstrip("\n")


def test_compare_says_whether_the_tokens_are_identical(fake, document):
    done = fake("compare", document, "-q")
    assert done.returncode == 0
    assert "identical tokens · 1.00× plain decoding (median of 8 pairs; 95% interval 1.00× to 1.00×)" in " ".join(
        done.stdout.split()
    )
    assert re.search(r"\d+ cores?, [\d.]+ busy with other work", done.stdout)
    record = json.loads(fake("compare", document, "-q", "--json").stdout)
    assert (record["divergence"], record["speedup"]["pairs"], record["passes"]) == (None, 8, 2)
    assert record["load"]["cores"] >= 1


def test_quick_compare_has_a_line_for_either_way_and_says_what_the_text_is(fake, document):
    done = fake("compare", "--quick", document, parts=1)
    assert done.returncode == 0
    assert re.search(r"identical tokens · 1.00× plain decoding", done.stdout)
    assert "smollm2-135m writes here: its text shows the engine, and is not a summary to believe" in done.stderr
    plain, fast = (
        re.search(rf"^{name}: read in .*", done.stderr, re.M)[0] for name in ("plain decoding", "SpecExtend")
    )
    assert "tokens written in" in plain
    assert "accepted length" in fast
    assert "hits" in fast
    assert "\x1b" not in done.stdout + done.stderr
    record = json.loads(fake("compare", "--quick", document, "-q", "--json", parts=1).stdout)
    assert (record["passes"], record["divergence"]) == (1, None)
    quiet = fake("compare", "--quick", document, "-q", parts=1)
    assert "plain decoding:" not in quiet.stderr


def test_compare_says_how_far_it_is_and_leaves_no_line_of_one_of_its_runs(fake, document):
    done = fake("compare", document)
    assert "comparing, pass 1" in done.stderr
    assert "done ·" not in done.stderr


def test_doctor_ends_with_a_block_to_paste(cli):
    done = cli("doctor")
    assert done.returncode == 0
    assert done.stdout.count("```") == 2
    assert "specextend: " in done.stdout


# ----------------------------------------------------------------------------------------------------------- imports


@pytest.mark.parametrize("arguments", [("--help",), ("summarize", "--help"), ("models", "pull", "--help"), ("-V",)])
def test_help_loads_nothing_heavy(arguments):
    loaded = set(run(*arguments, loaded=True).stderr.split()[1:])
    # Some versions of Typer themselves import pydantic to describe a command's options.
    assert loaded <= ({"pydantic"} if len(arguments) > 1 else set())


@pytest.mark.parametrize("name", ["extract", "plan", "doctor"])
def test_commands_that_need_no_model_do_not_import_torch(name, document):
    arguments = (name,) if name == "doctor" else (name, document)
    loaded = run(*arguments, loaded=True).stderr.splitlines()[-1].split()
    assert not {"torch", "transformers"} & set(loaded)


def test_help_keeps_to_the_encoding_of_stdout():
    done = run("summarize", "-h", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "usage: specextend summarize [OPTIONS] [FILES.]")
