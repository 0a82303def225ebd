"""Missions for the mesh explorer: what a mesh must reach, and what one still lacks, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from course_lib.base.text import kib
from course_lib.widgets.mesh.choice import PARAMETERS, MeshChoice
from course_lib.widgets.mission_progress import Mission

__all__ = ["MISSIONS", "BothNodes", "LittleBetweenNodes", "MeshMission", "OrderMatters"]

Between = Mapping[MeshChoice, int]  # bytes that passed between nodes in a step, for every mesh that has been run


MeshMission = Mission[MeshChoice, Between]


@dataclass(frozen=True)
class LittleBetweenNodes:
    """Little memory on every rank, and little that passes from node to node, on so many ranks and nodes."""

    num_ranks: int = 8
    num_nodes: int = 2
    most_held_bytes: int = 500 * 1024
    most_between_bytes: int = 1024 * 1024

    def missed(self, choice: MeshChoice, between: Between) -> str:
        """By the model."""
        if sizes := _other_sizes(choice, self.num_ranks, self.num_nodes):
            return sizes
        if choice.most_held_bytes > self.most_held_bytes:
            held, asked = kib(choice.most_held_bytes), kib(self.most_held_bytes)
            return f"A rank keeps {held}; the mission allows at most {asked}."
        if choice.between_bytes > self.most_between_bytes:
            sent, asked = kib(choice.between_bytes), kib(self.most_between_bytes)
            return f"In a step {sent} pass between nodes; the mission allows at most {asked}."
        return ""


@dataclass(frozen=True)
class OrderMatters:
    """Two orders of the same axes, both run, of which one sends many times as much between nodes as the other."""

    num_ranks: int = 4
    num_nodes: int = 2
    times: int = 8

    def missed(self, choice: MeshChoice, between: Between) -> str:
        """By two runs."""
        if sizes := _other_sizes(choice, self.num_ranks, self.num_nodes):
            return sizes
        if len(choice.axes) < 2:
            return f"Ranks of this mesh differ along {choice.axes[0]} alone; an order of axes needs two of them."
        orders = [MeshChoice(mesh) for mesh in choice.mesh.orders()]
        found = [between[order] for order in orders if order in between]
        if len(found) < 2:
            return f"This mission needs runs of two orders of the same axes. So far {len(found)} of the two has run."
        least, most = min(found), max(found)
        if most < self.times * least:
            times = most / max(least, 1)
            return (
                f"Ranks sent {kib(least)} between nodes in one order and {kib(most)} in another, {times:.1f} times as "
                f"much; the mission asks for {self.times} times."
            )
        return ""


@dataclass(frozen=True)
class BothNodes:
    """Every number of the model on every node, so that one may be lost, and no rank with more than so much memory."""

    num_ranks: int = 8
    num_nodes: int = 2
    most_held_bytes: int = 1000 * 1024

    def missed(self, choice: MeshChoice, between: Between) -> str:
        """By the model."""
        if sizes := _other_sizes(choice, self.num_ranks, self.num_nodes):
            return sizes
        for name in PARAMETERS:
            for piece, ranks in choice.holders(name).items():
                nodes = {choice.mesh.node_of(rank) for rank in ranks}
                if len(nodes) < self.num_nodes:
                    lost = f"{str(piece).capitalize()} of {name}"
                    return f"{lost} are on node {min(nodes)} alone, and would be lost with that node."
        if choice.most_held_bytes > self.most_held_bytes:
            held, asked = kib(choice.most_held_bytes), kib(self.most_held_bytes)
            return f"A rank keeps {held}; the mission allows at most {asked}."
        return ""


def _other_sizes(choice: MeshChoice, num_ranks: int, num_nodes: int) -> str:
    if (choice.num_ranks, choice.num_nodes) == (num_ranks, num_nodes):
        return ""
    return f"This mission is for {num_ranks} ranks on {num_nodes} nodes."


MISSIONS: tuple[MeshMission, ...] = (LittleBetweenNodes(), OrderMatters(), BothNodes())
