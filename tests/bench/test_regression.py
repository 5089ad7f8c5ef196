"""What was doctored is named; what only the clock or another machine changed is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specextend_cli.bench.records import Benchmark, Divergence, Record
from specextend_cli.bench.regression import regressions
from specextend_cli.bench.storage import from_json, to_json
from specextend_cli.errors import UsageError
from tests.bench.made_benchmark import MACHINE, benchmark, realistic, record
from tests.bench.untrusted_text import controls, untrusted_benchmark

OLD = realistic(lengths=(512, 8192))


def doctored(change: dict[str, object], method: str = "specextend", length: int = 8192) -> Benchmark:
    def changed(one: Record) -> Record:
        return replace(one, **change) if (one.method, one.length) == (method, length) else one  # type: ignore[arg-type]

    return replace(OLD, records=tuple(map(changed, OLD.records)))


def test_the_same_is_no_regression_from_a_file_too() -> None:
    assert regressions(OLD, OLD) == ()
    assert regressions(from_json(to_json(OLD)), OLD) == ()


def test_another_draw_of_the_clocks_noise_is_none() -> None:
    """The same figures, each run up to 2% slower or faster."""
    noisy = tuple(
        replace(one, decode_seconds=one.decode_seconds * (0.98 if index % 2 else 1.02))
        for index, one in enumerate(OLD.records)
    )
    assert regressions(OLD, replace(OLD, records=noisy)) == ()


def test_a_slow_down_is_named_once_for_each_speedup() -> None:
    found = regressions(OLD, doctored({"decode_seconds": 30.0}))
    assert len(found) == 2
    assert found[0].startswith("specextend at 8K: decoding speedup fell from 2.")
    assert found[1].startswith("specextend at 8K: end-to-end speedup fell from 1.")


def test_a_faster_old_file_is_a_regression_now() -> None:
    assert regressions(doctored({"decode_seconds": 1.0}, "standard", 512), OLD)


def test_a_fall_of_the_accepted_length_is_named() -> None:
    (found,) = regressions(OLD, doctored({"accepted": (2,) * 127}))
    assert found.startswith("specextend at 8K: accepted length fell from 2.")
    assert found.endswith("to 2.00")


def test_output_that_differs_now_is_named() -> None:
    (found,) = regressions(OLD, doctored({"divergence": Divergence(3, 0.2)}))
    assert found == "specextend at 8K: output differs from plain decoding in 5 of 5 runs, before in none"
    assert regressions(doctored({"divergence": Divergence(3, 0.2)}), OLD) == ()


def test_another_machine_is_slower_and_that_is_none() -> None:
    slow = tuple(
        replace(one, prefill_seconds=3 * one.prefill_seconds, decode_seconds=3 * one.decode_seconds)
        for one in OLD.records
    )
    assert regressions(OLD, replace(OLD, records=slow, machine=replace(MACHINE, threads=1))) == ()


@pytest.mark.parametrize(("seconds", "worse"), [(3.2, False), (4.0, True)])
def test_one_document_alone_has_ten_percent(seconds: float, worse: bool) -> None:
    old = benchmark(record(), record("fast", decode_seconds=3.0))
    new = benchmark(record(), record("fast", decode_seconds=seconds))
    assert bool(regressions(old, new)) is worse


def test_only_what_both_have_is_compared() -> None:
    """One document of an interrupted run; methods and lengths of one side only."""
    part = [one for one in OLD.records if one.length == 8192 and one.document == "report-1"]
    assert regressions(OLD, replace(OLD, records=tuple(part), settings={**OLD.settings, "lengths": [8192]})) == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"settings": {**OLD.settings, "dtype": "float32"}}, "dtype was bfloat16 and is float32"),
        ({"settings": {**OLD.settings, "chunk": 32}}, "chunk was not set and is 32"),
        ({"preset": "other"}, "preset was small and is other"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"records": ()}, "they share no method"),
        ({"records": tuple(one for one in OLD.records if one.method != "plain")}, "speedups need plain decoding"),
    ],
)
def test_what_was_measured_differently_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        regressions(OLD, replace(OLD, **change))  # type: ignore[arg-type]
    assert caught.value.what == "the two benchmarks cannot be compared"
    assert why in caught.value.why
    assert caught.value.fix


def test_untrusted_text_is_harmless() -> None:
    made = untrusted_benchmark()
    slow = replace(made, records=tuple(replace(one, decode_seconds=9.0) for one in made.records))
    found = regressions(made, slow)
    assert found
    assert not controls("".join(found))
    with pytest.raises(UsageError) as caught:
        regressions(made, OLD)
    assert not controls(caught.value.why)
