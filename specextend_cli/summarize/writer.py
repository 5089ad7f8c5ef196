"""Prompts to texts: the engine's tokens, detokenized as they come, in whole sentences, until a text ends."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from specextend_cli.engine.attention.hybrid import take_failure
from specextend_cli.engine.batch import BatchRequest, decode_batch, slots_for
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter, NoDrafter
from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Finished
from specextend_cli.engine.plain import TransformersTarget
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.errors import FitError
from specextend_cli.models.heads import load_eagle
from specextend_cli.models.preset import Preset
from specextend_cli.models.shape import PREFILL
from specextend_cli.models.sources import ModelDirectories
from specextend_cli.models.tokens import load_tokenizer
from specextend_cli.runtime import loading
from specextend_cli.runtime.devices import free_memory
from specextend_cli.runtime.loading_thread import Stage
from specextend_cli.runtime.options import DRAFTING, Engine
from specextend_cli.runtime.runners import run_by_graphs, run_natively, tree_for
from specextend_cli.summarize.events import Text
from specextend_cli.summarize.prompts import Prompt
from specextend_cli.summarize.sentences import Sentences

_PATIENCE = 30.0  # seconds of reading before what was read is written: what is lost when a slow machine is stopped
_TEMPERATURE, _TOP_P, _PENALTY = 0.7, 0.9, 0.1  # of a retry; each adds so much to the repetition penalty


class TextStream:
    """Takes an answer's tokens by `until`, and the engine's events by `released`. `text` is all that was released.

    It has no half characters, no unfinished sentences but those at an end, and no white space around it.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.text = ""
        self._tokenizer = tokenizer
        self._decoding = DecodeStream(skip_special_tokens=True)
        self._sentences = Sentences()
        self._waiting = ""  # whole sentences that were not released, and the space behind those that were

    def until(self, tokens: Sequence[int]) -> int | None:
        """Take tokens in; how many of them to keep where sentences begin to repeat (see `Stop`)."""
        # One token at a time, so that the text does not depend on how many a step happened to accept.
        for number, token in enumerate(tokens, 1):
            self._waiting += self._sentences.add(self._decoding.step(self._tokenizer, token) or "")
            if self._sentences.looping:
                return number
        return None

    def released(self, event: EngineEvent) -> Iterator[Text]:
        """The text released since the last call, if there is any. `event` is the engine's next one."""
        if isinstance(event, Finished):
            self._waiting += self._sentences.finish(whole=event.reason == "eos")
        if fresh := self._waiting.rstrip():
            self._waiting = self._waiting[len(fresh) :]
            fresh = fresh if self.text else fresh.lstrip()
            self.text += fresh
            yield Text(fresh)


