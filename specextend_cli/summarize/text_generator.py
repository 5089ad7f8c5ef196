"""Prompts to texts: the engine's tokens, detokenized as they come, until a text has had its say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from tokenizers import Tokenizer

from specextend_cli.engine.batch import BatchRequest, States, decode_batch
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter, NoDrafter
from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Finished, Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.errors import FitError
from specextend_cli.models.preset import Preset
from specextend_cli.models.sources import ModelDirectories as Directories
from specextend_cli.runtime.devices import free_memory
from specextend_cli.runtime.loading import (
    drafter_of,
    end_tokens,
    load_language_model,
    load_target,
    retrieval_of,
    sampling_of,
)
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.runtime.process_group import process_group
from specextend_cli.summarize.attribution import AttributionTracker
from specextend_cli.summarize.events import Text
from specextend_cli.summarize.text_stream import TextStream

_PATIENCE = 30.0  # seconds of reading before what was read is written: what is lost when a slow machine is stopped
_WARM, _LIKELY, _STRICTER = 0.7, 0.9, 0.1  # of another try: temperature, top p, and what each adds to the penalty


@dataclass
class TextGenerator:
    """Writes with one target and one drafter. `drafter` and `budget` may be exchanged between texts.

    `together` texts at most are written at once by `write_together`.
    """

    target: Target
    drafter: Drafter
    tokenizer: Tokenizer
    sampling: Sampling
    retrieval: Retrieval
    budget: DraftGate
    eos: frozenset[int]
    prefill_chunk: int
    together: int = 1
    text: str = field(default="", init=False)

    def write(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        final: bool,
        segment_starts: Sequence[int] = (),
        shared: int = 0,
    ) -> Iterator[EngineEvent | Text]:
        """Events of one answer; when they end, `text` is the answer, stripped, in whole sentences.

        `segment_starts` divide the prompt, and its first `shared` tokens are read by themselves (see `decode`). The
        text is cut at a sentence that starts to go in circles, and where `max_tokens`
        leaves a sentence unfinished.
        """
        stream, attribution = TextStream(self.tokenizer), AttributionTracker()
        with _enough_memory(len(prompt)):
            for event in decode(
                self.target,
                self.drafter,
                prompt,
                stop=Stop(max_tokens, self.eos, stream.until),
                sampling=self.sampling,
                retrieval=self.retrieval,
                gate=self.budget,
                prefill_chunk=self.prefill_chunk,
                shared_prefix=shared,
                segment_starts=segment_starts,
            ):
                if isinstance(event, Step):
                    attribution.add(event)
                yield event
                if isinstance(event, Finished):
                    stream.finish(whole=event.reason == "eos")
                if fresh := stream.take():
                    yield Text(fresh, final, attribution.take(stream))
        self.text = stream.text

    def write_together(
        self, prompts: Sequence[tuple[Sequence[int], int, Sequence[int], int]]
    ) -> Iterator[tuple[int, EngineEvent | Text | str]]:
        """Answers to prompts, each with its most new tokens, its segment starts, and its shared tokens.

        Without drafts; events come with the prompt's number, and the last of each is its answer, as `write` would
        leave it in `text`.
        """
        streams = [TextStream(self.tokenizer) for _ in prompts]
        attributions = [AttributionTracker() for _ in prompts]
        requests = [
            BatchRequest(prompt, Stop(most, self.eos, stream.until), self.sampling, starts, shared)
            for (prompt, most, starts, shared), stream in zip(prompts, streams, strict=True)
        ]
        with _enough_memory(max(len(prompt) for prompt, *_ in prompts)):
            for number, event in decode_batch(
                self.target.lm,
                requests,
                slots=self.together,
                prefill_chunk=self.prefill_chunk,
                costs=self.budget.costs,
                attribution_layers=self.target.attribution_layers,
                patience=_PATIENCE,
            ):
                if isinstance(event, States):
                    continue
                stream, attribution = streams[number], attributions[number]
                if isinstance(event, Step):
                    attribution.add(event)
                yield number, event
                if isinstance(event, Finished):
                    stream.finish(whole=event.reason == "eos")
                if fresh := stream.take():
                    yield number, Text(fresh, False, attribution.take(stream))
                if isinstance(event, Finished):
                    yield number, stream.text

    def keep_exact(self) -> None:
        """Let neither trees nor batches have more rows than the target computes as it does one."""
        rows, shape = self.target.lm.exact_rows, self.budget.shape
        if rows is not None:
            self.together = min(self.together, rows)
            self.budget = DraftGate(replace(shape, nodes=min(shape.nodes, rows)), enabled=self.budget.enabled)

    def again(self, attempt: int) -> TextGenerator:
        """The same for another try: sampled, penalizing repetition more, by the seed and `attempt` alone."""
        old = self.sampling
        new = replace(
            old,
            temperature=max(old.temperature, _WARM),
            top_p=min(old.top_p, _LIKELY),
            repetition_penalty=max(old.repetition_penalty, 1.0) + attempt * _STRICTER,
            seed=old.seed + attempt,
        )
        return replace(self, sampling=new)

    def plainly(self) -> TextGenerator:
        """The same without drafts, its clock included."""
        return replace(self, drafter=NoDrafter(self.target.lm.device), budget=DraftGate(TreeShape(nodes=1)))


@contextmanager
def _enough_memory(tokens: int) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise FitError(
            f"memory ran out on a prompt of {tokens:,} tokens",
            why=str(error).splitlines()[0],
            fix="a preset with a smaller model or chunk: specextend presets list",
        ) from error


def load_generator(preset: Preset, directories: Directories, choices: EngineOptions) -> TextGenerator:
    """Load everything. Takes seconds. ModelError, FitError, UsageError: said by what is loaded.

    Where several processes share the target, all of them load their parts of it now; drafts are this one's alone.
    """
    from specextend_cli.engine.batch import slots_for
    from specextend_cli.models.tokens import load_tokenizer

    if shared := process_group():
        shared.broadcast("load", preset, directories, choices)
    target = load_target(preset, directories, choices)
    lm, device = target.lm, target.lm.device
    retrieval = retrieval_of(preset, choices)
    return TextGenerator(
        target=target,
        drafter=drafter_of(
            preset,
            choices,
            target,
            retrieval,
            directories.draft,
            partial(load_language_model, preset, "none", device, None),
        ),
        tokenizer=load_tokenizer(directories.target),
        sampling=sampling_of(preset, choices),
        retrieval=retrieval,
        budget=DraftGate(preset.tree),
        eos=end_tokens(lm),
        prefill_chunk=1024 if device.type == "cpu" else 4096,
        # A batch's steps are no orders that other processes know.
        together=1
        if shared
        else slots_for(lm, preset.window.chunk + 2 * preset.window.chunk_summary_tokens, free_memory(device) // 4),
    )
