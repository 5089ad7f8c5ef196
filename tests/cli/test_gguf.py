"""A GGUF file as the target, from the command line."""

from __future__ import annotations

import json

import pytest

from tests.helpers import gguf_files
from tests.helpers.gguf_writer import CHAT
from tests.summarize import tiny_preset


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("gguf")
    own = tiny_preset.tokenizer()
    config = LlamaConfig(**{**gguf_files.COMMON, "max_position_embeddings": 1024}, vocab_size=own.get_vocab_size())
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    return gguf_files.write(folder / "Tiny-Q4_0.gguf", "llama", model, own, gguf_files.Kind.Q4_0)


def test_a_document_is_summarized_by_a_gguf_file(cli, file, tmp_path) -> None:
    document = tmp_path / "harbour.txt"
    document.write_text(tiny_preset.text(60))
    plan = cli("plan", document, "-m", file)
    assert plan.returncode == 0, plan.stderr
    arguments = (document, "-m", file, "--json", "--max-tokens", 24, "--no-compile", "--dtype", "float32")
    first = cli("summarize", *arguments)
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    assert summary["preset"] == "tiny-q4-0"
    assert summary["text"].strip()
    plain = cli("summarize", *arguments, "--no-spec", "--force", "--no-cache")
    assert json.loads(plain.stdout)["text"] == summary["text"]
    shown = cli("models", "show", file, "--json")
    assert json.loads(shown.stdout)[0]["path"]
    assert "n-grams" in cli("presets", "show", file).stdout
    assert cli("models", "rm", file).returncode == 0
    assert file.is_file()


def test_a_file_without_a_chat_template_is_refused_before_it_is_converted(cli, file, tmp_path) -> None:
    import gguf

    reader, base = gguf.GGUFReader(file), tmp_path / "base.gguf"
    key = b"tokenizer.chat_template"
    base.write_bytes(file.read_bytes().replace(key, key.replace(b"chat", b"tail")))
    assert len(reader.fields) == len(gguf.GGUFReader(base).fields)
    document = tmp_path / "harbour.txt"
    document.write_text(tiny_preset.text(60))
    result = cli("summarize", document, "-m", base)
    assert result.returncode == 4
    assert "base.gguf has no chat template" in result.stderr
    assert f"specextend presets show {base} > mine.toml" in " ".join(result.stderr.split())
    assert "converting" not in result.stderr
    assert json.loads(cli("models", "show", base, "--json").stdout)[0]["path"] is None
    own = tmp_path / "mine.toml"
    shown = cli("presets", "show", base).stdout
    own.write_text(shown.replace("[prompts]", f"[prompts]\nchat_template = {json.dumps(CHAT)}"))
    result = cli("summarize", document, "-m", own, "--max-tokens", 8, "--no-compile", "--dtype", "float32")
    assert result.returncode == 0, result.stderr


@pytest.mark.full
@pytest.mark.parametrize("name", gguf_files.FAMILIES)
def test_every_family_writes_the_same_with_and_without_drafts(name, cli, tmp_path) -> None:
    own = tiny_preset.tokenizer()
    model = gguf_files.make(name, own.get_vocab_size())
    model.config.max_position_embeddings = 1024
    file = gguf_files.write(tmp_path / "tiny.gguf", name, model, own)
    (tmp_path / "harbour.txt").write_text(tiny_preset.text(60))
    arguments = ("--json", "--max-tokens", 24, "--no-compile", "--no-cache", "--dtype", "float32")
    results = [
        cli("summarize", tmp_path / "harbour.txt", "-m", file, *arguments, *more) for more in ((), ("--no-spec",))
    ]
    assert [result.returncode for result in results] == [0, 0], results[0].stderr + results[1].stderr
    drafted, plain = (json.loads(result.stdout) for result in results)
    if not name.startswith("gemma"):  # whose random models with tied embeddings repeat one token, which is no text
        assert drafted["text"].strip()
    assert drafted["text"] == plain["text"]


def test_what_is_no_model_is_said(cli, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("One. Two.")
    (tmp_path / "odd.gguf").write_bytes(b"GGUF")
    for model, exit, what in (
        (tmp_path / "odd.gguf", 4, "cannot convert odd.gguf"),
        (tmp_path / "absent.gguf", 4, "there is no file"),
        ("ollama:absent-model", 4, "ollama has no model"),
        ("ollama:../x", 2, "names no model of ollama"),
    ):
        result = cli("summarize", tmp_path / "a.txt", "-m", model)
        assert result.returncode == exit
        assert what in result.stderr
