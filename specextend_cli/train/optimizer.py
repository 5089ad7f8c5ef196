"""The optimizer: Muon for the matrices of the head's layers, AdamW for its output layer, norms and biases."""

from __future__ import annotations

from typing import Any

import torch

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.head import EagleHead

_MUON_RATE = 2.5  # of AdamW's; see docs/log.md
_WEIGHT_DECAY = 0.01


class Optimizer:
    """Updates the parameters of `head` that require a gradient."""

    def __init__(self, head: EagleHead | BlockHead) -> None:
        named = [(name, parameter) for name, parameter in head.named_parameters() if parameter.requires_grad]
        self.parameters = [parameter for _, parameter in named]
        inner = {name for name, parameter in named if parameter.ndim == 2 and not name.startswith("lm_head.")}
        self._muon = torch.optim.Muon(
            [parameter for name, parameter in named if name in inner],
            weight_decay=_WEIGHT_DECAY,
            adjust_lr_fn="match_rms_adamw",
        )
        self._adam = torch.optim.AdamW(
            [parameter for name, parameter in named if name not in inner],
            betas=(0.9, 0.95),
            weight_decay=_WEIGHT_DECAY,
            fused=True,
        )

    def step(self, rate: float) -> None:
        """Clip the gradients to a norm of 1, update, and forget the gradients."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        optimizers: tuple[tuple[torch.optim.Optimizer, float], ...] = ((self._muon, _MUON_RATE), (self._adam, 1.0))
        for optimizer, scale in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = scale * rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs besides the parameters."""
        return {"muon": self._muon.state_dict(), "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The state of another optimizer for the same head."""
        self._muon.load_state_dict(state["muon"])
        self._adam.load_state_dict(state["adam"])
