"""Tokenizers written into GGUF files and read again encode as the originals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from specextend_cli.models.gguf.file import Gguf
from specextend_cli.models.gguf.tokenizer import special_ids, tokenizer_of
from specextend_cli.models.tokens import TextEncoder
from tests.helpers import gguf_writer

from .conftest import CORPUS, train
from .test_gguf_files import rewritten

TEXTS = [
    "It's 1931.\n\n  40,000 xX",
    "<|im_start|>user\nHello<|im_end|>",
    *CORPUS[:4],
    "HTTPServer WE'LL    \n\n\t// 12345 Ünïcödé e\u0301 \u212b",
    "  three   spaces\r\n",
]
NAMES = {"smollm": "smollm", "gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2"}


def facts_of(tokenizer: Tokenizer, file: Path, pre: str) -> dict[str, Any]:
    """The metadata of a file with that byte-level vocabulary, one token added that is not special."""
    writer = gguf.GGUFWriter(file, "llama")
    gguf_writer.add_tokenizer(writer, tokenizer, pre)
    gguf_writer.finish(writer)
    return Gguf.read(file).facts


@pytest.mark.parametrize("kind", NAMES)
def test_byte_level_vocabularies(kind: str, tmp_path: Path) -> None:
    original = train(kind)
    found = tokenizer_of(facts_of(original, tmp_path / "t.gguf", NAMES[kind]))
    for text in TEXTS:
        assert found.encode(text).ids == original.encode(text).ids
        assert found.decode(original.encode(text).ids) == original.decode(original.encode(text).ids)
    assert TextEncoder(found.to_str()).fast or kind == "llama3"


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("qwen35", "(क्या 12!)\n", "(क्या| |1|2|!)\n"),  # marks of vowels stay in their word
        ("kormo", "it's (x 12", "it|'s| (|x| |1|2"),
        ("megrez", "it's (x 12", "it|'s| (|x| |1|2"),
        ("midm-2.0", "it's 12345", "it|'s| |123|45"),
        ("kanana2", "HTTPServer's 12345", "HTTPServer's| |123|45"),
        ("a.x-4.0", "it's x12345  a/b", "it|'s| x|12345| | a|/|b"),
        ("default", "it's $12345.6 <a>", "it|'|s| |$|123|45|.|6| |<|a|>"),
        (None, "it's $12345.6 <a>", "it|'|s| |$|123|45|.|6| |<|a|>"),
        ("seed-coder", "a;\n b 12", "a|;|\n| b| |1|2"),
        ("tekken", "HTTPServer's 123", "HTTPServer|'s| |1|2|3"),
        ("gpt-4o", "It's HTTPServer 12345\n  a/b//\n", "It's| HTTPServer| |123|45|\n| | a|/b|//\n"),
    ],
)
def test_pre_tokenizers_split_as_published(pre: str | None, text: str, pieces: str, tmp_path: Path) -> None:
    """As llama.cpp splits at the same regular expressions, one after the other."""
    found = tokenizer_of({**facts_of(train("gpt2"), tmp_path / "t.gguf", "gpt-2"), "tokenizer.ggml.pre": pre})
    if found.normalizer is not None:
        text = found.normalizer.normalize_str(text)
    spans = [span for _, span in found.pre_tokenizer.pre_tokenize_str(text)]
    assert "|".join(text[start:end] for start, end in spans) == pieces
    encoder = TextEncoder(found.to_str())
    for text in TEXTS:
        assert encoder.encode(text) == found.encode(text, add_special_tokens=False).ids or "<|" in text


def test_an_added_letter_is_text(tmp_path: Path) -> None:
    """As some of DeepSeek's are."""
    facts = facts_of(train("gpt2"), tmp_path / "t.gguf", "gpt-2")
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    tokens += ["Ω", "<think>"]
    types += [4, 4]
    encoder = TextEncoder(tokenizer_of(facts).to_str())
    ids = encoder.encode("5 kΩ <think>")
    assert len(tokens) - 2 in ids
    assert len(tokens) - 1 not in ids
    assert encoder.decode(ids) == "5 kΩ <think>"


def test_added_tokens_and_a_padded_vocabulary(tmp_path: Path) -> None:
    facts = facts_of(train("qwen2"), tmp_path / "t.gguf", "qwen2")
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    tokens += ["<think>", "[PAD1]", "[PAD2]"]
    types += [4, 5, 5]
    found = tokenizer_of(facts)
    assert found.encode("a<think>b").ids[1] == len(tokens) - 3
    assert found.get_vocab_size() == len(tokens) - 2
    encoder = TextEncoder(found.to_str())
    assert encoder.fast
    assert len(tokens) - 3 not in encoder.encode("a<think>b")


