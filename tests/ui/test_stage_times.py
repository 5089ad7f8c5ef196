"""What `-v` says of the time before the first words."""

from __future__ import annotations

from specextend_cli.engine.events import Prefilled, Prefilling, Step
from specextend_cli.summarize.events import Stage, Text, Warned
from specextend_cli.ui.stage_times import StageTimes


def test_every_second_before_the_first_words_is_in_a_stage() -> None:
    now = [100.0]
    times = StageTimes(lambda: now[0], last=99.4)

    def after(seconds: float, *events: object) -> None:
        now[0] += seconds
        for event in events:
            times.add(event)  # type: ignore[arg-type]

    times.begin("reading")
    after(2.0, Stage("loading Tiny"))
    after(3.0, Stage("preparing the GPU"))
    after(1.0, Stage("preparing the GPU", 1, 2), Stage("the model keeps transformers' layers"))
    after(0.01, Prefilling(0, 100, 0.0))
    after(0.5, Prefilled(100, 0.5), Warned("odd"), Step((1,), 101, 1, 0.0, 0.0, 0.0, 1), Text("a chunk's", final=False))
    after(0.2, Text("The summary ", final=True))
    after(9.0, Stage("loading another"), Prefilling(0, 100, 0.0), Text("begins", final=True))
    assert str(times) == (
        "7.3 s to the first words: starting 0.6 s, reading 2.0 s, loading Tiny 3.0 s, preparing the GPU 1.0 s, "
        "reading by the model 0.5 s, writing 0.2 s"
    )


def test_the_first_stage_began_with_the_process() -> None:
    times = StageTimes()
    times.begin("reading")
    assert 0 < times.seconds["starting"] < 24 * 3600


def test_stages_beside_earlier_ones_are_told_apart() -> None:
    """Loading began at 1 s; the document was there at 4 s, planned at 5 s, and waited for the GPU until 7 s."""
    now = [4.0]
    times = StageTimes(lambda: now[0], last=0.0)
    times.begin("planning")
    now[0] = 5.0
    for name, began in ("loading Tiny", 1.0), ("loading Tiny", 1.5), ("preparing the GPU", 3.0):
        times.add(Stage(name, began=began))
    now[0] = 7.0
    times.add(Stage("drafts: ngram", began=7.0))
    times.add(Prefilling(0, 100, 0.0))
    now[0] = 7.5
    times.add(Text("The summary ", final=True))
    assert str(times) == (
        "7.5 s to the first words: starting 4.0 s, planning 1.0 s, preparing the GPU 2.0 s, reading by the model 0.5 s"
        "; beside these: loading Tiny 2.0 s, preparing the GPU 2.0 s"
    )


def test_what_was_loaded_before_it_was_needed_has_no_seconds_of_waiting() -> None:
    now = [9.0]
    times = StageTimes(lambda: now[0], last=0.0)
    for name, began in ("loading Tiny", 1.0), ("drafts: ngram", 3.0):
        times.add(Stage(name, began=began))
    now[0] = 9.5
    times.add(Prefilling(0, 100, 0.0))
    now[0] = 10.0
    times.add(Text("The summary ", final=True))
    assert str(times) == (
        "10 s to the first words: starting 9.0 s, drafts: ngram 0.5 s, reading by the model 0.5 s"
        "; beside these: loading Tiny 2.0 s"
    )
