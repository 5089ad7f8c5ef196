"""The methods by name: how each drafts, or which external program it is.

"The draft" is the preset's draft model, or a blend of n-grams and the target itself if the preset has none. `standard`,
`streaming` and the parts draft on every step, as published; `specextend` and the drafters by name are gated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from specextend_cli.bench.results import PLAIN
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.errors import SpecextendError, UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.models import Method, Models, Recipe

DEFAULT = ("plain", "ngram", "specextend", "transformers-prompt-lookup")
Build: TypeAlias = "Callable[[Models], Method]"


def parse(text: str | None) -> tuple[str, ...]:
    """The methods in `plain,ngram,…`; plain decoding is always added. UsageError for an unknown name."""
    wanted = [name.strip() for name in text.split(",")] if text else list(DEFAULT)
    for name in wanted:
        if name not in METHODS:
            raise UsageError(f"there is no method {name!r}", why=f"there are: {', '.join(METHODS)}", fix="bench --help")
    return tuple(dict.fromkeys((PLAIN, *wanted)))


def have_own_attention(wanted: Iterable[str]) -> bool:
    """True if the parts of SpecExtend are among them. They choose their attention, which the native forward cannot."""
    return any(name == "naive" or name.startswith("+") for name in wanted)


def reason(error: SpecextendError) -> str:
    """One line."""
    return f"{error.what} ({error.why})" if error.why else error.what


def _plain(models: Models) -> Recipe:
    # With the others' layers, so that one target serves all.
    return models.recipe("none", models.under("full"), TreeShape(nodes=1))


def _with(policy: str, **settings: Any) -> Build:
    """The draft under a policy; `settings` are fields of `Recipe`."""
    return lambda models: models.recipe(models.draft, models.under(policy), **settings)


def _part(policy: str = "full", *, prefill: str = "reference", verify: str = "reference") -> Build:
    """Standard speculative decoding on masked attention, except for one part."""
    return _with(policy, prefill=prefill, verify=verify)


def _by_name(kind: str) -> Build:
    return lambda models: models.recipe(kind, models.retrieval, gate=True)


def _imported(module: str, name: str, **arguments: bool) -> Build:
    """A method of another module, which is imported when the method is built: it needs torch, the list does not."""
    return lambda models: getattr(import_module(f"specextend_cli.bench.{module}"), name)(models, **arguments)


METHODS: dict[str, tuple[str, Build]] = {
    PLAIN: ("plain decoding: a tree of one node, the same loop and kernels", _plain),
    "standard": ("the draft sees everything, every step", _with("full")),
    "streaming": ("the draft sees the first and the newest tokens, every step", _with("streaming")),
    "specextend": ("the draft sees what the target attends to, behind the gate", _with("retrieval", gate=True)),
    **{
        kind: (f"drafter by name: {entry.about}, gated", _by_name(kind))
        for kind, entry in DRAFTERS.items()
        if kind != "none"
    },
    "naive": ("standard on masked attention throughout: what the parts are added to", _part()),
    "+flash": ("naive, with the fast kernel in prefill", _part(prefill="auto")),
    "+hta": ("naive, with the fast tree attention in verification", _part(verify="auto")),
    "+streaming": ("naive, with a streaming draft cache", _part("streaming")),
    "+retrieval": ("naive, with retrieval for the draft", _part("retrieval")),
    "magicdec": ("the target drafts a chain for itself over a streaming cache", _imported("baselines", "magicdec")),
    "triforce": (
        "drafted for by the target over retrieved keys, itself drafted for",
        _imported("baselines", "triforce"),
    ),
    "transformers": ("transformers generate, sdpa", _imported("external", "Transformers")),
    "transformers-prompt-lookup": ("the same with prompt lookup", _imported("external", "Transformers", lookup=True)),
    "llama.cpp": ("llama.cpp over the same GGUF, by llama-cpp-python", _imported("external", "LlamaCpp")),
}
"""Each method's description, and what builds it."""
