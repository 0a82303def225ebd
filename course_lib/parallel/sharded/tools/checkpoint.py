"""Checkpoints of shards: every rank writes its own rows, and any number of ranks reads them again.

All of it is ``torch.distributed.checkpoint`` (DCP): its format, its files, nothing of ours on the disk. What is ours
is to say of each shard which rows of which parameter it is: a ``DTensor``. DCP writes that down, and whoever loads
asks for the rows that *it* keeps, or for whole tensors: a plain model loads the same folder.

A save is complete when its folder has a file ``.metadata``, which is written last. A rank that dies before leaves a
folder without one; the checkpoint before is untouched, and ``newest_checkpoint`` finds that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from course_lib.cluster.base.shared_folder import check_all_nodes_see, check_shared_folder
from course_lib.parallel.sharded.at_rest import ShardedParameter
from course_lib.parallel.sharded.fully_sharded import FullySharded

__all__ = ["load_sharded", "newest_checkpoint", "placed_state", "save_sharded", "start_save_sharded"]

Optimizer = torch.optim.Optimizer
_METADATA = ".metadata"  # DCP writes it when all ranks have written their parts


def save_sharded(folder: str | Path, model: FullySharded, optimizer: Optimizer | None = None) -> None:
    """Every rank writes its rows of weights and optimizer states into ``folder``, and returns when all have.

    In it ``model`` stands for the model's ``state_dict()`` and ``optimizer`` for the states, by parameter and name. A
    folder that holds a complete checkpoint already is a ``ValueError``: whoever writes over the only one loses both.
    So is one that the ranks' nodes do not share.
    """
    dcp.save(_state(model, optimizer), checkpoint_id=_new(folder))


def start_save_sharded(
    folder: str | Path, model: FullySharded, optimizer: Optimizer | None = None
) -> Callable[[], None]:
    """The same beside training: returns as soon as everything is copied to the CPU; call what it returns to wait.

    DCP's own messages go through a group of their own meanwhile, or they would mix with those of the steps. Every
    rank has to wait before the next save, and before the end.
    """
    folder, group = _new(folder), dist.new_group(backend="gloo")
    future = dcp.async_save(_state(model, optimizer), checkpoint_id=folder, process_group=group)

    def wait() -> None:
        future.result()  # type: ignore[union-attr]
        dist.destroy_process_group(group)

    return wait


def load_sharded(folder: str | Path, model: FullySharded, optimizer: Optimizer | None = None) -> None:
    """Every rank reads the rows that it keeps; the checkpoint may be of any number of ranks.

    ``ValueError`` where the folder holds no complete checkpoint, or one of another model, or is not on all nodes.
    """
    folder = Path(folder)
    check_all_nodes_see(folder / _METADATA)
    if not (folder / _METADATA).is_file():
        newest = newest_checkpoint(folder.parent) if folder.parent.is_dir() else None
        instead = f" The newest one beside it is {newest.name}." if newest else ""
        raise ValueError(f"{folder} holds no complete checkpoint: it has no file {_METADATA}.{instead}")
    known = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state: dict[str, Any] = {"model": _model_state(model)}
    for name, tensor in state["model"].items():
        there = known.get(f"model.{name}")
        if not isinstance(there, TensorStorageMetadata) or tuple(there.size) != tuple(tensor.shape):
            has = f"has shape {tuple(there.size)}" if isinstance(there, TensorStorageMetadata) else "is missing"
            raise ValueError(
                f"{folder} is a checkpoint of another model: {name} has shape {tuple(tensor.shape)} here, and "
                f"{has} in it."
            )
    if optimizer is not None:
        state["optimizer"] = _room_for_states(model, optimizer, known)
    dcp.load(state, checkpoint_id=folder)  # into the tensors themselves
    if optimizer is not None:
        _take_states(model, optimizer, state["optimizer"])


def newest_checkpoint(root: str | Path) -> Path | None:
    """The folder in ``root`` with the complete checkpoint that was finished last; ``None`` where there is none."""
    complete = [path.parent for path in Path(root).glob(f"*/{_METADATA}")]
    return max(complete, key=lambda path: (path / _METADATA).stat().st_mtime_ns, default=None)


def _new(folder: str | Path) -> Path:
    folder = Path(folder)
    if (folder / _METADATA).exists():
        raise ValueError(
            f"{folder} holds a complete checkpoint. Save into a new folder, such as {folder}-new, and remove "
            "the old one "
            "when the new one is complete."
        )
    check_shared_folder(folder)
    return folder


# -- shards with their places -----------------------------------------------------------------------------------------


def _as_dtensor(model: FullySharded, parameter: ShardedParameter, rows: Tensor) -> DTensor:
    """Rows of something in the shape of a parameter, with what they are rows of."""
    group = model.members.group or dist.group.WORLD
    assert group is not None
    mesh = DeviceMesh.from_group(group, rows.device.type)
    shape = torch.Size(parameter.rows.shape)
    strides = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(rows, mesh, [Shard(0)], run_check=False, shape=shape, stride=strides)


def _parameters(model: FullySharded) -> list[ShardedParameter]:
    return [parameter for unit in model.units for parameter in unit.parameters]


def _model_state(model: FullySharded) -> dict[str, Any]:
    """The names of the plain model's ``state_dict()``; shards know their place, and buffers are whole everywhere."""
    by_name = {name: p for p in _parameters(model) for name in p.names_in(model.module)}
    return {
        name: _as_dtensor(model, by_name[name], by_name[name].shard.detach()) if name in by_name else tensor
        for name, tensor in model.module.state_dict().items()
    }


