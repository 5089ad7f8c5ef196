"""GGUF files by path and by ollama's names: found, read as they are, refused where damaged or of another kind."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import gguf
import pytest

from specextend_cli.errors import ModelError, UsageError
from specextend_cli.models.checkpoint import named_gguf
from specextend_cli.models.gguf.source import ollama_file
from specextend_cli.models.memory import estimate
from specextend_cli.models.presets import load_preset, read_preset, to_toml
from specextend_cli.models.source_kinds import GgufSource, OllamaSource
from specextend_cli.models.sources import fetch, is_present, locate, remove, size_on_disk
from tests.helpers import gguf_writer


def refused(file: Path) -> str:
    """Why that file is refused."""
    with pytest.raises(ModelError) as caught:
        load_preset(str(file))
    return caught.value.why


def rewritten(original: Path, file: Path, **changed: Any) -> Path:
    """The fields of `original`, some of them changed (None: left out) or added, and its tensors."""
    reader = gguf.GGUFReader(original)
    fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    fields |= {key.replace("__", "."): value for key, value in changed.items()}
    writer = gguf.GGUFWriter(file, fields.pop("general.architecture"))
    for key, value in fields.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif value is not None:
            writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    gguf_writer.finish(writer)
    return file


def test_a_file_is_a_preset_whose_memory_is_known(tiny_gguf: Path) -> None:
    preset = load_preset(str(tiny_gguf))
    assert (preset.name, preset.unreliable, preset.draft.kind) == ("tiny", False, "ngram")
    assert preset.target.source == GgufSource(kind="gguf", path=tiny_gguf)
    assert preset.target.shape.layers == 2
    assert preset.window.context == 256
    need, packed = estimate(preset), estimate(preset, on_cpu=True)
    assert packed == need - 2 * preset.target.shape.weights + int(1.1 * tiny_gguf.stat().st_size)
    assert not is_present(preset)


def test_settings_are_made_once_and_again_when_the_file_changes(tiny_gguf: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(tiny_gguf.read_bytes())
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    source = load_preset(str(file)).target.source
    steps: list[tuple[str, int, int]] = []
    directory = fetch(source, progress=lambda *step: steps.append(step))
    assert steps == [("reading mine.gguf", 0, 0)]
    assert locate(source) == directory
    assert named_gguf(directory) == file
    assert size_on_disk(source) < 1 << 20
    steps.clear()
    assert fetch(source, offline=True, progress=lambda *step: steps.append(step)) == directory
    assert steps == []
    os.utime(file, ns=(0, 0))
    assert locate(source) is None
    other = fetch(source)
    assert other != directory
    (tmp_path / "sub").mkdir()
    moved = file.rename(tmp_path / "sub" / "mine.gguf")
    assert fetch(load_preset(str(moved)).target.source) == other
    assert named_gguf(other) == moved
    file = moved.rename(file)
    assert fetch(source) == other
    assert size_on_disk(source) > 0
    assert remove(source) > 0
    assert locate(source) is None
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    file.unlink()
    assert locate(source) is None
    assert remove(source) == size_on_disk(source) == 0
    with pytest.raises(ModelError, match="there is no file"):
        fetch(source)


def test_a_preset_of_the_users_own_names_a_file(tiny_gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(tiny_gguf.read_bytes())
    made = load_preset(str(tmp_path / "tiny.gguf"))
    text = to_toml(made).replace(json.dumps(str(tmp_path / "tiny.gguf")), '"tiny.gguf"')
    (tmp_path / "mine.toml").write_text(text.replace("context = 256", "context = 240"))
    preset = read_preset(tmp_path / "mine.toml")
    assert preset.target.source == made.target.source
    assert preset.window.context == 240


def test_thinking_is_switched_off_names_are_cleaned_and_guesses_said(tiny_gguf: Path, tmp_path: Path) -> None:
    template = {"tokenizer__chat_template": "{% if enable_thinking %}x{% endif %}", "general__name": "A\n\x1b[31mB"}
    preset = load_preset(str(rewritten(tiny_gguf, tmp_path / "Think_2.gguf", **template, tokenizer__ggml__pre=None)))
    assert preset.prompts.template_options == {"enable_thinking": False}
    assert (preset.name, preset.title) == ("think-2", "A[31mB")
    assert "does not say how its vocabulary splits text" in preset.description
    assert "does not say" not in load_preset(str(tiny_gguf)).description


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"general__architecture": "mamba"}, "its architecture is mamba, and llama, smollm3"),
        ({"general__architecture": "clip"}, "reads images"),
        ({"general__type": "adapter"}, "is an adapter"),
        ({"general__type": "mmproj"}, "reads images"),
        ({"general__type": "imatrix"}, "of the kind 'imatrix'"),
        ({"llama__pooling_type": 1}, "a model of embeddings"),
        ({"llama__expert_count": 8}, "mixture of experts"),
        ({"llama__block_count": 3}, "lacks the tensor blk.2."),
        ({"llama__block_count": 1}, "'blk.1.attn_k.weight' has no place"),
        ({"llama__block_count": 1 << 30}, "says llama.block_count 1073741824"),
        ({"llama__embedding_length": "wide"}, "says llama.embedding_length 'wide'"),
        ({"llama__embedding_length": None}, "says llama.embedding_length None"),
        ({"llama__feed_forward_length": 128}, "has the shape"),
        ({"llama__attention__head_count_kv": [2, 4]}, "its layers differ in attention.head_count_kv"),
        ({"llama__attention__head_count_kv": [2, 2, 2]}, "has 2 layers and 3 values of attention.head_count_kv"),
        (
            {
                "llama__rope__scaling__type": "yarn",
                "llama__rope__scaling__factor": 4.0,
                "llama__rope__scaling__original_context_length": 64,
                "llama__rope__scaling__yarn_ext_factor": 0.5,
            },
            "a form of YaRN",
        ),
        ({"llama__final_logit_softcapping": 30.0}, "it has final_logit_softcapping, which no llama"),
        ({"llama__rope__scaling__type": "dynamic", "llama__rope__scaling__factor": 2.0}, "positions by 'dynamic'"),
        ({"llama__attention__key_length": 32}, "rotates 16 of 32 numbers"),
        ({"llama__attention__layer_norm_rms_epsilon": float("nan")}, "layer_norm_rms_epsilon nan"),
        ({"llama__context_length": 64}, "at most 64 tokens"),
        ({"split__tensors__count": 99}, "tensors instead of 99"),
        ({"tokenizer__ggml__tokens": ["a"] * 1000}, "1000 tokens and an embedding of 448"),
    ],
)
def test_what_a_file_may_not_say(changed: dict[str, Any], why: str, tiny_gguf: Path, tmp_path: Path) -> None:
    assert why in refused(rewritten(tiny_gguf, tmp_path / "odd.gguf", **changed))


def header(*fields: bytes, tensors: int = 0, count: int | None = None, version: int = 3) -> bytes:
    number = len(fields) if count is None else count
    return b"GGUF" + struct.pack("<IQQ", version, tensors, number) + b"".join(fields)


def field(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0, dimensions: int | None = None) -> bytes:
    count = len(shape) if dimensions is None else dimensions
    packed = struct.pack(f"<I{len(shape)}QIQ", count, *shape, kind, offset)
    return struct.pack("<Q", len(name)) + name.encode() + packed


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04" + bytes(100), "does not begin with GGUF"),
        (header(version=1), "version is 1"),
        (header(version=3 << 24), "version is"),
        (header(count=1 << 60), "1,152,921,504,606,846,976 fields"),
        (header(tensors=1 << 60), "tensors"),
        (header(count=5), "cut off"),
        (header(struct.pack("<Q", 1 << 62)), "a text of"),
        (header(struct.pack("<Q", 1 << 20)), "cut off"),
        (header(field("a", 99, b"")), "99 is not a valid"),
        (header(field("a", 9, struct.pack("<IQ", 4, 1 << 62))), "items"),
        (header(field("a", 9, struct.pack("<IQ", 4, 1 << 20))), "cut off"),
        (header(field("a", 9, struct.pack("<IQ", 8, 1 << 20))), "cut off"),
        (header(field("a", 9, struct.pack("<IQ", 9, 1))), "arrays of arrays"),
        (header(field("a", 4, bytes(4)), field("a", 4, bytes(4))), "says a twice"),
        (header(tensor("t", (1 << 40, 1 << 40)), tensors=1, count=0), "has the shape"),
        (header(tensor("t", (0,)), tensors=1, count=0), "has the shape"),
        (header(tensor("t", (4,), dimensions=77), tensors=1, count=0), "77 dimensions"),
        (header(tensor("t", (4,), kind=77), tensors=1, count=0), "77 is not a valid"),
        (header(tensor("t", (33,), kind=2), tensors=1, count=0), "does not divide"),
        (header(tensor("t", (1 << 30,)), tensors=1, count=0), "ends before its tensor"),
        (header(tensor("t", (4,), offset=1 << 62), tensors=1, count=0), "ends before its tensor"),
        (header(tensor("t", (4,)), tensor("t", (4,)), tensors=2, count=0) + bytes(64), "two tensors t"),
        (header(field("general.alignment", 4, bytes(4))), "alignment is 0"),
    ],
)
def test_damaged_headers(data: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.gguf"
    file.write_bytes(data)
    assert why in refused(file)


def test_parts_of_a_split_file(tiny_gguf: Path, tmp_path: Path) -> None:
    second = tmp_path / "m-00002-of-00002.gguf"
    second.write_bytes(tiny_gguf.read_bytes())
    assert "name the first one, m-00001-of-00002.gguf" in refused(second)
    first = tmp_path / "m-00001-of-00003.gguf"
    first.write_bytes(tiny_gguf.read_bytes())
    assert "m-00002-of-00003.gguf is not beside it" in refused(first)
    with pytest.raises(ModelError, match="there is no file"):
        load_preset(str(tmp_path / "absent.gguf"))


LIBRARY = Path("registry.ollama.ai") / "library"


@pytest.fixture
def ollamas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_gguf: Path) -> Path:
    """ollama's store with one model, tiny:1b."""
    folder = tmp_path / "ollama"
    (folder / "blobs").mkdir(parents=True)
    manifest(folder, LIBRARY / "tiny" / "1b", model=tiny_gguf.read_bytes(), template=b"{{ .Prompt }}")
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    return folder


