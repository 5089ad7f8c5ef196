"""The process that opens a structured file: HTML, email, and what a ZIP turns out to be.

Run by `structured.py` as a separate interpreter. Its one answer is a `Parsed` with its `cleaned` text, or
{"unread": kind} for a ZIP that is something else, or {"error": [what, why, fix]}.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from specextend_cli.documents import sandbox_worker
from specextend_cli.documents.sections import Parsed, TooMuchError
from specextend_cli.documents.structured import compose_sections
from specextend_cli.errors import InputError


class Job(TypedDict):
    """What to read: `kind` is "html", "email" or "zip", `name` is what messages call the file.

    `whole`: a page, not only its article.
    """

    path: str
    kind: str
    name: str
    whole: bool
    memory: int


def serve() -> None:
    """Answer the one job on stdin."""
    sandbox_worker.serve(answer)


def answer(job: Job) -> Iterator[dict[str, Any]]:
    """One answer."""
    try:
        found = _parse(job)
        yield {"unread": found} if isinstance(found, str) else _cleaned(found)
    except InputError as error:
        yield {"error": [error.what, error.why, error.fix]}
    except TooMuchError as error:
        yield {"error": [f"{job['name']} has too much text", str(error), "split it and give the parts"]}
    except RecursionError:
        yield {"error": [f"{job['name']} cannot be read", "it is nested too deeply", "convert it to PDF or text"]}


def _cleaned(parsed: Parsed) -> dict[str, Any]:
    """The answer: of the sections their titles and failures alone, as the cleaned text has the rest."""
    answer = parsed.to_json()
    cleaned = compose_sections(Parsed.from_json(answer))
    sections = [(title, (), failed) for title, _, failed in answer["sections"]]
    return {**answer, "sections": sections, "removed": (), "cleaned": cleaned.to_json()}


def _parse(job: Job) -> Parsed | str:
    """A file's sections, or the kind of a ZIP that is not read."""
    path, name = Path(job["path"]), job["name"]
    if job["kind"] == "html":
        from specextend_cli.documents import html

        return html.parse(path, name, whole=job["whole"])
    if job["kind"] == "email":
        from specextend_cli.documents import eml

        return eml.parse(path, name)
    from specextend_cli.documents.archive import Archive

    archive = Archive(path, name)
    if archive.kind == "docx":
        from specextend_cli.documents import docx

        return docx.parse(archive)
    if archive.kind == "epub":
        from specextend_cli.documents import epub

        return epub.parse(archive)
    return archive.kind
