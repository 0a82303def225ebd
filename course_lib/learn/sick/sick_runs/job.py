"""How much there is to do in a step: times of paced computing, sizes of real messages and tensors, and the links.

All is small: computing is a timed wait, and a MiB here stands for a GiB on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link

__all__ = ["LINKS", "MIB", "SickJob"]

MIB = 2**20
LINKS = Links.nodes(2, inside=Link(0.1e-3, 200e6), across=Link(0.5e-3, 60e6))
"""Two nodes of two ranks; the ranks of a node share its port to the other node."""


@dataclass(frozen=True)
class SickJob:
    """A model of equal layers and a step of ``num_rows`` rows; of a device, its memory and whether it is slow.

    A backward takes twice the time of a forward. ``call_s`` is what a layer costs however few rows it has.
    """

    num_layers: int = 8
    num_rows: int = 16
    forward_s: float = 1.0e-3  # a row through a layer, on one whole device
    call_s: float = 0.15e-3
    update_s: float = 2e-3
    read_s: float = 20e-3  # a batch of one rank, by one reader
    gradient_bytes: int = 150_000  # of a layer
    row_bytes: int = 49_152  # of a row between two layers
    state_bytes: int = 3 * MIB // 2  # of a layer: weights, gradients, optimizer
    kept_bytes: int = MIB // 4  # of a row in a layer, for backward
    device_bytes: int = 32 * MIB
    slow: tuple[tuple[int, float], ...] = ()  # (rank, factor): devices slower than the others

    def layer_s(self, num_rows: float, num_parts: int = 1) -> float:
        """The forward of a layer, cut among ``num_parts`` ranks."""
        return self.call_s + num_rows * self.forward_s / num_parts

    def useful_s(self, num_ranks: int) -> float:
        """The model's own arithmetic, shared out: what a step would take where nothing is lost."""
        return 3 * self.num_layers * self.num_rows * self.forward_s / num_ranks
