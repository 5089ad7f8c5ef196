"""Which sentences can be read outside of their document, and what is printed of them."""

from __future__ import annotations

import pytest

from specextend_cli.summarize.ranking.readable import is_whole, leans, printed

WHOLE = [
    "The harbour of Falcaster was founded by fishermen in 1871.",
    '"Nobody knows," he said, "why the keeper left."',
    "However, the storm did not reach the harbour.",
    "Ben Bernanke was the Chairman of the Federal Reserve.",
    "Maria Theresia Habsburg and Frederick Hohenzollern signed the treaty.",
    "The development of the harbour requires more time and money.",
    "The council’s response to the storm was late and weak.",
    "Efforts to close the harbour have failed since the storm.",
    "(Nobody knows when the harbour was closed (or why).)",
    "The council made statements about the harbour and its storms.",
    "Does the harbour have a light that ships can see?",
    "Italy and Thusnelda joined the others in the harbour.",
    "A ponte sobre o rio Douro foi inaugurada em 1886.",
    "Élodie et “Théophile” ont construit le pont.",
    "„Niemand weiß es“, sagte der alte Mann am Hafen.",
    "«Никто не знает», — сказал старик в порту.",
    "2024年7月，长江中下游地区遭遇持续强降雨，多个城市发生严重洪涝灾害。",
    "「このままでは通行止めが増える」と担当者は話す。",
    "हिमालय की नदियों में पिछले दशक में जल स्तर तेजी से घटा है।",
    "هل تكفي الخزانات الحالية لتلبية احتياجات المدن؟",
    "제방이 무너져 마을 주민 삼백 명이 학교로 대피했다.",
    "โรงงานหลายแห่งในจังหวัดพระนครศรีอยุธยาต้องหยุดการผลิต",
]
LEANING = [
    "It was closed in the winter of 1893 after a storm.",
    "They left the harbour before the storm came.",
    "These are the causes of the great storm.",
    "This made the harbour useless for many years.",
    "But he left the harbour before the storm came.",
    "Because of these storms, the harbour was closed.",
    "The former was closed after the great storm.",
    "As noted above, the harbour was closed again.",
    "Table 2 has the ships that were lost.",
    "In the same meeting, the council closed the harbour.",
    "As such, some observers saw it as a storm.",
    "For example, 70 percent of the ships were lost.",
    "Second, the harbour had no light at night.",
    "Within days, the council had closed the harbour.",
    "The council reacted to this news with a storm of letters.",
    "While this harbour was closed, ships lay in the bay.",
    "One reason is the storm that closed the harbour.",
    "Then, the council closed the harbour for a year.",
    "Each of these storms has closed the harbour.",
    "The council of the town is one of these owners.",
    "Yes, the council closed the harbour for a year.",
    "Until 1912, this light was the only one on the coast.",
    "While useful, these lights are expensive to keep.",
]
BROKEN = [
    "Orders may be placed by calling (202) 512-6000 or by fax.",
    "Write to harbour@example.org before the end of May.",
    "The report is at https://example.org/harbour for all to read.",
    "The report is at www.example.org for all to read today.",
    "The Congress passed the Harbour Act of 1871 (Pub.",
    'Nobody knows, he said, "why the keeper left.',
    "the rest of a line that was cut in two.",
    "3 ships of the line were lost that night.",
    "Too short to say much.",
    "The keeper of the harbour said that he would...",
    "“It was the first time that the keeper…”",
    "Contents of the report on the great storm",
    "The rules require that • ships are lit and • pilots are paid.",
    "Flood Insurance: Emerging Opportunity to Better Measure Certain Results of the Program.",
    "The Outlook for Energy: A View to 2030.",
    "And " + "so on " * 80 + "it went.",
    "The council’s reaction to the closing of the harbour.",
    "The appointment of a harbour master and efforts to remove him.",
    "Efforts to have the keeper deny that the council had ordered him to leave.",
    "(June 8, 1917) (Statement for the record of the harbour master).",
    "Restricts the marketing of herring to Saturdays and Sundays.",
    "长江。",
    "中国的城市与河流的历史和现状的研究报告",
    "「このままでは通行止めが増える",
    "",
]


@pytest.mark.parametrize("sentence", WHOLE)
def test_a_sentence_that_can_be_read_by_itself(sentence: str) -> None:
    assert is_whole(printed(sentence))
    assert not leans(printed(sentence))


@pytest.mark.parametrize("sentence", LEANING)
def test_a_sentence_that_speaks_of_the_one_before(sentence: str) -> None:
    assert leans(printed(sentence))


@pytest.mark.parametrize("sentence", BROKEN)
def test_what_is_no_sentence_to_print(sentence: str) -> None:
    assert not is_whole(printed(sentence))


@pytest.mark.parametrize(
    "sentence",
    [
        "This report describes the harbour and its storms.",
        "It is important that the harbour has a light.",
        "Those who go down to the sea see wonders.".replace("Those", "All"),
        "Because this proposal closes the harbour, ships need another.",
        "This HIP changes what a ship pays for its berth.",
        "While the harbour was closed, ships lay in the bay.",
        "If a ship has no light, this is the harbour's affair.",
        "As the council wrote, this report describes the harbour.",
        "Thisbe and Orson joined the others in the harbour.",
    ],
)
def test_what_only_looks_like_a_reference_is_none(sentence: str) -> None:
    assert not leans(sentence)


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("- The harbour\n  was closed.", "The harbour was closed."),
        ("12. The harbour was closed.", "The harbour was closed."),
        ("(a) The harbour was closed.", "The harbour was closed."),
        ("However, the harbour was closed.", "The harbour was closed."),
        ("But the harbour was closed.", "The harbour was closed."),
        ("In addition, élan was lost.", "Élan was lost."),
        ("Of course, the harbour was closed.", "The harbour was closed."),
        ("However the harbour was closed, ships came.", "However the harbour was closed, ships came."),
        ("Andrew closed the harbour.", "Andrew closed the harbour."),
        ("1.5 metres of water stood there.", "1.5 metres of water stood there."),
        ("And, 12", "And, 12"),
    ],
)
def test_marks_and_connectives_are_left_out(sentence: str, line: str) -> None:
    assert printed(sentence) == line


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("2.1 The keeper shall light the lamp at dusk.", "The keeper shall light the lamp at dusk."),
        ("2.1.3. “Lamp” means the lamp of the harbour.", "“Lamp” means the lamp of the harbour."),
        ("2.1 million lamps were lit at dusk.", "2.1 million lamps were lit at dusk."),
    ],
)
def test_the_number_of_a_clause_is_left_out(sentence: str, line: str) -> None:
    assert printed(sentence) == line
