"""Conversations are known by their speakers, who are named in a list."""

from __future__ import annotations

import pytest
from specextend_cli.summarize.extractive import ScoredSentences
from specextend_cli.summarize.ranking.ranker import Trees

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.words import count_words
from tests.summarize.scribe import quote
from tests.summarize.test_ranker import TREES
from tests.summarize.tiny_preset import text

SAID = (
    "We should move the harbour office to the old customs house before the winter.",
    "The council of Falcaster has to decide on the new bridge in the spring.",
    "I will send the plans of the bridge to the engineers of the island.",
    "The ferry has lost a third of its passengers since the road was built.",
    "They want the fishing boats to leave the inner basin in the summer.",
)
CONVERSATION = "\n\n".join(
    f"{('Ann Lee', 'Bob', 'Dr. Cox')[n % 3]}: Well, yes, I see. {SAID[n % 5]} Number {n} was read aloud by the chair."
    for n in range(20)
)
CHINESE = "\n\n".join(f"{'记者馆长'[n % 2 * 2 :][:2]}：今年九月一日起居民可以使用新馆。" for n in range(6))
ANSWERS = ("Um, yeah, I think it was on the telly.", "We need that, you know, just this one year?")


def scored(body: str) -> ScoredSentences:
    return ScoredSentences(read_bytes("a.md", body.encode()), Trees(**TREES))


@pytest.mark.parametrize(
    ("body", "talks"),
    [
        (CONVERSATION, True),
        (CHINESE, True),
        ("\n\n".join(f"Ann: {line}\n\nWho goes?\n\nBob: {line}" for line in SAID), True),
        (text(60), False),
        # Labels before a colon that are no speakers: each stands once, or there is only one.
        ("\n\n".join(f"Note: {line}" for line in SAID * 3), False),
        ("\n\n".join(f"Label{n}: {line}" for n, line in enumerate(SAID * 3)), False),
        ("\n\n".join(f"{('Decision', 'Action')[n % 2]}: {line}" for n, line in enumerate(SAID)), False),
    ],
)
def test_a_conversation_has_speakers_who_speak_more_than_once(body: str, talks: bool) -> None:
    assert scored(body).said.is_conversation == talks


def test_a_list_names_them_and_a_paragraph_does_not() -> None:
    source = read_bytes("a.md", CONVERSATION.encode())
    found, _ = quote(source, length=60, style="bullets")
    assert all(line.startswith(("- Ann Lee: ", "- Bob: ", "- Dr. Cox: ")) for line in found.text.split("\n"))
    assert all(one.text in " ".join(CONVERSATION.split()) for one in found.sentences)
    assert abs(count_words(found.text) - 60) <= 9
    assert "- " not in quote(source, length=60)[0].text


def test_what_only_answers_is_left_out_of_a_conversation_and_not_of_other_texts() -> None:
    """Each answer is a whole sentence of nine words, of which fillers leave at most six."""
    said, names = (*SAID, *ANSWERS), ("Ann Lee", "Bob")
    assert scored(" ".join(said)).selector.usable.tolist() == [True] * 7
    talk = "\n\n".join(f"{names[n % 2]}: {line}" for n, line in enumerate(said))
    assert scored(talk).selector.usable.tolist() == [True] * 5 + [False] * 2
