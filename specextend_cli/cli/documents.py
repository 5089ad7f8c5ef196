"""Documents as a command reads them: one whose size decided about the model is kept for its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specextend_cli.cli.source import Source
from specextend_cli.errors import SpecextendError

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document
    from specextend_cli.ui.progress import View
    from specextend_cli.ui.streams import Output

_CHARACTERS = 4  # of a token, roughly


@dataclass
class Documents:
    """Reads documents, each once."""

    output: Output
    _kept: tuple[Source, Document] | None = None

    def tokens(self, sources: Sequence[Source]) -> int | None:
        """About how many tokens the first one has that can be read, whatever the vocabulary; None where none can.

        Of a single one the error is raised; those of several are the run's to report.
        """
        from specextend_cli.ui.views import open_view

        for source in sources:
            try:
                with open_view(self.output, source.name) as view:
                    document = self.read(source, view)
            except SpecextendError:
                if len(sources) == 1:
                    raise
                continue
            self._kept = source, document
            return len(document.text) // _CHARACTERS + 1
        return None

    def read(self, source: Source, view: View) -> Document:
        """The document, with what is done in the view."""
        from specextend_cli.summarize.events import Stage

        if self._kept is not None and self._kept[0] == source:
            (_, document), self._kept = self._kept, None
            return document
        return source.read(
            lambda done, total: view.add(Stage("reading", done, total, "pages")),
            lambda done, total: view.add(Stage("recognizing", done, total, "pages")),
        )
