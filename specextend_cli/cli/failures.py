"""Documents of several that fail: each is named at once, the others go on, and the number is the command's error."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from specextend_cli.cli.inputs import Source
from specextend_cli.errors import DeviceError, ModelError, PartialError, SpecextendError
from specextend_cli.ui.output import Output


@dataclass
class Failures:
    """Of `total` documents, those that failed. The error of one that is `alone` is raised."""

    output: Output
    total: int
    alone: bool
    failed: list[Source] = field(default_factory=list)

    def attempt(self, source: Source, work: Callable[[Source], object]) -> None:
        """Do the work for one document, and name it if it fails. Errors of all documents are raised."""
        try:
            work(source)
        except (ModelError, DeviceError, OSError):
            raise
        except Exception as error:  # a defect that one document meets does not stop the others
            if self.alone:
                raise
            what = error.what if isinstance(error, SpecextendError) else f"{type(error).__name__}: {error}"
            why = f" ({error.why})" if isinstance(error, SpecextendError) and error.why else ""
            about = "" if source.name in what else f"{source.name}: "
            self.output.note(f"failed: {about}{what}{why}")
            self.failed.append(source)

    def report(self) -> None:
        """PartialError if documents failed."""
        if not self.failed:
            return
        there = next((source.path for source in self.failed if Path(source.path).exists()), None)
        fix = "" if there is None else f"to look into one of them: specextend extract {shlex.quote(there)}"
        raise PartialError(f"{len(self.failed)} of {self.total} documents failed", fix=fix)
