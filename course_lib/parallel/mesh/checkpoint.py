"""Checkpoints that fit any mesh: every rank writes its boxes, and whoever loads asks for those that it holds.

All of it is ``torch.distributed.checkpoint`` (DCP): its format, its files. What is ours is to say of each tensor which
box of which parameter it is; DCP writes that down, finds for each box that is asked for the files that overlap it, and
copies. So 2 x 2 x 2 ranks save, 4 x 1 x 2 load, and so does a plain model, whose boxes are whole tensors::

    plain = {"model": model.state_dict()}
    dcp.load(plain, checkpoint_id=folder)          # from the folder of any mesh

In the folder ``model`` stands for the plain model's ``state_dict()``, a tied parameter under both names, and
``optimizer`` for the states by parameter and name. Why boxes and not ``DTensor``: it cuts 13 rows among 4 ranks as
4, 4, 4, 1, and our slices are 4, 3, 3, 3. A box says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from course_lib.cluster.base.shared_folder import check_all_nodes_see, check_shared_folder
from course_lib.parallel.mesh.boxes import Box, boxes_of
from course_lib.parallel.mesh.on_mesh import OnMesh
from course_lib.parallel.sharded.tools.checkpoint import placed_state

__all__ = ["load_on_mesh", "save_on_mesh"]

Optimizer = torch.optim.Optimizer
_METADATA = ".metadata"  # DCP writes it when all ranks have written their parts


def save_on_mesh(folder: str | Path, model: OnMesh, optimizer: Optimizer | None = None) -> None:
    """Every rank writes of weights and optimizer states what it holds, one of them what several hold; returns when all
    have.

    A folder that holds a complete checkpoint already is a ``ValueError``: whoever writes over the only one loses both.
    So is one that the ranks' nodes do not share.
    """
    folder, boxes = Path(folder), boxes_of(model)
    if (folder / _METADATA).exists():
        raise ValueError(
            f"{folder} holds a complete checkpoint. Save into a new folder, such as {folder}-new, and remove the old "
            "one when the new one is complete."
        )
    check_shared_folder(folder)
    weights = {box.name: BoxTensor.of(box, box.parameter) for box in boxes}
    states: dict[str, Any] = {}
    if optimizer is not None:
        counted = [box for box in boxes if box.counts and box.parameter in optimizer.state]
        states = {box.name: _boxed(box, optimizer.state[box.parameter]) for box in counted}
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder)


def load_on_mesh(folder: str | Path, model: OnMesh, optimizer: Optimizer | None = None) -> None:
    """Every rank reads the boxes that it holds; the checkpoint may be of any mesh.

    ``ValueError`` where the folder holds no complete checkpoint, or one of another model, or is not on all nodes;
    nothing is loaded then.
    """
    folder, boxes = Path(folder), boxes_of(model)
    check_all_nodes_see(folder / _METADATA)
    if not (folder / _METADATA).is_file():
        raise ValueError(f"{folder} holds no complete checkpoint: it has no file {_METADATA}, which is written last")
    there = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    _refuse_another_model(folder, model.shapes, there)
    rooms = {}
    if optimizer is not None:
        ours = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        rooms = {box.first_name: (box, _room(box, there)) for box in boxes if box.parameter in ours}
    weights = {box.name: BoxTensor.of(box, box.parameter) for box in boxes}
    states = {name: _boxed(box, room) for name, (box, room) in rooms.items() if room}
    dcp.load({"model": weights, "optimizer": states}, checkpoint_id=folder)  # into the tensors themselves
    for name, loaded in states.items():
        box, room = rooms[name]
        assert optimizer is not None
        state = {key: value if isinstance(value, Tensor) else loaded[key] for key, value in room.items()}
        optimizer.state[box.parameter] = placed_state(optimizer, box.parameter, state)


class BoxTensor(Tensor):
    """What DCP is handed: to look at, a tensor of the whole parameter's shape; in it, one box of that, and where it is.

    A ``DTensor`` is the same with placements instead of a box. DCP asks by the three methods (its protocol
    ``_Checkpointable``) and computes with ``local`` alone, which is the memory of the tensor that was given.
    """

    box: Box
    local: Tensor

    @classmethod
    def of(cls, box: Box, local: Tensor) -> BoxTensor:
        local = local.detach()
        made: BoxTensor = Tensor._make_wrapper_subclass(cls, box.shape, dtype=local.dtype, device=local.device)
        made.box, made.local = box, local
        return made

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        """What to read: nothing where this rank has no row."""
        return [self._chunk] if self.local.numel() else []

    def __create_write_items__(self, name: str, _: object) -> list[WriteItem]:
        """What to write; of several ranks with the same box DCP lets one do it."""
        if not self.local.numel():
            return []
        index = MetadataIndex(name, self._chunk.offsets)
        what = TensorWriteData(self._chunk, TensorProperties(dtype=self.dtype), torch.Size(self.box.shape))
        return [WriteItem(index, WriteItemType.SHARD, tensor_data=what)]

    def __get_tensor_shard__(self, _: MetadataIndex) -> Tensor:
        return self.local

    @property
    def _chunk(self) -> ChunkStorageMetadata:
        return ChunkStorageMetadata(torch.Size(self.box.offsets), torch.Size(self.box.sizes))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise NotImplementedError(f"{func} of a BoxTensor: it is there to be saved and loaded; compute with its .local")


def _boxed(box: Box, state: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter's optimizer state: what has a number for each of its numbers, as boxes; a step stays as it is."""

    def is_like(value: Any) -> bool:
        return isinstance(value, Tensor) and value.dim() > 0 and tuple(value.shape) == box.sizes

    return {key: BoxTensor.of(box, value) if is_like(value) else value for key, value in state.items()}


def _room(box: Box, there: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors for what the checkpoint has of a parameter's optimizer state, as large as this rank's box of it."""
    room: dict[str, Any] = {}
    prefix = f"optimizer.{box.first_name}."
    for key, about in there.items():
        if not key.startswith(prefix):
            continue
        value: Any = None
        if isinstance(about, TensorStorageMetadata):
            is_like = tuple(about.size) == box.shape
            like = box.parameter if is_like and box.shape else torch.empty(about.size, device="cpu")
            value = torch.zeros_like(like, dtype=about.properties.dtype, requires_grad=False)
        room[key.removeprefix(prefix)] = value
    return room


def _refuse_another_model(folder: Path, shapes: Mapping[str, tuple[int, ...]], there: Mapping[str, Any]) -> None:
    """All parameters are looked at, and not this rank's alone: where one rank raised, others would wait for it."""
    for name, shape in shapes.items():
        about = there.get(f"model.{name}")
        if not isinstance(about, TensorStorageMetadata) or tuple(about.size) != shape:
            has = f"has shape {tuple(about.size)}" if isinstance(about, TensorStorageMetadata) else "is missing"
            raise ValueError(
                f"{folder} is a checkpoint of another model: {name} has shape {shape} here, and {has} in it"
            )
