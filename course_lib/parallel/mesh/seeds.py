"""Random numbers on a mesh: one seed for the weights, and others for what happens to the data.

*Weights*: every rank builds the plain model from one seed and takes its part, so that copies are equal and parts belong
together. *Dropout*: ranks that differ in ``tp`` hold the same activations between split regions and must drop the same
of them, while inside a region each drops its own (``tensor/randomness.py`` draws that from the common seed). Ranks that
differ along any other axis have other samples, or other layers: with equal seeds they would all drop the same places.
"""

from __future__ import annotations

import torch

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least
from course_lib.layouts.mesh import Mesh

__all__ = ["seed_for_data", "seed_of"]


@checked
def seed_of(mesh: Mesh, rank: int, seed: Int64) -> int:
    """The seed of a rank after the weights are there: ``seed`` plus its place along all axes but ``tp``."""
    at_least(0, seed=seed)
    group_rank, here = 0, mesh.coordinates(rank)
    for axis in mesh.axes:
        if axis != "tp":
            group_rank = group_rank * mesh.size(axis) + here[axis]
    return seed + group_rank


@checked
def seed_for_data(mesh: Mesh, rank: int, seed: Int64) -> None:
    """Seed this rank's generators with it; call it when the model is made, before the first batch."""
    torch.manual_seed(seed_of(mesh, rank, seed))
