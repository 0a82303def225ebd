"""Where to cut a model: its pieces, shared out in a row so that the heaviest part is light, and taken apart.

A part is what pipelines call a stage and others a partition; the place of a cut is a split point.

::

    parts = cut(model, split_evenly(time_costs(model, x), 2))

``piece_costs.py`` weighs the pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from course_lib.base.checked import checked
from course_lib.layouts.linear_partition import split_evenly
from course_lib.models import pieces

__all__ = [
    "Part",
    "buffers_kept",
    "cut",
    "parameter_costs",
    "pieces_of",
    "split_evenly",
    "tied_parameters",
]


# -- taking a model apart ---------------------------------------------------------------------------------------


@checked
def pieces_of(model: nn.Module) -> dict[str, nn.Module]:
    """What a cut may fall between, in order, by name: the children of an ``nn.Sequential``; stem, blocks and head
    of the course's models (``course_lib.models.pieces``).
    """
    return dict(model.named_children()) if isinstance(model, nn.Sequential) else pieces(model)


@checked
def parameter_costs(model: nn.Module) -> list[int]:
    """How many parameters each piece holds. A tied one counts in every piece that holds it: so many copies exist."""
    return [sum(p.numel() for p in piece.parameters()) for piece in pieces_of(model).values()]


class Part(nn.Module):
    """Neighbouring pieces of a model, as a model: the first gets ``x``, each next what the one before it gave.

    The pieces are the model's own modules, and names in ``state_dict()`` are those of the uncut model: a part saves
    and loads its share of the model's checkpoint.
    """

    def __init__(self, row: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.names = tuple(row)  # such as "stem", "blocks.0"
        for name, piece in row.items():
            home, _, last = name.rpartition(".")
            if home and home not in self._modules:
                self.add_module(home, nn.Module())
            self.get_submodule(home).add_module(last, piece)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = self.get_submodule(name)(x)
        return x

    def extra_repr(self) -> str:
        return ", ".join(self.names)


@checked
def cut(model: nn.Module, ranges: Sequence[range]) -> list[Part]:
    """Take a model apart: ``cut(model, [range(0, 2), range(2, 4)])`` puts pieces 0 and 1 in the first part.

    ``ranges`` as ``split_evenly`` gives them: neighbours, none empty, and every piece in one of them, else
    ``ValueError``. Chained, the parts are the model.
    """
    row = list(pieces_of(model).items())
    covered = [index for part in ranges for index in part]
    if covered != list(range(len(row))) or not all(ranges):
        nearest = split_evenly([1] * len(row), max(1, min(len(ranges), len(row))))
        raise ValueError(
            f"ranges={list(ranges)} do not cut the {len(row)} pieces {', '.join(name for name, _ in row)}: each piece "
            f"belongs to one part, in order, and no part is empty. The nearest cut is {nearest}."
        )
    return [Part(dict(row[part.start : part.stop])) for part in ranges]


@checked
def tied_parameters(parts: Sequence[nn.Module]) -> dict[nn.Parameter, tuple[int, ...]]:
    """Parameters that several parts hold, such as an embedding used again at the end, and the numbers of those parts.

    Once the parts are on different ranks they are different tensors, and somebody has to keep them equal.
    """
    holders: dict[nn.Parameter, list[int]] = {}
    for number, part in enumerate(parts):
        for parameter in part.parameters():
            holders.setdefault(parameter, []).append(number)
    return {parameter: tuple(numbers) for parameter, numbers in holders.items() if len(numbers) > 1}


@contextmanager
def buffers_kept(model: nn.Module) -> Iterator[None]:
    """In this block the running means of a BatchNorm, say, may move; afterwards they are what they were."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, value in before:
            buffer.copy_(value)
