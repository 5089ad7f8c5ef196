"""`specextend train-draft`: train an EAGLE-3 or a DFlash head for a preset's target on the user's documents."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from specextend_cli.cli import options, signals
from specextend_cli.cli.options import option
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.summarize.events import Stage
    from specextend_cli.ui.output import Output

TRAINING = "Training"
Architecture: TypeAlias = Literal["eagle3", "dflash"]
_LEADS = (" ", "\n", "\n\n", " The report says: ", ' It states that "', "\nAccording to the text, ", "; ", " ... ")
"""Beginnings of the quotations that the head learns to copy."""
_ANSWER = 192  # minimum tokens of an answer: chunk summaries may be shorter than the summaries that are drafted for


def train_draft(
    corpus: Annotated[
        Path, option("--corpus", "Documents: a directory, .jsonl[.gz] with a text field, .txt, .md.", "PATH")
    ],
    output: Annotated[
        Path, option("--output -o", "Directory for the head; an interrupted run there is continued.", "DIR")
    ] = Path("draft-head"),
    model: Annotated[
        str | None,
        option(
            "--model -m --preset",
            "Preset whose target the head is for.",
            "PRESET",
            envvar="SPECEXTEND_MODEL",
            autocompletion=options.preset_names,
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[float, option("--minutes", "Total time.", "N", min=0.1, callback=options.finite)] = 60.0,
    architecture: Annotated[
        Architecture,
        option("--architecture", "eagle3, or dflash: a block of tokens in one forward.", "NAME", TRAINING),
    ] = "eagle3",
    vocabulary: Annotated[
        int, option("--vocabulary", "Tokens that the draft can write.", "N", TRAINING, min=16)
    ] = 16384,
    lengths: Annotated[str, option("--lengths", "Tokens of the training excerpts.", "512,2k", TRAINING)] = "512,1k,2k",
    unroll: Annotated[
        int, option("--unroll", "Draft steps per position; tokens of a block.", "N", TRAINING, min=1, max=16)
    ] = 5,
    init: Annotated[
        Path | None, option("--init", "Start from this EAGLE-3 head.", "DIR", TRAINING, show_default=False)
    ] = None,
    answers: Annotated[
        Path | None,
        option(
            "--answers", "Answers of an earlier run; written where it is missing.", "FILE", TRAINING, show_default=False
        ),
    ] = None,
    licences: Annotated[
        str, option("--licences", "Licences of the documents, for the model card.", "TEXT", TRAINING)
    ] = "not stated",
    seed: options.Seed = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = "auto",
    compile: options.Compile = True,
    offline: options.Offline = False,
    timeout: options.Timeout = None,
    quiet: options.Quiet = False,
) -> None:
    """Train a draft head for a preset's target on your documents.

    The head is distilled from the target's own answers about them.

    Example:
      specextend train-draft --corpus reports/ --minutes 120 -o my-head
    """
    if not corpus.exists():
        raise UsageError(f"there is no corpus at {corpus}", fix="--corpus DIR, or a .jsonl file")
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file", why="the head is a directory", fix="-o DIR")
    if init is not None and not init.is_dir():
        raise UsageError(f"there is no directory {init}", why="--init names a directory with an EAGLE-3 head")
    if answers is not None and not answers.absolute().parent.is_dir():
        raise UsageError(f"there is no directory {answers.parent}", why="--answers would be written there at the end")
    _check_output(output, [corpus, *([] if init is None else [init])])
    options.usable(device)

    from specextend_cli.bench.machine import describe
    from specextend_cli.bench.records import parse_lengths
    from specextend_cli.models.preset import DEFAULT, PLACEHOLDERS
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import fetch
    from specextend_cli.models.tokens import TextEncoder
    from specextend_cli.runtime.devices import device_of, dtype_of, free_memory
    from specextend_cli.runtime.loading import end_tokens, load_language_model, sampling_of
    from specextend_cli.runtime.native import load_library, run_natively
    from specextend_cli.runtime.options import EngineOptions
    from specextend_cli.runtime.threads import fit_threads
    from specextend_cli.summarize.prompt_builder import PromptBuilder
    from specextend_cli.train.card import Facts
    from specextend_cli.train.config import AnswerOptions, Distillation, Schedule
    from specextend_cli.train.distill import distill
    from specextend_cli.train.events import Done, Resumed, Validated
    from specextend_cli.train.samples import Frame, read_corpus
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import open_view

    sizes = parse_lengths(lengths)
    preset = load_preset(options.named(model) or DEFAULT)
    console = Output(quiet=quiet)
    with signals.deadline(timeout):
        with open_view(console, preset.name) as view:
            directory = fetch(preset.target.source, name=preset.name, offline=offline, progress=view.fetched)
        encoder = TextEncoder.of(directory)
        console.status(f"reading {corpus}")
        documents = [encoder.encode(text) for text in read_corpus(corpus, apart=output)]
        place = device_of(device)
        fit_threads()
        if compile:
            _show_stages(console, load_library(directory, place))
        wanted = dtype_of(preset.target.dtype if dtype == "auto" else dtype, place)
        lm = load_language_model(preset, preset.target.quantization, place, None, directory, wanted)
        if compile:
            _show_stages(console, run_natively(lm, all_threads=True))
        before, after = PromptBuilder(preset, encoder, directory).frame("map", dict.fromkeys(PLACEHOLDERS, "1"))
        frame = Frame(before, after, tuple(map(encoder.encode, _LEADS)))
        machine = describe(place)
        on_gpu = place.type == "cuda"
        plan = Distillation(
            Schedule(
                seconds=60 * minutes,
                unroll=unroll,
                batch=8 if on_gpu else 1,
                rows=1024 if on_gpu else 256 if architecture == "dflash" else 768,
                anchors=256 if on_gpu else 96,
                validate=min(180.0, 60 * minutes / 8),
                seed=seed or 0,
            ),
            AnswerOptions(
                batch=256 if on_gpu else 16,
                memory=free_memory(place) // 3,
                sampling=sampling_of(preset, EngineOptions()),
                new_tokens=max(preset.window.chunk_summary_tokens, _ANSWER),
                seed=seed or 0,
            ),
            vocabulary=min(vocabulary, lm.vocabulary),
            held_out=8 if minutes < 30 else 24,
            quotations=8192 if on_gpu else 512,
            lengths=sizes,
            init=init,
            archive=answers,
            architecture=architecture,
        )
        facts = Facts(
            target=preset.name,
            target_licence=preset.licence,
            corpus=f"{len(documents):,} documents in {corpus.name}",
            corpus_licences=licences,
            machine=machine.device if on_gpu else f"{machine.processor}, {machine.threads} threads",
        )
        for event in distill(lm, documents, frame, sorted(end_tokens(lm)), plan, output, facts):
            if isinstance(event, (Resumed, Validated, Done)):
                console.status(str(event))
    console.write(f"{output}\n")


def _check_output(output: Path, inputs: list[Path]) -> None:
    """UsageError if the head would overwrite an input, or files that training did not write."""
    from specextend_cli.ui.destination import refuse_inputs

    refuse_inputs([output], inputs)
    if (output / "training").is_dir():
        return
    for name in ("model.safetensors", "config.json", "README.md"):
        if (path := output / name).exists():
            raise UsageError(f"{path} exists already", why="it is not from an earlier training run", fix="-o DIR")


def _show_stages(console: Output, stages: Iterable[Stage]) -> None:
    for stage in stages:
        if not stage.done:
            console.status(stage.name)
