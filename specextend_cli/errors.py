"""Errors, each with what happened, why, what to do, and its exit code."""

from __future__ import annotations

import re
from enum import IntEnum

_NUMBER = re.compile(r"\A\[Errno -?\d+\] ")


class Exit(IntEnum):
    """Exit codes of the command line. Frozen: scripts depend on them."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    INPUT = 3
    MODEL = 4
    FIT = 5
    PARTIAL = 6
    SIGINT = 130
    SIGPIPE = 141
    SIGTERM = 143


class SpecextendError(Exception):
    """`what` happened, `why`, and how to `fix` it. Raised anywhere; `cli.main` prints it."""

    exit = Exit.INTERNAL

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix


class UsageError(SpecextendError):
    """The command line, the configuration or a preset asks for something impossible."""

    exit = Exit.USAGE


class InputError(SpecextendError):
    """A document is missing, locked, empty, or not what it claims to be."""

    exit = Exit.INPUT


class ModelError(SpecextendError):
    """A model is absent, offline, gated, damaged, or of an unsupported architecture."""

    exit = Exit.MODEL


class FitError(SpecextendError):
    """The job does not fit into the context, memory or disk."""

    exit = Exit.FIT


class DeviceError(SpecextendError):
    """A GPU met an error after which it computes nothing more in this process; `why` is the driver's."""

    def __init__(self, why: str) -> None:
        fix = "run without CUDA graphs (SPECEXTEND_GRAPHS=0 in the environment), or without the GPU: --device cpu"
        super().__init__("the GPU has failed", why=why.splitlines()[0] if why else "", fix=fix)


class PartialError(SpecextendError):
    """Some of the work failed."""

    exit = Exit.PARTIAL


def cause(error: BaseException) -> str:
    """Why a file or an address cannot be used, in the system's words: without its number and the name."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    return _NUMBER.sub("", getattr(error, "strerror", None) or str(error) or type(error).__name__)
