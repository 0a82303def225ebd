"""09.deal: windows by the place along the data axes, on any mesh."""

from __future__ import annotations

from answer_table import Row


def halves_by_halves(me, mesh, batch):
    """Right on the page's mesh, where tp is the last of two axes of 2."""
    return batch.chunk(2)[me.rank // 2]


def first_half_for_all(me, mesh, batch):
    """All losses fall alike, and half of the batch is never seen."""
    return batch[:4]


def along_the_first_axis(me, mesh, batch):
    axis = mesh.axes[0]
    return batch.chunk(mesh.size(axis))[mesh.coordinates(me.rank)[axis]]


def by_coordinates(me, mesh, batch):
    here = mesh.coordinates(me.rank)
    number = here.get("dp_replicate", 0) * mesh.size("dp_shard") + here.get("dp_shard", 0)
    return batch.chunk(mesh.size("dp_replicate", "dp_shard"))[number]


def shuffled_by_rank(me, mesh, batch):
    mine = by_coordinates(me, mesh, batch)
    return mine.flip(0) if me.rank % 2 else mine


ROWS = [
    Row(answer=halves_by_halves, verdict="not yet", why="the page's mesh alone"),
    Row(
        answer=first_half_for_all, verdict="not yet", mistake="", why="no window is to be left out", words=("no rank",)
    ),
    Row(answer=along_the_first_axis, verdict="not yet", mistake="", why="the first axis may be tp, or pp"),
    Row(answer=by_coordinates, verdict="passed", why="the definition"),
    Row(answer=shuffled_by_rank, verdict="not yet", mistake="", why="rank 1 adds to rank 0's rows in another order"),
]
