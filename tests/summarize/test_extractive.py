"""Where a model is not to be believed, the document's own sentences stand for what it wrote."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from specextend_cli.errors import UsageError
from specextend_cli.summarize.events import ChunkSummarized, Sentence, Text, Warned
from specextend_cli.summarize.extractive import Draft, SentenceSelector, stands_alone
from specextend_cli.summarize.provenance import DocumentSentence
from specextend_cli.summarize.sentences import spans
from specextend_cli.summarize.tfidf import TfidfIndex
from specextend_cli.ui.jsonl import summary_record
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import write

SENTENCES = [
    "The harbour of Falcaster was founded by fishermen in 1871.",
    "It was closed in the winter of 1893 after a storm.",
    "The council of Falcaster bought the railway station for 2,925 crowns.",
    "Wool and herring were sold on the market on most Saturdays.",
    "The council of Falcaster bought the railway station for 2,925 crowns in 1902.",
]
TEXT = " ".join(SENTENCES)


def quoter(text: str = TEXT) -> SentenceSelector:
    passages = [DocumentSentence(start, end, 1) for start, end in spans(text)]
    return SentenceSelector(text, passages, TfidfIndex([text[one.start : one.end] for one in passages]))


def quoted(
    *drafts: list[str], text: str = TEXT, wanted: int = 20, usual: int = 20, exact: bool = False, **how: int | None
) -> tuple[list[tuple[str, str]], bool]:
    """The quotes with what each stands for, and whether drafts pointed to them; each draft's part is an equal share."""
    count = len(spans(text))
    cuts = [count * n // len(drafts) for n in range(len(drafts) + 1)]
    parts = [Draft(said, range(*cuts[n : n + 2])) for n, said in enumerate(drafts)]
    found = quoter(text).quotes(parts, wanted, usual=usual, exact=exact, **how)
    return [(one.text, one.instead) for one in found.chosen], found.pointed


def test_what_was_mixed_up_is_set_right() -> None:
    said = "In 1871 the council of Falcaster bought the railway station for 17 crowns."
    assert quoted([said], wanted=13) == ([(SENTENCES[4], said)], True)


def test_quotes_come_in_the_documents_order_each_once() -> None:
    draft = ["Wool is sold on most Saturdays.", "The harbour was founded in 1871.", "On the market, wool is found."]
    assert quoted(draft) == ([(SENTENCES[0], draft[1]), (SENTENCES[3], draft[0])], True)


def test_what_says_the_same_is_not_said_twice() -> None:
    station = "The council bought the railway station."
    found, _ = quoted([station, station], wanted=24)
    assert sum("railway" in text for text, _ in found) == 1


def test_only_what_was_read_is_quoted_for_a_draft() -> None:
    said = "The harbour was founded in 1871."
    found, _ = quoted(["Wool was sold on Saturdays."], [said], wanted=55)
    assert all(instead != said for text, instead in found if "harbour" in text)


def test_where_a_draft_points_nowhere_the_first_sentences_stand() -> None:
    assert quoted(["Elephants sing at night."], wanted=10) == ([(SENTENCES[0], "")], False)


def test_first_sentences_are_the_first_though_others_have_a_better_length() -> None:
    text = f"{SENTENCES[0]} {SENTENCES[2]} {SENTENCES[3]} Wool is no longer sold on any day of the week at all."
    for wanted in range(8, 33):
        found, pointed = quoted(["Elephants sing."], text=text, wanted=wanted, exact=True)
        assert not pointed
        assert text.startswith(" ".join(one for one, _ in found).removesuffix("…"))


def test_what_no_draft_points_to_fills_a_summary_up() -> None:
    found, pointed = quoted(["The harbour was founded in 1871."], wanted=45)
    assert pointed
    assert [text for text, _ in found] == [SENTENCES[0], SENTENCES[2], SENTENCES[3], SENTENCES[4]]
    assert found[0][1] == "The harbour was founded in 1871."
    assert "" in [instead for _, instead in found]


def test_every_part_is_quoted_from() -> None:
    told = [
        ["Alba grew rich by trading salt.", "Its mayor burned the wooden bridge."],
        ["Brixen keeps bees on every roof.", "Honey is sold there in blue jars."],
        ["Celle lost half of all horses.", "A fever came over them in March."],
        ["Dover built two lighthouses of chalk.", "Nobody could see either by day."],
    ]
    found, _ = quoted(*[[first] for first, _ in told], text=" ".join(chain(*told)), wanted=24)
    assert [text.split()[0] for text, _ in found] == ["Alba", "Brixen", "Celle", "Dover"]


@pytest.mark.parametrize("wanted", range(5, 56))
def test_a_number_of_words_is_met(wanted) -> None:
    for mark in (0, 1):
        found, _ = quoted(["The harbour was founded in 1871."], wanted=wanted, exact=True, mark=mark)
        words = sum(len(text.split()) + mark for text, _ in found)
        assert abs(words - wanted) <= max(0.15 * wanted, 1)
        for text, _ in found:
            assert text.removesuffix("…") in TEXT


def test_a_sentence_is_cut_only_where_whole_ones_do_not_fit() -> None:
    long = "The council of Falcaster, which met on Monday, bought the railway station and sold it again to the north."
    draft = [["The council bought a railway station."]]
    assert (
        quoted(*draft, text=f"{long} {long}", wanted=8, exact=True)[0][0][0]
        == "The council of Falcaster, which met on Monday…"
    )
    assert quoted(*draft, text=f"{long} {SENTENCES[3]}", wanted=20, exact=True)[0][0][0] == long


def test_no_scraps_are_taken_to_meet_a_number() -> None:
    text = f"Pub. {SENTENCES[0]} See above. {SENTENCES[2]} It is so. Fig. 2. {SENTENCES[3]}"
    for wanted in range(12, 30):
        found, _ = quoted(["The harbour was founded in 1871."], text=text, wanted=wanted, exact=True)
        assert all(any(text.rstrip("….") in one for one in SENTENCES) for text, _ in found)


def test_the_rest_of_a_sentence_is_no_sentence() -> None:
    text = "किसानों ने इस योजना का स्वागत किया, लेकिन उन्होंने कहा कि काम बहुत धीमा है। सरकार ने एक नई योजना शुरू की है।"
    cut = text.index("लेकिन")
    passages = [
        DocumentSentence(0, cut - 1, 1),
        *(DocumentSentence(cut + start, cut + end, 1) for start, end in spans(text[cut:])),
    ]
    made = SentenceSelector(text, passages, TfidfIndex([text[one.start : one.end] for one in passages]))
    found = made.quotes([Draft(["x"], range(3))], 9, usual=9, exact=True)
    assert [one.passage for one in found.chosen] == [2]


def test_repeated_lines_are_quoted_where_nothing_else_is_left() -> None:
    found, _ = quoted(["x"], text="The same line again and again.\n" * 50, wanted=120, exact=True)
    assert abs(sum(len(text.split()) for text, _ in found) - 120) <= 18


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
        ("A ponte sobre o rio Douro foi inaugurada em 1886.", True),
        ("Élodie et “Théophile” ont construit le pont.", True),
        ("„Niemand weiß es“, sagte der alte Mann am Hafen.", True),
        ("«Никто не знает», — сказал старик в порту.", True),
        ("2024年7月，长江中下游地区遭遇持续强降雨，多个城市发生严重洪涝灾害。", True),
        ("长江。", False),
        ("中国的城市与河流的历史和现状的研究报告", False),
        ("「このままでは通行止めが増える", False),
        ("「このままでは通行止めが増える」と担当者は話す。", True),
        ("हिमालय की नदियों में पिछले दशक में जल स्तर तेजी से घटा है।", True),
        ("هل تكفي الخزانات الحالية لتلبية احتياجات المدن؟", True),
        ("제방이 무너져 마을 주민 삼백 명이 학교로 대피했다.", True),
        ("โรงงานหลายแห่งในจังหวัดพระนครศรีอยุธยาต้องหยุดการผลิต", True),
    ],
)
def test_a_sentence_that_can_be_read_by_itself(sentence: str, alone: bool) -> None:
    assert stands_alone(sentence) is alone


