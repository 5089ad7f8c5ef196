"""`Options` from keywords of any of its parts, for tests that vary single settings."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from specextend_cli.runtime.options import EngineOptions
from specextend_cli.summarize.request import SummaryRequest
from specextend_cli.summarize.summarizer import Options


def flat_options(**values: Any) -> Options:
    """The keywords of `SummaryRequest`, `EngineOptions` and `Options` beside each other."""

    def own(kind: type) -> dict[str, Any]:
        return {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}

    return Options(request=SummaryRequest(**own(SummaryRequest)), engine=EngineOptions(**own(EngineOptions)), **values)
