"""Where a model is not to be believed, the document's own sentences stand for what it wrote."""

from __future__ import annotations

import json

import pytest
from scribe import Scribe, document, run, summarizer
from tiny_preset import write

from specextend_cli.errors import UsageError
from specextend_cli.summarize.events import Noted, Sentence, Text
from specextend_cli.summarize.lexical import Index
from specextend_cli.summarize.passages import Passage
from specextend_cli.summarize.quoting import Quoter, stands_alone
from specextend_cli.summarize.sentences import spans
from specextend_cli.ui.jsonl import summary_record

SENTENCES = [
    "The harbour of Falcaster was founded by fishermen in 1871.",
    "It was closed in the winter of 1893 after a storm.",
    "The council of Falcaster bought the railway station for 2,925 crowns.",
    "Wool and herring were sold on the market on most Saturdays.",
    "The council of Falcaster bought the railway station for 2,925 crowns in 1902.",
]
TEXT = " ".join(SENTENCES)


def quoter(text: str = TEXT) -> Quoter:
    passages = [Passage(start, end, 1) for start, end in spans(text)]
    return Quoter(text, passages, Index([text[one.start : one.end] for one in passages]))


def quoted(*draft: str, read: range = range(5), room: int = 100) -> list[tuple[str, int]]:
    made = quoter()
    return [(made.text(one), one.draft) for one in made.quotes(draft, read, room, lambda text: len(text.split()))]


def test_what_was_mixed_up_is_set_right() -> None:
    assert quoted("In 1871 the council of Falcaster bought the railway station for 17 crowns.") == [(SENTENCES[4], 0)]


def test_quotes_come_in_the_documents_order_each_once() -> None:
    draft = ("Wool is sold on Saturdays.", "The harbour was founded in 1871.", "On the market, wool is sold.")
    assert quoted(*draft) == [(SENTENCES[0], 1), (SENTENCES[3], 2)]


def test_what_says_the_same_is_not_said_twice() -> None:
    station = "The council bought the railway station."
    assert len(quoted(station, station)) == 1


def test_nothing_is_quoted_that_was_not_read_or_has_no_room() -> None:
    draft = "The harbour was founded in 1871."
    assert quoted(draft, read=range(1, 2)) == []
    assert quoted(draft, room=0) == []
    assert quoted(draft, "Wool was sold on Saturdays.", room=10) == [(SENTENCES[0], 0)]
    assert quoted(draft, read=range(1)) == []  # all of it would be no summary
    assert quoted("Elephants sing at night.") == []


@pytest.mark.parametrize(
    ("sentence", "alone"),
    [
        (SENTENCES[0], True),
        (SENTENCES[1], False),
        ('"Nobody knows," he said, "why the keeper left."', True),
        ("They left the harbour before the storm came.", False),
        ("These are the causes of the great storm.", False),
        ("However, the storm did not reach the harbour.", False),
        ("Because of these storms, the harbour was closed.", False),
        ("Orders may be placed by calling (202) 512-6000 or by fax.", False),
        ("The Congress passed the Harbour Act of 1871 (Pub.", False),
        ('Nobody knows, he said, "why the keeper left.', False),
        ("Table 2 has the ships that were lost.", False),
        ("Italy and Thusnelda joined the others in the harbour.", True),
        ("the rest of a line that was cut in two.", False),
        ("3 ships of the line were lost that night.", False),
        ("Too short to say much.", False),
        ("Contents of the report on the great storm", False),
        ("The rules require that • ships are lit and • pilots are paid.", False),
        ("And " + "so on " * 40 + "it went.", False),
    ],
)
def test_a_sentence_that_can_be_read_by_itself(sentence: str, alone: bool) -> None:
    assert stands_alone(sentence) is alone


@pytest.fixture
def preset(presets, tmp_path):
    path = write(presets["one"].parent / "quoted.toml")
    path.write_text('sentences = "quoted"\n' + path.read_text())
    return path


def wrong(*sentences: str) -> Scribe:
    return Scribe(lambda prompt, most: " ".join(sentences))


