"""Tokenizers written into GGUF files and read again encode as the originals."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from specextend_cli.models.gguf.file import Gguf
from specextend_cli.models.gguf.tokenizer import special_ids, tokenizer_of
from specextend_cli.models.tokens import TextEncoder
from tests.helpers import gguf_writer

from .conftest import CORPUS, PRE_TOKENIZERS, SPECIALS, train

# As in the tokenizer.json of Mistral Nemo and of GPT-4o.
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "It's 1931.\n\n  40,000 xX",
    "<|im_start|>user\nHello<|im_end|>",
    *CORPUS[:4],
    "HTTPServer WE'LL    \n\n\t// 12345 Ünïcödé e\u0301 \u212b",
    "  three   spaces\r\n",
]
NAMES = {"smollm": "smollm", "gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2"}


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def facts_of(tokenizer: Tokenizer, file: Path, pre: str) -> dict[str, object]:
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
    assert TextEncoder(found.to_str()).is_fast or kind == "llama3"


def test_tekken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRE_TOKENIZERS, "tekken", lambda: split(TEKKEN))
    original = train("tekken")
    found = tokenizer_of(facts_of(original, tmp_path / "t.gguf", "tekken"))
    assert json.loads(found.to_str())["model"]["ignore_merges"]
    for text in TEXTS:
        assert found.encode(text).ids == original.encode(text).ids
    assert [piece for piece, _ in found.pre_tokenizer.pre_tokenize_str("HTTPServer's 123")] == [
        *("HTTPServer", "'s", "Ġ", "1", "2", "3")
    ]


def test_gpt_4o_splits_as_published(tmp_path: Path) -> None:
    found = tokenizer_of(facts_of(train("gpt2"), tmp_path / "t.gguf", "gpt-4o"))
    pieces = [piece for piece, _ in found.pre_tokenizer.pre_tokenize_str("It's HTTPServer 12345\n  a/b//\n")]
    assert pieces == ["It's", "ĠHTTPServer", "Ġ", "123", "45", "Ċ", "Ġ", "Ġa", "/b", "//Ċ"]


def test_added_tokens_and_a_padded_vocabulary(tmp_path: Path) -> None:
    facts = facts_of(train("qwen2"), tmp_path / "t.gguf", "qwen2")
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(types, list)
    tokens += ["<think>", "[PAD1]", "[PAD2]"]
    types += [4, 5, 5]
    found = tokenizer_of(facts)
    assert found.encode("a<think>b").ids[1] == len(tokens) - 3
    assert found.get_vocab_size() == len(tokens) - 2
    encoder = TextEncoder(found.to_str())
    assert encoder.is_fast
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


def sentencepiece(prefix: bool) -> tuple[Tokenizer, dict[str, object]]:
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
    tokens = sorted(original.get_vocab(), key=original.get_vocab().__getitem__)
    types = [2, 3, 3, 3, *[6] * 256, *[1] * (len(tokens) - 260)]
    facts = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(number) for number in range(len(tokens))],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.add_space_prefix": prefix,
    }
    return original, facts


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "phi3"])
def test_sentencepiece_vocabularies(architecture: str) -> None:
    original, facts = sentencepiece(prefix=architecture != "gemma3")
    facts["general.architecture"] = architecture
    if architecture == "gemma3":  # whose scores say nothing
        facts["tokenizer.ggml.scores"] = [0.0] * len(facts["tokenizer.ggml.tokens"])  # type: ignore[arg-type]
    found = tokenizer_of(facts)
    for text in ["It's 1931. \u212b 🙂", *CORPUS[:4], "a</s>b", "  two"]:
        assert found.encode(text).ids == original.encode(text).ids
        assert found.decode(found.encode(text).ids) == original.decode(original.encode(text).ids)
    end = original.token_to_id("<|end|>")
    behind = found.encode("a<|end|>\nb").ids
    newline = found.token_to_id("<0x0A>")
    assert end in behind
    assert (newline in behind or found.token_to_id("\n") in behind) == (architecture != "phi3")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("tokenizer.ggml.model", "bert", "kind bert"),
        ("tokenizer.ggml.tokens", [], "0 tokens"),
        ("tokenizer.ggml.tokens", ["a"] * 450, "450 tokens"),
        ("tokenizer.ggml.merges", ["a b c"], "not of two tokens"),
        ("tokenizer.ggml.merges", ["nowhere never"], "not a vocabulary"),
    ],
)
def test_damaged_vocabularies(key: str, value: object, why: str, tmp_path: Path, smollm: Tokenizer) -> None:
    facts = facts_of(smollm, tmp_path / "t.gguf", "smollm") | {key: value}
    with pytest.raises(ValueError, match=why):
        tokenizer_of(facts)


def test_equal_tokens_and_no_pre_tokenizer(tmp_path: Path, smollm: Tokenizer) -> None:
    facts = facts_of(smollm, tmp_path / "t.gguf", "smollm")
    with pytest.raises(ValueError, match="are equal"):
        tokenizer_of({**facts, "tokenizer.ggml.tokens": ["a"] * smollm.get_vocab_size()})
    del facts["tokenizer.ggml.pre"]
    with pytest.raises(ValueError, match="pre-tokenizer is default"):
        tokenizer_of(facts)
    assert SPECIALS[0] in smollm.get_vocab()
