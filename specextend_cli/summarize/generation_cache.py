"""Generated texts on disk, so that an interrupted run loses no chunk summary.

The key covers everything the answer depends on, so an edited document recomputes only the parts that changed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from specextend_cli.engine.private_files import create

_VERSION = 1
_LIMIT = 50_000  # texts; the oldest go first


def key(prompt: Sequence[int], settings: object) -> str:
    """A digest of a prompt's tokens and of the JSON-able `settings` that shape its answer."""
    return hashlib.sha256(json.dumps([_VERSION, list(prompt), settings], sort_keys=True).encode()).hexdigest()


class GenerationCache:
    """A small sqlite file, safe with several processes. `path` None keeps nothing.

    A file that cannot be used is no error: nothing is kept, and `problem` says why.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem = ""
        if path is not None:
            try:
                create(path.parent)  # for this user alone: it holds what documents say
                with closing(self._connect()) as store, store:
                    # The tables keep the names of version 0.1: "notes" has the texts, "looks" their attention.
                    store.execute("create table if not exists notes (key text primary key, text text, written real)")
                    store.execute("create table if not exists looks (key text primary key, looks text)")
            except (OSError, sqlite3.Error) as error:
                self._give_up(error)

    def get(self, key: str) -> str | None:
        """The stored text, if there is any."""
        return self._one("select text from notes where key = ?", key)

    def attention(self, key: str) -> str:
        """The attention that was stored with the text, packed (see `attribution`), or ""."""
        return self._one("select looks from looks where key = ?", key) or ""

    def _one(self, query: str, key: str) -> str | None:
        if self.path is None:
            return None
        try:
            with closing(self._connect()) as store:
                row = store.execute(query, (key,)).fetchone()
        except sqlite3.Error as error:
            self._give_up(error)
            return None
        return None if row is None else str(row[0])

    def put(self, key: str, text: str, attention: str = "") -> str:
        """Keep a text and the packed attention of its sentences; returns `problem`. They are on disk by then."""
        if self.path is None:
            return self.problem
        try:
            with closing(self._connect()) as store, store:
                store.execute("insert or replace into notes values (?, ?, ?)", (key, text, time.time()))
                store.execute(
                    "delete from notes where key in (select key from notes order by written desc limit -1 offset ?)",
                    (_LIMIT,),
                )
                if attention:
                    store.execute("insert or replace into looks values (?, ?)", (key, attention))
                    store.execute("delete from looks where key not in (select key from notes)")
        except sqlite3.Error as error:
            self._give_up(error)
        return self.problem

    def _connect(self) -> sqlite3.Connection:
        assert self.path is not None
        return sqlite3.connect(self.path, timeout=10)

    def _give_up(self, error: Exception) -> None:
        self.problem = f"chunk summaries are not being saved: {self.path}: {error}"
        self.path = None
