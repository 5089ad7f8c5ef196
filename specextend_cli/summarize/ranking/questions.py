"""Questions that stand above their answers as headings do, in a list of them: frequently asked ones, an interview."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import regex

from specextend_cli.summarize.text.words import length_of

_LABEL = regex.compile(
    r"(?:(?:Q(?:uestion)?|A(?:nswer)?|Frage|Antwort|Réponse|Pregunta|Respuesta|Domanda|Risposta|Pergunta|Resposta|Вопрос"
    r"|Ответ)[ ]?\d{0,3}[:.)]\s+|(?:Q|A|问|答|問|質問|回答)\d{0,3}[:：]\s*)(?=\S)"
)
_ASKED = regex.compile(
    r"(?:\(?\w{1,3}[.)]\s+)?[*_]{0,3}¿?[\p{Lu}\p{Lo}](?:[^:?!.。？؟]|\.(?!\s+\p{Lu})){0,150}[?？؟][*_]{0,3}"
)
_SAID = regex.compile(r"\p{Lu}[^:.?!\n]{0,38}:\s")  # the name of somebody who speaks
_LEAST = 3
_ANSWER = 8  # words of one, at least


def is_question(line: str) -> bool:
    """Whether a line is a question and nothing else, with the mark of a list, a label ("Q:") or stars at most."""
    return _ASKED.fullmatch(unlabelled(line)) is not None


def unlabelled(line: str) -> str:
    """A question or an answer without a label that says so."""
    return line[len(label[0]) :] if (label := _LABEL.match(line)) else line


def headings(lines: Sequence[str]) -> set[int]:
    """The numbers of those questions, of the lines and paragraphs of a text; none where there are fewer than three.

    In a conversation of people with names nothing is one: there somebody asks.
    """
    found = {
        number
        for number, (line, answer) in enumerate(pairwise(lines))
        if is_question(line) and not is_question(answer) and length_of(answer) >= _ANSWER
    }
    named = sum(_SAID.match(unlabelled(line)) is not None for line in lines)
    return found if len(found) >= max(_LEAST, named) else set()
