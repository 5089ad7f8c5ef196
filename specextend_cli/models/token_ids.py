"""Whether the token ids of a draft mean what they mean to its target: by the tokens' texts, not by their number."""

from __future__ import annotations

from pathlib import Path

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import has_tokenizer, read_settings
from specextend_cli.models.text_part import text_settings
from specextend_cli.models.tokens import load_tokenizer

_PADDING = 512  # rows: output layers are padded to round sizes


def check_token_ids(draft: Path, target: Path, vocabulary: int) -> None:
    """ModelError unless every id that both models have is the same token, added ones included.

    Either may have more tokens, or rows of padding. Where one of the two directories holds no tokenizer, the draft's
    rows and the target's, `vocabulary`, must be of about the same number.
    """
    if not (has_tokenizer(draft) and has_tokenizer(target)):
        rows = _rows(draft)
        if type(rows) is not int or abs(rows - vocabulary) > _PADDING:
            raise _other_tokens(
                draft, f"it has {rows!r:.60} tokens, the target {vocabulary}, and no tokenizer to compare"
            )
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


def _rows(draft: Path) -> object:
    try:
        return text_settings(read_settings(draft / "config.json")).get("vocab_size")
    except ValueError as error:
        raise ModelError(f"the draft in {draft} is not supported", why=str(error)) from error


def _other_tokens(draft: Path, why: str) -> ModelError:
    return ModelError(
        f"the draft in {draft} cannot write its target's tokens",
        why=why,
        fix="choose a draft of the same family: specextend models list",
    )
