"""`models list|show|pull|use|rm`; from a Hub that stands in for the real one to a printed summary; GGUF files."""

from __future__ import annotations

import json

import pytest
import tomllib

from specextend_cli.models import memory
from specextend_cli.models.choice import Machine
from specextend_cli.models.configuration import configuration_file
from specextend_cli.models.presets import list_presets, read_preset, to_toml
from specextend_cli.models.shape import HEADROOM
from specextend_cli.runtime import devices as module
from tests.helpers import gguf_files
from tests.helpers.error_lines import said
from tests.helpers.gguf_writer import CHAT
from tests.helpers.hub_server import StandInHub
from tests.helpers.published_presets import publish
from tests.summarize import tiny_preset
from tests.summarize.tiny_preset import text

PRESETS = {preset.name: preset for preset in list_presets()}


@pytest.fixture(params=[8, 24])
def free(request, monkeypatch):
    """Bytes that are free on a machine without a GPU."""
    monkeypatch.setattr(module, "this_machine", lambda device="auto": Machine("cpu", request.param * 10**9))
    return request.param * 10**9


def listed(done):
    """The cells of each line but the header's."""
    assert done.returncode == 0
    return [line.split("\t") for line in done.stdout.splitlines()[1:]]


def test_what_runs_here_is_listed_by_rank_and_the_rest_with_why(cli, free):
    rows = {row["name"]: row for row in json.loads(cli("models", "list", "--all", "--json").stdout)}
    assert rows.keys() == PRESETS.keys()
    some, everything = listed(cli("models", "list")), listed(cli("models", "list", "--all"))
    names = [cells[1] for cells in some]
    assert [cells[1] for cells in everything][: len(names)] == names
    assert sorted(cells[1] for cells in everything) == sorted(rows)
    assert (
        cli("models", "list").stderr
        == f"{len(rows) - len(names)} more need another machine: specextend models list --all\n"
    )
    ranks = [PRESETS[name].rank or 99 for name in names]
    assert ranks == sorted(ranks)
    assert 1 < len(names) < len(rows)
    for _, name, *cells in everything:
        preset, shown = PRESETS[name], "\t".join(cells)
        assert ("too large, " in shown or "for GPUs, " in shown) == (name not in names)
        need = memory.estimate(preset, on_cpu=True)
        assert need <= HEADROOM * free or name not in names
        assert preset.licence.partition(";")[0] in shown
        assert (", gated" in shown) == preset.gated
        assert f"{preset.window.context:,}" in shown


def test_the_one_that_runs_is_marked_and_on_a_gpu_none_lacks_one(cli, monkeypatch):
    monkeypatch.setattr(module, "this_machine", lambda device="auto": Machine("cuda", 10**12))
    rows = listed(cli("models", "list"))
    assert len(rows) == len(PRESETS)
    assert [cells[1] for cells in rows if cells[0] == "›"] == ["smollm2-135m"]  # as configured


def test_a_preset_that_was_shown_can_be_used_under_any_name(cli, document):
    shown = cli("models", "show", "smollm2-135m")
    assert shown.stdout.startswith("# SmolLM2")
    assert "\n# memory: " in shown.stdout
    assert tomllib.loads(shown.stdout)["target"]
    document.with_name("mine.toml").write_text(shown.stdout)
    first, again = (
        json.loads(cli("models", "show", name, "--json").stdout) for name in ("smollm2-135m", "./mine.toml")
    )
    assert again == {**first, "name": "mine"}


def test_every_preset_survives_being_shown(tmp_path):
    for preset in PRESETS.values():
        path = tmp_path / "copy.toml"
        path.write_text(to_toml(preset))
        assert read_preset(path) == preset.model_copy(update={"name": "copy"})


def test_use_is_kept_until_it_is_taken_back(cli, presets, home):
    done = cli("models", "use", presets["one"])
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{presets['one']} runs where no model is named ({configuration_file()})\n"
    assert configuration_file().read_text() == f'model = "{presets["one"]}"\n'
    assert "it is not on disk and is fetched at its first use" in cli("models", "use", "qwen3-8b").stderr
    assert 'model = "qwen3-8b"' in configuration_file().read_text()
    assert cli("models", "use", "auto").returncode == 0
    assert "model" not in configuration_file().read_text()