@pytest.fixture
def preset(presets, tmp_path):
    path = write(presets["one"].parent / "quoted.toml")
    path.write_text('mode = "extractive"\n' + path.read_text())
    return path


def wrong(*sentences: str) -> Scribe:
    return Scribe(lambda prompt, most: " ".join(sentences))


def test_a_summary_of_quotes(preset) -> None:
    scribe = wrong(
        "In 1902 King Olaf bought wool on the market on Saturdays.", "Falcaster harbour was founded in 1771."
    )
    summary, events = run(summarizer(preset, scribe, asked={"length": 21}), document(TEXT))
    assert summary.text == f"{SENTENCES[0]} {SENTENCES[3]}"
    assert summary.method == "extractive"
    assert not summary.unsupported
    said = [event for event in events if isinstance(event, Sentence)]
    assert [one.draft for one in said] == ["Falcaster harbour was founded in 1771.", scribe.text.split(" Falc")[0]]
    for one in summary.sentences:
        assert summary.text[one.start : one.end] == one.text
        assert [TEXT[c.start : c.end] for c in one.citations] == [one.text]
    assert "".join(event.delta for event in events if isinstance(event, Text) and event.final) == summary.text
    assert "".join(event.delta for event in events if isinstance(event, Text) and not event.final) == scribe.text
    assert json.loads(json.dumps(summary_record(summary)))["sentences"][0]["draft"] == said[0].draft


