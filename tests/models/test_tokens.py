from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from specextend_cli.models.tokens import TextEncoder

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
@given(text=MIXED)
@settings(max_examples=50, deadline=None)
def test_text_is_encoded_as_the_library_does(kind: str, text: str) -> None:
    assert ENCODERS[kind].encode(text) == reference(kind, text)
    assert ENCODERS[kind].count(text) == len(reference(kind, text))


@given(st.text(alphabet=st.characters(exclude_characters="\x04\x14", max_codepoint=0xFFFF, exclude_categories=["Cs"])))
@settings(max_examples=50, deadline=None)
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
    assert encoder.decode([*ids, 10**6]) == encoder.decode(ids) == "hello"


def test_lone_surrogates_are_replaced() -> None:
    encoder = ENCODERS["smollm"]
    assert encoder.encode("a\ud800b") == encoder.encode("a\ufffdb")


def with_added(content: str, **flags: bool) -> tuple[TextEncoder, int]:
    """A vocabulary with one token more, which is not marked special; and its id."""
    data = json.loads(TRAINED["smollm"].to_str())
    number = TRAINED["smollm"].get_vocab_size()
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    data["added_tokens"].append({"id": number, "content": content, **usual, **flags})
    return TextEncoder(json.dumps(data)), number


@pytest.mark.parametrize("normalized", [False, True])
def test_commands_not_marked_special_are_text_too(normalized: bool) -> None:
    encoder, number = with_added("<think>", normalized=normalized)
    assert encoder.encode("a <think> b") == ENCODERS["smollm"].encode("a <think> b")
    assert number in encoder.encode_prompt("a <think> b")
    assert "<think>" in encoder.special_tokens
    assert encoder.decode([number]) == "<think>"


def test_added_tokens_that_are_text_stay() -> None:
    encoder, number = with_added("    ")
    assert number in encoder.encode("a    b")


def test_truncation_stored_in_the_file_is_ignored() -> None:
    tokenizer = Tokenizer.from_str(TRAINED["smollm"].to_str())
    tokenizer.enable_truncation(4)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert TextEncoder(tokenizer.to_str()).count("a b c d e f g h") == 8
