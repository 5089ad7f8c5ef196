"""Finished runs, kept so that a summary can be asked later where it comes from.

They lie beside the chunk summaries, in the same file. The evidence of a sentence is kept with it: the document itself
may have been moved or changed by then.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from specextend_cli.documents.document import Document
from specextend_cli.engine.private_files import create
from specextend_cli.errors import InputError, UsageError
from specextend_cli.summarize.events import Citation, Rates, Sentence, Summary
from specextend_cli.summarize.factcheck import Unsupported

_LIMIT = 500  # runs; the oldest go first
_BYTES = 32_000_000
_PACED = 20  # runs that say how fast the next one will be
_ID = 6  # digits at least
_PASSAGE, _AROUND = 1_000, 240  # characters of a passage, and of what stands before and after it
LAST = "last"


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage as it stood in the document, with what stood around it on its page."""

    before: str
    passage: str
    after: str


@dataclass(frozen=True)
class Run:
    """One finished summary. `made` is seconds since 1970; `digest` is of the text that was read.

    `quotes` has the passage of every citation, by its start in the document's text. `read` counts the tokens of
    prompts, `busy` the seconds of reading and decoding, without loading anything, `reading` those of reading alone;
    older records have none of these.
    """

    id: str
    made: float
    document: str
    digest: str
    unit: str
    preset: str
    drafter: str
    pages: int
    tokens: int
    written: int
    seconds: float
    text: str
    notes: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    quotes: dict[int, Quote]
    read: int = 0
    busy: float = 0.0
    reading: float = 0.0


