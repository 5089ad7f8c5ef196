"""The results store, `texts.sqlite`: generated texts, so that an interrupted run resumes; finished runs, for `show`.

The key of a text (`GenerationCache`) covers everything the answer depends on, so an edited document recomputes only the
parts that changed. A run (`RunStore`) keeps the evidence of each sentence: the document itself may have been moved or
changed by the time somebody asks where a sentence comes from.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import starmap
from pathlib import Path
from statistics import median
from typing import Any

from specextend_cli.documents.document import Document
from specextend_cli.engine.private_files import create
from specextend_cli.errors import InputError, UsageError, cause
from specextend_cli.models.store import cache_root
from specextend_cli.summarize.events import Citation, Method, Rates, Sentence, Summary
from specextend_cli.summarize.facts import Unsupported

_VERSION = 1
_MOST_TEXTS = 50_000  # texts; the oldest go first
_TEXT_TABLE = "texts (key text primary key, text text, written real)"
_MOST_RUNS = 500  # runs; the oldest go first
_PACED = 20  # runs that say how fast the next one will be
_ID = 4  # bytes of an id, of which its beginning is enough to type
_RUN_TABLE = "runs (id text primary key, made real, record text)"
_ORDER = "order by made desc, rowid desc"
_PASSAGE = 1_000  # characters of a passage


def results_file() -> Path:
    """The user's file of generated texts and of finished runs."""
    return cache_root() / "texts.sqlite"


@contextmanager
def transaction(path: Path, table: str) -> Iterator[sqlite3.Connection]:
    """A transaction on an sqlite file for this user alone, which has this `table`; safe with several processes."""
    create(path.parent)  # it holds what documents say
    with closing(sqlite3.connect(path, timeout=10)) as store, store:
        store.execute(f"create table if not exists {table}")
        yield store


