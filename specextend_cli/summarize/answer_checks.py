"""Flaws of an answer, whatever it is about: it says nothing, refuses, or repeats itself."""

from __future__ import annotations

import re
from typing import Literal

from specextend_cli.summarize.word_count import words

Flaw = Literal["no answer", "in circles"]

_IDLE = re.compile(
    r"""\W*(?:
        (?:sure|certainly|of\ course|okay)\b[,!.:]
      | here(?:'s|\ is|\ are)\b[^.!?]{0,80}\b(?:summar(?:y|ies)|notes|overview)\b[^.!?]{0,80}[:.]\W*$
      | (?:i'm|i\ am)\ sorry\b | i\ apologi[sz]e\b | as\ an?\ (?:ai|language\ model)\b
      | i(?:(?:'m|\ am)\ (?:unable|not\ able)\ to|\ (?:cannot|can't|can\ not|could\ not|couldn't))\ (?:provide|assist
          |help|summari[sz]e|access|fulfil|comply|answer|see|read|open|generate|create|complete)
      | (?:please|could\ you|can\ you)\b[^.!?]{0,20}\b(?:provide|share|paste|upload)\b[^.!?]*\b(?:text|document|input)\b
      | (?:the|your)\ (?:text|document|input)\ (?:is|was)\ not\ provided\b
      | (?:there\ is\ )?no\ (?:text|document|input)\ (?:is|was|has\ been|to\ summari[sz]e)\b
      | (?:feel\ free\ to|let\ me\ know\ if|i\ hope\ this)\b
      | summari[sz]e\ the\ (?:text|document)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_LEAST = 24  # tokens; a shorter answer is not judged
_FEW = 4  # words
_GRAM, _CIRCLES, _ENOUGH = 4, 0.25, 20  # the share of repeated 4-grams that is a loop, in a text of that many words


def idle(sentence: str) -> bool:
    """Whether a sentence is about answering, such as "Here is a summary:" or "I cannot access the document."."""
    return _IDLE.match(sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) is not None


def flaw(text: str, limit: int) -> Flaw | None:
    """The flaw of an answer of at most `limit` tokens, without its idle sentences; None where it has none."""
    said = words(text.lower())
    if not said or (len(said) < _FEW and limit >= _LEAST):
        return "no answer"
    if len(said) >= _ENOUGH and limit >= _LEAST:
        grams = list(zip(*(said[at:] for at in range(_GRAM)), strict=False))
        if 1 - len(set(grams)) / len(grams) > _CIRCLES:
            return "in circles"
    return None
