"""A summarizer from keywords of `Engine`, `Request` and its own, for tests that vary single settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from specextend_cli.documents.document import Document
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.events import Event, Plan
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer


class Asked(Summarizer):
    """One that every document is summarized by as `request` asks."""

    def __init__(self, engine: Engine, request: Request, **settings: Any) -> None:
        super().__init__(engine, **settings)
        self.request = request
        self.check(request)

    def run(self, document: Document, request: Request | None = None) -> Iterator[Event]:
        return super().run(document, request or self.request)

    def load_ahead(self, request: Request | None = None) -> None:
        super().load_ahead(request or self.request)

    def plan(self, document: Document, request: Request | None = None) -> Plan:
        return super().plan(document, request or self.request)


def parts_of(values: dict[str, Any]) -> tuple[Engine, Request, dict[str, Any]]:
    """Keywords of `Engine`, of `Request`, and others."""

    def own(kind: type) -> dict[str, Any]:
        return {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}

    values = dict(values)
    if "model" in values:
        values["model"] = str(values["model"])
    return Engine(**own(Engine)), Request(**own(Request)), values


def asked(**values: Any) -> Asked:
    """The summarizer. `model` may be a path."""
    engine, request, settings = parts_of(values)
    return Asked(engine, request, **settings)
