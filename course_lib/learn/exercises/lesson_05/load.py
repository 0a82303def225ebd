"""05.load: files of as many ranks as saved, read by as many as there are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.judging.judge import by_cases

__all__ = ["LOAD"]

Files = list[dict[str, Tensor]]


def _wholes(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Every number tells where it belongs: the hundreds the parameter, the rest the place in it."""
    return {
        name: torch.arange(torch.Size(shape).numel(), dtype=torch.float64).view(shape) + 100.0 * place
        for place, (name, shape) in enumerate(shapes.items(), start=1)
    }


_TWO: dict[str, tuple[int, ...]] = {"a": (4,), "b": (4,)}
_LAYERS: dict[str, tuple[int, ...]] = {
    "embedding": (8, 3),
    "up.weight": (24, 2),
    "up.bias": (24,),
    "kernels": (8, 2, 2),
}
_KINDS = {  # parameters, how many ranks have saved, how many load
    "two parameters of four rows, saved on 4 ranks and loaded on 4": (_TWO, 4, 4),
    "the same files, loaded on 2": (_TWO, 4, 2),
    "the same files, loaded on 1": (_TWO, 4, 1),
    "a vector, matrices and more, saved on 4 ranks and loaded on 2": (_LAYERS, 4, 2),
    "the same parameters, saved on 2 ranks and loaded on 8": (_LAYERS, 2, 8),
    "the same parameters, saved on 1 rank and loaded on 4": (_LAYERS, 1, 4),
}


def _files(shapes: dict[str, tuple[int, ...]], num_saved: int) -> Files:
    return [
        {name: whole.tensor_split(num_saved)[rank].clone() for name, whole in _wholes(shapes).items()}
        for rank in range(num_saved)
    ]


def _others(files: Files) -> Files:
    """Of the same names and shapes: other numbers, in float32, and rows that lie apart in memory."""
    return [
        {name: (torch.stack((shard, shard), dim=-1).float() / 2)[..., 0] for name, shard in shards.items()}
        for shards in files
    ]


def _right(shapes: dict[str, tuple[int, ...]], num_ranks: int) -> list[Tensor]:
    """Cut from the whole parameters, without a look at any file."""
    return [
        torch.cat([whole.tensor_split(num_ranks)[rank].reshape(-1) for whole in _wholes(shapes).values()])
        for rank in range(num_ranks)
    ]


_HALVED, _SAVED, _LOADED = _KINDS["a vector, matrices and more, saved on 4 ranks and loaded on 2"]
_CASES = [
    Case(label, (_files(shapes, num_saved), num_ranks), _right(shapes, num_ranks))
    for label, (shapes, num_saved, num_ranks) in _KINDS.items()
]
_CASES.append(
    Case(
        "other files of the same shapes, in float32",
        (_others(_files(_HALVED, _SAVED)), _LOADED),
        [row.float() / 2 for row in _right(_HALVED, _LOADED)],
    )
)


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _as_it_was(files: Files, num_ranks: int) -> Any:
    return torch.cat([shard.flatten() for shards in files for shard in shards.values()]).chunk(num_ranks)


def _joined(files: Files) -> list[Tensor]:
    return [torch.cat([shards[name] for shards in files]) for name in files[0]]


def _one_row_of_wholes(files: Files, num_ranks: int) -> Any:
    return torch.cat([whole.flatten() for whole in _joined(files)]).chunk(num_ranks)


def _own_file_alone(files: Files, num_ranks: int) -> list[Tensor]:
    return [torch.cat([shard.flatten() for shard in files[rank % len(files)].values()]) for rank in range(num_ranks)]


def _all_for_everyone(files: Files, num_ranks: int) -> list[Tensor]:
    return [torch.cat([whole.flatten() for whole in _joined(files)])] * num_ranks


def _every_nth_row(files: Files, num_ranks: int) -> list[Tensor]:
    return [torch.cat([whole[rank::num_ranks].flatten() for whole in _joined(files)]) for rank in range(num_ranks)]


def _not_in_a_row(files: Files, num_ranks: int) -> Any:
    cut = [whole.chunk(num_ranks) for whole in _joined(files)]
    return [[rows[rank] for rows in cut] for rank in range(num_ranks)]


def _mistake(name: str, message: str, example: Callable[[Files, int], Any]) -> Mistake:
    return Mistake(name, message, example)


LOAD = Exercise(
    name="05.load",
    title="Files of four ranks, loaded on two",
    judge=by_cases(_CASES),
    mistakes=(
        _mistake(
            "as-it-was",
            "As many ranks as saved get what is theirs. On fewer, a rank gets the files one behind the other. First "
            "come the rows of a in the first file, then those of b, then again rows of a. It needs all of its rows of "
            "a first.",
            _as_it_was,
        ),
        _mistake(
            "all-parameters-in-one-row",
            "You put each parameter together, and cut all of them at once, as one long row. So the first rank has the "
            "first parameters and the last rank the last ones. Every rank needs its rows of *every* parameter.",
            _one_row_of_wholes,
        ),
        _mistake(
            "one-file-each",
            "Each rank has what lies in one file. Where two load what four have saved, half of the rows come to "
            "nobody; where eight do, rows come to several.",
            _own_file_alone,
        ),
        _mistake(
            "all-for-everyone",
            "Each rank gets all the numbers of the model. It keeps its rows of each parameter, and no others.",
            _all_for_everyone,
        ),
        _mistake(
            "every-nth-row",
            "A rank gets every n-th row of each parameter. Rows are dealt out in one piece: the first rank has the "
            "first ones, the next rank those that follow.",
            _every_nth_row,
        ),
        _mistake(
            "not-in-a-row",
            "For each rank several tensors came back, one for each parameter. You load all numbers of a rank "
            "from one tensor, in a row.",
            _not_in_a_row,
        ),
    ),
    hints=(
        "Write down for two ranks what each needs, in the order in which it needs it. Then write what the four files "
        "hold, one behind the other. Which rows stand between two that belong together?",
        "First each parameter by itself: its rows from all files, one below the other, are the whole parameter. What "
        "does a rank of the new number keep of it?",
        "`torch.cat([shards[name] for shards in files]).chunk(num_ranks)` for every name of `files[0]`; and for a rank "
        "its piece of each, flattened, put in a row.",
    ),
    passed="Every rank gets its rows of every parameter, whatever number has saved and whatever number loads.",
)
