"""05.load: each rank's rows of every parameter, in a row."""

from __future__ import annotations

import torch
from answer_table import Row


def files_two_by_two(files, num_ranks):
    """Right for vectors of fewer ranks: the files of a pair, parameter by parameter."""
    share = len(files) // num_ranks
    return [
        torch.cat([shards[name].flatten() for name in files[0] for shards in files[rank * share : (rank + 1) * share]])
        for rank in range(num_ranks)
    ]


def in_alphabetical_order(files, num_ranks):
    wholes = [torch.cat([shards[name] for shards in files]) for name in sorted(files[0])]
    return [torch.cat([whole.chunk(num_ranks)[rank].flatten() for whole in wholes]) for rank in range(num_ranks)]


def in_float32(files, num_ranks):
    wholes = [torch.cat([shards[name] for shards in files]).float() for name in files[0]]
    return [torch.cat([whole.chunk(num_ranks)[rank].flatten() for whole in wholes]) for rank in range(num_ranks)]


def for_two_alone(files, num_ranks):
    wholes = [torch.cat([shards[name] for shards in files]) for name in files[0]]
    return [torch.cat([whole.chunk(2)[rank].flatten() for whole in wholes]) for rank in range(2)]


def empties_the_files(files, num_ranks):
    names = list(files[0])
    wholes = [torch.cat([shards.pop(name) for shards in files]) for name in names]
    return [torch.cat([whole.chunk(num_ranks)[rank].flatten() for whole in wholes]) for rank in range(num_ranks)]


ROWS = [
    Row(answer=files_two_by_two, verdict="raised", why="nothing comes where more load than saved"),
    Row(answer=in_alphabetical_order, verdict="not yet", mistake="", why="the order is the model's"),
    Row(answer=in_float32, verdict="not yet", mistake="", why="a checkpoint changes no dtype", words=("float32",)),
    Row(answer=for_two_alone, verdict="not yet", mistake="", why="the number of ranks is an argument"),
    Row(answer=empties_the_files, verdict="not yet", why="print_losses loads the same files twice", words=("changed",)),
]