def manifest(folder: Path, at: Path, **layers: bytes) -> Path:
    listed = []
    for kind, data in layers.items():
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs" / f"sha256-{digest}").write_bytes(data)
        kind = f"application/vnd.ollama.image.{kind}"
        listed.append({"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)})
    file = folder / "manifests" / at
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schemaVersion": 2, "config": {}, "layers": listed}))
    return file


def test_a_model_of_ollamas(ollamas: Path) -> None:
    def contents() -> dict[Path, tuple[int, int]]:
        files = [path for path in ollamas.rglob("*") if path.is_file()]
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}

    before = contents()
    preset = load_preset("ollama:tiny:1b")
    assert preset.name == "tiny-1b"
    assert preset.target.source == OllamaSource(kind="ollama", name="tiny:1b")
    directory = fetch(preset.target.source)
    assert (directory / "tokenizer.json").is_file()
    assert is_present(preset)
    assert remove(preset.target.source) > 0
    assert contents() == before


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("tiny", LIBRARY / "tiny" / "latest"),
        ("me/tiny:x", Path("registry.ollama.ai/me/tiny/x")),
        ("hf.co/me/Tiny-GGUF:Q4_K_M", Path("hf.co/me/Tiny-GGUF/Q4_K_M")),
    ],
)
def test_names_of_ollamas(name: str, at: Path, ollamas: Path) -> None:
    manifest(ollamas, at, model=b"GGUF")
    assert ollama_file(name).read_bytes() == b"GGUF"


