"""05.wrapped: the tied matrix in one unit, and no unit larger than it has to be."""

from __future__ import annotations

import copy

from answer_table import Row


def no_units(model):
    return []


def everything_in_one_list(model):
    return [[model.stem, model.head, *model.blocks]]


def the_model(model):
    return [model]


def nothing_named(model):
    return [[]]


def stem_and_blocks(model):
    """The head goes to the rest, and the matrix with it."""
    return [model.stem, *model.blocks]


def with_the_first_block(model):
    return [[model.stem, model.head, model.blocks[0]], *model.blocks[1:]]


def of_a_copy(model):
    model = copy.deepcopy(model)
    return [[model.stem, model.head], *model.blocks]


def by_names(model):
    return [["stem", "head"], "blocks"]


def block_and_its_parts(model):
    return [[model.stem, model.head], *model.blocks, *(block.mlp for block in model.blocks)]


def blocks_alone(model):
    return [*model.blocks]


ROWS = [
    Row(answer=no_units, verdict="not yet", mistake="all-in-one", why="the losses are right, and nothing is saved"),
    Row(answer=everything_in_one_list, verdict="not yet", mistake="all-in-one", why="the same by name"),
    Row(answer=the_model, verdict="not yet", mistake="all-in-one", why="the same by its own name"),
    Row(answer=nothing_named, verdict="not yet", mistake="", why="a unit without a module", words=("list of modules",)),
    Row(answer=stem_and_blocks, verdict="not yet", mistake="two-homes", why="what is left is a unit too"),
    Row(answer=with_the_first_block, verdict="not yet", mistake="", why="larger than it has to be", words=("enough",)),
    Row(answer=of_a_copy, verdict="not yet", mistake="", why="other modules", words=("no part of the model",)),
    Row(answer=by_names, verdict="not yet", mistake="", why="names are no modules", words=("'stem'",)),
    Row(
        answer=block_and_its_parts, verdict="not yet", mistake="", why="they have a unit already", words=("before it",)
    ),
    Row(answer=blocks_alone, verdict="passed", why="stem and head are the rest, together"),
]
