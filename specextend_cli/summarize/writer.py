"""One prompt to one text: the engine's tokens, detokenized as they come, until the text has had its say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from specextend_cli.engine.budget import Budget
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.drafters import Drafter, NoDrafter
from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Finished
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.errors import FitError
from specextend_cli.summarize.events import Text
from specextend_cli.summarize.sentences import Sentences


@dataclass
class Writer:
    """Writes with one target and one drafter. `drafter` and `budget` may be exchanged between texts."""

    target: Target
    drafter: Drafter
    tokenizer: Tokenizer
    sampling: Sampling
    retrieval: Retrieval
    budget: Budget
    eos: frozenset[int]
    prefill_chunk: int
    text: str = field(default="", init=False)

    def write(self, prompt: Sequence[int], *, max_tokens: int, final: bool) -> Iterator[EngineEvent | Text]:
        """Events of one answer; when they end, `text` is the answer, stripped, in whole sentences.

        The text is cut at a sentence that starts to go in circles, and where `max_tokens` leaves a sentence unfinished.
        """
        sentences = Sentences()
        stream = DecodeStream(skip_special_tokens=True)
        pieces: list[str] = []
        fresh: list[str] = []
        space = ""

        def release(text: str) -> None:
            # White space waits for what follows it: an answer neither begins nor ends with any.
            nonlocal space
            body = text.strip()
            if body:
                lead = space + text[: text.index(body[0])] if pieces else ""
                space = ""
                pieces.append(lead + body)
                fresh.append(lead + body)
            space += text[len(text.rstrip()) :]

        def until(tokens: Sequence[int]) -> int | None:
            # One token at a time, so that the text does not depend on how many a step happened to accept.
            for number, token in enumerate(tokens, 1):
                release(sentences.add(stream.step(self.tokenizer, token) or ""))
                if sentences.looping:
                    return number
            return None

        try:
            for event in decode(
                self.target,
                self.drafter,
                prompt,
                stop=Stop(max_tokens, self.eos, until),
                sampling=self.sampling,
                retrieval=self.retrieval,
                budget=self.budget,
                prefill_chunk=self.prefill_chunk,
            ):
                yield event
                if isinstance(event, Finished):
                    release(sentences.finish(whole=event.reason == "eos"))
                if fresh:
                    yield Text("".join(fresh), final)
                    fresh.clear()
        except torch.OutOfMemoryError as error:
            raise FitError(
                f"memory ran out on a prompt of {len(prompt):,} tokens",
                why=str(error).splitlines()[0],
                fix="a preset with a smaller model or chunk: specextend presets list",
            ) from error
        self.text = "".join(pieces)

    def plainly(self) -> Writer:
        """The same without drafts, its clock included."""
        return replace(self, drafter=NoDrafter(self.target.lm.device), budget=Budget(TreeShape(nodes=1)))
