"""A model split over processes: each keeps its heads and its neurons, by the plan that transformers has for the layers.

Only that plan is transformers' (`base_model_tp_plan`). Its own way of splitting needs another library, has had three
interfaces in as many months, and wraps every product; a slice of a weight and a sum behind a layer's last products are
all that it takes (Megatron-LM, arXiv 1909.08053, section 3).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from specextend_cli.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from specextend_cli.engine.tensor_parallel import ProcessGroup

_NEEDED = {f"layers.*.self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
_UNSPLIT = ("replicated_with_grad_allreduce",)  # norms within a head, the same in every process


def split(model: PreTrainedModel, crew: ProcessGroup) -> None:
    """Leave this process's part of every layer in `model`, whose forward all processes then call together.

    Embedding, norms and output head stay whole: drafts read them. ModelError: the model has no plan, or heads that
    cannot be shared out equally.
    """
    from torch import nn

    kind, config = type(model).__name__, model.config
    plan: dict[str, str] = getattr(config, "base_model_tp_plan", None) or {}
    plan = {name: how for name, how in plan.items() if name.startswith("layers.") and how not in _UNSPLIT}
    if not plan.keys() >= _NEEDED or not set(plan.values()) <= {"colwise", "rowwise"}:
        raise _cannot(f"transformers has no plan of heads for {kind}", "start it as a single process")
    heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if any(count % crew.size for count in heads):
        counted = " and ".join(str(count) for count in dict.fromkeys(heads))
        raise _cannot(f"its layers have {counted} heads", "start as many processes as divide them")
    for name, module in model.get_decoder().named_modules():
        how = plan.get(re.sub(r"\.\d+\.", ".*.", name))
        if how is None:
            continue
        if type(module) is not nn.Linear:
            raise _cannot(f"{name} is a {type(module).__name__}", "choose a target that is not quantized")
        _keep(module, 0 if how == "colwise" else 1, crew)


def _keep(linear: nn.Linear, dimension: int, crew: ProcessGroup) -> None:
    """One part of its outputs (dimension 0), or of its inputs (1), whose products are summed over the processes."""
    from torch import nn

    def part(tensor: Tensor) -> nn.Parameter:
        if tensor.shape[dimension] % crew.size:
            raise _cannot(f"a layer has {tensor.shape[dimension]:,} neurons", "start as many processes as divide them")
        own = tensor.detach().chunk(crew.size, dimension)[crew.rank]
        return nn.Parameter(own.clone(), requires_grad=False)

    linear.weight = part(linear.weight)
    linear.out_features, linear.in_features = linear.weight.shape
    if dimension == 0:
        linear.bias = None if linear.bias is None else part(linear.bias)
        return
    # Whoever adds it before the sum adds it more than once.
    linear.register_buffer("bias_of_sum", linear.bias)
    linear.register_parameter("bias", None)

    def summed(_: nn.Module, __: Any, products: Tensor) -> Tensor:
        total = crew.sum(products)
        bias: Any = linear.bias_of_sum
        return total if bias is None else total + bias

    linear.register_forward_hook(summed)


def _cannot(why: str, fix: str) -> ModelError:
    return ModelError("the target cannot be split over several processes", why=why, fix=fix)
