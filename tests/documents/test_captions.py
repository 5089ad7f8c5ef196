"""Captions and chats: who says what, without times and marks; nothing that is said is lost."""

from __future__ import annotations

import pytest

from specextend_cli.documents.document import Document
from specextend_cli.documents.formats import detect
from specextend_cli.documents.read import read_bytes

SAID = [
    ("Ann Lee", "The landlord of the office in Pier Street wants an answer about the lease by Friday."),
    ("Bob", "The rent goes up by 14 percent from March, and the deposit is 27,000 euros."),
    ("Ann Lee", "That is too much for us, because we only use half of the second floor."),
    ("Chris", "The agent says that two years are possible if the deposit is paid up front."),
    ("Bob", "Then we sign for two years & keep the parking spaces."),
]
TURNS = [f"{name}: {line}" for name, line in SAID]


def paragraphs(document: Document) -> list[str]:
    return [document.text[block.start : block.end].replace("\n", " ") for block in document.blocks]


def timed(form: str, head: str = "", gap: str = "\n\n") -> str:
    """A text with a part for each turn, one a minute."""
    parts = (form.format(n=n + 1, m=15 + n, name=name, line=line) for n, (name, line) in enumerate(SAID))
    return head + gap.join(parts) + "\n"


VTT = "00:{m}:01.000 --> 00:{m}:09.500 align:start\n"
CAPTIONS = {
    "voices.vtt": timed(VTT + "<v.loud {name}>{line}</v>", "WEBVTT - Meeting\nKind: a\n\n").replace("&", "&amp;"),
    "names.vtt": timed("{n}\n" + VTT + "{name}: {line}", "\ufeffWEBVTT\n\n"),
    "dense.vtt": timed("{n}\n" + VTT + "{name}: <i>{line}</i>", "WEBVTT\n", "\n"),
    "names.srt": timed("{n}\n00:{m}:01,000 --> 00:{m}:09,500\n{{\\an8}}{name}: {line}").replace("\n", "\r\n"),
    "brackets.txt": timed("[12/03/2025, 10:{m}:22] {name}: {line}", gap="\n"),
    "dashes.txt": timed("12.03.25, 10:{m} - {name}: {line}", gap="\n"),
    "meeting.txt": timed("10:{m}:22 From {name} to Everyone: {line}", gap="\n"),
    "above.txt": timed("{name}  10:{m} AM\n{line}"),
    "offset.txt": timed("{name} (00:{m}):\n{line}"),
}


@pytest.mark.parametrize("name", CAPTIONS)
def test_captions_and_chats_are_turns_of_speakers(name: str) -> None:
    document = read_bytes(name, CAPTIONS[name].encode())
    assert (document.kind, document.unit, paragraphs(document)) == ("transcript", "section", TURNS)
    assert document.extraction.warnings == ()
    if name.endswith(("vtt", "srt")):
        assert [page.title for page in document.pages] == ["0:15:00"]


def test_a_speaker_goes_on_over_cues_and_what_nobody_says_is_left_out() -> None:
    halves = [part for name, line in SAID for part in (f"{name}: {line[:30]}", line[30:])]
    cues = ["NOTE made by a program", "STYLE\n::cue(b)", shown(*halves, point=".")]
    document = read_bytes("a.vtt", ("WEBVTT\n\n" + "\n\n".join(cues)).encode())
    assert paragraphs(document) == [f"{name}: {line[:30].strip()} {line[30:].strip()}" for name, line in SAID]
    assert [edit.before for edit in document.extraction.edits] == ["NOTE made by a program", "STYLE ::cue(b)"]


def shown(*cues: str, point: str = ",") -> str:
    """Captions of a second each."""
    form = "{n}\n00:00:{n:02}{point}000 --> 00:00:{m:02}{point}000\n{cue}\n"
    return "\n".join(form.format(n=n, m=n + 1, cue=cue, point=point) for n, cue in enumerate(cues, 1))


