"""Encoding text with a model's vocabulary, without transformers, torch or a network.

A byte-level BPE vocabulary becomes a `tiktoken.Encoding`, several times faster than `tokenizers`, where both provably
give the same ids; other vocabularies, and the few texts on which the two might differ, are left to `tokenizers`.
Documents are text only: the spellings of special tokens in them are encoded as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

import tiktoken
from tokenizers import Tokenizer

from specextend_cli.errors import ModelError
from specextend_cli.models import sentencepiece_bpe
from specextend_cli.models.checkpoint import has_tokenizer, usable

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# GPT-2's pattern after a split at every digit: the spaces before a digit are a segment of their own.
_SMOLLM = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
# Combining marks belong to words.
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r" ?[^\s\p{L}\p{N}]", r" ?[^\s\p{L}\p{M}\p{N}]")
_KNOWN_SPLITS = {GPT2, LLAMA3, QWEN2, QWEN35}
"""Patterns that cover every text without gaps and that both regex engines read alike."""

_PADDING = 512  # rows: output layers are padded to round sizes
_LONG_SPACE = re.compile(r"\s{10000}")  # tiktoken's regex engine runs out of stack on very long runs of white space


class TextEncoder:
    """Text to token ids and back, for one model. `TextEncoder.of(directory)` takes a model directory."""

    def __init__(self, tokenizer_json: str) -> None:
        """From the contents of a tokenizer.json; ValueError where it is none."""
        data: dict[str, Any] = json.loads(tokenizer_json)
        self._json, self._with_special = tokenizer_json, _shared(tokenizer_json)
        pieces = _byte_pieces(data)
        self.special_tokens = tuple(token["content"] for token in data["added_tokens"] if token["content"].strip())
        """The spellings of special tokens, which `encode_prompt` encodes as such."""
        self._nfc = data["normalizer"] is not None
        self.fast = _encoding(data, pieces, self._with_special)
        """The vocabulary for tiktoken; None where `tokenizers` encodes."""
        self._text_only = None if self.fast else _without_special(tokenizer_json, data)
        self._known = b"".join(piece for piece in pieces.values() if len(piece) == 1)

    @classmethod
    def of(cls, directory: Path) -> TextEncoder:
        """Of a model in transformers' layout; ModelError where it has no readable tokenizer."""
        with _readable(directory):
            return cls(read_tokenizer(directory))

    def encode(self, text: str) -> list[int]:
        """The ids of text, special tokens spelled out; lone surrogates become U+FFFD."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            data = text.encode()
        if self.fast is None or data.translate(None, self._known) or _LONG_SPACE.search(text):
            self._text_only = self._text_only or _without_special(self._json, json.loads(self._json))
            return list(self._text_only.encode(text, add_special_tokens=False).ids)
        if self._nfc and not text.isascii():
            text = self._with_special.normalizer.normalize_str(text)
        return self.fast.encode_ordinary(text)

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a rendered chat template, in which the spellings of special tokens are special tokens.

        Not for documents, which go through `encode`.
        """
        return list(self._with_special.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out. Incomplete characters become U+FFFD.

        An id that the tokenizer does not have has no text: models may have more rows than tokens.
        """
        return str(self._with_special.decode(list(ids), skip_special_tokens=True))


def load_tokenizer(directory: Path) -> Tokenizer:
    """The model's `tokenizers.Tokenizer`, special tokens included; ModelError where it has no readable tokenizer."""
    with _readable(directory):
        return _shared(read_tokenizer(directory))


def read_tokenizer(directory: Path) -> str:
    """The contents of the model's tokenizer.json, converted from its tokenizer.model if there is no other."""
    file, model = directory / "tokenizer.json", directory / "tokenizer.model"
    if model.is_file() and not file.is_file():
        return sentencepiece_bpe.tokenizer_json(model.read_bytes())
    return file.read_text(encoding="utf-8")


def _readable(directory: Path) -> AbstractContextManager[None]:
    fix = "save or fetch the model again, with its tokenizer.json"
    return usable(f"cannot read the tokenizer in {directory}", fix=fix)


def parse_tokenizer(tokenizer_json: str) -> Tokenizer:
    """The `tokenizers` object of a tokenizer.json, never truncating or padding; ValueError where it is none."""
    try:
        tokenizer = Tokenizer.from_str(tokenizer_json)
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"not a tokenizer.json: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


_shared = lru_cache(maxsize=2)(parse_tokenizer)  # it takes 0.1 s, and a run needs the same vocabulary twice


def _without_special(tokenizer_json: str, data: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a tokenizer.json and its `data`, for which spellings of special tokens are text.

    Those marked special are disabled; added tokens such as `<think>`, which act as special tokens and are not marked as
    such, are left out. Those that are text stay.
    """
    added = data["added_tokens"]
    kept = [token for token in added if token["special"] or _is_text(token)]
    tokenizer = parse_tokenizer(
        tokenizer_json if len(kept) == len(added) else json.dumps({**data, "added_tokens": kept})
    )
    tokenizer.encode_special_tokens = True
    return tokenizer


def _is_text(token: dict[str, Any]) -> bool:
    """Whether an added token spells no instruction: a run of white space, or one character (DeepSeek's umlauts)."""
    return len(token["content"].strip()) <= 1


def _byte_pieces(data: dict[str, Any]) -> dict[int, bytes]:
    """id -> bytes of a byte-level vocabulary, which writes every byte as a printable character; else empty."""
    if (data["decoder"] or {}).get("type") != "ByteLevel" or data["model"]["type"] != "BPE":
        return {}
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable} | {256 + n: chr(byte) for n, byte in enumerate(others)}
    special = {token["id"] for token in data["added_tokens"]}
    try:
        return {
            number: token.translate(table).encode("latin-1")
            for token, number in data["model"]["vocab"].items()
            if number not in special
        }
    except UnicodeEncodeError:  # a token that is not made of bytes
        return {}


def _encoding(data: dict[str, Any], pieces: dict[int, bytes], tokenizer: Tokenizer) -> tiktoken.Encoding | None:
    """The same vocabulary for tiktoken, or None where equal ids are not certain."""
    model = data["model"]
    pattern = _pattern(data["pre_tokenizer"] or {})
    plain = not any(
        model.get(key) for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    )
    added = any(_is_text(token) for token in data["added_tokens"])
    if not pieces or pattern is None or not plain or added or data["normalizer"] not in (None, {"type": "NFC"}):
        return None
    ranks = _ranks(model, pieces, tokenizer)
    if ranks is None:
        return None
    return tiktoken.Encoding("target", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def _pattern(pre_tokenizer: dict[str, Any]) -> str | None:
    """The regular expression of a known pre-tokenizer, else None."""
    match pre_tokenizer:
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}:
            return GPT2
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            ],
        }:
            return _SMOLLM
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": str(regex)}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            ],
        } if regex in _KNOWN_SPLITS:
            return regex
    return None


