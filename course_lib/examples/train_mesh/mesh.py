"""Ranks in a mesh: where this one stands along each axis, and so which samples and which blocks are its own."""

from __future__ import annotations

from typing import NamedTuple

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .axes import Axes
from .start import Rank

__all__ = ["Place", "place_of"]


class Place(NamedTuple):
    """A rank's place in the mesh."""

    me: Rank
    axes: Axes
    mesh: DeviceMesh  # with the four axes' names

    @property
    def stage(self) -> int:
        return self.mesh.get_local_rank("pp")

    @property
    def data_share(self) -> int:
        """Which part of a batch this rank works on: the same for all ranks along ``pp`` and ``tp``."""
        return self.mesh.get_local_rank("dp") * self.axes.shard + self.mesh.get_local_rank("shard")

    @property
    def is_last_stage(self) -> bool:
        return self.stage == self.axes.pp - 1

    @property
    def of_parameters(self) -> DeviceMesh:
        """The axes along which FSDP copies (the first of two) and cuts (the last) what other axes have left whole."""
        return self.mesh["dp", "shard"] if self.axes.dp > 1 else self.mesh["shard"]

    def blocks(self, num_layers: int) -> range:
        """The blocks of this rank's stage: as many in each as can be, one more in the first where it does not come out.

        The last stage has the output layer besides.
        """
        least, num_larger = divmod(num_layers, self.axes.pp)
        first = self.stage * least + min(self.stage, num_larger)
        return range(first, first + least + (self.stage < num_larger))


def place_of(me: Rank, axes: Axes) -> Place:
    """Make the mesh; every rank calls it. Ranks that are neighbours by number are neighbours along ``tp``."""
    mesh = init_device_mesh(me.device.type, tuple(axes), mesh_dim_names=Axes._fields)
    if axes.tp > 1:
        # Norms of gradients that are cut along both are added up in one message, where DTensor finds both as one axis.
        # PyTorch has no public name for this; it asks for it by this one in a warning.
        mesh["shard", "tp"]._flatten()
    return Place(me, axes, mesh)
