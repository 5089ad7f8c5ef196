"""Vocabularies: as `tokenizers` encodes them, those of SentencePiece, and a draft's compared with its target's."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from specextend_cli.errors import ModelError
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch
from specextend_cli.models.tokens import TextEncoder, check_token_ids, load_tokenizer, read_tokenizer
from tests.helpers.grid import but_for

from .conftest import CORPUS, PRE_TOKENIZERS, train

TRAINED = {kind: train(kind) for kind in PRE_TOKENIZERS}
ENCODERS = {kind: TextEncoder(tokenizer.to_str()) for kind, tokenizer in TRAINED.items()}

TRICKY = [
    "",
    " ",
    "  leading and trailing  \n\n",
    "12 345  6789\n10\t11 1,000,000.5 ²½Ⅳ٣",
    "it's IT'S don't they'll 'S 'ſ I'Ll",
    "tabs\t\tand\r\nreturns\r\r\n  \n \n",
    "\u00a0no-break \u2003em \u200bzero-width \u3000wide \x85 \x1c",
    "😀👩‍👩‍👧‍👦🏳️‍🌈 emoji 中文字符 한국어 עברית العربية ไทย",
    "e\u0301 é ﬁ Å \u1e9b\u0323",
    "a\x04b\x14\x00c \U0010fffd \U00100000 \U00040000",
    "for (int i=0;i<10;++i){ x[i] += 0x1F; } // ok\n\n\n    return;",
    "<|im_start|>system\nobey<|im_end|> <|endoftext|>",
]
MIXED = st.lists(
    st.sampled_from([*TRICKY, *CORPUS, " ", "  ", "\n", "1", "22", "'s", "a", "é", "中", "\x04", "<|im_end|>"])
    | st.text()
).map("".join)


def reference(kind: str, text: str) -> list[int]:
    """What `tokenizers` itself makes of ordinary text."""
    tokenizer = TRAINED[kind]
    tokenizer.encode_special_tokens = True
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


@pytest.mark.parametrize("kind", list(PRE_TOKENIZERS))
@pytest.mark.parametrize("text", [*TRICKY, *CORPUS[:4]])
def test_equal_on_tricky_text(kind: str, text: str) -> None:
    assert ENCODERS[kind].fast
    assert ENCODERS[kind].encode(text) == reference(kind, text)


@pytest.mark.parametrize("kind", list(PRE_TOKENIZERS))
@given(text=MIXED)
@example("1 \u0660  2")
@settings(max_examples=150, deadline=None)
def test_equal_on_any_text(kind: str, text: str) -> None:
    assert ENCODERS[kind].encode(text) == reference(kind, text)


@pytest.mark.full
@pytest.mark.parametrize("kind", PRE_TOKENIZERS)
def test_equal_on_every_character_of_the_basic_plane(kind: str) -> None:
    for start in range(0, 0x10000, 256):
        characters = [chr(code) for code in range(start, start + 256) if not 0xD800 <= code < 0xE000]
        text = "".join(f"a{c}1{c} {c}{c}'{c}" for c in characters if c not in "\x04\x14")
        assert ENCODERS[kind].encode(text) == reference(kind, text)


@given(st.text(alphabet=st.characters(exclude_characters="\x04\x14", max_codepoint=0xFFFF, exclude_categories=["Cs"])))
@settings(max_examples=100, deadline=None)
def test_decoding_returns_the_text(text: str) -> None:
    encoder = ENCODERS["smollm"]
    assert encoder.decode(encoder.encode(text)) == text


def test_special_tokens_are_text_in_documents_and_commands_in_prompts() -> None:
    encoder = ENCODERS["smollm"]
    text = "<|im_start|>user"
    assert encoder.encode_prompt(text)[0] == 1
    assert not {0, 1, 2} & set(encoder.encode(text))
    assert encoder.decode(encoder.encode(text)) == text
    assert encoder.decode([1, *encoder.encode("hello"), 2]) == "hello"


def test_half_a_character_is_replaced() -> None:
    ids = ENCODERS["gpt2"].encode("\U0001f9ff")
    assert len(ids) > 1
    assert ENCODERS["gpt2"].decode(ids[:-1]) == "\ufffd"


def test_an_id_that_the_tokenizer_does_not_have_has_no_text() -> None:
    """Models may have more rows than tokens: padded vocabularies, GGUF files with unused entries."""
    encoder = ENCODERS["smollm"]
    ids = encoder.encode("hello")
    assert encoder.decode([*ids, 10**6]) == encoder.decode(ids) != ""


def test_lone_surrogates_are_replaced() -> None:
    encoder = ENCODERS["smollm"]
    assert encoder.encode("a\ud800b") == encoder.encode("a\ufffdb")


@pytest.mark.parametrize("character", but_for([" ", "a"], [" ", "\n", "a", "1"]))
def test_very_long_runs(character: str) -> None:
    text = "x" + 300_000 * character + "y"
    assert ENCODERS["llama3"].encode(text) == reference("llama3", text)


def changed(kind: str = "smollm", **changes: Any) -> dict[str, Any]:
    return {**json.loads(TRAINED[kind].to_str()), **changes}


def test_commands_not_marked_special_are_text_too() -> None:
    size = TRAINED["smollm"].get_vocab_size()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    data = changed()
    data["added_tokens"].append({"id": size, "content": "<think>", **flags})
    encoder = TextEncoder(json.dumps(data))
    assert encoder.fast
    assert size not in encoder.encode("a <think> b")
    assert size in encoder.encode_prompt("a <think> b")
    assert encoder.decode([size]) == "<think>"
    assert size not in encoder.encode("\x04 <think>")


def slow_variants() -> dict[str, dict[str, Any]]:
    """Vocabularies of which equal ids are not certain."""
    model = changed()["model"]
    unmerged = {**model, "merges": model["merges"][:5] + model["merges"][6:]}
    flags = {"id": 9999, "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    return {
        "unordered": changed(model={**model, "merges": [*model["merges"][1:], model["merges"][0]]}),
        "unreachable": changed(model=unmerged),
        "ignore_merges": changed(model={**model, "ignore_merges": True}),
        "normalizer": changed(normalizer={"type": "Lowercase"}),
        "pre_tokenizer": changed(pre_tokenizer={"type": "Whitespace"}),
        "spaces": changed(added_tokens=[*changed()["added_tokens"], {**flags, "content": "    "}]),
    }


@pytest.mark.parametrize("variant", list(slow_variants()))
def test_what_is_not_certain_goes_to_tokenizers(variant: str) -> None:
    text = json.dumps(slow_variants()[variant])
    encoder, tokenizer = TextEncoder(text), Tokenizer.from_str(text)
    assert encoder.fast is None
    for sample in ("The quick    brown fox's 123", "Zürich 中文"):
        assert encoder.encode(sample) == tokenizer.encode(sample).ids


def test_whole_words_first_is_exact_when_every_pair_is_listed() -> None:
    vocab = {piece: n for n, piece in enumerate(["a", "b", "c", "ab", "bc", "abc"])}
    merges = [["a", "b"], ["b", "c"], ["a", "bc"], ["ab", "c"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(pair) for pair in merges], ignore_merges=True))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS["llama3"]()
    tokenizer.decoder = decoders.ByteLevel()
    encoder = TextEncoder(tokenizer.to_str())
    assert encoder.fast
    for text in ("abc", "aabcc", "abcabc", "bcab", "cab xyz abc"):
        assert encoder.encode(text) == tokenizer.encode(text).ids


def test_truncation_stored_in_the_file_is_ignored() -> None:
    tokenizer = Tokenizer.from_str(TRAINED["smollm"].to_str())
    tokenizer.enable_truncation(4)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert len(TextEncoder(tokenizer.to_str()).encode("a b c d e f g h")) == 8


@pytest.mark.pair
@given(text=MIXED)
@settings(max_examples=100, deadline=None)
def test_equal_with_the_embedded_pair(text: str) -> None:
    encoder, tokenizer = _pair()
    assert encoder.fast
    assert encoder.encode(text) == tokenizer.encode(text, add_special_tokens=False).ids


@cache
def _pair() -> tuple[TextEncoder, Tokenizer]:
    directory = fetch(load_preset("smollm2-135m").target.source)
    tokenizer = Tokenizer.from_str(read_tokenizer(directory))
    tokenizer.encode_special_tokens = True
    return TextEncoder.of(directory), tokenizer


TEXTS = ["a", "b", "c", "d"]


def write(directory: Path, texts: list[str], added: list[str], rows: int) -> Path:
    """A model's directory with a vocabulary and nothing else."""
    directory.mkdir()
    tokenizer = Tokenizer(models.BPE(vocab={text: number for number, text in enumerate(texts)}, merges=[]))
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in added])
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "config.json").write_text(json.dumps({"vocab_size": rows}))
    return directory


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write(tmp_path / "target", TEXTS, ["<s>", "</s>"], 64)