def _ranks(model: dict[str, Any], pieces: dict[int, bytes], tokenizer: Tokenizer) -> dict[bytes, int] | None:
    """Bytes -> id for tiktoken, which merges by the rank of the *result*, whatever pair it is made of.

    `tokenizers` merges listed *pairs* in the order of the list. Within the span of a token both do the same as on the
    token alone, since no merge crosses the span's ends. So they agree if the ids follow the order of the list and each
    token, encoded alone, is one token: then the last pair merged in it is a listed one. Vocabularies that look up whole
    words first (`ignore_merges`) cannot be tested so; they agree if they list every pair that makes a token.
    """
    vocab = model["vocab"]
    ranks = {piece: number for number, piece in pieces.items() if len(piece) == 1}
    latest = max(ranks.values(), default=-1)
    for merge in model["merges"]:
        left, right = merge if isinstance(merge, list) else merge.split(" ")
        number = vocab[left + right]
        if number < latest:
            return None
        latest = number
        ranks[pieces[number]] = number
    if model.get("ignore_merges"):
        pairs = sum(piece[:cut] in ranks and piece[cut:] in ranks for piece in ranks for cut in range(1, len(piece)))
        return ranks if len(ranks) == len(pieces) and pairs == len(model["merges"]) else None
    whole = (len(tokenizer.model.tokenize(token)) == 1 for token, number in vocab.items() if number in pieces)
    return ranks if all(whole) else None


def check_token_ids(draft: Path, target: Path, rows: int, vocabulary: int) -> None:
    """ModelError unless every id that both models have is the same token, added ones included.

    Either may have more tokens, or rows of padding. Where one of the two directories holds no tokenizer, the draft's
    `rows` and the target's `vocabulary` must be of about the same number.
    """
    if not (has_tokenizer(draft) and has_tokenizer(target)):
        if abs(rows - vocabulary) > _PADDING:
            raise _other_tokens(draft, f"it has {rows} tokens, the target {vocabulary}, and no tokenizer to compare")
        return
    tokenizers = load_tokenizer(draft), load_tokenizer(target)
    if tokenizers[0] is tokenizers[1]:  # the files are equal
        return
    theirs, ours = ({number: text for text, number in each.get_vocab().items()} for each in tokenizers)
    shared = theirs.keys() & ours.keys()
    differing = sorted(number for number in shared if theirs[number] != ours[number])
    if differing or not shared:
        example = differing[0] if differing else 0
        raise _other_tokens(
            draft,
            f"token {example} is {theirs.get(example)!r:.60} in it and {ours.get(example)!r:.60} in the target; "
            f"{len(differing):,} of {len(shared):,} ids differ",
        )


def _other_tokens(draft: Path, why: str) -> ModelError:
    return ModelError(
        f"the draft in {draft} cannot write its target's tokens",
        why=why,
        fix="choose a draft of the same family: specextend models list",
    )
