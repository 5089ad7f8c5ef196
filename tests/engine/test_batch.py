"""Batched decoding writes what plain decoding writes, whoever shares the batch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from specextend_cli.engine.batch import BatchRequest, _Reader, decode_batch
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.decode import decode, prefill_chunks
from specextend_cli.engine.drafters import NoDrafter
from specextend_cli.engine.events import Accepted, Finished, Prefilled, Prefilling
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import generate, prompt, tiny
from tests.helpers.decoding import decode_together
from tests.helpers.grid import pairs
from tests.helpers.pretend_device import PretendDevice

KINDS = {
    "greedy": Sampling(),
    "penalty": Sampling(repetition_penalty=1.5),
    "sampled": Sampling(temperature=0.8, top_p=0.9),
    "bonus": Sampling(repetition_penalty=0.7),
    "1-gram": Sampling(no_repeat_ngram=1),
    "everything": Sampling(temperature=1.2, repetition_penalty=1.3, no_repeat_ngram=3),
    "2-gram": Sampling(no_repeat_ngram=2),
}
LENGTHS, NEWS = (40, 9, 33, 290, 1, 57, 20), (12, 30, 5, 7, 22, 16, 3)


def requests(kind: str) -> list[BatchRequest]:
    """Prompts of many lengths, some of which end by a token, sampled by seeds of their own."""
    return [
        BatchRequest(
            prompt(300, seed=length)[:length],
            Stop(new, frozenset(range(0, 97, 9)) if number % 3 == 1 else frozenset()),
            replace(KINDS[kind], seed=number),
        )
        for number, (length, new) in enumerate(zip(LENGTHS, NEWS, strict=True))
    ]


def batched(lm: LanguageModel, kind: str, slots: int) -> list[tuple[list[int], str]]:
    """The tokens of each request, and why it ended."""
    asked = requests(kind)
    tokens, reasons = [list[int]() for _ in asked], [""] * len(asked)
    for number, event in decode_batch(lm, asked, slots=slots, prefill_chunk=16):
        if isinstance(event, Accepted):
            tokens[number] += event.tokens
            assert event.length == LENGTHS[number] + len(tokens[number])
        elif isinstance(event, Finished):
            reasons[number] = event.reason
            assert event.tokens == len(tokens[number])
    return list(zip(tokens, reasons, strict=True))


@cache
def plainly(kind: str) -> list[tuple[list[int], str]]:
    """The same by plain decoding, one after the other."""
    target, found = Target(LanguageModel(tiny())), []
    for request in requests(kind):
        how = {"stop": request.stop, "sampling": request.sampling}
        *events, last = decode(target, NoDrafter(), request.prompt, **how, prefill_chunk=16)
        found.append(
            ([token for event in events if isinstance(event, Accepted) for token in event.tokens], last.reason)
        )
    assert {reason for _, reason in found} == {"length", "eos"}
    return found


@pairs(("penalty", "everything", "greedy", "bonus"), kind=KINDS, slots=(1, 2, 3, 7), device=("cpu", "cuda"))
def test_a_batch_writes_what_plain_decoding_does(pretend: PretendDevice, kind: str, slots: int, device: str) -> None:
    """Slots are filled again, and on a GPU a step runs while the one before it is read."""
    assert batched(LanguageModel(tiny().to(device)), kind, slots) == plainly(kind)


def test_slow_prefill_starts_only_a_few_sequences(monkeypatch) -> None:
    """Else nothing of a batch is finished, and nothing can be kept, until its last prompt was read."""
    lm, now = LanguageModel(tiny()), [0.0]
    monkeypatch.setattr("specextend_cli.engine.batch.perf_counter", lambda: now[0])

    def asked() -> list[BatchRequest]:
        return [BatchRequest(prompt(30, seed=n), Stop(6)) for n in range(10)]

    written: list[list[int]] = [[] for _ in asked()]
    told = []
    for number, event in decode_batch(lm, asked(), slots=8, prefill_chunk=16, patience=30.0):
        if isinstance(event, Prefilling):
            now[0] += 10.0  # a piece, of which each prompt has two
        elif isinstance(event, Accepted):
            written[number].extend(event.tokens)
        elif isinstance(event, (Prefilled, Finished)):
            told.append(type(event))
    assert told == ([Prefilled] * 4 + [Finished] * 4) * 2 + [Prefilled] * 2 + [Finished] * 2
    assert written == decode_together(lm, asked(), 8)


def test_a_shared_prefix_is_read_once() -> None:
    lm = LanguageModel(tiny())
    prompts = [prompt()[:20] + prompt(seed=n)[:n] for n in (30, 11, 47)] + [prompt(seed=9)[:40]]

    def asked() -> list[BatchRequest]:
        return [BatchRequest(p, Stop(9), shared_prefix=20) for p in prompts]

    events = list(decode_batch(lm, asked(), slots=2, prefill_chunk=16))
    read = [[event.done for n, event in events if n == i and isinstance(event, Prefilling)] for i in range(4)]
    assert read == [[0, 16, 20, 36], [20], [20, 36, 52], [0, 16, 20, 36]]
    assert decode_together(lm, asked(), 2) == [generate(tiny(), p, 9) for p in prompts]


@pytest.mark.parametrize("before", [[], [(0, 20)], [(30, 20)], [(30, 0)], [(30, 16)], [(30, 25)]])
def test_a_reused_prefix_does_not_change_logits(before: list[tuple[int, int]]) -> None:
    """The same keys, values and logits to the bit, whether its beginning was kept, or was read in other pieces."""
    lm = LanguageModel(tiny())
    sought = prompt()[:20] + prompt(seed=7)[:33]
    caches = []
    for earlier in ([], before):
        reader = _Reader(lm, 16)
        with torch.inference_mode():
            for length, shared in earlier:
                list(reader.read(prompt()[:20] + prompt(seed=3)[:length], shared))
            list(reader.read(sought, 20))
        caches.append((reader.cache.rows(0, 53)[0].clone(), reader.logits))
    assert all(torch.equal(one, other) for one, other in zip(*caches, strict=True))


@pytest.mark.parametrize("shared", [0, 5, 16, 20, 40, 41, 90])
def test_prefill_chunks_cover_the_prompt(shared: int) -> None:
    read = prefill_chunks(41, 16, shared)
    assert [at for start, end in read for at in range(start, end)] == list(range(41))
    assert max(end - start for start, end in read) <= 16
    assert any(start == min(shared, 40) for start, _ in read)


def test_equal_consecutive_prompts_are_read_once() -> None:
    lm = LanguageModel(tiny())
    prompts = [prompt(30), prompt(30), prompt(20), prompt(30)]
    asked = [BatchRequest(p, Stop(4)) for p in prompts]
    events = decode_batch(lm, asked, slots=2)
    assert [number for number, event in events if isinstance(event, Prefilled)] == [0, 2, 3]
    written = decode_together(lm, asked, 2)
    assert written[0] == written[1] == written[3]


def test_no_requests_and_an_empty_prompt() -> None:
    lm = LanguageModel(tiny())
    assert list(decode_batch(lm, [], slots=4)) == []
    with pytest.raises(ValueError, match="empty"):
        list(decode_batch(lm, [BatchRequest([], Stop(3))], slots=1))
