from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from specextend_cli.bench.html import page, write_experiments, write_report
from specextend_cli.bench.report import from_json
from specextend_cli.bench.tables import Experiment, HeatMap, LinePlot, Point, Series, Table
from specextend_cli.errors import UsageError
from tests.bench.made_benchmark import realistic
from tests.bench.untrusted_inputs import HOSTILE, controls, hostile_benchmark

VOID = {"meta", "br", "hr", "img", "link", "input"}
EXPERIMENT = Experiment(
    HOSTILE,
    HOSTILE,
    (Table(HOSTILE, (HOSTILE,), ((HOSTILE,), (None,)), HOSTILE),),
    (
        LinePlot(HOSTILE, HOSTILE, HOSTILE, (Series(HOSTILE, (Point(1, 1),)),), note=HOSTILE),
        HeatMap(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), ((1.0,),)),
    ),
)


class Reader(HTMLParser):
    """The elements of a page, that each is closed, and what it says."""

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


def test_a_report_is_one_page_and_its_figures(tmp_path: Path) -> None:
    made = realistic(documents=2, lengths=(512, 1024))
    index = write_report(made, tmp_path / "new" / "report")
    assert index == tmp_path / "new" / "report" / "index.html"
    assert from_json((index.parent / "benchmark.json").read_text(encoding="utf-8")) == made
    read = Reader(index.read_text(encoding="utf-8"))
    assert read.tags.count("svg") == len(list(index.parent.glob("*.svg"))) == 6
    assert read.tags.count("table") == 3
    said = " ".join(read.said)
    for expected in ("Example CPU @ 2.0 GHz", "specextend", "Small n", "llama-cpp-python is not installed", "seed"):
        assert expected in said


def test_a_page_asks_for_nothing() -> None:
    """No scripts, no address but the name of SVG's own language, and a policy that forbids both."""
    text = page(realistic(documents=1, lengths=(512,)), [EXPERIMENT])
    assert set(re.findall(r"https?://[^\s'\"]+", text)) == {"http://www.w3.org/2000/svg"}
    read = Reader(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert {value for name, value in read.attributes if name in ("src", "href")} == {"benchmark.json"}
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert "url(" not in text


def test_hostile_text_is_text(tmp_path: Path) -> None:
    text = page(hostile_benchmark(), [EXPERIMENT])
    assert not controls(text)
    read = Reader(text)
    assert "script" not in read.tags
    assert any("<script>alert(1)</script>" in said for said in read.said)
    assert write_report(hostile_benchmark(), tmp_path).exists()


def test_experiments_alone(tmp_path: Path) -> None:
    index = write_experiments([EXPERIMENT], tmp_path, {HOSTILE: HOSTILE})
    read = Reader(index.read_text(encoding="utf-8"))
    assert "script" not in read.tags
    assert read.tags.count("svg") == 2
    assert (tmp_path / "experiments.json").exists()
    pictures = sorted(tmp_path.glob("*.svg"))
    assert [picture.name[:2] for picture in pictures] == ["1-", "2-"]
    for picture in pictures:
        assert set(ElementTree.parse(picture).getroot().itertext()) <= set(read.said)


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the report cannot be written to") as caught:
        write_report(realistic(documents=1, lengths=(512,)), tmp_path / "file" / "report")
    assert "--report DIR" in caught.value.fix
