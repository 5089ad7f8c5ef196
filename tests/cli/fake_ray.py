"""As much of Ray as `--ray` uses, in this process: actors run at once, and die when they are told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class FakeRay:
    """Actors that do what `worker` does. `dies(arguments)`: an exception of Ray's in the place of a result, or None."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, worker: Any, dies: Callable[[tuple[Any, ...]], RayError | None] = lambda arguments: None):
        self.worker, self.dies = worker, dies
        self.calls: dict[object, tuple[Any, ...]] = {}
        self.started = 0
        self.busiest = 0
        self.options: dict[str, Any] = {}

    def remote(self, kind: type) -> Any:
        def options(**options: Any) -> Any:
            self.options = options
            return SimpleNamespace(remote=start)

        def start(*arguments: Any) -> Any:
            self.started += 1
            return SimpleNamespace(work=SimpleNamespace(remote=self._begin))

        return SimpleNamespace(options=options)

    def _begin(self, *arguments: Any) -> object:
        reference = object()
        self.calls[reference] = arguments
        self.busiest = max(self.busiest, len(self.calls))
        return reference

    def wait(self, references: Sequence[object], *, num_returns: int, timeout: float) -> tuple[Any, Any]:
        assert references
        return references[-1:], references[:-1]

    def get(self, reference: object) -> Any:
        arguments = self.calls.pop(reference)
        if (error := self.dies(arguments)) is not None:
            raise error
        return self.worker(*arguments)
