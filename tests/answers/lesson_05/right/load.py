"""Right answers to 05.load in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

__all__ = ["ANSWERS", "MEANS_NOTHING", "SAME"]

Files = list[dict[str, Tensor]]


def by_ranges(files: Files, num_ranks: int) -> list[Tensor]:
    """Of each parameter the rows from here to there."""
    loaded = []
    for rank in range(num_ranks):
        row = torch.empty(0, dtype=next(iter(files[0].values())).dtype)
        for name in files[0]:
            whole = torch.vstack([shards[name].reshape(len(shards[name]), -1) for shards in files])
            count = len(whole) // num_ranks
            row = torch.hstack((row, whole[rank * count : (rank + 1) * count].ravel()))
        loaded.append(row)
    return loaded


def row_by_row(files: Files, num_ranks: int) -> tuple[Tensor, ...]:
    """Each row goes to its owner."""
    owned: list[list[Tensor]] = [[] for _ in range(num_ranks)]
    for name in files[0]:
        rows = [row for shards in files for row in shards[name]]
        for place, row in enumerate(rows):
            owned[int(Fraction(place, len(rows)) * num_ranks)].append(row.reshape(-1))
    return tuple(torch.cat(rows) for rows in owned)


def flat_and_reshaped(files: Files, num_ranks: int) -> Tensor:
    """Flat parts of one file after the other are the whole too; a row of the result for each rank."""
    flat = [torch.cat([shards[name].flatten() for shards in files]).view(num_ranks, -1) for name in files[0]]
    return torch.cat(flat, dim=1)


def by_numpy(files: Files, num_ranks: int) -> list[Tensor]:
    import numpy as np

    wholes = [np.concatenate([shards[name].numpy() for shards in files]) for name in files[0]]
    cut = [np.split(whole, num_ranks) for whole in wholes]
    return [torch.from_numpy(np.concatenate([rows[rank].ravel() for rows in cut])) for rank in range(num_ranks)]


def parts_of_files(files: Files, num_ranks: int) -> list[Tensor]:
    """No whole parameter: a rank takes the files that hold its rows, or its part of one."""
    num_saved, loaded = len(files), []
    for rank in range(num_ranks):
        mine = []
        for name in files[0]:
            if num_saved >= num_ranks:
                share = num_saved // num_ranks
                mine += [shards[name].flatten() for shards in files[rank * share : (rank + 1) * share]]
            else:
                share = num_ranks // num_saved
                mine.append(files[rank // share][name].tensor_split(share)[rank % share].flatten())
        loaded.append(torch.cat(mine))
    return loaded


ANSWERS = (by_ranges, row_by_row, flat_and_reshaped, by_numpy, parts_of_files)
SAME = {"4: `0` -> `-1`": "Every file has the same names, in the same order."}
MEANS_NOTHING = {
    "kept-by-arguments": "The same files give the same numbers, and who loads copies them.",
    "one-buffer-for-all-results": "A job loads once, and copies what came before anything else is loaded.",
    "fails-where-nothing-is-to-do": "Sizes divide: every rank has rows of every parameter.",
    "only-without-requires-grad": "A file holds numbers, and no parameters that learn.",
}
