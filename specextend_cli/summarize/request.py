"""What a user asks of a summary: length, style, language, question, template; and what a preset and that come to.

A `SummaryRequest` is checked once, against the preset that is to fulfil it. `SummarySettings`, which has both, is what
the pipeline reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, get_args

from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_or
from specextend_cli.models.prompt_templates import Length, Mode, Style, check_prompt, placeholders, spell_out
from specextend_cli.summarize.ranking.text_kind import WANTED, Kind

if TYPE_CHECKING:
    from specextend_cli.models.preset import Preset, Prompts

LENGTHS: Mapping[Length, float] = {"short": 1 / 3, "medium": 1.0, "long": 2.0}
"""How much of the length that nobody asked to change."""
WORDS_PER_TOKEN = 0.75
SLACK = 1.25
"""Tokens that a text may have for every token that its words take on average."""
SHARE = 0.8
"""Of the words that the tokens of a summary have room for: how many it usually has."""
_OWN_WORDS: Mapping[Style, int] = {"abstract": 200, "tldr": 40}
"""Styles with a length of their own, which one prompt must write."""
_CHARACTERS = {"template": ("--template", 20_000), "focus": ("--focus", 1_000), "language": ("--lang", 60)}
"""The most that a user's own words may have."""
WRITES_SUMMARY = ("single", "reduce")


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """None keeps the preset's setting; `style` None is what suits the document (see `text_kind`), or a paragraph.

    `length` is a number of words, which quoted sentences meet within 15%, or a share of the preset's own length;
    `focus` words or a question to concentrate on; `language` its name in English; `template` stands in for the prompts
    that write the summary, with their placeholders; `mode` whether the sentences are the document's own (extractive, or
    guided by the target's reading) or the target's (abstractive), which alone can follow a template or use another
    language.
    """

    length: int | Length | None = None
    style: Style | None = None
    focus: str | None = None
    language: str | None = None
    template: str | None = None
    mode: Mode | None = None

    def __post_init__(self) -> None:
        """UsageError where something cannot be asked of any preset."""
        if self.length not in (None, *LENGTHS) and not (isinstance(self.length, int) and self.length > 0):
            raise UsageError(f"--length {self.length}: no such length", fix=f"a number of words, {format_or(LENGTHS)}")
        if self.style not in (None, *get_args(Style)):
            raise UsageError(f"--style {self.style}: no such style", fix=format_or(get_args(Style)))
        for name, (flag, most) in _CHARACTERS.items():
            value = getattr(self, name)
            if value is not None and not value.strip():
                raise UsageError(f"{flag} is empty", fix="leave it out")
            if value is not None and len(value) > most:
                raise UsageError(f"{flag} is too long", why=f"at most {most:,} characters are taken", fix="shorten it")
        if self.mode in ("extractive", "guided") and self.needs_writing:
            raise UsageError(
                f"--mode {self.mode} and {'--lang' if self.template is None else '--template'} contradict each other",
                why="a document's own sentences follow no template, and stay in its language",
                fix="leave one of them out",
            )
        if self.template is not None:
            try:
                check_prompt(self.template)
            except ValueError as error:
                fix = "correct the file of --template: {document} once, where the text belongs; others are optional"
                raise UsageError("the template cannot be filled", why=str(error), fix=fix) from error

    def check(self, preset: Preset) -> None:
        """UsageError where `preset` has no place for something."""
        if self.mode == "guided" and preset.ranker is None:
            raise UsageError(
                f"preset {preset.name} cannot guide the choice of sentences",
                why="it has no [ranker]",
                fix="--mode extractive, which needs no model",
            )
        if (self.mode or preset.mode) != "abstractive" and not self.needs_writing:
            return  # what quotes needs no room, and finds the words of a focus without a prompt
        most = preset.window.context - preset.window.chunk - 1
        if self.room(preset.window.summary_tokens) > most:
            raise UsageError(
                f"--length {self.length} is more than this preset can write",
                why=f"beside what it reads, its window has room for {int(most * WORDS_PER_TOKEN / SLACK):,} words",
                fix="a shorter one, or a preset with a larger window: specextend models list",
            )
        if self.focus is not None:
            self._has_place(preset, "--focus", "focus", ("map", *WRITES_SUMMARY))
        if self.language is not None:
            self._has_place(preset, "--lang", "language", WRITES_SUMMARY)

    def _has_place(self, preset: Preset, flag: str, place: str, names: Sequence[str]) -> None:
        for name in names:
            if self.template is not None and name in WRITES_SUMMARY:
                words, owner, why = self.template, "the template", f"it has no {{{place}}}"
                fix = f"write {{{place}}} in it, or leave {flag} out"
            else:
                words, owner = getattr(preset.prompts, name), f"preset {preset.name}"
                why = f"its prompts have no {{{place}}}"
                fix = f"another preset, with --model NAME (specextend models list), or leave {flag} out"
            if place not in placeholders(words):
                raise UsageError(f"{owner} does not take {flag}", why=why, fix=fix)

    def spelled(self, prompts: Prompts, template: str, quote: Callable[[str], str] = str) -> str:
        """The words of a prompt (see `PromptBuilder.prompt`), with those of this request; `quote` cites the user."""
        words: str = getattr(prompts, "reduce" if template == "merge" else template)
        final = template in WRITES_SUMMARY
        if final and self.template is not None:
            words = quote(self.template)
        style = prompts.style(self.form if final else "paragraph")
        return spell_out(words, {"style": style, "focus": "" if self.focus is None else prompts.focus})

    @property
    def needs_writing(self) -> bool:
        """Whether no text but the target's can be what is asked for."""
        return self.template is not None or self.language is not None

    @property
    def form(self) -> Style:
        """The style, a paragraph where none is asked for."""
        return self.style or "paragraph"

    @property
    def exact(self) -> bool:
        """Whether a number of words is asked for."""
        return isinstance(self.length, int)

    def room(self, tokens: int) -> int:
        """Most tokens of the summary, where the preset has room for `tokens`."""
        if isinstance(self.length, int):
            return max(tokens, int(self.length / WORDS_PER_TOKEN * SLACK))
        return int(tokens * max(LENGTHS[self.length or "medium"], 1))

    def words(self, usual: int) -> int:
        """How many words to ask for, where the preset would write `usual`."""
        if isinstance(self.length, int):
            return self.length
        own = min(_OWN_WORDS.get(self.form, usual), usual)
        return max(int(own * LENGTHS[self.length or "medium"]), 10)


