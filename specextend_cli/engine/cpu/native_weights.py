"""Modules of transformers as the native library reads them: matrices, norms and layers, by pointers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from specextend_cli.engine.native import CannotCompileError
from specextend_cli.engine.native.shared_library import Layer, Matrix
from specextend_cli.engine.packed import PackedEmbedding, PackedLinear, Tiles

_BFLOAT16, _FLOAT32 = 5, 6
_COLUMNS = 32  # a multiple of which every matrix has


class Weights:
    """Collects the tensors that structures point to, which have to live as long as they do. They must not move.

    Every method raises CannotCompileError for what the library cannot compute.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.kept: list[object] = []
        self._read: set[int] = set()  # identities of the parameters

    def at(self, tensor: Tensor | None) -> int | None:
        """The address of a tensor in the model's format."""
        if tensor is None:
            return None
        self._read.add(id(tensor))
        if type(tensor.data) is not Tensor or tensor.dtype != self.dtype or tensor.device.type != "cpu":
            raise CannotCompileError("its weights are not plain tensors of one number format")
        tensor = tensor.detach().contiguous()
        self.kept.append(tensor)
        return tensor.data_ptr()

    def check_complete(self, model: nn.Module, *others: nn.Module) -> None:
        """CannotCompileError where the model has parameters that nobody reads, but for those of `others`."""
        left_out = {id(parameter) for other in others for parameter in other.parameters()}
        for name, parameter in model.named_parameters():
            if id(parameter) not in self._read | left_out:
                raise CannotCompileError(f"{type(model).__name__} has {name}, which the native forward does not know")

    def norm(self, module: nn.Module | None, epsilon: float, width: int) -> int | None:
        """An RMS norm's weight in float32, as it multiplies (Gemma's is what is added to 1); None for the identity."""
        if module is None or isinstance(module, nn.Identity):
            return None
        weight = getattr(module, "weight", None)
        if not isinstance(weight, Tensor) or weight.shape != (width,) or epsilon_of(module) != epsilon:
            raise CannotCompileError(
                f"{type(module).__name__} is no RMS norm of {width} numbers with epsilon {epsilon}"
            )
        self.at(weight)
        ones, plain = torch.ones(1, width), weight.detach().float()
        with torch.no_grad():
            normed = module(ones)[0].float() * (1 + epsilon) ** 0.5
        for factor in (plain, 1.0 + plain):
            if torch.allclose(normed, factor, rtol=1e-4, atol=1e-4):
                self.kept.append(factor)
                return factor.data_ptr()
        raise CannotCompileError(f"{type(module).__name__} is no RMS norm times its weight, or its weight and 1")

    def matrix(self, module: Any) -> Matrix:
        """A linear layer's weights: packed ones if it has them."""
        if not isinstance(module, nn.Linear) or module.in_features % _COLUMNS:
            raise CannotCompileError(f"{type(module).__name__} is no linear layer of a multiple of {_COLUMNS} columns")
        bias = self.at(module.bias)
        if isinstance(module, PackedLinear):
            if module.full is not None:
                self._read.add(id(module.full))
            return self._packed(module.packed, bias)
        return self._dense(module.weight, bias)

    def embedding(self, module: Any) -> Matrix:
        """A row for each token."""
        if isinstance(module, PackedEmbedding):
            return self._packed(module.packed, None)
        return self._dense(module.weight, None)

    def _packed(self, tiles: Tiles, bias: int | None) -> Matrix:
        codes, scales = tiles.codes, tiles.scales
        self.kept += (codes, scales)
        return Matrix(tiles.kind.number, tiles.rows, tiles.columns, codes.data_ptr(), scales.data_ptr(), bias)

    def _dense(self, weight: Tensor, bias: int | None) -> Matrix:
        kind = _BFLOAT16 if self.dtype == torch.bfloat16 else _FLOAT32
        return Matrix(kind, *weight.shape, self.at(weight), None, bias)

    def layer(self, module: Any, *, hidden: int, head_dim: int, epsilon: float, scale: float) -> Layer:
        """A decoder layer: attention and a gated MLP, each behind an RMS norm."""
        attention: Any = getattr(module, "self_attn", None)
        mlp: Any = getattr(module, "mlp", None)
        some = torch.linspace(-4, 4, 16)
        activated = mlp.act_fn(some) if hasattr(mlp, "act_fn") else some
        is_gelu = torch.allclose(activated, gelu(some, approximate="tanh"))
        if not is_gelu and not torch.allclose(activated, silu(some)):
            raise CannotCompileError(f"{type(mlp).__name__} is no MLP with SiLU, or GELU by tanh")
        projections = [getattr(attention, f"{name}_proj", None) for name in "qkvo"]
        projections += [getattr(mlp, f"{name}_proj", None) for name in ("gate", "up", "down")]
        matrices = [self.matrix(projection) for projection in projections]
        q, k, v, o, gate, up, down = ((matrix.rows, matrix.columns) for matrix in matrices)
        joined = 2 if getattr(module, "hidden_norm", None) is not None else 1  # embedding and state side by side
        if not (
            q[0] % head_dim == 0
            and q[1] == k[1] == v[1] == joined * hidden
            and k[0] == v[0]
            and o == (hidden, q[0])
            and gate == up == (down[1], hidden)
            and down[0] == hidden
        ):
            raise CannotCompileError(f"{type(module).__name__} has projections of other sizes")
        after_attention = self.norm(getattr(module, "post_attention_layernorm", None), epsilon, hidden)
        is_between = hasattr(module, "pre_feedforward_layernorm")  # attention and the MLP, each between two norms
        return Layer(
            *matrices,
            self.norm(getattr(module, "input_layernorm", None), epsilon, hidden),
            self.norm(module.pre_feedforward_layernorm, epsilon, hidden) if is_between else after_attention,
            self.norm(getattr(attention, "q_norm", None), epsilon, head_dim),
            self.norm(getattr(attention, "k_norm", None), epsilon, head_dim),
            self.norm(getattr(module, "hidden_norm", None), epsilon, hidden),
            0,
            1,
            scale,
            0,
            after_attention if is_between else None,
            self.norm(getattr(module, "post_feedforward_layernorm", None), epsilon, hidden),
            is_gelu=is_gelu,
        )


def epsilon_of(norm: nn.Module) -> float:
    """An RMS norm's epsilon; 0 where it is not known."""
    return float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0)))