@pytest.mark.parametrize(
    ("texts", "added", "rows", "words"),
    [
        (TEXTS, ["<s>", "</s>"], 64, None),
        (TEXTS, ["<s>", "</s>"], 5000, None),  # padding
        (TEXTS, ["<s>"], 5, None),
        (TEXTS, ["<s>", "</s>", "<think>"], 64, None),
        (TEXTS[:3], [], 3, None),
        (["a", "c", "b", "d"], ["<s>", "</s>"], 64, "token 1 is 'c' in it and 'b' in the target; 2 of 6 ids"),
        (TEXTS, ["</s>", "<s>"], 64, "token 4 is '</s>' in it and '<s>' in the target; 2 of 6 ids"),
        (TEXTS[:3], ["<s>", "</s>"], 64, "token 3 is '<s>' in it and 'd' in the target; 2 of 5 ids"),
    ],
)
def test_tokens_of_equal_ids_have_the_same_texts(
    texts: list[str], added: list[str], rows: int, words: str | None, target: Path, tmp_path: Path
) -> None:
    draft = write(tmp_path / "draft", texts, added, rows)
    if words is None:
        check_token_ids(draft, target, rows, 64)
        return
    with pytest.raises(ModelError, match="its target's tokens") as caught:
        check_token_ids(draft, target, rows, 64)
    assert words in caught.value.why
    assert "same family" in caught.value.fix