def test_where_nothing_can_be_quoted_the_document_begins_and_says_so(preset) -> None:
    summary, events = run(summarizer(preset, wrong("Queen Ingeborg sings at night.")), document(TEXT))
    assert summary.text.startswith(SENTENCES[0])
    assert "Ingeborg" not in summary.text
    assert summary.method == "lead"
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "first" in warning
    record = summary_record(summary)
    assert (record["method"], record["warnings"]) == ("lead", [warning])


def test_a_style_has_its_shape(preset) -> None:
    scribe = wrong("Wool is sold on the market on Saturdays.", "Falcaster harbour was founded in 1771.")
    summary, _ = run(summarizer(preset, scribe, asked={"style": "bullets"}), document(TEXT))
    assert summary.text == f"- {SENTENCES[0]}\n- {SENTENCES[3]}"


@pytest.mark.parametrize("asked", [{"template": "A haiku on {document}"}, {"mode": "abstractive"}])
def test_who_wants_the_models_words_gets_them(preset, asked) -> None:
    scribe = wrong("Wool is sold on the market on Saturdays.")
    summary, _ = run(summarizer(preset, scribe, asked=asked), document(TEXT))
    assert summary.text == scribe.text


def test_quotes_may_be_asked_of_any_preset(presets) -> None:
    scribe = wrong("Wool is sold on the market on Saturdays.")
    summary, _ = run(summarizer(presets["one"], scribe, asked={"mode": "extractive", "length": 11}), document(TEXT))
    assert summary.text == SENTENCES[3]


def test_quotes_follow_no_template(preset) -> None:
    with pytest.raises(UsageError, match="--mode extractive and --template"):
        summarizer(preset, wrong(""), asked={"mode": "extractive", "template": "A haiku on {document}"})


def test_a_short_summary_is_drafted_at_length(preset) -> None:
    limits: list[int] = []
    scribe = Scribe(lambda prompt, most: limits.append(most) or "Falcaster harbour was founded in 1771. Wool was sold.")
    summary, _ = run(summarizer(preset, scribe, asked={"length": 11}), document(TEXT))
    assert limits == [20]
    assert summary.text == SENTENCES[3]


def test_notes_stay_the_models(preset) -> None:
    scribe = wrong("The council of Falcaster bought a railway station.")
    text = "\n\n".join(TEXT.replace("1871", str(1500 + n)) for n in range(12))
    summary, events = run(summarizer(preset, scribe), document(text))
    assert {event.text for event in events if isinstance(event, ChunkSummarized)} == {scribe.text}
    assert all(one.text in text for one in summary.sentences)
    assert len(summary.chunk_summaries) > 3
