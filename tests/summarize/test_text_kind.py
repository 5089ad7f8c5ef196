"""Conversations, minutes, chapters, and questions with answers are known by what they have, and summarized as such."""

from __future__ import annotations

from typing import Any

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.events import Summary
from specextend_cli.summarize.extractive import ScoredSentences
from specextend_cli.summarize.ranking.ranker import Trees
from specextend_cli.summarize.ranking.text_kind import Kind
from specextend_cli.summarize.summarizer import Summarizer
from tests.helpers.flat_options import flat_options
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
MINUTES = f"# Minutes\n\nPresent: Lee, Cox\n\n## Decisions\n\n{text(20)}\n\n## Action items\n\n{text(20, 20)}"
LABELLED = f"Present: Lee, Cox\n\n{text(9)}\n\n" + "\n\n".join(
    f"{('Decision', 'Action')[n % 2]}: {SAID[n]}" for n in range(4)
)
AIDS = (("Chapter 3: Tides", 0, 1), ("Learning Objectives", 1, 6), ("Tides", 7, 30), ("Key Terms", 37, 6))
CHAPTER = "\n\n".join(f"# {heading}\n\n{text(count, start)}" for heading, start, count in AIDS)
ASKED = ("How do I reach the harbour?", "Who owns the ferry?", "2. When is the market closed?", "What does it cost?")
ANSWERED = [f"{SAID[n]} {SAID[n + 1]}" for n in range(4)]
QUESTIONS = "\n\n".join(f"{line}\n\n{answer}" for line, answer in zip(ASKED, ANSWERED, strict=True))


def kind(body: str, name: str = "a.md") -> Kind:
    return ScoredSentences(read_bytes(name, body.encode()), Trees(**TREES)).kind


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CONVERSATION, "conversation"),
        (MINUTES, "minutes"),
        (LABELLED, "minutes"),
        (f"Anwesend: Lee, Cox\n\nBeschluss: {SAID[0]}\n\n{text(20)}\n\nNächste Sitzung: 3. Mai", "minutes"),
        (CHAPTER, "chapter"),
        (QUESTIONS, "questions"),
        ("\n\n".join(f"## {part}" if part in ASKED else part for part in QUESTIONS.split("\n\n")), "questions"),
        (
            "\n\n".join(f"{line}\n\n{ANSWERED[0]}" for line in ("¿Quién va?", "¿Qué hay?", "¿Es de la villa?")),
            "questions",
        ),
        (
            "\n\n".join(
                f"{line}\n\n今年九月一日起所有居民都可以免费使用新的图书馆。"
                for line in ("谁可以用？", "要钱吗？", "在哪里？")
            ),
            "questions",
        ),
        (
            "\n\n".join(f"{'记者馆长'[n % 2 * 2 :][:2]}：今年九月一日起居民可以使用新馆。" for n in range(6)),
            "conversation",
        ),
        ("\n\n".join((*ASKED, text(60))), "text"),  # nobody answers the first three
        (f"{QUESTIONS}\n\n" + "\n\n".join(f"# Part {n}\n\n{text(3, 30 + 3 * n)}" for n in range(5)), "text"),
        (text(60), "text"),
        # Labels before a colon that are no speakers: each stands once, or there is only one.
        ("\n\n".join(f"Note: {line}" for line in SAID * 3), "text"),
        ("\n\n".join(f"Label{n}: {line}" for n, line in enumerate(SAID * 3)), "text"),
        (f"# Report\n\n## Decisions\n\n{text(30)}", "text"),
        ("x", "text"),
    ],
)
def test_a_text_is_of_a_kind_by_what_it_has(body: str, expected: Kind) -> None:
    assert kind(body) == expected


def summary(body: str, **asked: Any) -> Summary:
    with Summarizer(flat_options(mode="extractive", cache=False, **asked)) as made:
        return made.summarize(read_bytes("a.md", body.encode()))


def test_a_conversation_is_a_list_with_names_unless_something_else_is_asked_for() -> None:
    found = summary(CONVERSATION, length=60)
    lines = found.text.split("\n")
    assert (found.kind, found.request.style) == ("conversation", "bullets")
    assert all(line.startswith(("- Ann Lee: ", "- Bob: ", "- Dr. Cox: ")) for line in lines)
    assert not any(line.count(": ") > 1 for line in lines)
    source = " ".join(CONVERSATION.split())
    assert all(one.text.removeprefix("- ") in source for one in found.sentences)
    assert all(found.text[one.start : one.end] == one.text for one in found.sentences)
    assert abs(len(found.text.split()) - 60) <= 9
    asked = summary(CONVERSATION, length=60, style="paragraph")
    assert asked.request.style == "paragraph"
    assert "- " not in asked.text


def test_answers_stand_below_their_questions() -> None:
    found = summary(QUESTIONS, length=60)
    assert found.request.style == "outline"
    asked = [line.removeprefix("2. ") for line in ASKED]
    topics: list[str] = []
    for line in found.text.split("\n"):
        if line[0].isdigit():
            topics.append(line[3:])
        else:
            assert line.removeprefix("   - ") in ANSWERED[asked.index(topics[-1])]
    assert len(topics) >= 2


def test_a_question_that_somebody_asks_is_no_heading() -> None:
    talk = "\n\n".join(f"Ann: {line}\n\n{ASKED[n % 3]}\n\nBob: {line}" for n, line in enumerate(SAID))
    assert kind(talk) == "conversation"


ANSWERS = ("Um, yeah, I think it was on the telly.", "We need that, you know, just this one year?")


def test_what_only_answers_is_left_out_of_a_conversation_and_not_of_other_texts() -> None:
    """Each answer is a whole sentence of nine words, of which fillers leave at most six."""
    said = (*SAID, *ANSWERS)
    scored = ScoredSentences(read_bytes("a.md", " ".join(said).encode()), Trees(**TREES))
    assert scored.selector.usable.tolist() == [True] * 7
    names = ("Ann Lee", "Bob")
    talk = "\n\n".join(f"{names[n % 2]}: {line}" for n, line in enumerate(said))
    scored = ScoredSentences(read_bytes("a.md", talk.encode()), Trees(**TREES))
    assert scored.said.is_conversation
    assert scored.selector.usable.tolist() == [True] * 5 + [False] * 2


def test_other_texts_are_paragraphs() -> None:
    found = summary(text(60), length=60)
    assert (found.kind, found.request.style) == ("text", "paragraph")


def test_minutes_are_shorter_than_other_texts() -> None:
    long = "\n\n".join([MINUTES, *(f"## Item {n}\n\n{text(30, 30 * n)}" for n in range(2, 20))])
    other = long.replace("Action items", "Boats").replace("Decisions", "Ships")
    assert len(summary(long).text.split()) <= 220 < len(summary(other).text.split())
    assert len(summary(long, length=300).text.split()) > 220
