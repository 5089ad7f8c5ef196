"""An answer's tokens to text: whole characters, whole sentences, no white space around them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Finished, Step
from specextend_cli.summarize.events import SentenceAttention, Text
from specextend_cli.summarize.text.sentences import Sentences

if TYPE_CHECKING:
    from torch import Tensor

_KEPT = 24  # segments of a sentence, the largest ones; the others have hardly any attention


class TextStream:
    """Feed it tokens by `until` and the engine's events by `released`.

    `text` is all that was released, and `attention` that of its sentences. `origins` says of each piece of it,
    characters [start, end), which tokens [first, last) wrote it.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoding = DecodeStream(skip_special_tokens=True)
        self._sentences = Sentences()
        self._pieces: list[str] = []
        self._taken = 0
        self._space = ""
        self.origins: list[tuple[int, int, int, int]] = []
        self.attention: list[SentenceAttention] = []
        self._length = 0
        self._first = self._fed = 0
        self._starts: list[int] = []  # where the text of each token begins
        self._rows: list[Tensor | None] = []  # the attention of each token, by segment of the prompt

    @property
    def text(self) -> str:
        """Everything released so far."""
        return "".join(self._pieces)

    def until(self, tokens: Sequence[int]) -> int | None:
        """Take tokens in; how many of them to keep where sentences begin to repeat (see `Stop`)."""
        # One token at a time, so that the text does not depend on how many a step happened to accept.
        for number, token in enumerate(tokens, 1):
            dropped = self._sentences.dropped
            delta = self._decoding.step(self._tokenizer, token) or ""
            self._starts.append(self._fed)
            self._fed += len(delta)
            self._release(self._sentences.add(delta), self._written())
            if self._sentences.dropped > dropped:
                self._first = self._written()  # its tokens are no part of what comes
            if self._sentences.looping:
                return number
        return None

    def finish(self, *, whole: bool) -> None:
        """No more tokens come; an unfinished sentence counts only where the answer is `whole`."""
        self._release(self._sentences.last(), self._written())
        self._release(self._sentences.finish(whole=whole), len(self._starts))

    def released(self, event: EngineEvent) -> Iterator[Text]:
        """The text released since the last call, if there is any. `event` is the engine's next one."""
        if isinstance(event, Step):
            self._rows += [None] * len(event.tokens) if event.attribution is None else event.attribution
        elif isinstance(event, Finished):
            self.finish(whole=event.reason == "eos")
        fresh, origins = "".join(self._pieces[self._taken :]), self.origins[self._taken :]
        self._taken = len(self._pieces)
        if fresh:
            attention = tuple(self._sentence_attention(origins))
            self.attention += attention
            yield Text(fresh, attention)

    def _sentence_attention(self, origins: Iterable[tuple[int, int, int, int]]) -> Iterator[SentenceAttention]:
        for start, end, first, last in origins:
            if rows := [row for row in self._rows[first:last] if row is not None]:
                mean = sum(rows[1:], rows[0]) / len(rows)
                best = mean.topk(min(_KEPT, len(mean)))
                yield SentenceAttention(start, end, dict(zip(best.indices.tolist(), best.values.tolist(), strict=True)))

    def _written(self) -> int:
        """How many tokens wrote the whole sentences so far; the one with the space behind belongs to the next."""
        return bisect_left(self._starts, self._sentences.taken)

    def _release(self, text: str, read: int) -> None:
        # White space waits for what follows it: an answer neither begins nor ends with any.
        body = text.strip()
        if body:
            lead = self._space + text[: text.index(body[0])] if self._pieces else ""
            self._space = ""
            self._pieces.append(lead + body)
            start, self._length = self._length + len(lead), self._length + len(lead + body)
            self.origins.append((start, self._length, self._first, max(read, self._first + 1)))
            self._first = read
        self._space += text[len(text.rstrip()) :]
