"""The tokenizer in a GGUF file: byte-level BPE, which splits text by the name of its pre-tokenizer, or SentencePiece.

The regular expressions are those of the models' own tokenizer.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

from specextend_cli.models.sentencepiece_bpe import Kind, bpe, from_pieces
from specextend_cli.models.tokens import GPT2, LLAMA3, QWEN2, QWEN35

_UNUSED = 5  # GGUF's token types are SentencePiece's
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>")
"""Control tokens that end an answer where the file names only the one that ends a text."""

_DIGIT = r"\p{N}"
_LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_CAPITALS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_FIRST, _SHORT = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_TEKKEN = rf"{_FIRST}{_LETTERS}|{_FIRST}{_CAPITALS}|\p{{N}}|{_REST}"
_GPT4O = rf"{_FIRST}{_LETTERS}{_SHORT}|{_FIRST}{_CAPITALS}{_SHORT}|\p{{N}}{{1,3}}|{_REST}"
_SEED_CODER = QWEN2.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")
_UNNAMED = (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")
"""What llama.cpp takes where a file names none, as those of its first years do."""


@dataclass(frozen=True)
class Splitting:
    """`patterns`: their matches become parts, the first one's of the text, each further one's of the parts so far.

    `whole_words`: a part that is a token is not merged. `nfc`: text is composed first.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    nfc: bool = False

    @property
    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """The splits, then bytes as printable characters."""
        *first, last = self.patterns
        if last != GPT2:  # which the conversion to bytes has built in
            first.append(last)
        steps = [
            pre_tokenizers.Digits(individual_digits=True)
            if pattern == _DIGIT
            else pre_tokenizers.Split(Regex(pattern), behavior="isolated")
            for pattern in first
        ]
        by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=last == GPT2)
        return pre_tokenizers.Sequence([*steps, by_bytes]) if steps else by_bytes


SPLITTINGS = {
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0"), Splitting((LLAMA3,), whole_words=True)
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe"), Splitting((LLAMA3,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), Splitting((QWEN2,), nfc=True)),
    **dict.fromkeys(("kormo", "megrez"), Splitting((QWEN2,))),
    "qwen35": Splitting((QWEN35,), nfc=True),
    "seed-coder": Splitting((_SEED_CODER,)),
    "tekken": Splitting((_TEKKEN,), whole_words=True),
    **dict.fromkeys(("gpt-4o", "kanana2"), Splitting((_GPT4O,))),
    **dict.fromkeys(("smollm", "refact", "starcoder", "command-r", "minerva-7b"), Splitting((_DIGIT, GPT2))),
    **dict.fromkeys(("gpt-2", "phi-2", "a.x-4.0", "mellum", "trillion", "granite-docling"), Splitting((GPT2,))),
    "default": Splitting(_UNNAMED),
}
"""By `tokenizer.ggml.pre`."""


def special_ids(facts: dict[str, Any]) -> dict[str, int | list[int]]:
    """bos_token_id, eos_token_id (all that end an answer) and pad_token_id, as far as the file has them."""
    tokens = facts["tokenizer.ggml.tokens"]
    pairs = zip(tokens, facts["tokenizer.ggml.token_type"], strict=False)
    ends = [number for name in ("eos", "eot", "eom") for number in _named(facts, name)]
    if not any(tokens[number] in _TURN_ENDS for number in ends):
        ends += [n for n, (token, kind) in enumerate(pairs) if token in _TURN_ENDS and kind == Kind.CONTROL]
    found = {"bos": _named(facts, "bos"), "eos": list(dict.fromkeys(ends)), "pad": _named(facts, "padding")}
    return {f"{name}_token_id": ids if len(ids) > 1 else ids[0] for name, ids in found.items() if ids}


def _named(facts: dict[str, Any], name: str) -> list[int]:
    """The id of the token that is named so; empty where the file names none, or one that it has not."""
    value = facts.get(f"tokenizer.ggml.{name}_token_id")
    return [value] if isinstance(value, int) and 0 <= value < len(facts["tokenizer.ggml.tokens"]) else []


def tokenizer_of(facts: dict[str, Any]) -> Tokenizer:
    """The tokenizer. ValueError, LookupError: it is of an unknown kind, or damaged."""
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    if len(tokens) != len(types) or not tokens:
        raise ValueError(f"it has {len(tokens)} tokens and {len(types)} types of them")
    used = max((n for n, kind in enumerate(types) if kind != _UNUSED), default=-1) + 1  # the others pad the vocabulary
    tokens, types = tokens[:used], types[:used]
    if len(set(tokens)) != len(tokens):
        raise ValueError("some of its tokens are equal")
    if (kind := facts["tokenizer.ggml.model"]) == "gpt2":
        return _byte_level(facts, tokens, types)
    if kind == "llama":
        return _sentencepiece(facts, tokens, types)
    raise ValueError(f"its vocabulary is of the kind {kind!s:.40}, neither byte-level BPE nor SentencePiece")


def tokenizer_config(facts: dict[str, Any]) -> dict[str, Any]:
    """The contents of a tokenizer_config.json that chat templates need."""
    tokens, ids = facts["tokenizer.ggml.tokens"], special_ids(facts)
    ids = {name: number[0] if isinstance(number, list) else number for name, number in ids.items()}
    return {
        "chat_template": facts.get("tokenizer.chat_template", ""),
        **{key.removesuffix("_id"): tokens[number] for key, number in ids.items()},
    }


def _byte_level(facts: dict[str, Any], tokens: list[str], types: list[int]) -> Tokenizer:
    """There is no unknown token: bytes outside the vocabulary (control characters, unassigned planes) are dropped."""
    if (splitting := SPLITTINGS.get(pre := facts.get("tokenizer.ggml.pre") or "default")) is None:
        raise ValueError(f"its pre-tokenizer {pre!s:.40} splits text in a way that this program does not know")
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    if any(len(merge) != 2 for merge in merges):
        raise ValueError("its merges are not of two tokens each")
    tokenizer = bpe(
        {token: number for number, token in enumerate(tokens)},
        [(left, right) for left, right in merges],
        special=[token for token, kind in zip(tokens, types, strict=True) if kind == Kind.CONTROL],
        added=[token for token, kind in zip(tokens, types, strict=True) if kind == Kind.USER_DEFINED],
        ignore_merges=splitting.whole_words,
    )
    tokenizer.pre_tokenizer = splitting.pre_tokenizer
    if splitting.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(facts: dict[str, Any], tokens: list[str], types: list[int]) -> Tokenizer:
    architecture, scores = facts["general.architecture"], facts["tokenizer.ggml.scores"][: len(tokens)]
    if architecture.startswith("gemma"):  # merges in the order of its tokens
        scores = [-number for number in range(len(tokens))]
    strip: tuple[str, ...] = ()
    if architecture == "phi3":  # its control tokens take the white space behind them; the file does not say so
        stays = ("<unk>", "<s>", "<|endoftext|>")
        strip = tuple(t for t, kind in zip(tokens, types, strict=True) if kind == Kind.CONTROL and t not in stays)
    # llama.cpp's converter writes every special token as a control token, <unk> too, and says which one that is.
    unknown = next((tokens[number] for number in _named(facts, "unknown") if number < len(tokens)), None)
    return from_pieces(
        list(zip(tokens, scores, types, strict=True)),
        unknown=unknown,
        prefix_space=bool(facts.get("tokenizer.ggml.add_space_prefix", True)),
        strip=strip,
    )
