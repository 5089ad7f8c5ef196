"""As much of Ray as `--ray` uses, in this process: calls are done one after the other, the last one first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    """Ray's: a worker has died, or raised something."""


class ActorPool:
    """As Ray's; `dies(arguments)` is the error of a call in the place of its result, or None."""

    dies: Callable[..., RayError | None] = staticmethod(lambda *arguments: None)

    def __init__(self, actors: Sequence[Any]) -> None:
        self.idle, self.waiting, self.running = list(actors), deque[Any](), list[Any]()

    def submit(self, begin: Callable[[Any, Any], Any], value: Any) -> None:
        self.waiting.append((begin, value))
        self._begin()

    def _begin(self) -> None:
        while self.idle and self.waiting:
            actor, (begin, value) = self.idle.pop(), self.waiting.popleft()
            self.running.append((actor, begin(actor, value)))

    def has_next(self) -> bool:
        return bool(self.running)

    def get_next_unordered(self) -> Any:
        actor, arguments = self.running.pop()
        self.idle.append(actor)
        self._begin()
        if (error := self.dies(*arguments)) is not None:
            raise error
        return actor.made.work(*arguments)


class FakeRay(SimpleNamespace):
    """The module, with the resources of its machines; `log` has what was asked of it."""

    def __init__(self, *machines: dict[str, float]) -> None:
        self.log: list[Any] = []
        self.util = SimpleNamespace(ActorPool=ActorPool)
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.machines = machines

    def init(self, **settings: Any) -> None:
        self.log.append(settings["address"])

    def shutdown(self) -> None:
        self.log.append("shutdown")

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": machine} for machine in self.machines]

    def remote(self, kind: type) -> Any:
        """A class whose `options(…).remote(…)` makes an actor, whose methods return their arguments."""

        def start(*arguments: Any) -> Any:
            return SimpleNamespace(made=kind(*arguments), work=SimpleNamespace(remote=lambda *given: given))

        def options(**options: Any) -> Any:
            self.log.append(options)
            return SimpleNamespace(remote=start)

        return SimpleNamespace(options=options)
