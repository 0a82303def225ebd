"""The sharded explorer: what a rank holds over the course of one step, by the cost model, and on real ranks.

Stage, number of ranks, layers to a unit, prefetch, and whether weights stay whole after forward. The button runs steps
of this very setting under the memory ledger, and lays what was measured over the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ipywidgets as widgets

from course_lib.base.checks import is_number
from course_lib.base.text import kib
from course_lib.forms import Form, busy, picture_box
from course_lib.meter.units import bytes_text
from course_lib.parallel.sharded import watched_step
from course_lib.plot.boards.sharded_board import ShardedBoard
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown, number, status
from course_lib.widgets.mission_progress import MissionProgress
from course_lib.widgets.sharded.choice import NUM_LAYERS, ShardedChoice, ranks_alike
from course_lib.widgets.sharded.missions import MISSIONS, ShardedMission

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["ShardedExplorer"]

Measured = list[list[int]]  # for each rank, the most bytes in each part of the step

_STAGES = {"0 (DDP)": 0, "1 (optimizer states)": 1, "2 (gradients too)": 2, "3 (weights too)": 3}
_PER_UNIT = [size for size in range(1, NUM_LAYERS + 1) if NUM_LAYERS % size == 0]
_AFTER_FORWARD = {"let go": True, "stay whole": False}
_MOST_RANKS, _MOST_PREFETCH = 64, 4
_MUCH = 0.02
_LINGERS = "A message's buffer may be held for a moment after it has come; run it again."
_NOT_GLOO = "The model counts the buffers of gloo; other back ends do with smaller ones."
_HELD = {  # by the name of what a moment holds
    "kept": "kept weights and optimizer states",
    "gradients": "its rows of gradients",
    "whole": "weights whole for a moment",
    "whole_gradients": "whole gradients",
    "messages": "messages",
}


class ShardedExplorer(Form):
    """Controls above a picture, lines that say the same in words, missions, and a button that runs it.

    ``cluster`` runs settings for as many ranks as it has; without one, and for other numbers, there is the model only.
    A mission that has been reached stays so, and what was measured comes back with its setting.
    """

    def __init__(self, cluster: Cluster | None = None, *, missions: Sequence[ShardedMission] = MISSIONS) -> None:
        if cluster is not None and not is_number(getattr(cluster, "world_size", None)):
            raise ValueError(
                f"cluster={cluster!r} is no cluster. Give shared_cluster(4), or nothing for predictions alone."
            )
        self._cluster, self._standing = cluster, MissionProgress(missions)
        self._measured: dict[ShardedChoice, Measured] = {}
        num_ranks = 4 if cluster is None else max(cluster.world_size, 2)
        self._board = ShardedBoard(ShardedChoice().peak().total)
        self.stage = dropdown("stage", _STAGES, "0 (DDP)", width="16em")
        self.num_ranks = number("ranks", num_ranks, (2, max(_MOST_RANKS, num_ranks)), width="9em")
        self.per_unit = dropdown("layers a unit", _PER_UNIT, 1, width="10em")
        self.prefetch = number("prefetch", 1, (0, _MOST_PREFETCH), width="9em")
        self.after_forward = dropdown("weights after forward", _AFTER_FORWARD, "let go", width="17em")
        self.run = widgets.Button(description="run it on real ranks", layout={"width": "13em"})
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        self._draw()
        first = [self.stage, self.num_ranks, self.per_unit]
        second = [self.prefetch, self.after_forward]
        for control in (*first, *second):
            control.observe(self._draw, names="value")
        self.run.on_click(self._run)
        wrap = widgets.Layout(flex_flow="row wrap")
        rows = [widgets.HBox(row, layout=wrap) for row in (first, [*second, self.run])]
        super().__init__([*rows, self.image, self.words])

    @property
    def choice(self) -> ShardedChoice:
        """What is chosen now; what counts in stage 3 alone is left out of the others."""
        in_every_stage = (_STAGES[self.stage.value], self.num_ranks.value, self.per_unit.value)
        if in_every_stage[0] < 3:
            return ShardedChoice(*in_every_stage)
        return ShardedChoice(*in_every_stage, self.prefetch.value, _AFTER_FORWARD[self.after_forward.value])

    @property
    def missions(self) -> str:
        """How each mission stands: a line each."""
        return "\n".join(self._standing.lines(self._missed))

    def _missed(self, mission: ShardedMission) -> str:
        """What a mission lacks as things are set now."""
        return mission.missed(self.choice, self._peaks)

    def picture(self) -> Raster:
        """What is shown now, as a picture."""
        choice, measured = self.choice, self._measured.get(self.choice)
        alike = ranks_alike(choice)
        return self._board.draw(
            choice.phases(),
            {name: choice.peak(ranks[0]) for name, ranks in alike.items()},
            title=f"Stage {choice.stage} on {choice.num_ranks} ranks: {choice.num_messages} messages a step",
            alt=" ".join(self._lines()),
            measured=measured[0] if measured else (),
            measured_ranks=[max(self._peaks[rank] for rank in ranks) for ranks in alike.values() if measured],
        )

    def __repr__(self) -> str:
        return f"Sharded explorer ({self.choice}): {kib(self.choice.peak().total)} at the peak; {self._standing}"

    @property
    def _peaks(self) -> list[int]:
        """What each rank held at its peak in a run of this choice; nothing before one."""
        return [max(parts) for parts in self._measured.get(self.choice, [])]

    def _lines(self) -> list[str]:
        choice, peak = self.choice, self.choice.peak()
        kept, ddp = choice.moments()[0], ShardedChoice(num_ranks=choice.num_ranks).peak()
        held = ", ".join(f"{words} {kib(getattr(peak, name))}" for name, words in _HELD.items() if getattr(peak, name))
        part = "the optimizer's step" if peak.phase == "optimizer" else f"the {peak.phase}"
        lines = [
            f"Model, {choice}: a rank holds {kib(kept.total)} before the step and {kib(peak.total)} at its peak, in "
            f"{part} ({held}). That is {peak.total / ddp.total:.0%} of DDP's peak.",
            f"{choice.num_messages} messages a step; each rank sends {bytes_text(choice.sent_bytes)}.",
            _rows_in_words(choice),
        ]
        return [line for line in [*lines, self._run_in_words()] if line]

    def _run_in_words(self) -> str:
        """What a run found, or why there can be none."""
        choice, measured = self.choice, self._measured.get(self.choice)
        if measured:
            model = [[moment.total for moment in choice.phases(rank)] for rank in range(choice.num_ranks)]
            off = max(
                (found / size - 1 for ones, sizes in zip(measured, model, strict=True)
                 for found, size in zip(ones, sizes, strict=True)), key=abs,
            )  # fmt: skip
            peaks = ", ".join(kib(size) for size in self._peaks)
            said = (
                f"Measured, at the peak of ranks 0 to {choice.num_ranks - 1}: {peaks}. In the part of the step where "
                f"ranks and model differ most, the ranks hold {abs(off):.1%} {'more' if off > 0 else 'less'}."
            )
            return f"{said} {_LINGERS if off > 0 else _NOT_GLOO}" if abs(off) > _MUCH else said
        if self._cluster is None:
            return "Model only: no ranks were given to this explorer."
        if self._cluster.world_size != choice.num_ranks:
            return f"Model only: a run is for the {self._cluster.world_size} ranks of this explorer's cluster."
        return ""

    def _draw(self, _: object = None) -> None:
        for control in (self.prefetch, self.after_forward):
            control.disabled = self.choice.stage < 3
        can_run = self._cluster is not None and self._cluster.world_size == self.choice.num_ranks
        self.run.disabled = not can_run
        self.run.tooltip = f"Run this setting on {self.choice.num_ranks} ranks" if can_run else self._run_in_words()
        self.image.value = self.picture().png()
        self._standing.look(str(self.choice), self._missed)
        self._say(*self._lines(), *self.missions.splitlines())

    def _say(self, *lines: str) -> None:
        self.words.value = status(*lines)

    def _run(self, _: object) -> None:
        assert self._cluster is not None  # the button is disabled without one
        choice = self.choice
        with busy(self.run):
            self._say(*self._lines(), f"{choice.num_ranks} ranks take some steps ...")
            try:
                found = watched_step(self._cluster, **choice.settings)
                self._measured[choice] = _least(found, self._measured.get(choice, found))
                self._draw()
            except (RuntimeError, ValueError, OSError) as error:
                failed = f"The ranks could not run it: {str(error).splitlines()[0]}"
                self._say(*self._lines(), failed, *self.missions.splitlines())


def _least(one: Measured, other: Measured) -> Measured:
    """Of two runs, the smaller number for each rank and part."""
    return [[min(pair) for pair in zip(*ranks, strict=True)] for ranks in zip(one, other, strict=True)]


def _rows_in_words(choice: ShardedChoice) -> str:
    """Which rank keeps how much, where they differ."""
    groups = [(ranks, choice.num_rows(ranks[0])) for ranks in ranks_alike(choice, grouped=True).values()]
    if choice.stage == 0 or len(groups) == 1:
        return ""
    said = [
        f"rank{'s' * (len(ranks) > 1)} {ranks[0]}{f' to {ranks[-1]}' if len(ranks) > 1 else ''} "
        f"{'keep' if len(ranks) > 1 else 'keeps'} {rows}"
        for ranks, rows in groups
    ]
    return f"Of the rows of each matrix, {', '.join(said)}."
