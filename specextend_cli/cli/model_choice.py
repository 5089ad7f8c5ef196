"""The model of a command where none was named: chosen, offered on a terminal, fetched with consent, and said."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from specextend_cli.cli.options import AUTO
from specextend_cli.errors import FitError, ModelError, UsageError
from specextend_cli.humanize import format_bytes, format_seconds

if TYPE_CHECKING:
    from specextend_cli.models.choice import Candidate, Choice, Machine
    from specextend_cli.ui.output import Output

QUOTING = ("extractive", "guided")
"""Modes whose sentences are the document's own."""
_ANSWERS = {"": "yes", "y": "yes", "yes": "yes", "n": "no", "no": "no", "never": "never"}


def chosen_model(model: str | None, device: str = "auto", tokens: Callable[[], int | None] = lambda: None) -> Choice:
    """The choice for this machine, without questions, network or torch; a `model` that was named is taken.

    `tokens` reads the document, where its size matters and there is one.
    """
    from specextend_cli.models.choice import Choice
    from specextend_cli.runtime.machine import this_machine

    if model is not None and model != AUTO:
        return Choice(model, "named")
    machine = this_machine(device)
    choice = _choose(machine, None)
    if machine.device == "cpu" and machine.speed is not None and (choice.reason == "on disk" or choice.hindered):
        choice = _choose(machine, tokens())
    return choice


def without_choice(mode: str | None) -> Choice:
    """Where nothing is to be chosen: the embedded preset for a `mode` that quotes, else the configured one, if any."""
    from specextend_cli.models.choice import Choice
    from specextend_cli.models.configuration import read_configuration
    from specextend_cli.models.preset import DEFAULT

    configured = None if mode in QUOTING else read_configuration().model
    return Choice(DEFAULT, "quotes") if configured is None else Choice(configured, "configured")


def model_for(output: Output, tokens: Callable[[], int | None], *, writes: bool, device: str, offline: bool) -> Choice:
    """The choice for a run that names no model. On a terminal, the best one that is not on disk is offered.

    It is fetched with consent. `tokens` reads the document, where its size matters. `writes`: the summary is not to be
    quoted, whatever the model.
    """
    from specextend_cli.models.sources import offline_by_environment
    from specextend_cli.runtime.machine import this_machine

    machine, count = this_machine(device), None
    offline = offline or offline_by_environment()
    may_ask = _may_ask(output) and not offline
    choice = _choose(machine, None)
    if machine.device == "cpu" and (choice.reason == "on disk" or choice.hindered or (choice.offer and may_ask)):
        machine, count = _measured(output, machine), tokens()
        choice = _choose(machine, count)
    if choice.offer is not None and may_ask and _agrees(output, choice.offer):
        if _fetched(output, choice.offer.name):
            return _choose(machine, count)
        output.status(f"model: {choice.preset} instead")
    elif choice.reason == "none fits":
        output.status(announcement(choice, writes=writes, offline=offline))
    return choice


LABELLED = len("model: ")  # columns by which a terminal indents an announcement's further lines


def announcement(choice: Choice, *, writes: bool = False, offline: bool = False) -> str:
    """One line: what runs where no model was named, why, and the command that changes it."""
    from specextend_cli.models.preset import DEFAULT

    if choice.reason == "configured":
        return f"model: {choice.preset}, as configured (specextend models use)"
    if choice.reason != "none fits":
        return f"model: {choice.preset}, the first of the list that is on disk and fits (specextend presets list)"
    what = f"model: {DEFAULT}, " + ("too small to be believed" if writes else "which quotes and does not write")
    if choice.hindered is not None:
        return f"{what}: {choice.hindered}; to decide otherwise: specextend models use {quote(choice.hindered.name)}"
    if choice.offer is not None:
        size = "" if choice.offer.fetch is None else f" ({format_bytes(choice.offer.fetch)}{_disk(choice.offer)})"
        unless = ", and this run is offline" if offline else ""
        pull = f"specextend models pull {quote(choice.offer.name)}"
        return f"{what}: no model that writes is on disk{unless}; to have one write: {pull}{size}"
    why = f": {choice.passed[-1]}" if choice.passed else ""
    return f"{what}{why}; to decide otherwise: specextend models use NAME"


