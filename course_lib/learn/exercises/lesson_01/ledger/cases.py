"""01.ledger: the tensors that are counted, and what torch's own optimizer holds of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["of_three_kinds", "state_really_held", "tensors", "tied", "tied_and_frozen", "without_numbers"]


def tensors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, frozen: tuple[int, ...] = ()) -> list:
    made = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]
    for index in frozen:
        made[index].requires_grad_(False)
    return made


def tied() -> tuple[list]:
    table, other = tensors((7, 4), (4,))
    return ([table, other, table],)


def tied_and_frozen() -> tuple[list]:
    table, other, last = tensors((6, 3), (3, 3), (6, 3), frozen=(0,))
    return ([table, other, table, last, other, table],)


def of_three_kinds() -> tuple[list]:
    short = tensors((9, 3), (), dtype=torch.bfloat16)
    turned = nn.Parameter(torch.zeros(5, 2, dtype=torch.float64).t())  # not in its own order in memory
    return ([*short, *tensors((4, 4), (1,)), turned],)


def without_numbers() -> tuple[list]:
    return (tensors((3, 0), (4,), (0,)),)


def state_really_held(parameters: list) -> dict[str, int]:
    """The oracle: let torch's AdamW take a step, then count what is there."""
    unique = list({id(p): p for p in parameters}.values())
    trainable = [p for p in unique if p.requires_grad]
    copies = [nn.Parameter(p.detach().clone()) for p in trainable]
    state: list[Any] = []
    if copies:  # AdamW refuses an empty list
        optimizer = torch.optim.AdamW(copies)
        for parameter in copies:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        state = [value for held in optimizer.state.values() for value in held.values()]
    return {
        "parameter": sum(p.nbytes for p in unique),
        "gradient": sum(p.grad.nbytes for p in copies if p.grad is not None),
        "optimizer state": sum(value.nbytes for value in state),
    }
