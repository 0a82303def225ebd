"""Checkpoints of a split model: gathered to the unsplit form, cut from it, and joined from files of another split.

The names of a split model's parameters are those of the unsplit model, and each parallel layer says how its parameters
are placed, so a checkpoint of the unsplit form fits any number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives import all_gather, split_sizes
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.tensor.placements import Placement, Replicate, Shard

__all__ = ["gather_state", "join_states", "load_unsplit", "parameter_placements"]

State = Mapping[str, Tensor]


def parameter_placements(model: nn.Module) -> dict[str, Placement]:
    """How each parameter of a split model is placed, by its name; what no parallel layer speaks for is replicated."""
    return {
        f"{path}.{name}" if path else name: getattr(module, "placements", {}).get(name, Replicate())
        for path, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
    }


def gather_state(me: Rank, model: nn.Module, *, group: dist.ProcessGroup | None = None) -> dict[str, Tensor]:
    """The unsplit ``state_dict``, on every rank: each cut parameter is all-gathered.

    It needs the memory of the unsplit model; a model too large for that is saved part by part, and joined later.
    """
    members, placements = Members.of(me, group), parameter_placements(model)
    state = {}
    for name, value in model.state_dict().items():
        placement = placements.get(name, Replicate())
        state[name] = value.detach().clone()
        if isinstance(placement, Shard) and members.count > 1:
            rows = value.movedim(placement.dim, 0)
            sizes = _sizes_of_all(me, rows, members)
            state[name] = all_gather(me, rows, sizes=sizes, group=group).movedim(0, placement.dim)
    return state


def load_unsplit(me: Rank, model: nn.Module, state: State, *, group: dist.ProcessGroup | None = None) -> None:
    """Fill a split model from an unsplit ``state_dict``, each rank taking its slices. Nothing is sent."""
    members, placements = Members.of(me, group), parameter_placements(model)
    model.load_state_dict(
        {
            name: _slice(value, placements.get(name, Replicate()), members.group_rank, members.count)
            for name, value in state.items()
        }
    )


def join_states(states: Sequence[State], placements: Mapping[str, Placement]) -> dict[str, Tensor]:
    """The unsplit ``state_dict`` from those of all ranks of a split, in the order of the ranks; no ranks are needed.

    ``placements`` is ``parameter_placements`` of the split model. What is replicated is taken from the first rank.
    """
    joined = {}
    for name, first in states[0].items():
        placement = placements.get(name, Replicate())
        cut = isinstance(placement, Shard)
        joined[name] = torch.cat([state[name] for state in states], placement.dim) if cut else first.clone()  # type: ignore[union-attr]
    return joined


def _slice(full: Tensor, placement: Placement, group_rank: int, count: int) -> Tensor:
    if not isinstance(placement, Shard):
        return full
    return full.split(split_sizes(full.size(placement.dim), count), placement.dim)[group_rank]


def _sizes_of_all(me: Rank, rows: Tensor, members: Members) -> list[int]:
    """How many rows each rank holds."""
    mine = torch.tensor([len(rows)], device=rows.device)
    return all_gather(me, mine, group=members.group).tolist()
