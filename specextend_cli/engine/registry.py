"""The drafters by name. A new one needs its own module in `drafters/` and an entry here.

Importing this module does not import torch, so that presets and options can name drafters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.engine.block_head import BlockHead
    from specextend_cli.engine.config import Retrieval
    from specextend_cli.engine.drafters.base import Drafter
    from specextend_cli.engine.drafters.ngram_table import NgramTable
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel
    from specextend_cli.engine.mtp import MtpHead
    from specextend_cli.engine.target import Target


def _no_mtp() -> MtpHead:
    raise UsageError("the target's checkpoint was not read for multi-token prediction", fix="--draft ngram")


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
    load_block: Callable[[], BlockHead]
    load_table: Callable[[], NgramTable]
    window: int | None = None
    parts: Sequence[str] = ()
    load_mtp: Callable[[], MtpHead] = _no_mtp


@dataclass(frozen=True)
class DrafterEntry:
    """`make` builds the drafter; `needs` names the model that has to come with the target, None for none."""

    make: Callable[[DrafterSetup], Drafter]
    needs: Literal["draft model", "EAGLE head", "block head", "n-gram table"] | None = None


def make_drafter(name: str, setup: DrafterSetup) -> Drafter:
    """The drafter called `name`, a key of `DRAFTERS`."""
    return DRAFTERS[name].make(setup)


def _none(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.base import NoDrafter

    return NoDrafter()


def _ngram(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.ngram import NgramDrafter

    return NgramDrafter()


def _ngram_table(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.ngram_table import NgramTableDrafter

    return NgramTableDrafter(setup.load_table())


def _lm(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.lm import LMDrafter

    return LMDrafter(setup.load_lm(), setup.target, setup.retrieval, window=setup.window)


def _self(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.lm import LMDrafter

    if setup.target.lm.parts > 1:
        raise UsageError("a target that is split over several processes cannot draft for itself", fix="--draft ngram")
    return LMDrafter(setup.target.lm, setup.target, setup.retrieval)


def _eagle(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.eagle import EagleDrafter

    return EagleDrafter(setup.load_head(), setup.target, setup.retrieval, window=setup.window)


def _block(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.block import BlockDrafter

    return BlockDrafter(setup.load_block(), setup.target, setup.retrieval)


def _mtp(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.eagle import EagleDrafter

    return EagleDrafter(setup.load_mtp(), setup.target, setup.retrieval, window=setup.window)


def _blend(setup: DrafterSetup) -> Drafter:
    from specextend_cli.engine.drafters.blend import BlendDrafter

    return BlendDrafter([make_drafter(part, setup) for part in setup.parts])


DRAFTERS: dict[str, DrafterEntry] = {
    "none": DrafterEntry(_none),
    "ngram": DrafterEntry(_ngram),
    "table": DrafterEntry(_ngram_table, needs="n-gram table"),
    "lm": DrafterEntry(_lm, needs="draft model"),
    "eagle": DrafterEntry(_eagle, needs="EAGLE head"),
    "block": DrafterEntry(_block, needs="block head"),
    "mtp": DrafterEntry(_mtp),
    "self": DrafterEntry(_self),
    "blend": DrafterEntry(_blend),
}