def test_tokens_that_end_an_answer() -> None:
    facts = {"tokenizer.ggml.tokens": ["<eos>", "a", "<end_of_turn>", "<|end|>"]}
    facts |= {"tokenizer.ggml.token_type": [3, 1, 3, 1], "tokenizer.ggml.eos_token_id": 0}
    assert special_ids(facts) == {"eos_token_id": [0, 2]}
    assert special_ids(facts | {"tokenizer.ggml.eos_token_id": 2}) == {"eos_token_id": 2}
    assert special_ids(facts | {"tokenizer.ggml.eot_token_id": 1}) == {"eos_token_id": [0, 1, 2]}
    assert special_ids(facts | {"tokenizer.ggml.bos_token_id": 4, "tokenizer.ggml.padding_token_id": 1}) == {
        "eos_token_id": [0, 2],
        "pad_token_id": 1,
    }


def sentencepiece(prefix: bool) -> tuple[Tokenizer, dict[str, Any]]:
    """A BPE as SentencePiece has it, and the fields of a file with it: pieces with falling scores."""
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.normalizer = normalizers.Sequence(
        [*([normalizers.Prepend("▁")] if prefix else []), normalizers.Replace(" ", "▁")]
    )
    trained.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(" ", 1, 0)] if prefix else [])
    )
    control = ["<unk>", "<s>", "</s>", "<|end|>"]
    special = control + [f"<0x{byte:02X}>" for byte in range(256)]
    # Split at spaces while training, as SentencePiece does: no piece has a space inside.
    trained.pre_tokenizer = pre_tokenizers.Split("▁", behavior="merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    trained.train_from_iterator(CORPUS, trainer)
    data = json.loads(trained.to_str())
    data["pre_tokenizer"], data["added_tokens"] = None, []
    original = Tokenizer.from_str(json.dumps(data))
    original.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    original.add_tokens([AddedToken("   ", normalized=False)])  # as Gemma 3 has runs of spaces
    tokens = sorted(original.get_vocab(), key=original.get_vocab().__getitem__)
    types = [2, 3, 3, 3, *[6] * 256, *[1] * (len(tokens) - 261), 4]
    facts = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(number) for number in range(len(tokens))],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.add_space_prefix": prefix,
    }
    return original, facts


@pytest.mark.parametrize("unknown", ["of its own kind", "control, named", "control"])
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "phi3"])
def test_sentencepiece_vocabularies(architecture: str, unknown: str, tiny_gguf: Path, tmp_path: Path) -> None:
    """llama.cpp's converter writes the unknown token of Gemma 3 and Llama 2 as a control token."""
    original, facts = sentencepiece(prefix=architecture != "gemma3")
    facts["general.architecture"] = architecture
    if architecture == "gemma3":  # whose scores say nothing
        facts["tokenizer.ggml.scores"] = [0.0] * len(facts["tokenizer.ggml.tokens"])
    if unknown != "of its own kind":
        facts["tokenizer.ggml.token_type"][0] = 3
    if unknown == "control, named":
        facts["tokenizer.ggml.unknown_token_id"] = 0
    changed = {key.replace(".", "__"): value for key, value in facts.items()}
    found = tokenizer_of(Gguf.read(rewritten(tiny_gguf, tmp_path / "t.gguf", **changed)).facts)
    assert found.model.unk_token == (None if unknown == "control" else "<unk>")
    assert found.token_to_id("   ") in found.encode("a   b").ids
    for text in ["It's 1931. \u212b 🙂", *CORPUS[:4], "a</s>b", "  two", "\x00", "a   b"]:
        assert found.encode(text).ids == original.encode(text).ids
        assert found.decode(found.encode(text).ids) == original.decode(original.encode(text).ids)
        assert TextEncoder(found.to_str()).encode(text) == TextEncoder(original.to_str()).encode(text)
    behind = found.encode("a<|end|>\nb").ids
    assert original.token_to_id("<|end|>") in behind
    newlines = {found.token_to_id("<0x0A>"), found.token_to_id("\n")}
    assert bool(newlines & {*behind}) == (architecture != "phi3")


def test_unknown_characters_without_bytes_or_an_unknown_token() -> None:
    _, facts = sentencepiece(prefix=True)
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    types[0], tokens[100] = 3, "<byte 0x60>"
    with pytest.raises(ValueError, match="neither an unknown token nor one for every byte"):
        tokenizer_of(facts)
    assert tokenizer_of({**facts, "tokenizer.ggml.unknown_token_id": 0}).model.unk_token == "<unk>"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("tokenizer.ggml.model", "bert", "kind bert"),
        ("tokenizer.ggml.tokens", [], "0 tokens"),
        ("tokenizer.ggml.tokens", ["a"] * 448, "are equal"),
        ("tokenizer.ggml.pre", "chameleon", "pre-tokenizer chameleon splits text in a way"),
        ("tokenizer.ggml.tokens", ["a"] * 450, "450 tokens"),
        ("tokenizer.ggml.merges", ["a b c"], "not of two tokens"),
        ("tokenizer.ggml.merges", ["nowhere never"], "not a vocabulary"),
    ],
)
def test_damaged_vocabularies(key: str, value: object, why: str, tmp_path: Path, smollm: Tokenizer) -> None:
    facts = facts_of(smollm, tmp_path / "t.gguf", "smollm") | {key: value}
    with pytest.raises(ValueError, match=why):
        tokenizer_of(facts)