def key(prompt: Sequence[int], settings: object) -> str:
    """A digest of a prompt's tokens and of the `settings` that shape its answer: JSON, and what has a `str`."""
    text = json.dumps([_VERSION, list(prompt), settings], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class GenerationCache:
    """Texts by key in an sqlite file. `path` None keeps nothing.

    A file that cannot be used is no error: nothing is kept, and `problem` says why.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem = ""

    def get(self, key: str) -> str | None:
        """The stored text, if there is any."""
        return self._execute(("select text from texts where key = ?", key))

    def put(self, key: str, text: str) -> None:
        """Keep a text. It is on disk by then, or there is a `problem`."""
        oldest = "select key from texts order by written desc limit -1 offset ?"
        self._execute(
            ("insert or replace into texts values (?, ?, ?)", key, text, time.time()),
            (f"delete from texts where key in ({oldest})", _MOST_TEXTS),
        )

    def _execute(self, *statements: tuple[Any, ...]) -> str | None:
        """Run statements, each with its parameters, in one transaction. The last one's value, if it has any."""
        if self.path is None:
            return None
        try:
            with transaction(self.path, _TEXT_TABLE) as store:
                rows = [store.execute(sql, parameters).fetchone() for sql, *parameters in statements]
        except (OSError, sqlite3.Error) as error:
            self.problem = f"chunk summaries are not being saved: {self.path}: {cause(error)}"
            self.path = None
            return None
        return str(rows[-1][0]) if rows and rows[-1] else None


@dataclass(frozen=True)
class Run:
    """One finished summary. `made` is seconds since 1970.

    `read` counts the tokens of prompts, `busy` the seconds of reading and decoding, without loading anything, `reading`
    those of reading alone; `device` is "cpu" or "cuda", `directory` the one in which the run was started.
    `quotes` has the passage of every citation as it stood in the document, by its start there.
    """

    id: str
    made: float
    document: str
    unit: str
    preset: str
    drafter: str
    pages: int
    tokens: int
    read: int
    written: int
    seconds: float
    busy: float
    reading: float
    method: Method
    device: str
    directory: str
    text: str
    chunk_summaries: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    quotes: dict[int, str]


def _rates(runs: Sequence[Run]) -> Rates:
    read = median(run.reading / run.read for run in runs)
    return Rates(read, median((run.busy - run.reading) / max(run.written, 1) for run in runs))


class RunStore:
    """A table of the sqlite file of `GenerationCache`. `path` None keeps nothing.

    Adding never fails: a store that cannot be used keeps nothing. Asking raises InputError.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def add(self, summary: Summary, document: Document, device: str) -> str:
        """Keep a run on that kind of `device`; its id, or "" where nothing is kept."""
        if self.path is None:
            return ""
        name, oldest = secrets.token_hex(_ID), f"select id from runs {_ORDER} limit -1 offset ?"
        try:
            values = _recorded(summary, document, device)
            with transaction(self.path, _RUN_TABLE) as store:
                store.execute("insert into runs values (?, ?, ?)", (name, values["made"], json.dumps(values)))
                store.execute(f"delete from runs where id in ({oldest})", (_MOST_RUNS,))
        except (OSError, sqlite3.Error):
            return ""
        return name

    def all(self) -> list[Run]:
        """All of them, the newest first."""
        with self._asked() as store:
            return list(_newest(store))

    def rates(self, device: str) -> dict[str, Rates]:
        """Seconds that each preset's last runs there took for a token read and one written: medians.

        Runs that found chunk summaries of earlier ones, and read less than their document, do not count.
        """
        last: dict[str, list[Run]] = {}
        if self.path is not None:
            with suppress(InputError), self._asked() as store:
                for one in _newest(store):
                    is_whole = one.read >= one.tokens > 0 and one.busy >= one.reading > 0
                    if is_whole and one.device == device and one.written > 0:
                        last.setdefault(one.preset, []).append(one)
        return {preset: _rates(runs[:_PACED]) for preset, runs in last.items()}

    def last(self) -> Run:
        """The newest run that was started in the current directory. InputError: there is none."""
        with self._asked() as store:
            here = str(Path.cwd())
            found = next((run for run in _newest(store) if run.directory == here), None)
        if found is None:
            why = "no summary was made in this directory, or none was recorded"
            raise InputError("there is no run to show", why=why, fix="specextend show --list")
        return found

    def get(self, name: str) -> Run:
        """The run whose id is or begins with `name`. InputError: there is none, or no longer."""
        with self._asked() as store:
            row = store.execute("select id, record from runs where id = ?", (_matching(store, name),)).fetchone()
        if (run := _run(*row)) is None:
            raise _unknown(name)
        return run

    def remove(self, name: str) -> int:
        """Forget a run; how many they were: 1. InputError as `get`."""
        with self._asked() as store:
            return int(store.execute("delete from runs where id = ?", (_matching(store, name),)).rowcount)

    def clear(self) -> int:
        """Forget every run; how many they were."""
        with self._asked() as store:
            return int(store.execute("delete from runs").rowcount)

    @contextmanager
    def _asked(self) -> Iterator[sqlite3.Connection]:
        assert self.path is not None
        try:
            with transaction(self.path, _RUN_TABLE) as store:
                yield store
        except (OSError, sqlite3.Error) as error:
            raise InputError("the runs cannot be read", why=f"{self.path}: {cause(error)}") from error


def _newest(store: sqlite3.Connection) -> Iterator[Run]:
    return filter(None, starmap(_run, store.execute(f"select id, record from runs {_ORDER}")))


def _matching(store: sqlite3.Connection, name: str) -> str:
    """The id that is or begins with `name`. InputError: there is none."""
    found = store.execute("select id from runs where substr(id, 1, ?) = ?", (len(name), name.lower()))
    ids: list[str] = [row[0] for row in found]
    if not ids or not name:
        raise _unknown(name)
    if len(ids) > 1 and name.lower() not in ids:
        raise UsageError(f"{len(ids)} runs begin with {name}", fix="give more of its digits: specextend show --list")
    return min(ids, key=len)


def _unknown(name: str) -> InputError:
    return InputError(
        f"there is no run {name}",
        why="it was never recorded (--no-cache records nothing), or it was removed",
        fix="specextend show --list",
    )


def _recorded(summary: Summary, document: Document, device: str) -> dict[str, Any]:
    """What `Run` has, but for its id."""
    citations = [one for sentence in summary.sentences for one in sentence.citations]
    coverage, meter = summary.coverage, summary.meter
    own = ("document", "preset", "drafter", "method", "text", "chunk_summaries")
    return {
        **{name: getattr(summary, name) for name in own},
        "made": time.time(),
        "unit": document.unit,
        "pages": coverage.pages,
        "tokens": coverage.tokens,
        "read": meter.prompt_tokens,
        "written": meter.tokens,
        "seconds": round(summary.seconds, 3),
        "busy": round(meter.prefill_seconds + meter.decode_seconds, 3),
        "reading": round(meter.prefill_seconds, 3),
        "device": device,
        "directory": str(Path.cwd()),
        "sentences": [asdict(sentence) for sentence in summary.sentences],
        "quotes": {one.start: document.text[one.start : min(one.end, one.start + _PASSAGE)] for one in citations},
    }


def _run(name: str, record: str) -> Run | None:
    """A run from its record; None where that is damaged, or another version's."""
    try:
        values = json.loads(record)
        values["sentences"] = tuple(map(_sentence, values["sentences"]))
        values["quotes"] = {int(start): str(quote) for start, quote in values["quotes"].items()}
        return Run(**{**values, "id": name, "chunk_summaries": tuple(values["chunk_summaries"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _sentence(values: dict[str, Any]) -> Sentence:
    citations = tuple(Citation(**one) for one in values["citations"])
    unsupported = tuple(Unsupported(**one) for one in values["unsupported"])
    return Sentence(**{**values, "citations": citations, "unsupported": unsupported})
