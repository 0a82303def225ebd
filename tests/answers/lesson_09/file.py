"""09.file: the file that was written at this rank's place."""

from __future__ import annotations

from answer_table import Row


def two_by_two_by_heart(rank, old, new):
    return [0, 2, 1, 3][rank] if old.axes != new.axes else rank


def axes_by_name(rank, old, new):
    here = new.coordinates(rank)
    return old.rank_at(dp_shard=here["dp_shard"], tp=here["tp"])


def any_order_of_names(rank, old, new):
    return old.rank_at(**dict(sorted(new.coordinates(rank).items())))


def behind_the_last(rank, old, new):
    return old.rank_at(**new.coordinates(rank)) + old.num_ranks


ROWS = [
    Row(answer=two_by_two_by_heart, verdict="raised", why="other sizes have other tables"),
    Row(answer=axes_by_name, verdict="not yet", mistake="", why="a mesh may have other axes"),
    Row(answer=any_order_of_names, verdict="passed", why="names have no order"),
    Row(answer=behind_the_last, verdict="not yet", mistake="", why="there is no such file", words=("the files are",)),
]