LINES = ("The weir gave way.", "The mill stood still.", "The mill stood still.", "No cart came.", "Nobody was hurt.")
TIMED = [line.replace(" ", "<00:00:01.500><c> ", 1) + "</c>" for line in LINES]  # word by word, as programs hear them
ROLLING = {
    f"{most} lines": ["\n".join(LINES[max(n - most + 1, 0) : n + 1]) for n in range(5)] + [LINES[-1]] * again
    for most, again in ((2, 0), (3, 2))
}
ROLLING["words"] = [TIMED[0], *(f"{LINES[n - 1]}\n{TIMED[n]}" for n in range(1, 5))]


@pytest.mark.parametrize("cues", ROLLING.values(), ids=ROLLING)
def test_lines_that_roll_are_read_once(cues: list[str]) -> None:
    for name, text in (("a.srt", shown(*cues)), ("a.vtt", "WEBVTT\n\n" + shown(*cues, point="."))):
        assert read_bytes(name, text.encode()).text == " ".join(LINES)


THREE = shown("One.", "Two.", "Three.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (shown("No.", "No.\nGo away.", "It was noon.", "3", "2"), "No. No. Go away. It was noon. 3 2"),
        (THREE.replace("\n00:00:02,000 --> 00:00:03,000", ""), "One. Two. Three."),
        (shown("One.", "", "Three."), "One. Three."),
        (THREE.replace("2\n00", "2\n2\n00"), "One. Two. Three."),
        (shown("One.", "7", "Three.").replace("3\n00", "3\n\n3\n00"), "One. 7 Three."),
        ("WEBVTT\n\n00:01.000 --> 00:09.000\nOne.\n\n00:20 --> x\n3 < 4.\n\nThe <b>end</b>.\n", "One. 3 < 4. The end."),
    ],
)
def test_counters_are_no_text_and_what_is_said_is_kept(text: str, said: str) -> None:
    assert read_bytes("a.vtt" if text.startswith("WEBVTT") else "a.srt", text.encode()).text == said


def test_what_a_messenger_writes_is_left_out() -> None:
    lines = [
        "\u200e[12/03/2025, 10:15:22] The Lease: \u200eMessages and calls are end-to-end encrypted.",
        "[12/03/2025, 10:16:22] Ann: The list:",
        "bread at 10:30",
        "",
        "milk",
        "[12/03/2025, 10:17:22] Bob: \u200eimage omitted",
        "[12/03/2025, 10:17:23] Bob: <Media omitted>",
        "[12/03/2025, 10:18:22] Bob: I see. https://example.org/a: that is it",
        "[13/03/2025, 08:01:02] Ann: Good morning.",
    ]
    document = read_bytes("chat.txt", "\n".join(lines).encode())
    expected = "Ann: The list: bread at 10:30 milk Bob: I see. https://example.org/a: that is it Ann: Good morning."
    assert " ".join(document.text.split()) == expected
    assert [page.title for page in document.pages] == ["12/03/2025", "13/03/2025"]
    assert document.extraction.changes["notice"] == len(document.extraction.edits) == 3


def test_times_that_are_copied_from_a_player_are_no_text() -> None:
    said = ["the landlord wants an answer", "about the lease by friday", "and the rent goes up", "from march"]
    for form in ("0:0{}\n{}", "[00:00:0{}] {}"):
        text = "\n".join(form.format(n, line) for n, line in enumerate(said))
        document = read_bytes("copied.txt", text.encode())
        assert (document.kind, document.text) == ("transcript", " ".join(said))
    agenda = "\n".join(f"{9 + n}:00\n{line.capitalize()}" for n, line in enumerate(said))
    assert detect(agenda.encode(), ".txt") == "text"


@pytest.mark.parametrize(
    "text",
    [
        timed("{name}: {line}"),  # without times it is a text, whose speakers are known by their names
        timed("2025-03-12 10:{m}:22 INFO: {line}", gap="\n").replace("INFO", "Error", 2),
        timed("10:{m} Report: {line}", gap="\n"),  # one name
        timed("10:{m} {name}{n}: {line}", gap="\n"),  # nobody speaks twice
        "Ann: 10:15\n" * 3,
        "Agenda\n\n09:00 Welcome: the chair\n09:15 Budget: Ms Lee\n10:00 Break\n10:30 Harbour: Mr Cox\n12:00 Lunch",
    ],
)
def test_other_texts_with_times_or_names_are_texts(text: str) -> None:
    assert detect(text.encode(), ".txt") == "text"
