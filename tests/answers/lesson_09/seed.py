"""09.seed: one seed for each tensor group, and another one for each."""

from __future__ import annotations

import random

from answer_table import Row


def even_ranks(mesh, rank, seed):
    """Right on the page's mesh, where tp is the last axis of two."""
    return seed + rank - rank % 2


def drawn_anew(mesh, rank, seed):
    return random.randrange(2**40)


def group_as_it_is(mesh, rank, seed):
    return mesh.group(rank, "tp")


def product_of_places(mesh, rank, seed):
    here = mesh.coordinates(rank)
    return seed + here.get("pp", 0) * here.get("dp_shard", 0)


def last_of_its_group(mesh, rank, seed):
    return 1_000_003 * seed + max(mesh.group(rank, "tp"))


ROWS = [
    Row(answer=even_ranks, verdict="not yet", mistake="", why="right where tp=2 stands last"),
    Row(answer=drawn_anew, verdict="not yet", mistake="", why="a restart draws other numbers", words=("asked again",)),
    Row(answer=group_as_it_is, verdict="not yet", mistake="", why="no seed", words=("whole number",)),
    Row(answer=product_of_places, verdict="not yet", mistake="", why="groups have one seed"),
    Row(answer=last_of_its_group, verdict="passed", why="any number that a group has to itself"),
]