def test_a_summary_of_quotes(preset) -> None:
    scribe = wrong(
        "In 1902 King Olaf bought wool on the market on Saturdays.", "Falcaster harbour was founded in 1771."
    )
    summary, events = run(summarizer(preset, scribe), document(TEXT))
    assert summary.text == f"{SENTENCES[0]} {SENTENCES[3]}"
    assert not summary.unsupported
    said = [event for event in events if isinstance(event, Sentence)]
    assert [one.draft for one in said] == ["Falcaster harbour was founded in 1771.", scribe.text.split(" Falc")[0]]
    for one in summary.sentences:
        assert summary.text[one.start : one.end] == one.text
        assert [TEXT[c.start : c.end] for c in one.citations] == [one.text]
    assert "".join(event.delta for event in events if isinstance(event, Text) and event.final) == summary.text
    assert "".join(event.delta for event in events if isinstance(event, Text) and not event.final) == scribe.text
    assert json.loads(json.dumps(summary_record(summary)))["sentences"][0]["draft"] == said[0].draft


def test_where_nothing_can_be_quoted_the_draft_stays(preset) -> None:
    summary, _ = run(summarizer(preset, wrong("Queen Ingeborg sings at night.")), document(TEXT))
    assert (summary.text, summary.sentences[0].draft) == ("Queen Ingeborg sings at night.", "")
    assert [one.text for one in summary.unsupported] == ["Ingeborg"]


def test_a_style_has_its_shape(preset) -> None:
    scribe = wrong("Wool is sold on the market on Saturdays.", "Falcaster harbour was founded in 1771.")
    summary, _ = run(summarizer(preset, scribe, asked={"style": "bullets"}), document(TEXT))
    assert summary.text == f"- {SENTENCES[0]}\n- {SENTENCES[3]}"


@pytest.mark.parametrize("asked", [{"template": "A haiku on {document}"}, {"sentences": "written"}])
def test_who_wants_the_models_words_gets_them(preset, asked) -> None:
    scribe = wrong("Wool is sold on the market on Saturdays.")
    summary, _ = run(summarizer(preset, scribe, asked=asked), document(TEXT))
    assert summary.text == scribe.text


def test_quotes_may_be_asked_of_any_preset(presets) -> None:
    scribe = wrong("Wool is sold on the market on Saturdays.")
    summary, _ = run(summarizer(presets["one"], scribe, asked={"sentences": "quoted"}), document(TEXT))
    assert summary.text == SENTENCES[3]


def test_quotes_follow_no_template(preset) -> None:
    with pytest.raises(UsageError, match="--sentences quoted and --template"):
        summarizer(preset, wrong(""), asked={"sentences": "quoted", "template": "A haiku on {document}"})


def test_room_is_shared_by_all_drafts() -> None:
    made, words = quoter(), lambda text: len(text.split())
    harbour, wool = ["The harbour was founded in 1871."], ["Wool was sold on Saturdays."]
    assert [made.text(one) for one in made.quotes(harbour, range(5), 4, words)] == [SENTENCES[0]]
    assert made.quotes(wool, range(5), 6, words) == []
    assert [made.text(one) for one in made.quotes(wool, range(5), 1, words)] == [SENTENCES[3]]


def test_a_short_summary_is_drafted_at_length(preset) -> None:
    limits: list[int] = []
    scribe = Scribe(lambda prompt, most: limits.append(most) or "Falcaster harbour was founded in 1771. Wool was sold.")
    summary, _ = run(summarizer(preset, scribe, asked={"length": 3}), document(TEXT))
    assert limits == [20]
    assert summary.text == SENTENCES[3]


def test_notes_stay_the_models(preset) -> None:
    scribe = wrong("The council of Falcaster bought a railway station.")
    text = "\n\n".join(TEXT.replace("1871", str(1500 + n)) for n in range(12))
    summary, events = run(summarizer(preset, scribe), document(text))
    assert {event.text for event in events if isinstance(event, Noted)} == {scribe.text}
    assert summary.text in text
    assert len(summary.notes) > 3
