"""Generated texts on disk, so that an interrupted run loses no chunk summary.

The key covers everything the answer depends on, so an edited document recomputes only the parts that changed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from specextend_cli.engine.private_files import create
from specextend_cli.models.store import cache_root
from specextend_cli.summarize.events import SentenceAttention

_VERSION = 1
_LIMIT = 50_000  # texts; the oldest go first
_TABLES = "texts (key text primary key, text text, written real)", "attention (key text primary key, shares text)"


def results_file() -> Path:
    """The user's file of generated texts, and of finished runs (`runs.py`)."""
    return cache_root() / "texts.sqlite"


@contextmanager
def transaction(path: Path, *tables: str) -> Iterator[sqlite3.Connection]:
    """A transaction on an sqlite file for this user alone, which has these `tables`; safe with several processes."""
    create(path.parent)  # it holds what documents say
    with closing(sqlite3.connect(path, timeout=10)) as store, store:
        for table in tables:
            store.execute(f"create table if not exists {table}")
        yield store


def key(prompt: Sequence[int], settings: object) -> str:
    """A digest of a prompt's tokens and of the JSON-able `settings` that shape its answer."""
    return hashlib.sha256(json.dumps([_VERSION, list(prompt), settings], sort_keys=True).encode()).hexdigest()


def pack(attention: Iterable[SentenceAttention]) -> str:
    """The attention of an answer's sentences as JSON."""
    return json.dumps([[a.start, a.end, {k: round(v, 4) for k, v in a.shares.items()}] for a in attention])


def unpack(text: str) -> list[SentenceAttention]:
    """The inverse of `pack`; none from damaged text."""
    try:
        return [
            SentenceAttention(int(start), int(end), {int(k): float(v) for k, v in shares.items()})
            for start, end, shares in json.loads(text)
        ]
    except (ValueError, TypeError, AttributeError):
        return []


class GenerationCache:
    """Texts by key in an sqlite file. `path` None keeps nothing.

    A file that cannot be used is no error: nothing is kept, and `problem` says why.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem = ""
        self._execute()

    def get(self, key: str) -> str | None:
        """The stored text, if there is any."""
        return self._execute(("select text from texts where key = ?", key))

    def attention(self, key: str) -> str:
        """The attention that was stored with the text, packed, or ""."""
        return self._execute(("select shares from attention where key = ?", key)) or ""

    def put(self, key: str, text: str, attention: str = "") -> str:
        """Keep a text and the packed attention of its sentences; returns `problem`. They are on disk by then."""
        oldest = "select key from texts order by written desc limit -1 offset ?"
        statements: list[tuple[Any, ...]] = [
            ("insert or replace into texts values (?, ?, ?)", key, text, time.time()),
            (f"delete from texts where key in ({oldest})", _LIMIT),
        ]
        if attention:
            statements.append(("insert or replace into attention values (?, ?)", key, attention))
            statements.append(("delete from attention where key not in (select key from texts)",))
        self._execute(*statements)
        return self.problem

    def _execute(self, *statements: tuple[Any, ...]) -> str | None:
        """Run statements, each with its parameters, in one transaction. The last one's value, if it has any."""
        if self.path is None:
            return None
        try:
            with transaction(self.path, *_TABLES) as store:
                rows = [store.execute(sql, parameters).fetchone() for sql, *parameters in statements]
        except (OSError, sqlite3.Error) as error:
            self.problem = f"chunk summaries are not being saved: {self.path}: {error}"
            self.path = None
            return None
        return str(rows[-1][0]) if rows and rows[-1] else None
