"""The drafters by name. A new one needs its own module in `drafters/`, an entry here, and one in `runtime/loading.py`.

Importing this module does not import torch, so that presets and options can name drafters.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class DrafterEntry(NamedTuple):
    """What it drafts, `about`: a phrase for users.

    `attends`: retrieval chooses a working set for it. `needs` names the model that has to come with the target, None
    for none.
    """

    about: str
    attends: bool = True
    needs: Literal["draft model", "EAGLE head", "assistant model", "n-gram table"] | None = None


DRAFTERS = {
    "none": DrafterEntry("nothing", attends=False),
    "ngram": DrafterEntry("copied continuations from the document and the output", attends=False),
    "table": DrafterEntry(
        "what the target usually writes, counted in its answers to other prompts", attends=False, needs="n-gram table"
    ),
    "lm": DrafterEntry("the preset's small language model", needs="draft model"),
    "eagle": DrafterEntry("an EAGLE head on the target's hidden states", needs="EAGLE head"),
    "mtp": DrafterEntry("the target's own multi-token prediction layer"),
    "assistant": DrafterEntry(
        "Gemma 4's assistant model, which attends to the target's own keys", needs="assistant model"
    ),
    "self": DrafterEntry("the target over a working set of its own keys"),
    "blend": DrafterEntry("several sources in one tree"),
}
