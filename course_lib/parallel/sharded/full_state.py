"""The state of the plain model, out of shards and into them: what a file should hold, whatever the number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from course_lib.parallel.sharded.unit import Unit

__all__ = ["check_own_rows", "full_state_dict", "load_full_state_dict"]


def full_state_dict(
    module: nn.Module, units: Sequence[Unit], device: torch.device | str | None = None
) -> dict[str, Any]:
    """What ``state_dict()`` of the plain model would be, on every rank; unit by unit, moved to ``device`` at once."""
    state = dict(module.state_dict())
    for unit in units:
        for parameter, tensor in zip(unit.parameters, unit.copies(), strict=True):
            for name in parameter.names_in(module):
                state[name] = tensor if device is None else tensor.to(device)
    return state


@torch.no_grad()
def load_full_state_dict(module: nn.Module, units: Sequence[Unit], state: Mapping[str, Any]) -> None:
    """Take this rank's rows of a plain model's ``state_dict()``, and all of its buffers.

    ``ValueError`` where a name is missing or unknown, or a shape is another; nothing is loaded then.
    """
    wanted = {name for name, _ in module.state_dict().items()}
    if odd := sorted(wanted ^ set(state)):
        which = "misses" if odd[0] in wanted else "has unknown"
        raise ValueError(f"the state {which} {odd[0]} ({len(odd)} such names); it is no state_dict() of this model")
    rows = [(p, p.names_in(module)) for unit in units for p in unit.parameters]
    for parameter, names in rows:
        shape = tuple(state[names[0]].shape)
        if shape != parameter.rows.shape:
            raise ValueError(
                f"{names[0]} has shape {shape} in the state, and {parameter.rows.shape} in the model. Give whole "
                "tensors, as full_state_dict() returns them, and no shards of another run."
            )
    for parameter, names in rows:
        parameter.shard.copy_(parameter.rows.cut(state[names[0]], units[0].members.group_rank))
    own = {name for _, names in rows for name in names}
    for name, buffer in module.state_dict().items():
        if name not in own:
            buffer.copy_(state[name])


def check_own_rows(units: Sequence[Unit], state: Mapping[str, Any], *, prefix: str) -> None:
    """``ValueError`` where a ``state_dict()`` of shards has other rows than those that this rank keeps."""
    for parameter in (parameter for unit in units for parameter in unit.parameters):
        given = state.get(prefix + parameter.name)
        if given is not None and given.shape != parameter.shard.shape:
            raise ValueError(
                f"the state holds {len(given)} rows of {parameter.name}, and this rank keeps "
                f"{len(parameter.shard)} of {parameter.rows.shape[0]}: it is a shard of another run. "
                "Save full_state_dict(), or by torch.distributed.checkpoint, which any number of ranks loads."
            )
