"""`specextend summarize FILES…`: read, summarize and write each document."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

from specextend_cli.cli import options
from specextend_cli.cli.options import AUTO, option
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_or
from specextend_cli.models.prompt_templates import Mode, Style
from specextend_cli.runtime.options import Engine
from specextend_cli.ui import FORMATS, Format


def summarize(
    files: options.Files = None,
    length: options.LengthOption = None,
    style: Annotated[Style, option("--style", f"{format_or(get_args(Style))}.", "NAME")] = "paragraph",
    mode: Annotated[str | None, option("--mode", f"{format_or(get_args(Mode))}.", "NAME")] = None,
    focus: Annotated[str | None, option("--focus", "A question, or words, to concentrate on.", "TEXT")] = None,
    cite: Annotated[bool, option("--cite", "Add source pages, [p. 3, 7], and [?] to what the source lacks.")] = False,
    language: Annotated[str | None, option("--lang", "Language to write in (abstractive).", "NAME")] = None,
    template: Annotated[
        Path | None, option("--template -t", "Your own prompt; {document} stands for the text (abstractive).", "FILE")
    ] = None,
    output: options.OutputPath = None,
    format: Annotated[Format | None, option("--format -f", f"{format_or(get_args(Format))}.", "NAME")] = None,
    json: options.Json = False,
    force: options.Force = False,
    dry_run: Annotated[bool, option("--dry-run -n", "Show size, prompts, time and memory, and stop.")] = False,
    quiet: options.Quiet = False,
    verbose: Annotated[bool, option("--verbose -v", "Show more statistics at the end.")] = False,
    pages: options.Pages = None,
    ocr: options.UseOcr = False,
    ocr_languages: options.OcrLanguages = None,
    files_from: Annotated[str | None, option("--files-from", "Read the files in this list, too.", "PATH")] = None,
    model: options.Model = None,
    temperature: Annotated[float | None, option("--temperature", "Of sampling; 0 is greedy.", "T", min=0.0)] = None,
    seed: Annotated[int | None, option("--seed", "Seed for sampling.", "N", min=0)] = None,
    device: options.Device = "auto",
    draft: options.DraftOption = None,
    draft_head: options.DraftHead = None,
    offline: options.Offline = False,
    batch: Annotated[int | None, option("--batch", "Chunks decoded together, without drafts.", "N", min=1)] = None,
    ray: Annotated[str | None, option("--ray", "Use this Ray cluster; local starts one here.", "ADDRESS")] = None,
    workers: Annotated[int | None, option("--workers", "Workers of the Ray cluster.", "N", min=1)] = None,
    no_cache: Annotated[bool, option("--no-cache", "Neither reuse nor store results.")] = False,
) -> None:
    """Summarize documents: PDF, Word, EPUB, HTML, email, transcripts, Markdown and text.

    \b
    Examples:
      specextend summarize report.pdf
      specextend summarize report.pdf --length 150 --cite
      specextend summarize *.pdf --output summaries/ --format md
      curl -s https://www.rfc-editor.org/rfc/rfc2324.txt | specextend summarize
    """
    if workers is not None and ray is None:
        raise UsageError("--workers belongs to --ray", fix="--ray local")
    if json and format not in (None, "json"):
        raise UsageError(f"--json and --format {format} contradict each other", fix="leave one of them out")
    from specextend_cli.cli.inputs import Documents, Reading, read_files, sources

    kind: Format = "json" if json else format or FORMATS.get(Path(output or "").suffix, "text")
    reading = Reading.of(pages, ocr, ocr_languages)
    documents = Documents()
    if ray is None and not dry_run:
        documents.begin(files, reading)  # beside the imports below

    from specextend_cli.cli.choice import chosen_model, configured_model, hint
    from specextend_cli.cli.job import Job
    from specextend_cli.summarize.request import Request
    from specextend_cli.summarize.summarizer import Summarizer
    from specextend_cli.ui.destination import destination
    from specextend_cli.ui.output import Output

    request = Request(
        length=options.length(length),
        style=style,
        mode=cast("Mode | None", mode),
        focus=focus,
        language=language,
        template=options.template(template),
    )
    terminal, results = Output(quiet=quiet), None if output is None else Path(output)
    inputs = sources(files, reading, command="summarize", listed=files_from, offline=offline, results=results)
    # A list or a directory counts as many documents, even if it holds one.
    many = len(inputs) > 1 or bool(files_from) or any(source.within for source in inputs)
    place = destination(output, kind, [(one.name, one.file) for one in inputs], many=many, force=force, cite=cite)
    if not dry_run:
        if ray is None:
            options.usable(device)
        read = read_files(*(source.file for source in inputs), template, files_from, model)
        place.check(read)
        if not place.paths:
            terminal.require_stdout()
    left = [source for source in inputs if not place.keeps(source.name)]
    if model in (None, AUTO) and (mode == "extractive" or draft_head or ray is not None):
        choice = configured_model(quoting=mode == "extractive")
    else:
        asking = None if dry_run else terminal
        choice = chosen_model(model, device, partial(documents.tokens, left, terminal), asking=asking, offline=offline)
    engine = Engine(
        model=choice.preset,
        device=device,
        draft=draft,
        draft_head=draft_head,
        temperature=temperature,
        seed=seed,
        offline=offline,
    )
    with closing(Summarizer(engine, batch=batch, cache=not no_cache)) as summarizer:
        summarizer.check(request)
        writes = summarizer.mode(request) == "abstractive"
        if not (writes or quiet) and (flags := [*engine.generating, *(["--batch"] if batch else [])]):
            terminal.warn(f"{', '.join(flags)}: no effect, because extractive mode generates no text")
        if dry_run:
            from specextend_cli.cli.dry_run import print_plans

            print_plans(terminal, summarizer, request, inputs, json=json)
            return
        job = Job(terminal, summarizer, request, place, documents, choice, verbose=verbose, many=many)
        if ray is None:
            job.run(inputs)
        else:
            from specextend_cli.summarize import ray_pool

            job.run(left, ray_pool.results(ray, left, terminal.status, summarizer, request, workers))
        if job.methods - {"lead", "verbatim"} and (advice := hint(choice, writes=writes)):
            terminal.status(advice)
