"""Which positions each position reads: a square for each part of a model, queries down and what they read across."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.plot.style import OKABE_ITO, OUTLINE, Picture, style

__all__ = ["position_grids"]

_SIDE = 2.0  # of a square, in inches


def position_grids(reads: Mapping[str, Tensor], *, num_ranks: int, title: str = "") -> Picture:
    """``reads[name][i, j]``, (T, T): whether what stands at position i depends on the input at position j.

    Lines divide the positions evenly among ranks. ``ValueError`` for no square, and a T that does not divide.
    """
    if not reads:
        raise ValueError("there is nothing to draw; give at least one square")
    for name, grid in reads.items():
        if grid.ndim != 2 or grid.size(0) != grid.size(1) or grid.size(0) % num_ranks:
            shape = tuple(grid.shape)
            raise ValueError(
                f"{name!r} has shape {shape}; it must be a square, and {num_ranks} ranks must divide its side"
            )
    with style():
        figure = Figure(figsize=(max(_SIDE * len(reads), 4.0), _SIDE + 0.75), layout="constrained")
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(title, x=0.01, ha="left", weight="bold", fontsize=11)
        for number, (name, grid) in enumerate(reads.items()):
            axes = figure.add_subplot(1, len(reads), number + 1)
            length, share = grid.size(0), grid.size(0) // num_ranks
            colours = ListedColormap(["#FFFFFF", OKABE_ITO["blue"]])
            axes.imshow(grid.bool().numpy().astype(np.uint8), cmap=colours, vmin=0, vmax=1, interpolation="nearest")
            for border in range(share, length, share):
                axes.axhline(border - 0.5, color=OUTLINE, linewidth=0.8)
                axes.axvline(border - 0.5, color=OUTLINE, linewidth=0.8)
            for spine in axes.spines.values():
                spine.set(visible=True, color=OUTLINE)
            middles = [share * rank + (share - 1) / 2 for rank in range(num_ranks)]
            axes.set_xticks(middles, labels=[f"{rank}" for rank in range(num_ranks)])
            axes.set_yticks(middles, labels=[f"{rank}" for rank in range(num_ranks)])
            axes.tick_params(length=0)
            axes.grid(visible=False)
            axes.set_title(name, fontsize=10)
            axes.set_xlabel("reads positions of rank", fontsize=9)
            if not number:
                axes.set_ylabel("a position of rank", fontsize=9)
    return Picture(figure, _words(reads, num_ranks, title))


def _words(reads: Mapping[str, Tensor], num_ranks: int, title: str) -> str:
    said = []
    for name, grid in reads.items():
        share = grid.size(0) // num_ranks
        blocks = grid.bool().unflatten(0, (num_ranks, share)).unflatten(2, (num_ranks, share)).any(3).any(1)
        of_ranks = (
            f"rank {rank} reads positions of {' '.join(map(str, blocks[rank].nonzero().flatten().tolist())) or 'none'}"
            for rank in range(num_ranks)
        )
        said.append(f"{name}: {', '.join(of_ranks)}")
    return f"{title or 'Which positions are read'}. {'; '.join(said)}."
