"""What a user asks of a summary: length, style, mode, question, language, template; how long that makes it, and what
stands before each sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_or
from specextend_cli.models.prompt_templates import Length, Mode, Style, check_prompt, spell_out

if TYPE_CHECKING:
    from specextend_cli.models.preset import Preset, Prompts

LENGTHS: Mapping[Length, float] = {"short": 1 / 3, "medium": 1.0, "long": 2.0}
"""How much of the length that nobody asked to change."""
STYLE_WORDS: Mapping[Style, int] = {"abstract": 200, "tldr": 40}
"""Styles with a length of their own, which one prompt must write."""
WORDS_PER_TOKEN = 0.75
SLACK = 1.25
"""Tokens that a text may have for every token that its words take on average."""
SHARE = 0.8
"""Of the words that the tokens of a text have room for: how many it usually has."""
_TOKENS = 512  # that a summary has room for where no preset says how many
_PART, _LEAST = 1 / 3, 30  # a short text's summary has that part of its words, but not fewer than so many
_CHARACTERS = {"template": ("--template", 20_000), "focus": ("--focus", 1_000), "language": ("--lang", 60)}
"""The most that a user's own words may have."""
_QUOTES = "extractive quotes the document, abstractive writes"
WRITES_SUMMARY = ("single", "reduce")
"""The prompts that write the summary."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of the summary of one document. None: nothing.

    `length` is a number of words, which quoted sentences meet within 15%, or a share of the usual length; `mode`
    whether the sentences are the document's own (extractive) or a model's (abstractive), which alone can follow a
    template or use another language; `focus` words or a question to concentrate on; `language` its name in English;
    `template` stands in for the prompts that write the summary, with their placeholders.
    """

    length: int | Length | None = None
    style: Style = "paragraph"
    mode: Mode | None = None
    focus: str | None = None
    language: str | None = None
    template: str | None = None

    def __post_init__(self) -> None:
        """UsageError where something cannot be asked of any preset."""
        if self.length not in (None, *LENGTHS) and not (isinstance(self.length, int) and self.length > 0):
            raise UsageError(f"--length {self.length}: no such length", fix=f"a number of words, {format_or(LENGTHS)}")
        if self.style not in get_args(Style):
            raise UsageError(f"--style {self.style}: no such style", fix=format_or(get_args(Style)))
        if self.mode not in (None, *get_args(Mode)):
            raise UsageError(f"--mode {self.mode}: no such mode", why=_QUOTES, fix=format_or(get_args(Mode)))
        for name, (flag, most) in _CHARACTERS.items():
            value = getattr(self, name)
            if value is not None and not value.strip():
                raise UsageError(f"{flag} is empty", fix="leave it out")
            if value is not None and len(value) > most:
                raise UsageError(f"{flag} is too long", why=f"at most {most:,} characters are taken", fix="shorten it")
        if self.mode == "extractive" and self.needs_writing:
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

    @property
    def needs_writing(self) -> bool:
        """Whether no text but a model's can be what is asked for."""
        return self.template is not None or self.language is not None

    @property
    def is_exact(self) -> bool:
        """Whether a number of words is asked for."""
        return isinstance(self.length, int)

    def check(self, preset: Preset) -> None:
        """UsageError where `preset`, which is to write the summary, has no place for something."""
        most = preset.window.context - preset.window.chunk - 1
        if answer_tokens(self, preset) > most:
            raise self.too_long(most)
        if self.focus is not None:
            self._has_place(preset, "--focus", "focus", ("map", *WRITES_SUMMARY))
        if self.language is not None:
            self._has_place(preset, "--lang", "language", WRITES_SUMMARY)

    def too_long(self, most: int) -> UsageError:
        """The error where a model has room for at most so many tokens of the summary."""
        return UsageError(
            f"--length {self.length} is more than this model can write",
            why=f"beside what it reads, its window has room for {int(most * WORDS_PER_TOKEN / SLACK):,} words",
            fix="a shorter one, or a model with a larger window: specextend models list",
        )

    def _has_place(self, preset: Preset, flag: str, place: str, names: Sequence[str]) -> None:
        for name in names:
            if self.template is not None and name in WRITES_SUMMARY:
                words, owner, why = self.template, "the template", f"it has no {{{place}}}"
                fix = f"write {{{place}}} in it, or leave {flag} out"
            else:
                words, owner = getattr(preset.prompts, name), f"preset {preset.name}"
                why = f"its prompts have no {{{place}}}"
                fix = f"another preset, with --model NAME (specextend models list), or leave {flag} out"
            if f"{{{place}}}" not in words:
                raise UsageError(f"{owner} does not take {flag}", why=why, fix=fix)

    def spelled(self, prompts: Prompts, template: str, quote: Callable[[str], str] = str) -> str:
        """The words of a prompt (see `PromptBuilder.prompt`), with those of this request; `quote` cites the user."""
        words: str = getattr(prompts, "reduce" if template == "merge" else template)
        final = template in WRITES_SUMMARY
        if final and self.template is not None:
            words = quote(self.template)
        style = prompts.style(self.style if final else "paragraph")
        return spell_out(words, {"style": style, "focus": "" if self.focus is None else prompts.focus})


def target_words(request: Request, preset: Preset | None = None, size: int | None = None) -> int:
    """How many words the summary of a text of `size` words has; None: of any long one.

    `preset` is what writes it; None: it is quoted.
    """
    if isinstance(request.length, int):
        return request.length
    tokens = _TOKENS if preset is None else preset.window.summary_tokens
    usual = int(tokens * WORDS_PER_TOKEN * SHARE)
    if size is not None:
        usual = max(min(usual, int(size * _PART)), _LEAST)
    own = min(STYLE_WORDS.get(request.style, usual), usual)
    return max(int(own * LENGTHS[request.length or "medium"]), 10)


def answer_tokens(request: Request, preset: Preset) -> int:
    """The most tokens of a summary that `preset` writes: what its prompts leave room for."""
    most = preset.window.summary_tokens
    if isinstance(request.length, int):
        return max(most, int(request.length / WORDS_PER_TOKEN * SLACK))
    return int(most * max(LENGTHS[request.length or "medium"], 1))