_PART, LEAST = 1 / 3, 30
"""A short text's summary has that part of its words, but not fewer than `LEAST`."""


@dataclass(frozen=True)
class SummarySettings:
    """One summary's settings. `max_tokens`, if not None, bounds every generated text; `most_words` the usual length."""

    preset: Preset
    request: SummaryRequest
    max_tokens: int | None = None
    most_words: int | None = None

    def suited(self, kind: Kind) -> SummarySettings:
        """With what readers of that kind of text want where no style, or no number of words, is asked for."""
        wanted = WANTED[kind]
        return replace(
            self, request=replace(self.request, style=self.request.style or wanted.style), most_words=wanted.words
        )

    @property
    def mode(self) -> Mode:
        """The kind of summary."""
        return "abstractive" if self.request.needs_writing else self.request.mode or self.preset.mode

    @property
    def summary_parts(self) -> int:
        """The most prompts that write the summary: those of the preset, or as many as its words need."""
        if self.request.form in _OWN_WORDS:
            return 1
        # Each prompt asks for as much as it usually does: what is asked for in a few words becomes no text.
        most = self.preset.window.summary_parts
        return min(ceil(most * self.words() / max(self.usual_words(), 1)), most)

    @property
    def summary_tokens(self) -> int:
        """The most tokens of the summary."""
        return self.request.room(self.preset.window.summary_tokens)

    def words(self, size: int | None = None) -> int:
        """How many words the summary of a text of `size` words has; None: of any long one."""
        return self.request.words(self.usual_words(size))

    def bounded_words(self, size: int, tokens: int) -> int:
        """How many words the summary of a text of `size` words and `tokens` tokens has, within `max_tokens`."""
        words = self.words(size)
        return words if self.max_tokens is None else max(min(words, int(self.max_tokens * size / max(tokens, 1))), 1)

    def usual_words(self, size: int | None = None) -> int:
        """The same by default, whatever the request."""
        most = int(self.preset.window.summary_tokens * WORDS_PER_TOKEN * SHARE)
        most = most if self.most_words is None else min(most, self.most_words)
        return most if size is None else max(min(most, int(size * _PART)), LEAST)