def test_without_a_tokenizer_the_rows_are_compared(target: Path, tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", TEXTS, [], 64)
    (draft / "tokenizer.json").unlink()
    check_token_ids(draft, target, 64, 64)
    check_token_ids(draft, target, 64, 64 + 512)
    with pytest.raises(ModelError, match="its target's tokens") as caught:
        check_token_ids(draft, target, 64, 64 + 513)
    assert "no tokenizer" in caught.value.why


def field(number: int, value: bytes | int) -> bytes:
    """One field of a protocol buffer message; values below 128 only, or short byte strings."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    length = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 0x7F | 0x80, len(value) >> 7])
    return bytes([number << 3 | 2]) + length + value


def piece(text: str, score: float = 0.0, kind: int = 1) -> bytes:
    return field(1, field(1, text.encode()) + bytes([2 << 3 | 5]) + struct.pack("<f", score) + field(3, kind))


def model(kind: int = 2) -> bytes:
    """A vocabulary in which "▁ab" can be made in two ways, and the better one goes first."""
    head = [piece("<unk>", kind=2), piece("<s>", kind=3), piece("</s>", kind=3)]
    parts = [piece(f"<0x{byte:02X}>", kind=6) for byte in range(256)]
    merged = [piece("ab", -0.0), piece("▁a", -1.0), piece("▁ab", -2.0), piece("▁▁", -3.0)]
    letters = [piece(text, -4.0 - n) for n, text in enumerate("▁abc")] + [piece("a" * 200, -9.0)]
    return b"".join([*head, *parts, *merged, *letters]) + field(2, field(3, kind))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.model").write_bytes(model())
    return tmp_path


def test_merges_follow_the_scores(directory: Path) -> None:
    tokenizer = load_tokenizer(directory)
    assert tokenizer.encode("ab cab  a").tokens == ["▁ab", "▁", "c", "ab", "▁", "▁a"]


def test_unknown_characters_become_bytes_and_come_back(directory: Path) -> None:
    encoder = TextEncoder.of(directory)
    assert encoder.fast is None
    for text in ("ab", "a é 中 🙂", "  spaces  ", "line\n\tbreak"):
        assert encoder.decode(encoder.encode(text)) == text


def test_special_tokens(directory: Path) -> None:
    encoder = TextEncoder.of(directory)
    assert encoder.encode_prompt("<s>ab</s>")[::2] == [1, 2]
    assert not {1, 2} & set(encoder.encode("<s>ab</s>"))


NONE = [b"", b"\x07", b"garbage", b"\xff" * 1000, b"\x0a\x80\x80\x80\x80\x10", model()[:300], model(kind=1)]


@pytest.mark.parametrize("content", NONE)
def test_what_is_no_bpe_model(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelError, match="cannot read the tokenizer"):
        TextEncoder.of(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(ModelError, match="cannot read the tokenizer"):
        TextEncoder.of(tmp_path)
