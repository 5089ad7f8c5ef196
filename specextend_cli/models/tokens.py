"""Encoding text with a model's vocabulary, without transformers, torch or a network.

Documents are text only: the spellings of special tokens in them are encoded as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from specextend_cli.errors import ModelError
from specextend_cli.models import sentencepiece_bpe
from specextend_cli.models.checkpoint import has_tokenizer

_PADDING = 512  # rows: output layers are padded to round sizes


class TextEncoder:
    """Text to token ids and back, for one model. `TextEncoder.of(directory)` takes a model directory."""

    def __init__(self, tokenizer_json: str) -> None:
        """From the contents of a tokenizer.json; ValueError where it is none."""
        self._tokenizer, self._text_only = _shared(tokenizer_json), _without_special(tokenizer_json)
        added = self._tokenizer.get_added_tokens_decoder().values()
        self.special_tokens = tuple(token.content for token in added if token.content.strip())
        """The spellings of special tokens, which `encode_prompt` encodes as such."""

    @classmethod
    def of(cls, directory: Path) -> TextEncoder:
        """Of a model in transformers' layout; ModelError where it has no readable tokenizer."""
        with _readable(directory):
            return cls(read_tokenizer(directory))

    def encode(self, text: str) -> list[int]:
        """The ids of text, special tokens spelled out; lone surrogates become U+FFFD."""
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return list(self._text_only.encode(text, add_special_tokens=False).ids)

    def count(self, text: str) -> int:
        """How many tokens `encode(text)` has."""
        return len(self.encode(text))

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a rendered chat template, in which the spellings of special tokens are special tokens.

        Not for documents, which go through `encode`.
        """
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out. Incomplete characters become U+FFFD.

        An id that the tokenizer does not have has no text: models may have more rows than tokens.
        """
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


def load_tokenizer(directory: Path) -> Tokenizer:
    """The model's `tokenizers.Tokenizer`, special tokens included; ModelError where it has no readable tokenizer."""
    with _readable(directory):
        return _shared(read_tokenizer(directory))


@lru_cache(maxsize=2)  # parsing a vocabulary takes 0.1 s, and a run needs the same one twice
def _shared(tokenizer_json: str) -> Tokenizer:
    return parse_tokenizer(tokenizer_json)


def read_tokenizer(directory: Path) -> str:
    """The contents of the model's tokenizer.json, converted from its tokenizer.model if there is no other."""
    file, model = directory / "tokenizer.json", directory / "tokenizer.model"
    if model.is_file() and not file.is_file():
        return sentencepiece_bpe.tokenizer_json(model.read_bytes())
    return file.read_text(encoding="utf-8")


@contextmanager
def _readable(directory: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"cannot read the tokenizer in {directory}", why=f"{type(error).__name__}: {error}") from error


def parse_tokenizer(tokenizer_json: str) -> Tokenizer:
    """The `tokenizers` object of a tokenizer.json, never truncating or padding; ValueError where it is none."""
    try:
        tokenizer = Tokenizer.from_str(tokenizer_json)
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"not a tokenizer.json: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _without_special(tokenizer_json: str) -> Tokenizer:
    """The tokenizer of a tokenizer.json, for which spellings of special tokens are text.

    So are those of added tokens such as `<think>`, which act as special tokens and are not marked as such. Those that
    are text stay.
    """
    tokenizer = parse_tokenizer(tokenizer_json)
    added = tokenizer.get_added_tokens_decoder().values()
    commands = [token.content for token in added if not token.special and not _is_text(token.content)]
    tokenizer.add_special_tokens([AddedToken(content, special=True) for content in commands])
    tokenizer.encode_special_tokens = True
    return tokenizer


def _is_text(added: str) -> bool:
    """Whether an added token spells no instruction: a run of white space, or one character (DeepSeek's letters)."""
    return len(added.strip()) <= 1


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
