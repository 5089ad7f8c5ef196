"""The schema of a preset: a target, its draft, and the settings that suit the two.

A file says only what is particular to it; the rest is computed here, from shapes and a GPU's memory. Unknown keys,
wrong types and impossible values are refused. `presets` finds and loads presets.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field, ValidationInfo, field_serializer, field_validator, model_validator

from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.humanize import format_or
from specextend_cli.models import prompt_templates
from specextend_cli.models.prompt_templates import PLACEHOLDERS, check_names, check_prompt
from specextend_cli.models.shape import GRAPHS, HEADROOM, PREFILL, Shape, Sizes
from specextend_cli.models.source_kinds import HubSource, Line, LocalSource, Source, Table

DEFAULT = "smollm2-135m"
NAME = r"[a-z0-9][a-z0-9.-]*"

TREE = TreeShape(nodes=50, depth=10, width=10, threshold=0.7)
RETRIEVAL = Retrieval(recent=128, positions="compact")
"""The paper's settings; those of drafts without a model."""

HEAD_TRAINED = 2048
"""Tokens that EAGLE heads were trained on, where nothing else is said."""

ANY_MACHINE = 8192
"""Tokens of a window that any machine has the memory for, and a processor the time."""

_MOST_CHUNKS = 64  # 2,048 tokens: more of them cost a draft more time than they gain
_MOST_RECENT = 256
_LARGEST_CONTEXT = 32768  # what the presets' targets were trained on, at least
_STEP = 2048

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
ModelKind: TypeAlias = Literal["lm", "eagle", "assistant"]
MODEL_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
ITEM_BYTES: dict[Dtype, int] = {"auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}
Quantization: TypeAlias = Literal["none", "nf4"]
Prompt: TypeAlias = Annotated[str, AfterValidator(check_prompt)]


def _drafter(name: str) -> str:
    if name not in DRAFTERS:
        raise ValueError(f"{name!r} is not {format_or(DRAFTERS)}")
    return name


DrafterName: TypeAlias = Annotated[str, AfterValidator(_drafter)]


class Target(Table):
    """The target model. `shape`, its sizes, lets memory be estimated before anything is fetched.

    `quantization` "nf4" keeps its linear layers in four bits and computes in `dtype`.
    """

    source: Source
    dtype: Dtype = "auto"
    quantization: Quantization = "none"
    shape: Shape | None = None


class Draft(Table):
    """The drafter: none, n-grams, a model, a head, an assistant, the target on a working set, or a blend `of` some.

    It computes in the target's number format. `shape` has the sizes of its model, or of the target's own prediction
    layer. `trained` is the number of tokens that a model or head was trained on, None: as many as the target. One with
    a `window` (tokens, by default half of `trained`: a tree and more fit) reads the prompt in pieces of that length,
    at positions it knows.
    """

    kind: DrafterName = "ngram"
    of: tuple[DrafterName, ...] = ()
    source: Source | None = None
    shape: Sizes | None = None
    trained: int | None = Field(
        default_factory=lambda data: HEAD_TRAINED if "eagle" in {data["kind"], *data["of"]} else None, ge=256
    )
    window: int | None = Field(default_factory=lambda data: data["trained"] and data["trained"] // 2, ge=16)

    @property
    def model(self) -> ModelKind | None:
        """The kind of model in `source`: a language model, an EAGLE head, an assistant, or none."""
        return next((kind for kind in MODEL_KINDS if kind in self.drafters), None)

    @property
    def reads_states(self) -> bool:
        """Whether what drafts reads the target's states."""
        return not {"eagle", "assistant", "mtp"}.isdisjoint(self.drafters)

    @property
    def drafters(self) -> tuple[DrafterName, ...]:
        """The drafter, or those that are blended."""
        return self.of or (self.kind,)

    @model_validator(mode="after")
    def _consistent(self) -> Draft:
        if self.kind == "blend" and len(set(self.of)) < 2:
            raise ValueError('a blend needs two different drafters, for example of = ["ngram", "lm"]')
        if self.kind != "blend" and self.of:
            raise ValueError('"of" belongs to kind = "blend"')
        if not {"none", "blend"}.isdisjoint(self.of):
            raise ValueError("a blend is of drafters that propose something themselves")
        if len(set(MODEL_KINDS) & set(self.of)) > 1:
            raise ValueError("a draft has one source: a language model, an EAGLE head or an assistant")
        if "table" in self.drafters and not self.model:
            raise ValueError("an n-gram table lies beside a draft model or a head")
        if self.model and self.source is None:
            raise ValueError("a model as draft needs a [draft.source]")
        if not self.model and self.source is not None:
            raise ValueError(f'[draft.source] is not used by kind = "{self.kind}"')
        if self.shape is not None and not self.model and "mtp" not in self.drafters:
            raise ValueError("[draft.shape] has the sizes of a model, and the draft has none")
        if self.model in ("eagle", "assistant") and not isinstance(self.source, (HubSource, LocalSource)):
            raise ValueError("a head comes from the hub or from a local directory")
        return self


_INTERNAL = ("forwards", "floor")
"""Fields of a tree that the engine alone sets: they are not in a preset, and refused there."""


class Window(Table):
    """Sizes in tokens: the window the target was trained with, a map prompt's share of the document, new tokens.

    `chunk_summary_tokens` bounds the summary of one chunk. The summary is written by at most `summary_parts` prompts,
    a consecutive part of it each, of at most `summary_tokens` in all: a small model writes a short paragraph well and a
    long text badly. Up to `batch` chunk summaries are written at once, where memory allows.
    """

    context: int = Field(gt=0)
    chunk: int = Field(ge=16)  # no character needs as many
    chunk_summary_tokens: int = Field(default=256, gt=0)
    summary_tokens: int = Field(default=512, gt=0)
    summary_parts: int = Field(default=1, gt=0)
    batch: int = Field(default=8, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Window:
        if 3 * (self.chunk_summary_tokens + 2) > max(self.chunk, self.context // 2):
            raise ValueError("three chunk summaries must fit into one chunk, or into half the context")
        if self.chunk + max(self.chunk_summary_tokens, self.summary_tokens) >= self.context:
            raise ValueError("chunk and the new tokens together must stay below context")
        return self


class Prompts(Table):
    """Templates of the user's messages, with `{placeholders}`; `{document}` exactly once in each.

    `single` summarizes a document that fits into one prompt, `map` a chunk; `reduce` joins chunk summaries. The
    sentences of `styles` and `focus` replace `{style}` and `{focus}`. Defaults are in `prompt_templates`. With an empty
    `system`, the chat template decides. `chat_template` (Jinja) replaces the model's own, or a missing one;
    `template_options` are variables for it; as they are, models that think before they answer are asked not to: a
    summary needs no steps, and they take many tokens.
    """

    system: str = prompt_templates.SYSTEM
    map: Prompt = prompt_templates.MAP
    reduce: Prompt = prompt_templates.REDUCE
    single: Prompt = prompt_templates.SINGLE
    styles: dict[prompt_templates.Style, str] = Field(default_factory=dict)
    focus: str = prompt_templates.FOCUS
    chat_template: str | None = None
    template_options: dict[str, bool | int | str] = Field(default={"enable_thinking": False})

    @field_validator("styles")
    @classmethod
    def _are_sentences(cls, styles: dict[prompt_templates.Style, str]) -> dict[prompt_templates.Style, str]:
        for sentence in styles.values():
            check_names(sentence, [name for name in PLACEHOLDERS if name != "document"])
        return styles

    @field_validator("focus")
    @classmethod
    def _has_question_once(cls, sentence: str) -> str:
        if (count := check_names(sentence, ["question"]).count("question")) != 1:
            raise ValueError(f"{{question}} must occur exactly once, not {count} times")
        return sentence

    def style(self, name: prompt_templates.Style) -> str:
        """The sentence of that style."""
        return self.styles.get(name, prompt_templates.STYLES[name])


class Evidence(Table):
    """The share of the target's summaries that state what their text does not, as `source` measured it."""

    hallucinated: float = Field(ge=0, le=1)
    source: Line


def _retrieval(data: dict[str, Any]) -> Retrieval:
    """The working set of a draft model: with what is added until it is chosen again, no more than it was trained on.

    Between two choices it grows by what is accepted: a tree's depth and one, at most, a step. A draft that was trained
    on as many tokens as the target sees them at their own positions.
    """
    draft, tree = data.get("draft"), data.get("tree")
    if not isinstance(draft, Draft) or not isinstance(tree, TreeShape):
        return RETRIEVAL
    if not draft.model and "mtp" not in draft.drafters:
        return RETRIEVAL
    most = Retrieval(top_k=_MOST_CHUNKS, recent=_MOST_RECENT, every=8)
    if draft.trained is None:
        return most
    recent = min(_MOST_RECENT, max(draft.trained // 16, 1))
    room = draft.trained - most.sinks - recent - most.every * (tree.depth + 1)
    top_k = min(_MOST_CHUNKS, max(room // most.chunk, 1))
    return replace(most, top_k=top_k - top_k % 8 or top_k, recent=recent, positions="compact")


def window_sizes(context: int) -> dict[str, int]:
    """`chunk`, `chunk_summary_tokens` and `summary_tokens` of a window: room is left for instructions and an answer."""
    chunk = 3 * context // 4 if context >= ANY_MACHINE else 2 * context // 3
    summaries = {"chunk_summary_tokens": min(512, context // 16), "summary_tokens": min(768, context // 10)}
    return {"context": context, "chunk": chunk, **summaries}


def _window(data: dict[str, Any]) -> Window:
    """The longest window that a GPU of `gpu_memory` GB holds beside the pair; without one, one that any machine holds.

    ValueError: the GPU holds less than a useful one.
    """
    target, draft, memory = data["target"], data["draft"], data["gpu_memory"]
    if memory is None or target.shape is None:
        return Window(**window_sizes(ANY_MACHINE))
    room = HEADROOM * memory * 10**9 - GRAPHS  # a GPU's GB are larger: the rest is its driver's
    for tokens in range(_LARGEST_CONTEXT, _STEP, -_STEP):
        if pair_bytes(tokens, target.shape, draft.shape, target, draft, data["retrieval"], data["tree"]) <= room:
            return Window(**window_sizes(tokens))
    raise ValueError(f"a GPU of {memory} GB holds no window of {2 * _STEP:,} tokens beside these models")


_STATES = 4 * 4  # bytes a number of states, of four sequences: two that take turns, one that was read last, one more


def pair_bytes(
    tokens: int,
    shape: Shape,
    sizes: Sizes | None,
    target: Target,
    draft: Draft,
    retrieval: Retrieval,
    tree: TreeShape,
    *,
    dtype: Dtype | None = None,
    weights: int = 0,
) -> int:
    """Bytes of a pair with a cache of so many tokens, in `dtype` (default: the preset's).

    `shape` and `sizes` are the target's and its draft's (None: no model, or unknown). `weights` has the bytes of the
    target's weights where they are packed. Activations, a tree's logits and recurrent states are bounded.
    """
    item = ITEM_BYTES[dtype or target.dtype]
    working = 0 if retrieval.policy == "full" else min(tokens, retrieval.size)
    found = weights or shape.weight_bytes(item, target.quantization)
    found += shape.cached * item * (tokens + ("self" in draft.drafters) * working)
    if sizes is not None:
        found += item * (sizes.weights + sizes.cached * (tokens + working))
    logits = tree.nodes * 2 * 4 * shape.vocab
    activations = shape.prefill_bytes(PREFILL, item, keeps_states=draft.reads_states)
    return found + activations + logits + _STATES * shape.state


class Preset(Table):
    """A target, its draft, and what suits them.

    What its target writes is often wrong where it is `unreliable`: every summary comes with a warning then.
    `retrieval`, `tree` and `decoding` are the engine's own settings. What is left out of the first two, and the
    `window`, are computed: a window fills what a GPU of `gpu_memory` GB leaves free. A preset is `tested` where its
    author has loaded its models and summarized with them; others follow published configurations. Where no model is
    named, presets with a `rank` are tried in its order, which follows the `evidence` (`models/choice.py`).
    """

    name: str = Field(pattern=rf"^{NAME}$")
    title: Line
    description: str
    licence: Line
    gated: bool = False
    tested: bool = False
    rank: int | None = Field(default=None, gt=0)
    evidence: Evidence | None = None
    unreliable: bool = False
    target: Target
    draft: Draft = Draft()
    gpu_memory: int | None = Field(default=None, gt=0)
    tree: TreeShape = TREE
    retrieval: Retrieval = Field(default_factory=lambda data: _retrieval(data))
    decoding: Sampling = Sampling()
    window: Window = Field(default_factory=lambda data: _window(data))
    prompts: Prompts = Prompts()

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where the target comes from, and the draft, if it is a model."""
        return (self.target.source, *(() if self.draft.source is None else (self.draft.source,)))

    @field_validator("retrieval", "tree", mode="before")
    @classmethod
    def _completed(cls, given: object, info: ValidationInfo) -> object:
        if not isinstance(given, dict):
            return given
        if unknown := next((key for key in given if key in _INTERNAL), None):
            raise ValueError(f"{unknown!r} cannot be set in a preset")
        # The values are validated as Python's from here on, whose strict mode does not take a list for a tuple.
        plain = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
        return cls._settings(_retrieval(info.data) if info.field_name == "retrieval" else TREE) | plain

    @field_serializer("retrieval", "tree")
    @staticmethod
    def _settings(values: Retrieval | TreeShape) -> dict[str, object]:
        return {key: value for key, value in asdict(values).items() if key not in _INTERNAL}

    @model_validator(mode="after")
    def _drafts(self) -> Preset:
        if self.retrieval.top_k < 1 or self.tree.depth < 1:
            raise ValueError("top_k under [retrieval] and depth under [tree] must be at least 1")
        return self
