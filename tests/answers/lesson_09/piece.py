"""09.piece: a list of ranks, of whatever whole numbers, and arguments that stay as they are."""

from __future__ import annotations

import numpy as np
from answer_table import Row

from course_lib.parallel.collectives import split_sizes

KEPT = {}


def right_holders(mesh, stage_layers, layer, shape, tp_dim, row, column):
    found = []
    for rank in range(mesh.num_ranks):
        here = mesh.coordinates(rank)
        begin, size = [0, 0], list(shape)
        if tp_dim is not None:
            place, sizes = here.get("tp", 0), split_sizes(shape[tp_dim], mesh.size("tp"))
            begin[tp_dim], size[tp_dim] = sum(sizes[:place]), sizes[place]
        row_here, column_here = row - begin[0], column - begin[1]
        per_shard = -(-size[0] // mesh.size("dp_shard"))
        on_stage = layer in stage_layers[here.get("pp", 0)]
        in_slice = 0 <= row_here < size[0] and 0 <= column_here < size[1]
        if on_stage and in_slice and row_here // per_shard == here.get("dp_shard", 0):
            found.append(rank)
    return found


def one_row_more(mesh, stage_layers, layer, shape, tp_dim, row, column):
    """The slices by ``split_sizes``, and of its rows a shard has ``rows // dp_shard + 1``."""
    found = []
    for rank in range(mesh.num_ranks):
        here = mesh.coordinates(rank)
        begin, size = [0, 0], list(shape)
        if tp_dim is not None:
            place, sizes = here.get("tp", 0), split_sizes(shape[tp_dim], mesh.size("tp"))
            begin[tp_dim], size[tp_dim] = sum(sizes[:place]), sizes[place]
        row_here, column_here = row - begin[0], column - begin[1]
        per = size[0] // mesh.size("dp_shard") + 1
        in_slice = 0 <= row_here < size[0] and 0 <= column_here < size[1]
        if layer in stage_layers[here.get("pp", 0)] and in_slice and row_here // per == here.get("dp_shard", 0):
            found.append(rank)
    return found


def asks_whether_tp_dim(mesh, stage_layers, layer, shape, tp_dim, row, column):
    return right_holders(mesh, stage_layers, layer, shape, tp_dim if tp_dim else None, row, column)


def kept_without_the_shape(mesh, stage_layers, layer, shape, tp_dim, row, column):
    key = mesh, layer, row, column
    if key not in KEPT:
        KEPT[key] = right_holders(mesh, stage_layers, layer, shape, tp_dim, row, column)
    return KEPT[key]


def gives_a_set(mesh, stage_layers, layer, shape, tp_dim, row, column):
    return set(right_holders(mesh, stage_layers, layer, shape, tp_dim, row, column))


def empties_the_stages(mesh, stage_layers, layer, shape, tp_dim, row, column):
    own = [stage_layers.pop(0) for _ in range(len(stage_layers))]
    return right_holders(mesh, own, layer, shape, tp_dim, row, column)


def ranks_of_numpy(mesh, stage_layers, layer, shape, tp_dim, row, column):
    return [np.int64(rank) for rank in right_holders(mesh, stage_layers, layer, shape, tp_dim, row, column)]


ROWS = [
    Row(answer=right_holders, verdict="passed", why="the definition"),
    Row(answer=ranks_of_numpy, verdict="passed", why="whole numbers, as in the other exercises"),
    Row(
        answer=one_row_more,
        verdict="not yet",
        why="4 rows between 2 are 2 and 2",
        unsaid=("You have cut them like rows of shards",),
    ),
    Row(
        answer=asks_whether_tp_dim,
        verdict="not yet",
        mistake="zero-is-false",
        why="dim 0 is a dim, and to `if` it is false",
    ),
    Row(
        answer=kept_without_the_shape,
        verdict="not yet",
        why="the same place in another matrix is with other ranks",
        words=("(8, 10)",),
    ),
    Row(answer=gives_a_set, verdict="not yet", why="a list in rising order is asked for", words=("a list in rising",)),
    Row(answer=empties_the_stages, verdict="not yet", why="the stages are the caller's", words=("`stage_layers`",)),
]