class RunStore:
    """A table of a small sqlite file, safe with several processes. `path` None keeps nothing.

    Adding never fails: a store that cannot be used keeps nothing. Asking raises InputError.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def add(self, summary: Summary, document: Document) -> str:
        """Keep a run; its id, or "" where nothing is kept."""
        if self.path is None:
            return ""
        made = time.time()
        record = json.dumps(_record(summary, document, made))
        digits = hashlib.sha256(record.encode()).hexdigest()
        try:
            with self._open() as store:
                size = _ID
                while store.execute("select 1 from runs where id = ?", (digits[:size],)).fetchone():
                    size += 1
                store.execute("insert into runs values (?, ?, ?)", (digits[:size], made, record))
                _shrink(store)
        except (OSError, sqlite3.Error):
            return ""
        return digits[:size]

    def all(self) -> list[Run]:
        """All of them, the newest first."""
        with self._asked() as store:
            return list(self._newest(store))

    def rates(self, preset: str, mode: str) -> Rates | None:
        """Seconds that this preset's last runs in that mode took for a token read and for one written: medians.

        None: there are no such runs.

        Runs that found chunk summaries of earlier ones, and read less than their document, do not count.
        """
        if self.path is None:
            return None
        try:
            with self._asked() as store:
                whole = (one for one in self._newest(store) if one.preset == preset and one.read >= one.tokens > 0)
                timed = (one for one in whole if one.reading and (mode == "abstractive") == (one.written > 0))
                last = list(islice((one for one in timed if one.busy >= one.reading), _PACED))
        except InputError:
            return None
        if not last:
            return None
        read = median(run.reading / run.read for run in last)
        return Rates(read, median((run.busy - run.reading) / max(run.written, 1) for run in last))

    @staticmethod
    def _newest(store: sqlite3.Connection) -> Iterator[Run]:
        for row in store.execute("select id, record from runs order by made desc, rowid desc"):
            if (run := _run(*row)) is not None:
                yield run

    def get(self, name: str) -> Run:
        """The run whose id is or begins with `name`, or the last one. InputError: there is none, or no longer."""
        with self._asked() as store:
            ids = self._matching(store, name)
            row = store.execute("select id, record from runs where id = ?", (ids[0],)).fetchone() if ids else None
        run = _run(*row) if row else None
        if run is None:
            raise _unknown(name)
        return run

    def remove(self, names: Sequence[str]) -> int:
        """Forget these runs, all or none of them; how many they were. InputError as `get`."""
        with self._asked() as store:
            found = {name: self._matching(store, name) for name in names}
            for name, ids in found.items():
                if not ids:
                    raise _unknown(name)
            chosen = {ids[0] for ids in found.values()}
            store.executemany("delete from runs where id = ?", [(one,) for one in chosen])
        return len(chosen)

    def clear(self) -> int:
        """Forget every run; how many they were."""
        with self._asked() as store:
            return int(store.execute("delete from runs").rowcount)

    @staticmethod
    def _matching(store: sqlite3.Connection, name: str) -> list[str]:
        if name == LAST:
            return [row[0] for row in store.execute("select id from runs order by made desc, rowid desc limit 1")]
        if not name:
            return []
        found = store.execute("select id from runs where substr(id, 1, ?) = ?", (len(name), name.lower())).fetchall()
        ids = [row[0] for row in found]
        if name.lower() in ids:
            return [name.lower()]
        if len(ids) > 1:
            raise UsageError(f"{len(ids)} runs begin with {name}", fix="give more of its digits: specextend runs list")
        return ids

    @contextmanager
    def _asked(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._open() as store:
                yield store
        except (OSError, sqlite3.Error) as error:
            raise InputError("the runs cannot be read", why=f"{self.path}: {error}") from error

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        assert self.path is not None
        create(self.path.parent)
        with closing(sqlite3.connect(self.path, timeout=10)) as store, store:
            store.execute("create table if not exists runs (id text primary key, made real, record text)")
            yield store


def _unknown(name: str) -> InputError:
    return InputError(
        f"there is no run {name}",
        why="it was never recorded (--no-cache records nothing), or it was removed",
        fix="specextend runs list",
    )


def _shrink(store: sqlite3.Connection) -> None:
    """The newest runs stay, as many as there is room for."""
    room, keep = _BYTES, 0
    for (size,) in store.execute("select length(record) from runs order by made desc, rowid desc limit ?", (_LIMIT,)):
        room -= size
        if room < 0 and keep:
            break
        keep += 1
    store.execute(
        "delete from runs where id in (select id from runs order by made desc, rowid desc limit -1 offset ?)", (keep,)
    )


def _record(summary: Summary, document: Document, made: float) -> dict[str, Any]:
    quotes = {
        citation.start: asdict(_quote(document, citation))
        for sentence in summary.sentences
        for citation in sentence.citations
    }
    return {
        "made": made,
        "document": summary.document,
        "digest": hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest(),
        "unit": document.unit,
        "preset": summary.preset,
        "drafter": summary.drafter,
        "pages": summary.coverage.pages,
        "tokens": summary.coverage.tokens,
        "read": summary.meter.prompt_tokens,
        "written": summary.meter.tokens,
        "seconds": round(summary.seconds, 3),
        "busy": round(summary.meter.prefill_seconds + summary.meter.decode_seconds, 3),
        "reading": round(summary.meter.prefill_seconds, 3),
        "text": summary.text,
        "notes": list(summary.chunk_summaries),
        "sentences": [asdict(sentence) for sentence in summary.sentences],
        "quotes": quotes,
    }


def _quote(document: Document, citation: Citation) -> Quote:
    page = next((page for page in document.pages if page.start <= citation.start < page.end), None)
    first, last = (page.start, page.end) if page else (0, len(document.text))
    start, end = citation.start, min(citation.end, citation.start + _PASSAGE)
    text = document.text
    before, after = text[max(start - _AROUND, first) : start], text[end : min(end + _AROUND, last)]
    if start - _AROUND > first:
        before = before.partition(" ")[2]  # no half a word
    if end + _AROUND < last:
        after = after.rpartition(" ")[0]
    return Quote(before, text[start:end], after)


def _run(name: str, record: str) -> Run | None:
    """A run from its record; None where that is damaged, or another version's."""
    try:
        values = json.loads(record)
        sentences = tuple(
            Sentence(
                **{
                    **sentence,
                    "citations": tuple(Citation(**one) for one in sentence["citations"]),
                    "unsupported": tuple(Unsupported(**one) for one in sentence["unsupported"]),
                }
            )
            for sentence in values.pop("sentences")
        )
        quotes = {int(start): Quote(**quote) for start, quote in values.pop("quotes").items()}
        return Run(id=name, notes=tuple(values.pop("notes")), sentences=sentences, quotes=quotes, **values)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
