"""Matrices of eight bits in every way that checkpoints have them."""

from __future__ import annotations

import torch
from torch import Tensor


def coded(weight: Tensor, way: int, generator: torch.Generator) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Codes, the numbers that they stand for, and what is saved beside the codes.

    0: FP8 with one scale; 1: FP8 with one for each block of 48 by 40; 2: integers with one a row; 3: the same and zero
    points; 4: integers with a scale and a zero point for every 16 columns.
    """
    rows, columns = weight.shape
    if way < 2:
        codes = (weight * 200).to(torch.float8_e4m3fn)
        scale = (
            torch.tensor(0.005)
            if way == 0
            else 0.003 + torch.rand(-(-rows // 48), -(-columns // 40), generator=generator) / 200
        )
        spread = scale if way == 0 else torch.empty(rows, columns)
        for i, j in [(i, j) for i in range(0, rows, 48) for j in range(0, columns, 40)] if way else ():
            spread[i : i + 48, j : j + 40] = scale[i // 48, j // 40]
        name = "weight_scale" if way == 0 else "weight_scale_inv"
        return codes, codes.float() * spread, {name: scale, "input_scale": torch.tensor(1.0)}
    codes = torch.randint(-128, 128, (rows, columns), generator=generator).to(torch.int8)
    groups = columns // 16 if way == 4 else 1
    scale = torch.rand(rows, groups, generator=generator) / 2000 + 0.001
    spread = torch.cat([scale[:, j : j + 1].expand(rows, columns // groups) for j in range(groups)], 1)
    if way == 2:
        return codes, codes.float() * spread, {"weight_scale": scale[:, 0]}
    zero = torch.randint(-9, 9, (rows, groups), generator=generator).to(torch.int8)
    shift = torch.cat([zero[:, j : j + 1].expand(rows, columns // groups) for j in range(groups)], 1)
    return codes, (codes.float() - shift.float()) * spread, {"weight_scale": scale, "weight_zero_point": zero}
