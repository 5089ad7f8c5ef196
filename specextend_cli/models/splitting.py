"""Tensor parallelism (Megatron-LM, arXiv 1909.08053, section 3): each process keeps a part of the heads and neurons.

The plan is transformers' (`base_model_tp_plan`). Its implementation is not used: it needs another library, its
interface changed three times in as many months, and it wraps every product, where slices of the weights and a sum after
each row-parallel product suffice.
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from specextend_cli.engine.tensor_parallel import ProcessGroup
from specextend_cli.errors import ModelError

_NEEDED = {f"layers.*.self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
_UNSPLIT = ("replicated_with_grad_allreduce",)  # norms within a head, the same in every process


def split(model: PreTrainedModel, group: ProcessGroup) -> None:
    """Reduce every layer of `model` to this process's part; all processes then call its forward together.

    Embedding, norms and output head stay complete, because drafters read them. ModelError: the model has no plan, or
    its heads cannot be divided equally.
    """
    kind, config = type(model).__name__, model.config
    plan: dict[str, str] = getattr(config, "base_model_tp_plan", None) or {}
    plan = {name: how for name, how in plan.items() if name.startswith("layers.") and how not in _UNSPLIT}
    if not plan.keys() >= _NEEDED or not set(plan.values()) <= {"colwise", "rowwise"}:
        raise _cannot(f"transformers has no plan of heads for {kind}", "start it as a single process")
    heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if any(count % group.size for count in heads):
        counted = " and ".join(str(count) for count in dict.fromkeys(heads))
        raise _cannot(f"its layers have {counted} heads", "start as many processes as divide them")
    for name, module in model.get_decoder().named_modules():
        how = plan.get(re.sub(r"\.\d+\.", ".*.", name))
        if how is None:
            continue
        if type(module) is not nn.Linear:
            raise _cannot(f"{name} is a {type(module).__name__}", "choose a target that is not quantized")
        _keep(module, 0 if how == "colwise" else 1, group)


def _keep(linear: nn.Linear, dimension: int, group: ProcessGroup) -> None:
    """Keep a part of its outputs (dimension 0), or of its inputs (1) and sum its products over the processes."""

    def part(tensor: Tensor) -> nn.Parameter:
        if tensor.shape[dimension] % group.size:
            raise _cannot(f"a layer has {tensor.shape[dimension]:,} neurons", "start as many processes as divide them")
        own = tensor.detach().chunk(group.size, dimension)[group.rank]
        return nn.Parameter(own.clone(), requires_grad=False)

    linear.weight = part(linear.weight)
    linear.out_features, linear.in_features = linear.weight.shape
    if dimension == 0:
        linear.bias = None if linear.bias is None else part(linear.bias)
        return
    # Added before the sum, the bias would be counted once for each process.
    linear.register_buffer("bias_of_sum", linear.bias)
    linear.register_parameter("bias", None)

    def summed(_: nn.Module, __: Any, products: Tensor) -> Tensor:
        total = group.sum(products)
        bias: Any = linear.bias_of_sum
        return total if bias is None else total + bias

    linear.register_forward_hook(summed)


def _cannot(why: str, fix: str) -> ModelError:
    return ModelError("the target cannot be split over several processes", why=why, fix=fix)
