"""The model of a command that names none: chosen, and on a terminal offered and fetched with consent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from shlex import quote

from specextend_cli.cli.options import AUTO
from specextend_cli.errors import FitError, ModelError, UsageError
from specextend_cli.humanize import format_bytes
from specextend_cli.models.choice import USUAL_TOKENS, Candidate, Choice, Machine, candidates, choose
from specextend_cli.models.configuration import configuration_file, configure, read_configuration
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch_pair, offline_by_environment
from specextend_cli.runtime.devices import this_machine
from specextend_cli.summarize.cache import RunStore, results_file
from specextend_cli.ui.output import Output, format_error
from specextend_cli.ui.panel import open_view

REASONS: Mapping[str, str] = {
    "named": "as named",
    "none asked": "the embedded one",
    "configured": "as configured",
    "on disk": "the best that is on disk and fits",
    "none fits": "as none that writes is on disk and fits",
}
"""Why a model was chosen, by `Choice.reason`."""
_ANSWERS = {"": "yes", "y": "yes", "yes": "yes", "n": "no", "no": "no", "never": "never"}


def chosen_model(
    model: str | None,
    device: str = "auto",
    tokens: Callable[[], int | None] = lambda: None,
    *,
    asking: Output | None = None,
    offline: bool = False,
) -> Choice:
    """The choice for this machine; a `model` that was named is taken. It needs no torch.

    `tokens` reads the document, where its size matters. With `asking`, the best model that is not on disk is offered on
    a terminal, and fetched with consent.
    """
    if model not in (None, AUTO):
        return Choice(model, "named")
    machine, count = this_machine(device), None
    choice = _choose(machine, None)
    may_ask = asking is not None and not (offline or offline_by_environment()) and _may_ask(asking)
    if machine.device == "cpu" and (choice.reason == "on disk" or choice.hindered or (choice.offer and may_ask)):
        count = tokens()
        choice = _choose(machine, count)
    if asking is not None and may_ask and choice.offer and _agrees(asking, choice.offer):
        if _fetched(asking, choice.offer.name):
            return _choose(machine, count)
        asking.status("the run goes on without it" if choice.preset is None else f"model: {choice.preset} instead")
    return choice


def configured_model(*, quoting: bool) -> Choice:
    """Where nothing is chosen for this machine: none for a mode that is `quoting`, else the configured one, if any."""
    configured = None if quoting else read_configuration().model
    return Choice(configured, "none asked" if configured is None else "configured")


def hint(choice: Choice, *, writes: bool) -> str:
    """One line after a result: how to have a model of one's own choice write it; "" where one has.

    `writes`: the embedded model has written, which nobody should believe.
    """
    if choice.reason != "none fits" or not read_configuration().offer:
        return ""
    made = f"written by {DEFAULT}" if writes else "quoted"
    if choice.hindered is not None:
        return (
            f"{made}; {choice.hindered}: `specextend summarize -m {quote(choice.hindered.name)}` uses it all the same"
        )
    if choice.offer is None:
        return ""
    return f"{made}; `specextend models pull {quote(choice.offer.name)}` for a summary in its own words"


def _choose(machine: Machine, tokens: int | None) -> Choice:
    configuration = read_configuration()
    if configuration.model is not None:
        try:
            load_preset(configuration.model)
        except (UsageError, ModelError) as error:
            why, fix = f"{configuration_file()} names it where no model is named", "specextend models use auto"
            raise type(error)(error.what, why=why, fix=fix) from error
        return Choice(configuration.model, "configured")
    known = RunStore(results_file()).rates("cpu") if machine.device == "cpu" else {}
    rates = {name: (one.read, one.written) for name, one in known.items()}
    found = candidates(machine, tokens=tokens or USUAL_TOKENS, gguf=configuration.gguf, rates=rates)
    return choose(machine, found)


def _may_ask(output: Output) -> bool:
    """Whether somebody is there to answer, and was not asked never to be."""
    if output.quiet or not (sys.stdin.isatty() and output.stderr.isatty()) or not read_configuration().offer:
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()  # a background job that reads would be stopped
    except (OSError, ValueError):
        return False


def _agrees(output: Output, one: Candidate) -> bool:
    """Ask once; "never" is kept. The end of the input is a no."""
    preset = load_preset(one.name)
    facts = [
        preset.title.partition(",")[0],
        preset.licence,
        "" if one.fetch is None else f"{format_bytes(one.fetch)} to download",
        "" if one.rate is None else f"about {one.rate:.0f} tokens a second here",
    ]
    output.note(f"A model can write the summary in its own words: {', '.join(filter(None, facts))}.")
    while True:
        output.stderr.write("Fetch it? [Y/n/never] ")
        output.stderr.flush()
        line = sys.stdin.readline()
        answer = _ANSWERS.get(line.strip().lower()) if line else "no"
        if answer == "never":
            configure("offer", False)
        if answer is not None:
            return answer == "yes"


def _fetched(output: Output, name: str) -> bool:
    """Fetch a preset's models; whether that succeeded. What went wrong is said, and the run goes on without."""
    try:
        with open_view(output, name) as view:
            fetch_pair(load_preset(name), progress=view.fetched)
    except (ModelError, FitError) as error:
        output.note(format_error(error))
        return False
    return True
