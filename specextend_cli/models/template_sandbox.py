"""A Jinja sandbox for chat templates from checkpoints, with limits of time and memory.

Jinja's sandbox restricts a template to its variables, but not its running time or the size of its values. Here, the
result of every single operation is bounded, and the clock and the memory are checked between two lines.
"""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psutil
from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_SECONDS = 20.0
_BYTES = 1 << 30
_MOST_NUMBER = 10_000  # numeric arguments: widths, indentations, repetitions
_MOST_LENGTH = 1_000_000  # characters or elements of a result
_MOST_BITS = 4096
_WIDE = re.compile(r"\d{5}|\*")  # in a format: `%99999d`, `{:>99999}`


class Sandbox(ImmutableSandboxedEnvironment):
    """With the settings of transformers' own; TemplateRuntimeError for what would become too large."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **filters: Callable[..., Any]) -> None:
        """`filters` besides, or in place of, Jinja's own."""
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        self.filters = {name: _bounded(filter_) for name, filter_ in {**self.filters, **filters}.items()}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """`left` operator `right`."""
        if isinstance(left, int) and isinstance(right, int):
            grows = {"*": left.bit_length() + right.bit_length(), "**": left.bit_length() * abs(right)}
            _check(grows.get(operator, 0) <= _MOST_BITS)
        elif operator == "*":
            sized, times = (left, right) if isinstance(left, Sized) else (right, left)
            _check(not isinstance(sized, Sized) or len(sized) * max(int(times), 0) <= _MOST_LENGTH)
        elif operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
            _check(len(left) + len(right) <= _MOST_LENGTH)
        elif operator == "%" and isinstance(left, str):
            _check(not _WIDE.search(left))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, /, *args: Any, **options: Any) -> Any:
        """A function of the template, or a method of a value."""
        _check_arguments(getattr(function, "__self__", None), getattr(function, "__name__", ""), args, options)
        return super().call(context, function, *args, **options)

    def wrap_str_format(self, value: Any) -> Any:
        """`str.format`, which newer versions of Jinja wrap before `call` sees it."""
        wrapped = super().wrap_str_format(value)
        _check(wrapped is None or not _WIDE.search(value.__self__))
        return wrapped


@contextmanager
def bounded() -> Iterator[None]:
    """A context in which a template that takes too much time or memory raises a TemplateRuntimeError.

    For one rendering: Python stops tracing when that error was raised.
    """
    process = psutil.Process()
    deadline, most = time.monotonic() + _SECONDS, process.memory_info().rss + _BYTES

    def step(frame: FrameType, event: str, arg: object) -> Any:
        _check(time.monotonic() < deadline, "it takes too long")
        # Not the largest size so far, which a model may have set while it was loaded.
        _check(process.memory_info().rss < most)
        return step

    def enter(frame: FrameType, event: str, arg: object) -> Any:
        return step if frame.f_code.co_filename == "<template>" else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter with checks of its arguments; those that Jinja adds in front have no length."""

    @functools.wraps(function)  # keeps the attributes that Jinja sets on filters
    def checked(*args: Any, **options: Any) -> Any:
        # A Context calls itself a mapping, and has none of its methods.
        value = next((arg for arg in args if isinstance(arg, Sized) and not isinstance(arg, Context)), None)
        _check_arguments(value, function.__name__.removeprefix("do_"), args, options)
        return function(*args, **options)

    return checked


def _check_arguments(value: object, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    given = [*args, *options.values()]
    _check(all(abs(arg) <= _MOST_NUMBER for arg in given if isinstance(arg, int)))
    texts = [arg for arg in given if isinstance(arg, str)]
    if isinstance(value, str) and name.startswith("format"):
        _check(not _WIDE.search(value))
    lengths = [len(value) if isinstance(value, Sized) else 0, *(len(text) for text in texts)]
    _check(max(lengths) <= _MOST_LENGTH)
    if name in ("replace", "join", "indent", "wordwrap", "format", "center", "ljust", "rjust", "translate"):
        _check((lengths[0] + 1) * (max(lengths[1:], default=0) + 1) <= 10 * _MOST_LENGTH)


def _check(holds: bool, why: str = "something in it becomes too large") -> None:
    if not holds:
        raise TemplateRuntimeError(why)
