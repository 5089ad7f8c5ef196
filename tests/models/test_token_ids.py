"""A draft's token ids are compared with its target's by the tokens' texts, whatever the padding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, models

from specextend_cli.errors import ModelError
from specextend_cli.models.tokens import check_token_ids

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
