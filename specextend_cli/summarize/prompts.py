"""Prompts as token ids: the preset's words and the chat template around a document, which is plain text in it.

Only the template's own text may contain control tokens. The document, and everything else that comes from a user's
file, is encoded as ordinary text: `<|im_end|>` in a PDF is ten characters, not the end of a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from specextend_cli.errors import ModelError, UsageError
from specextend_cli.models.chat_template import render_chat
from specextend_cli.models.preset import Preset
from specextend_cli.models.prompt_templates import PLACEHOLDERS, fill
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.summarize.events import Part
from specextend_cli.summarize.request import Request, answer_tokens

_MARK = "\N{OBJECT REPLACEMENT CHARACTER}document\N{OBJECT REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Prompt:
    """The tokens that ask for one part, and the most tokens of the answer.

    Its first `shared_prefix` tokens may be those of other prompts.
    """

    part: Part
    tokens: Sequence[int]
    max_tokens: int
    shared_prefix: int = 0


@dataclass(frozen=True)
class PromptBuilder:
    """The prompts of one preset and `request`, by the tokenizer of the target in `directory`."""

    preset: Preset
    encoder: TextEncoder
    directory: Path
    request: Request = field(default_factory=Request, kw_only=True)
    _frames: dict[tuple[object, ...], tuple[list[int], list[int]]] = field(default_factory=dict, init=False, repr=False)

    def prompt(self, template: str, values: Mapping[str, object], text: str) -> list[int]:
        """Token ids of `template` around `text`, up to where the answer begins.

        "single" and "reduce" write the summary, "map" a chunk summary, "merge" a summary of chunk summaries.
        """
        before, after = self.frame(template, values)
        return before + self.encoder.encode(text) + after

    def check(self) -> None:
        """UsageError where a prompt of full size and its answer would leave the window the model was trained with."""
        window = self.preset.window
        text = max(window.chunk, 3 * (window.chunk_summary_tokens + 2))
        for template in ("single", "map", "reduce"):
            usual = window.chunk_summary_tokens if template == "map" else window.summary_tokens
            new = usual if template == "map" else answer_tokens(self.request, self.preset)
            room = window.context - self.overhead(template) - text
            if usual <= room < new:
                raise self.request.too_long(room)
            if new > room:
                raise UsageError(
                    f"preset {self.preset.name}: a {template} prompt of full size does not fit the model's window",
                    why=f"it can take {window.context - room + new:,} tokens of {window.context:,}",
                    fix="lower chunk, chunk_summary_tokens or summary_tokens under [window]",
                )

    def overhead(self, template: str) -> int:
        """Tokens of a prompt besides its text, with numbers of four digits."""
        return sum(map(len, self.frame(template, dict.fromkeys(PLACEHOLDERS, "9999"))))

    def shared_prefix(self, template: str, values: Mapping[str, object]) -> int:
        """How many tokens every prompt of `template` begins with, whatever the values."""
        one, other = (self.frame(template, some)[0] for some in (values, dict.fromkeys(values, "")))
        return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

    def frame(self, template: str, values: Mapping[str, object]) -> tuple[list[int], list[int]]:
        """Token ids before and after the text. Frames are kept: each compiles the chat template."""
        key = template, *values.items()
        if key not in self._frames:
            self._frames[key] = self._frame(template, values)
        return self._frames[key]

    def _frame(self, template: str, values: Mapping[str, object]) -> tuple[list[int], list[int]]:
        prompts = self.preset.prompts
        wanted = {"question": self.request.focus or "", **values}
        if self.request.language is not None:
            wanted["language"] = self.request.language
        words = self.request.spelled(prompts, template, self._harmless)
        before, after = fill(words, {key: self._harmless(str(value)) for key, value in wanted.items()})
        messages = [{"role": "user", "content": f"{before.lstrip()}{_MARK}{after.rstrip()}"}]
        if prompts.system:
            messages.insert(0, {"role": "system", "content": prompts.system})
        rendered = render_chat(
            self.directory, messages, template=prompts.chat_template, options=prompts.template_options
        )
        if rendered.count(_MARK) != 1:
            raise ModelError(
                f"the chat template of {self.directory.name} does not keep the message as it is",
                why=f"a mark put into it came out {rendered.count(_MARK)} times",
                fix="write chat_template in the preset's [prompts]",
            )
        head, _, tail = rendered.partition(_MARK)
        return self.encoder.encode_prompt(head), self.encoder.encode_prompt(tail)

    def _harmless(self, value: str) -> str:
        """A title, say, that contains neither our mark nor the spelling of a control token."""
        for spelling in (_MARK, *self.encoder.special_tokens):
            value = value.replace(spelling, f"{spelling[0]} {spelling[1:]}")
        return value