def _choose(machine: Machine, tokens: int | None) -> Choice:
    from specextend_cli.models.candidates import candidates
    from specextend_cli.models.choice import USUAL_TOKENS, choose
    from specextend_cli.models.configuration import read_configuration
    from specextend_cli.summarize.result_store import RunStore, results_file

    configuration = read_configuration()
    if configuration.model is not None:
        _check_configured(configuration.model)
        return choose(machine, (), configuration.model)
    known = RunStore(results_file()).all_rates("abstractive", "cpu") if machine.device == "cpu" else {}
    rates = {name: (one.read, one.written) for name, one in known.items()}
    found = candidates(machine, tokens=tokens or USUAL_TOKENS, gguf=configuration.gguf, rates=rates)
    return choose(machine, found)


def _check_configured(name: str) -> None:
    """Errors of `load_preset`, which say who named the model."""
    from specextend_cli.models.configuration import configuration_file
    from specextend_cli.models.presets import load_preset

    try:
        load_preset(name)
    except (UsageError, ModelError) as error:
        why = f"{configuration_file()} names it where no model is named"
        fix = "specextend models use auto, or another model instead of auto"
        raise type(error)(error.what, why=why, fix=fix) from error


def _measured(output: Output, machine: Machine) -> Machine:
    """The machine with its speed, measured where it is not known."""
    from specextend_cli.runtime.loading_thread import result_of
    from specextend_cli.runtime.machine import measured_speed
    from specextend_cli.ui.panel import open_view

    if machine.speed is not None:
        return machine
    with open_view(output, "this machine") as view:
        return replace(machine, speed=result_of(measured_speed(), view.add))


def _may_ask(output: Output) -> bool:
    """Whether somebody is there to answer, and was not asked never to be."""
    from specextend_cli.models.configuration import read_configuration

    asked = not output.quiet and sys.stdin.isatty() and output.stderr.isatty()
    return asked and _is_in_foreground() and read_configuration().offer


def _is_in_foreground() -> bool:
    """Whether this process may read its terminal; a background job is stopped when it does."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def _agrees(output: Output, one: Candidate) -> bool:
    """Ask once; "never" is kept. The end of the input is a no."""
    from specextend_cli.models.configuration import configure
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.store import expected_download
    from specextend_cli.ui.output import format_error

    preset = load_preset(one.name)
    size = "" if one.fetch is None else f", {format_bytes(one.fetch)}"
    seconds = None if one.fetch is None else expected_download(one.fetch)
    time = "" if seconds is None else f" (about {format_seconds(seconds)} to download)"
    time += _disk(one)
    rate = "" if one.rate is None else f" at about {one.rate:.0f} tokens a second"
    output.note(
        f"{preset.title.partition(',')[0]}{size}{time}, {preset.licence}, writes summaries on this machine{rate}."
    )
    while True:
        output.stderr.write("Fetch it? [Y/n/never] ")
        output.stderr.flush()
        line = sys.stdin.readline()
        answer = _ANSWERS.get(line.strip().lower()) if line else "no"
        if not line.endswith("\n"):
            output.stderr.write("\n")
        if answer == "never":
            try:
                configure("offer", False)
            except UsageError as error:
                output.note(format_error(error))
        if answer is not None:
            return answer == "yes"


def _disk(one: Candidate) -> str:
    """What it takes of the disk, where that is more than what is fetched."""
    return "" if one.disk is None else f", {format_bytes(one.disk)} on disk with its conversion"


def _fetched(output: Output, name: str) -> bool:
    """Fetch a preset's models; whether that succeeded. What went wrong is said, and the run goes on without."""
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import fetch_pair
    from specextend_cli.ui.output import format_error
    from specextend_cli.ui.panel import open_view

    try:
        with open_view(output, name) as view:
            fetch_pair(load_preset(name), progress=view.fetched)
    except (ModelError, FitError) as error:
        output.note(format_error(error))
        return False
    return True
