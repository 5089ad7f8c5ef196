"""The optimizer: Muon for the matrices of an EAGLE head's layers, AdamW for its output layer, norms and biases.

A block head has AdamW for everything: a step of it costs so little that Muon's iterations would be two fifths of it.
"""

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
        inner: set[str] = set()
        if isinstance(head, EagleHead):
            inner = {name for name, parameter in named if parameter.ndim == 2 and not name.startswith("lm_head.")}
        adam = torch.optim.AdamW(
            [parameter for name, parameter in named if name not in inner],
            betas=(0.9, 0.95),
            weight_decay=_WEIGHT_DECAY,
            fused=True,
        )
        self._optimizers: dict[str, tuple[torch.optim.Optimizer, float]] = {"adam": (adam, 1.0)}
        if inner:
            matrices = [parameter for name, parameter in named if name in inner]
            muon = torch.optim.Muon(matrices, weight_decay=_WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
            self._optimizers["muon"] = muon, _MUON_RATE

    def step(self, rate: float) -> None:
        """Clip the gradients to a norm of 1, update, and forget the gradients."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer, scale in self._optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = scale * rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs besides the parameters."""
        return {name: optimizer.state_dict() for name, (optimizer, _) in self._optimizers.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The state of another optimizer for the same head."""
        for name, (optimizer, _) in self._optimizers.items():
            optimizer.load_state_dict(state[name])
