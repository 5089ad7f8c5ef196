"""One prompt to one text: the engine's tokens, detokenized as they come, until the text has had its say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from specextend_cli.engine.budget import Budget
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.drafters import Drafter, NoDrafter
from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Finished, Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
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
        space = ""

        def release(text: str) -> Iterator[Text]:
            # White space waits for what follows it: an answer neither begins nor ends with any.
            nonlocal space
            body = text.strip()
            if body:
                lead = space + text[: text.index(body[0])] if pieces else ""
                space = ""
                pieces.append(lead + body)
                yield Text(pieces[-1], final)
            space += text[len(text.rstrip()) :]

        stop = Stop(max_tokens, self.eos)
        reason = "stop"
        events = decode(
            self.target,
            self.drafter,
            prompt,
            stop=stop,
            sampling=self.sampling,
            retrieval=self.retrieval,
            budget=self.budget,
            prefill_chunk=self.prefill_chunk,
        )
        for event in events:
            yield event
            if isinstance(event, Step):
                delta = "".join(stream.step(self.tokenizer, token) or "" for token in event.tokens)
                yield from release(sentences.add(delta))
                if sentences.looping:
                    yield Finished("stop", stop.count)
                    break
            elif isinstance(event, Finished):
                reason = event.reason
        yield from release(sentences.finish(whole=reason == "eos"))
        self.text = "".join(pieces)

    def plainly(self) -> Writer:
        """The same without drafts, its clock included."""
        return replace(self, drafter=NoDrafter(self.target.lm.device), budget=Budget(TreeShape(nodes=1)))
