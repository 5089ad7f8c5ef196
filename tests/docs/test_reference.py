"""docs/cli.md says what `--help` says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
import make_cli
import make_pictures

from specextend_cli.models.memory import estimate
from specextend_cli.models.preset import DEFAULT, Preset
from specextend_cli.models.presets import list_presets, load_preset, preset_files
from specextend_cli.models.prompt_templates import PLACEHOLDERS, WISHES
from tests.summarize.examples import blocks

PAGES = [*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md"), *DOCS.parent.glob("presets/*/*.md")]


def anchors(page):
    """The headings of a page as GitHub names them in addresses."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_links_lead_to_files_and_headings_that_exist(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for link in links:
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_the_reference_is_current():
    assert make_cli.PAGE.read_text() == make_cli.reference(), "due: python docs/make_cli.py"


def test_the_pictures_are_what_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(make_pictures, "FOLDER", tmp_path)
    make_pictures.draw()
    assert len(list(tmp_path.iterdir())) == 3
    for drawn in tmp_path.iterdir():
        assert drawn.read_bytes() == (DOCS / "pictures" / drawn.name).read_bytes(), "due: python docs/make_pictures.py"


def test_the_seven_commands_are_in_it():
    listed = set(re.findall(r"^Usage: specextend (\w+)", make_cli.PAGE.read_text(), re.MULTILINE))
    assert listed == {"summarize", "compare", "bench", "extract", "models", "show", "doctor"}


def test_what_presets_need_is_what_is_computed():
    rows = re.findall(r"^\| `([\w.-]+)` \| ([\d,]+) \| ([\d.]+) \| (.*?)[:,| ]", (DOCS / "models.md").read_text(), re.M)
    presets = {preset.name: preset for preset in list_presets()}
    assert len(rows) >= 10
    assert {where for *_, where in rows} >= {"processors", "80", "8"}
    for name, window, size, where in rows:
        need = estimate(presets[name], on_cpu=where == "processors")
        assert (window, size) == (f"{presets[name].window.context:,}", f"{need / 1e9:.1f}"), name


def test_every_place_and_every_table_of_a_preset_is_explained():
    page = (DOCS / "models.md").read_text()
    assert all(f"{{{name}}}" in page for name in (*PLACEHOLDERS, *WISHES))
    tables = {name for name in Preset.model_fields if name not in ("name", "title", "description", "licence", "gated")}
    assert all(f"`[{name}]`" in page or f"| `{name}` |" in page for name in tables)


def test_the_prompts_shown_are_a_presets(tmp_path):
    (shown,) = blocks("models.md", "toml")
    shipped = preset_files()[DEFAULT].read_text()
    path = tmp_path / f"{DEFAULT}.toml"
    path.write_text(shipped[: shipped.index("[prompts]")] + shown)
    assert load_preset(path).prompts.style("bullets").startswith("Write at most seven")