@dataclass
class TextGenerator:
    """Generates with one target and one drafter; at most `batch_size` texts in a batch. `problem` is told once."""

    target: Target | TransformersTarget
    tokenizer: Tokenizer
    sampling: Sampling
    retrieval: Retrieval
    eos: frozenset[int]
    prefill_chunk: int = PREFILL
    drafter: Drafter = field(default_factory=NoDrafter)
    draft_gate: DraftGate = field(default_factory=lambda: DraftGate(TreeShape(nodes=1)))
    batch_size: int = 1
    problem: str = ""

    def generate(self, prompt: Prompt) -> Generator[EngineEvent | Text, None, str]:
        """Events of one answer; returns it, stripped, in whole sentences.

        The text ends before a sentence that begins to repeat others, and before one that `max_tokens` cuts off.
        """
        stream = TextStream(self.tokenizer)
        with _enough_memory(len(prompt.tokens)):
            for event in decode(
                self.target,
                self.drafter,
                prompt.tokens,
                stop=Stop(prompt.max_tokens, self.eos, stream.until),
                sampling=self.sampling,
                retrieval=self.retrieval,
                gate=self.draft_gate,
                prefill_chunk=self.prefill_chunk,
                shared_prefix=prompt.shared_prefix,
            ):
                yield event
                yield from stream.released(event)
        return stream.text

    def generate_batch(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, EngineEvent | Text | str]]:
        """The same for several prompts, without drafts. Events have the prompt's number; its answer is the last one."""
        assert isinstance(self.target, Target)  # no other has batches
        streams = [TextStream(self.tokenizer) for _ in prompts]
        requests = [
            BatchRequest(
                prompt.tokens, Stop(prompt.max_tokens, self.eos, stream.until), self.sampling, prompt.shared_prefix
            )
            for prompt, stream in zip(prompts, streams, strict=True)
        ]
        with _enough_memory(max(len(prompt.tokens) for prompt in prompts)):
            for number, event in decode_batch(
                self.target.lm,
                requests,
                slots=self.batch_size,
                prefill_chunk=self.prefill_chunk,
                costs=self.draft_gate.costs,
                patience=_PATIENCE,
            ):
                yield number, event
                yield from ((number, text) for text in streams[number].released(event))
                if isinstance(event, Finished):
                    yield number, streams[number].text

    def take_problem(self) -> str:
        """What failed at load or while prompts were read, and was done otherwise, told once; "" if nothing did."""
        problem, self.problem = self.problem, ""
        first = (take_failure().splitlines() or [""])[0]
        failed = f"cuDNN's attention failed ({first}): PyTorch's reads prompts, and the summary is not affected"
        return problem or (first and failed)

    def resampled(self, attempt: int) -> TextGenerator:
        """A generator for a retry: it samples and penalizes repetition more, by the seed and `attempt` alone."""
        old = self.sampling
        new = replace(
            old,
            temperature=max(old.temperature, _TEMPERATURE),
            top_p=min(old.top_p, _TOP_P),
            repetition_penalty=max(old.repetition_penalty, 1.0) + attempt * _PENALTY,
            seed=old.seed + attempt,
        )
        return replace(self, sampling=new)

    def without_drafts(self) -> TextGenerator:
        """A generator that does not draft; its costs are measured anew."""
        return replace(self, drafter=NoDrafter(), draft_gate=DraftGate(TreeShape(nodes=1)))


@contextmanager
def _enough_memory(tokens: int) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise FitError(
            f"memory ran out on a prompt of {tokens:,} tokens",
            why=str(error).splitlines()[0],
            fix="a preset with a smaller model or chunk: specextend models list",
        ) from error


def load_writer(
    preset: Preset, directories: ModelDirectories, engine: Engine, *, batch: int | None
) -> Generator[Stage, None, TextGenerator]:
    """Load both models, check them, and let them run natively or by graphs.

    The sizes of caches and batches come from the preset, the options and the memory that is free, none from a document.
    Raises what `loading.load_target` and `loading.drafter_of` raise.
    """
    target = loading.load_target(preset, directories, engine)
    device, window, retrieval = target.lm.device, preset.window, loading.retrieval_of(preset, engine)
    generator = TextGenerator(
        target=target,
        tokenizer=load_tokenizer(directories.target),
        sampling=loading.sampling_of(preset, engine),
        retrieval=retrieval,
        eos=loading.end_tokens(target.lm),
    )
    if isinstance(target, TransformersTarget):
        generator.problem = f"{preset.name} runs plainly by transformers: {target.lm.why}"
        return generator
    lm = target.lm
    load = partial(loading.load_language_model, preset, "none", device)
    load_head = partial(load_eagle, target=lm, name=preset.name)
    drafter = loading.drafter_of(preset, engine, target, retrieval, directories.draft, load, load_head)
    heads = loading.heads_of(drafter)
    if engine.compile:
        yield from run_natively(lm, heads, exact=loading.is_exact(preset, engine))
    shape, drafted = tree_for(lm, preset.tree), any(getattr(engine, name) is not None for name in DRAFTING)
    slots = slots_for(lm, window.chunk + 2 * window.chunk_summary_tokens, free_memory(device) // 4)
    batch_size = min(slots, batch or (1 if drafted else window.batch), lm.runner.exact_rows or slots)
    yield from run_by_graphs(target, drafter, shape, batch=batch_size)
    yield Stage(f"drafts: {loading.describe(drafter)}")
    yield from (Stage(f"the draft head: {remark}") for head in heads for remark in head.remarks)
    generator.drafter, generator.draft_gate = drafter, DraftGate(shape)
    generator.prefill_chunk = loading.prefill_step(preset, device, engine)
    generator.batch_size = lm.runner.batch_size(batch_size)
    return generator