def _state(model: FullySharded, optimizer: Optimizer | None) -> dict[str, Any]:
    state: dict[str, Any] = {"model": _model_state(model)}
    if optimizer is not None:
        state["optimizer"] = {
            parameter.name: {
                name: _as_dtensor(model, parameter, value) if _is_by_row(parameter, value) else value
                for name, value in optimizer.state[parameter.shard].items()
            }
            for parameter in _parameters(model)
            if parameter.shard in optimizer.state
        }
    return state


def _is_by_row(parameter: ShardedParameter, value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and value.shape == parameter.shard.shape


def _room_for_states(model: FullySharded, optimizer: Optimizer, known: dict[str, Any]) -> dict[str, Any]:
    """Empty tensors for what the checkpoint has of the optimizer: DCP reads into what is there."""
    ours = {p for group in optimizer.param_groups for p in group["params"]}
    room: dict[str, Any] = {}
    for parameter in _parameters(model):
        prefix = f"optimizer.{parameter.name}."
        for key, there in known.items():
            if parameter.shard not in ours or not key.startswith(prefix) or "." in key.removeprefix(prefix):
                continue
            value: Any = 0
            if isinstance(there, TensorStorageMetadata):
                dtype = there.properties.dtype
                if tuple(there.size) == parameter.rows.shape:
                    rows = torch.zeros_like(parameter.shard, dtype=dtype, requires_grad=False)
                    value = _as_dtensor(model, parameter, rows)
                else:
                    value = torch.zeros(there.size, dtype=dtype, device="cpu")
            room.setdefault(parameter.name, {})[key.removeprefix(prefix)] = value
    return room


def _take_states(model: FullySharded, optimizer: Optimizer, state: dict[str, Any]) -> None:
    for parameter in _parameters(model):
        if parameter.name in state:
            local = {
                name: value.to_local() if isinstance(value, DTensor) else value
                for name, value in state[parameter.name].items()
            }
            optimizer.state[parameter.shard] = placed_state(optimizer, parameter.shard, local)


def placed_state(optimizer: Optimizer, parameter: Tensor, state: dict[str, Any]) -> dict[str, Any]:
    """A parameter's loaded state, where the optimizer looks for it: beside the parameter, but for ``step``.

    That one is the host's, unless a fused or capturable optimizer counts on the device. As ``load_state_dict`` of
    ``torch.optim.Optimizer`` has it, which we go past: it wants the states of all parameters, whole.
    """
    (group,) = (g for g in optimizer.param_groups if any(p is parameter for p in g["params"]))
    counts_on_device = group.get("fused") or group.get("capturable")

    def placed(name: str, value: Any) -> Any:
        if not isinstance(value, Tensor) or (name == "step" and not counts_on_device):
            return value
        return value.to(parameter.device, torch.float32 if name == "step" else value.dtype)

    return {name: placed(name, value) for name, value in state.items()}
