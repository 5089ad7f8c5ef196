"""Batched decoding writes what plain decoding writes, whoever shares the batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specextend_cli.engine.batch import BatchRequest, _Batch, _Reader, decode_batch
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.decode import prefill_chunks
from specextend_cli.engine.events import Accepted, Finished, Prefilled, Prefilling
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from tests.engine.tiny_models import generate, prompt, tiny
from tests.helpers.decoding import decode_together
from tests.helpers.grid import but_for
from tests.helpers.pretend_device import PretendDevice

KINDS = {
    "greedy": Sampling(),
    "sampled": Sampling(temperature=0.9, repetition_penalty=1.2, no_repeat_ngram=3),
}


@pytest.mark.parametrize("slots", but_for((3,), (1, 2, 3, 7)))
@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_are_launched_ahead_change_nothing(
    pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, kind: str, slots: int
) -> None:
    """On a GPU, a step runs while the one before it is read: sequences that end, end where they do on a CPU."""
    lengths, news = (40, 9, 33, 40, 1, 57, 12), (12, 9, 1, 7, 2, 16, 3)
    launch, launched = _Batch.launch, [0]

    def counted(batch: _Batch, prompts: int) -> object:
        launched[-1] += len(batch.live)
        return launch(batch, prompts)

    monkeypatch.setattr(_Batch, "launch", counted)
    told: list[list[tuple[object, ...]]] = []
    for device in ("cpu", "cuda"):
        launched.append(0)
        requests = [
            BatchRequest(
                prompt(60, seed=n)[:n],
                Stop(new, frozenset(range(0, 97, 9)) if number in (0, 1, 3, 6) else frozenset()),
                replace(KINDS[kind], seed=number),
            )
            for number, (n, new) in enumerate(zip(lengths, news, strict=True))
        ]
        of_each: list[list[tuple[object, ...]]] = [[] for _ in requests]
        lm = LanguageModel(tiny().to(device))
        for number, event in decode_batch(lm, requests, slots=slots, prefill_chunk=16):
            if isinstance(event, Accepted):
                of_each[number].append((event.tokens, event.length))
            elif isinstance(event, Finished):
                of_each[number].append((event.reason, event.tokens))
        told += of_each
    on_host, there = told[: len(lengths)], told[len(lengths) :]
    assert there == on_host
    assert {event[0] for events in on_host for event in events} >= {"length", "eos"}
    assert launched[2] > launched[1]  # those that nobody sees


def test_slow_prefill_starts_only_a_few_sequences(monkeypatch) -> None:
    """Else nothing of a batch is finished, and nothing can be kept, until its last prompt was read."""
    lm, now = LanguageModel(tiny()), [0.0]
    monkeypatch.setattr("specextend_cli.engine.batch.perf_counter", lambda: now[0])

    def requests() -> list[BatchRequest]:
        return [BatchRequest(prompt(30, seed=n), Stop(6)) for n in range(10)]

    written: list[list[int]] = [[] for _ in requests()]
    told = []
    for number, event in decode_batch(lm, requests(), slots=8, prefill_chunk=16, patience=30.0):
        if isinstance(event, Prefilling):
            now[0] += 10.0  # a piece, of which each prompt has two
        elif isinstance(event, Accepted):
            written[number].extend(event.tokens)
        elif isinstance(event, (Prefilled, Finished)):
            told.append(type(event))
    assert told == ([Prefilled] * 4 + [Finished] * 4) * 2 + [Prefilled] * 2 + [Finished] * 2
    assert written == decode_together(lm, requests(), 8)


def test_a_shared_prefix_is_read_once() -> None:
    lm = LanguageModel(tiny())
    prompts = [prompt()[:20] + prompt(seed=n)[:n] for n in (30, 11, 47)] + [prompt(seed=9)[:40]]

    def requests() -> list[BatchRequest]:
        return [BatchRequest(p, Stop(9), shared_prefix=20) for p in prompts]

    events = list(decode_batch(lm, requests(), slots=2, prefill_chunk=16))
    read = [[event.done for n, event in events if n == i and isinstance(event, Prefilling)] for i in range(4)]
    assert read == [[0, 16, 20, 36], [20], [20, 36, 52], [0, 16, 20, 36]]
    assert decode_together(lm, requests(), 2) == [generate(tiny(), p, 9) for p in prompts]


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


def test_sequences_end_for_their_own_reasons() -> None:
    lm = LanguageModel(tiny())
    whole = generate(tiny(), prompt(30), 20)
    end = frozenset({whole[4]})
    at = whole.index(whole[4])
    events = list(
        decode_batch(lm, [BatchRequest(prompt(30), Stop(20, end)), BatchRequest(prompt(30), Stop(3))], slots=2)
    )
    ended = {number: (event.reason, event.tokens) for number, event in events if isinstance(event, Finished)}
    assert ended == {0: ("eos", at + 1), 1: ("length", 3)}


def test_equal_consecutive_prompts_are_read_once() -> None:
    lm = LanguageModel(tiny())
    prompts = [prompt(30), prompt(30), prompt(20), prompt(30)]
    events = list(decode_batch(lm, [BatchRequest(p, Stop(4)) for p in prompts], slots=2))
    assert [number for number, event in events if isinstance(event, Prefilled)] == [0, 2, 3]
    written = [
        [t for n, e in events if n == number and isinstance(e, Accepted) for t in e.tokens] for number in range(4)
    ]
    assert written[0] == written[1] == written[3]


def test_no_requests_and_an_empty_prompt() -> None:
    lm = LanguageModel(tiny())
    assert list(decode_batch(lm, [], slots=4)) == []
    with pytest.raises(ValueError, match="empty"):
        list(decode_batch(lm, [BatchRequest([], Stop(3))], slots=1))
