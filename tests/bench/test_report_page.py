"""The HTML page: complete, self-contained, and safe with any text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from specextend_cli.bench import plots
from specextend_cli.bench.report import write_report
from specextend_cli.bench.storage import from_json
from specextend_cli.bench.tables import Experiment, HeatMap, LinePlot, Point, Table
from specextend_cli.errors import UsageError
from tests.bench.made_benchmark import realistic
from tests.bench.untrusted_text import UNTRUSTED, controls, untrusted_benchmark

VOID = {"meta", "br", "hr", "img", "link", "input"}
EXPERIMENT = Experiment(
    UNTRUSTED,
    UNTRUSTED,
    (Table(UNTRUSTED, (UNTRUSTED,), ((UNTRUSTED,), (None,)), UNTRUSTED),),
    (
        LinePlot(UNTRUSTED, UNTRUSTED, UNTRUSTED, {UNTRUSTED: [Point(1, 1)]}, note=UNTRUSTED),
        HeatMap(UNTRUSTED, UNTRUSTED, UNTRUSTED, {UNTRUSTED: {UNTRUSTED: 1.0}}),
    ),
)


class Reader(HTMLParser):
    """The elements of a page, each of which must be closed, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_a_report_has_a_page_with_every_table_and_every_plot_as_svg_and_png(tmp_path: Path) -> None:
    made = realistic(documents=2, lengths=(512, 1024))
    index = write_report(tmp_path / "new" / "report", made)
    assert index == tmp_path / "new" / "report" / "index.html"
    assert from_json((index.parent / "benchmark.json").read_text(encoding="utf-8")) == made
    read = Reader(index.read_text(encoding="utf-8"))
    pictures = {path.stem for path in index.parent.glob("*.svg")}
    assert read.tags.count("svg") == len(pictures) == 5
    assert {path.stem for path in index.parent.glob("*.png")} == pictures
    assert "1-decoding-speedup-over-plain" in pictures
    assert read.tags.count("table") == 3
    said = " ".join(read.said)
    for expected in ("Example CPU @ 2.0 GHz", "specextend", "Small n", "llama-cpp-python is not installed", "seed"):
        assert expected in said


def test_a_page_with_any_text_is_safe_and_requests_nothing(tmp_path: Path) -> None:
    text = write_report(tmp_path, untrusted_benchmark(), [EXPERIMENT]).read_text(encoding="utf-8")
    assert not controls(text)
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s'\"]+", text)) == namespaces
    read = Reader(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    references = {value or "" for name, value in read.attributes if name in ("src", "href", "xlink:href")}
    assert {value for value in references if not value.startswith("#")} == {"benchmark.json"}
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert text.count("url(") == text.count("url(#")
    assert any("<script>alert(1)</script>" in said for said in read.said)


def test_a_report_of_experiments_needs_no_benchmark(tmp_path: Path) -> None:
    index = write_report(tmp_path, experiments=[EXPERIMENT], facts={UNTRUSTED: UNTRUSTED})
    read = Reader(index.read_text(encoding="utf-8"))
    assert "script" not in read.tags
    assert read.tags.count("svg") == 2
    assert (tmp_path / "experiments.json").exists()
    assert sorted(path.name[:2] for path in tmp_path.glob("*.svg")) == ["1-", "2-"]


def test_a_directory_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the report cannot be written to") as caught:
        write_report(tmp_path / "file" / "report")
    assert "--report DIR" in caught.value.fix


def test_without_matplotlib_report_is_refused_before_anything_is_measured(
    cli, presets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    done = cli("bench", "-m", presets["one"], "--report", tmp_path / "report")
    assert (done.returncode, done.stdout) == (2, "")
    assert "matplotlib is not installed" in done.stderr
    assert "pip install 'specextend-cli[bench]'" in done.stderr
    assert not (tmp_path / "report").exists()