@pytest.mark.parametrize(
    "name", ["../x", "a/b/c/d", "a b", "-x", "a:b:c", "x/../y", "", "a\n", "/etc/passwd", "a:..", "x..y"]
)
def test_names_that_ollama_has_not(name: str, ollamas: Path) -> None:
    with pytest.raises(UsageError, match="names no model of ollama"):
        load_preset(f"ollama:{name}")


def test_ollama_without_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ModelError, match="ollama has no model absent") as caught:
        load_preset("ollama:absent")
    assert str(tmp_path / ".ollama" / "models" / "manifests") in caught.value.why
    assert "ollama pull absent" in caught.value.fix


def test_a_damaged_store_of_ollamas_and_models_that_are_no_single_file(ollamas: Path, tiny_gguf: Path) -> None:
    at = LIBRARY / "tiny" / "1b"
    text = (ollamas / "manifests" / at).read_text()
    digest = json.loads(text)["layers"][0]["digest"].removeprefix("sha256:")
    cases = [
        (text.replace(f"sha256:{digest}", "sha256:../../secret"), "cannot be used"),
        (text.replace(digest, "0" * 64), "is incomplete"),
        *((damaged, "cannot read") for damaged in ("{", "[]", '{"layers": [{}]}', '{"layers": 3}')),
        (manifest(ollamas, at, model=tiny_gguf.read_bytes(), adapter=b"x").read_text(), "adapter"),
        (manifest(ollamas, at, tensor=b"x").read_text(), "0 layers of the kind model"),
        (manifest(ollamas, at, model=b"GGUF").read_text(), "cut off"),
    ]
    for damaged, words in cases:
        (ollamas / "manifests" / at).write_text(damaged)
        with pytest.raises(ModelError) as caught:
            load_preset("ollama:tiny:1b")
        assert words in f"{caught.value.what} {caught.value.why}"