@pytest.fixture
def hub(monkeypatch, home):
    with StandInHub() as hub:
        hub.use(monkeypatch, home)
        yield hub


def test_from_the_hub_to_a_summary_and_off_the_disk(cli, hub, document, tmp_path):
    document.write_text(text(12))
    publish(hub, PRESETS["qwen3-1.7b"], tmp_path)
    pulled = cli("models", "pull", "qwen3-1.7b")
    assert pulled.returncode == 0, pulled.stderr
    assert "qwen3-1.7b is ready" in pulled.stderr
    done = cli("summarize", document, "-m", "qwen3-1.7b", "--json", "--offline")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"]["preset"] == "qwen3-1.7b"
    assert cli("models", "rm", "qwen3-1.7b").returncode == 0
    assert ", not on disk\n" in cli("models", "show", "qwen3-1.7b").stdout


def test_what_is_missing_is_said(cli, hub, document, tmp_path, monkeypatch):
    """Gated, offline, and wrong bytes: exit code 4 and the command to run; nothing half-fetched is used."""
    publish(hub, PRESETS["qwen3-0.6b"], tmp_path)
    offline = cli("summarize", document, "-m", "qwen3-0.6b", "--offline", "--length", 2)
    assert (offline.returncode, said(offline)["try"][-33:]) == (4, "specextend models pull qwen3-0.6b")
    monkeypatch.delenv("HF_HUB_OFFLINE")  # which --offline sets
    (repository,) = hub.repositories.values()
    repository.gated = True
    gated = cli("models", "pull", "qwen3-0.6b")
    assert gated.returncode == 4
    assert "is gated" in gated.stderr
    repository.gated, repository.wrong_bytes = False, True
    wrong = cli("models", "pull", "qwen3-0.6b")
    assert wrong.returncode == 4
    assert "is not the file it should be; it was deleted" in " ".join(wrong.stderr.split())
    assert cli("models", "rm", "qwen3-0.6b").returncode == 4  # nothing is left
    repository.wrong_bytes = False
    assert cli("models", "pull", "qwen3-0.6b").returncode == 0


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    own = tiny_preset.tokenizer()
    config = LlamaConfig(**{**gguf_files.COMMON, "max_position_embeddings": 1024}, vocab_size=own.get_vocab_size())
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("gguf") / "Tiny-Q4_0.gguf"
    return gguf_files.write(file, "llama", LlamaForCausalLM(config), own, gguf_files.Kind.Q4_0)


def test_a_document_is_summarized_by_a_gguf_file(cli, gguf, document):
    document.write_text(text(30))
    done = cli("summarize", document, "-m", gguf, "--json", "--length", 20)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["model"]["preset"], bool(summary["text"].strip())) == ("tiny-q4-0", True)
    assert 'kind = "gguf"' in cli("models", "show", gguf).stdout
    assert cli("models", "rm", gguf).returncode == 0
    assert gguf.is_file()


def test_a_file_without_a_chat_template_is_refused_before_it_is_converted(cli, gguf, document):
    base, key = document.with_name("base.gguf"), b"tokenizer.chat_template"
    base.write_bytes(gguf.read_bytes().replace(key, key.replace(b"chat", b"tail")))
    document.write_text(text(60))
    done = cli("summarize", document, "-m", base)
    assert done.returncode == 4
    assert "base.gguf has no chat template" in said(done)["error"]
    assert f"specextend models show {base} > mine.toml" in said(done)["try"]
    assert "converting" not in done.stderr
    own = cli("models", "show", base).stdout.replace("[prompts]", f"[prompts]\nchat_template = {json.dumps(CHAT)}")
    document.with_name("mine.toml").write_text(own)
    done = cli("summarize", document, "-m", "mine.toml", "--length", 20)
    assert done.returncode == 0, done.stderr
