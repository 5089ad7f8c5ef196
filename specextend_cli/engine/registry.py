"""The drafters by name. A new one needs its own module in `drafters/` and an entry here.

Importing this module does not import torch, so that presets and options can name drafters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from specextend_cli.engine.lazy import LazyModule

if TYPE_CHECKING:
    from specextend_cli.engine import drafters
    from specextend_cli.engine.assistant import Assistant
    from specextend_cli.engine.config import Retrieval
    from specextend_cli.engine.drafters.base import Drafter
    from specextend_cli.engine.drafters.ngram_table import NgramTable
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel
    from specextend_cli.engine.mtp import MtpHead
    from specextend_cli.engine.target import Target
else:
    drafters = LazyModule("specextend_cli.engine.drafters")


@dataclass(frozen=True)
class DrafterSetup:
    """What a drafter can be made of. Drafts, heads and tables are loaded only for those that need one.

    `window` limits how many tokens a draft model sees while it reads the prompt (None: all); `parts` names the sources
    of a blend.
    """

    target: Target
    retrieval: Retrieval
    load_lm: Callable[[], LanguageModel]
    load_head: Callable[[], EagleHead]
    load_table: Callable[[], NgramTable]
    load_mtp: Callable[[], MtpHead]
    load_assistant: Callable[[], Assistant]
    window: int | None = None
    parts: Sequence[str] = ()


@dataclass(frozen=True)
class DrafterEntry:
    """`make` builds the drafter, whose drafts are `about`: a phrase for users.

    `needs` names the model that has to come with the target, None for none; `attends`: it has keys of its own, of
    which retrieval chooses a working set.
    """

    make: Callable[[DrafterSetup], Drafter]
    about: str
    attends: bool
    needs: Literal["draft model", "EAGLE head", "assistant model", "n-gram table"] | None = None


def make_drafter(name: str, setup: DrafterSetup) -> Drafter:
    """The drafter called `name`, a key of `DRAFTERS`."""
    return DRAFTERS[name].make(setup)


def _self(setup: DrafterSetup) -> Drafter:
    return drafters.LMDrafter(setup.target.lm, setup.target, setup.retrieval)


def _by_head(head: EagleHead, setup: DrafterSetup) -> Drafter:
    return drafters.EagleDrafter(head, setup.target, setup.retrieval, window=setup.window)


DRAFTERS: dict[str, DrafterEntry] = {
    "none": DrafterEntry(lambda setup: drafters.NoDrafter(), "nothing", attends=False),
    "ngram": DrafterEntry(
        lambda setup: drafters.NgramDrafter(), "copied continuations from the document and the output", attends=False
    ),
    "table": DrafterEntry(
        lambda setup: drafters.NgramTableDrafter(setup.load_table()),
        "what the target usually writes, counted in its answers to other prompts",
        attends=False,
        needs="n-gram table",
    ),
    "lm": DrafterEntry(
        lambda setup: drafters.LMDrafter(setup.load_lm(), setup.target, setup.retrieval, window=setup.window),
        "the preset's small language model",
        attends=True,
        needs="draft model",
    ),
    "eagle": DrafterEntry(
        lambda setup: _by_head(setup.load_head(), setup),
        "an EAGLE head on the target's hidden states",
        attends=True,
        needs="EAGLE head",
    ),
    "mtp": DrafterEntry(
        lambda setup: _by_head(setup.load_mtp(), setup),
        "the target's own multi-token prediction layer",
        attends=True,
    ),
    "assistant": DrafterEntry(
        lambda setup: drafters.AssistantDrafter(setup.load_assistant(), setup.target, setup.retrieval),
        "Gemma 4's assistant model, which attends to the target's own keys",
        attends=True,
        needs="assistant model",
    ),
    "self": DrafterEntry(_self, "the target over a working set of its own keys", attends=True),
    "blend": DrafterEntry(
        lambda setup: drafters.BlendDrafter([make_drafter(part, setup) for part in setup.parts]),
        "several sources in one tree",
        attends=True,
    ),
}
