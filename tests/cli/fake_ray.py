"""As much of Ray as the fleet uses, in this process: actors run at once, and die when they are told to."""

from __future__ import annotations

from types import SimpleNamespace


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class Actor:
    """A handle; `died` says what becomes of a call instead of its result."""

    def __init__(self, ray, made):
        self._ray, self._made = ray, made

    def __getattr__(self, name):
        def remote(*arguments):
            reference = object()
            self._ray.calls[reference] = (self, name, arguments)
            return reference

        return SimpleNamespace(remote=remote)


class FakeRay:
    """`dies(method, arguments)`: an exception of Ray's for that call, or None."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, worker, dies=lambda method, arguments: None):
        self.worker, self.dies = worker, dies
        self.calls = {}
        self.started, self.killed = 0, []

    def remote(self, kind):
        def start(*arguments):
            self.started += 1
            return Actor(self, self.worker)

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=start))

    def wait(self, references, *, num_returns, timeout):
        assert references
        return references[-1:], references[:-1]

    def get(self, reference):
        actor, method, arguments = self.calls.pop(reference)
        assert actor not in self.killed
        if (error := self.dies(method, arguments)) is not None:
            raise error
        return getattr(actor._made, method)(*arguments)

    def kill(self, actor):
        self.killed.append(actor)
