"""The sharded explorer: what a rank holds over the course of one step, by the cost model, and on real ranks.

Stage, number of ranks, layers to a unit, prefetch, and whether weights stay whole after forward. The button runs steps
of this very setting under the memory ledger, and lays what was measured over the prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from course_lib.base.text import first_line, kib
from course_lib.meter.units import bytes_text
from course_lib.parallel.sharded import watched_step
from course_lib.plot.boards.sharded_board import ShardedBoard
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown, number
from course_lib.widgets.rank_explorer import RankExplorer, ranks_of
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
_LINGERS = "A rank may hold a message's buffer for a moment after the message came; run it again."
_NOT_GLOO = "The model counts gloo's buffers; other back ends need smaller ones."
_HELD = {  # by the name of what a moment holds
    "kept": "kept weights and optimizer states",
    "gradients": "its rows of gradients",
    "whole": "weights whole for a moment",
    "whole_gradients": "whole gradients",
    "messages": "messages",
}


class ShardedExplorer(RankExplorer[ShardedChoice, Measured]):
    """Controls above a picture, lines that say the same in words, missions, and a button that runs it.

    ``cluster`` runs settings for as many ranks as it has; without one, and for other numbers, there is the model only.
    A mission that has been reached stays so, and what was measured comes back with its setting. ``yours`` is the
    learner's own wrapper, called as ``yours(model, units, me, prefetch)``: the button runs it after the course's, in
    stage 3 with weights that are let go.
    """

    _NAME = "Sharded explorer"
    _RUN_IT, _TO_DO = "Run this setting", "take some steps"

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        missions: Sequence[ShardedMission] = MISSIONS,
        yours: Callable[..., Any] | None = None,
    ) -> None:
        num_ranks = max(ranks_of(cluster, 4), 2)
        self._yours = yours
        self._own: dict[ShardedChoice, Measured | str] = {}  # or why it did not come to its end
        self._board = ShardedBoard(ShardedChoice().peak().total)
        self.stage = dropdown("stage", _STAGES, "0 (DDP)", width="16em")
        self.num_ranks = number("ranks", num_ranks, (2, max(_MOST_RANKS, num_ranks)), width="9em")
        self.per_unit = dropdown("layers a unit", _PER_UNIT, 1, width="10em")
        self.prefetch = number("prefetch", 1, (0, _MOST_PREFETCH), width="9em")
        self.after_forward = dropdown("weights after forward", _AFTER_FORWARD, "let go", width="17em")
        rows = [[self.stage, self.num_ranks, self.per_unit], [self.prefetch, self.after_forward]]
        super().__init__(rows, cluster, missions)

    @property
    def choice(self) -> ShardedChoice:
        """What is chosen now; what counts in stage 3 alone is left out of the others."""
        in_every_stage = (_STAGES[self.stage.value], self.num_ranks.value, self.per_unit.value)
        if in_every_stage[0] < 3:
            return ShardedChoice(*in_every_stage)
        return ShardedChoice(*in_every_stage, self.prefetch.value, _AFTER_FORWARD[self.after_forward.value])

    def _shown(self, choice: ShardedChoice) -> tuple[Raster, list[str]]:
        peak, alike, measured = choice.peak(), ranks_alike(choice), self._measured.get(choice, [])
        kept, ddp = choice.moments()[0], ShardedChoice(num_ranks=choice.num_ranks).peak()
        held = ", ".join(f"{words} {kib(getattr(peak, name))}" for name, words in _HELD.items() if getattr(peak, name))
        part = "the optimizer's step" if peak.phase == "optimizer" else f"the {peak.phase}"
        lines = [
            f"Model, {choice}: a rank holds {kib(kept.total)} before the step and {kib(peak.total)} at its peak, in "
            f"{part} ({held}). That is {peak.total / ddp.total:.0%} of DDP's peak.",
            f"{choice.num_messages} messages a step; each rank sends {bytes_text(choice.sent_bytes)}.",
            *_rows_in_words(choice),
            *self._run_in_words(choice),
            *self._own_in_words(choice),
        ]
        own = self._own.get(choice, [])
        yours = own if isinstance(own, list) else []
        picture = self._board.draw(
            choice.phases(),
            {name: choice.peak(ranks[0]) for name, ranks in alike.items()},
            title=f"Stage {choice.stage} on {choice.num_ranks} ranks: {choice.num_messages} messages a step",
            alt=" ".join(lines),
            measured=measured[0] if measured else (),
            measured_ranks=_peaks(measured, alike.values()),
            yours=yours[0] if yours else (),
            yours_ranks=_peaks(yours, alike.values()),
        )
        return picture, lines

    def _in_short(self, choice: ShardedChoice) -> str:
        return f"{kib(choice.peak().total)} at the peak"

    @property
    def _found(self) -> list[int]:
        """What each rank held at its peak in a run of this choice; nothing before one."""
        return [max(parts) for parts in self._measured.get(self.choice, [])]

    def _found_in_words(self, choice: ShardedChoice, found: Measured) -> str:
        model = [[moment.total for moment in choice.phases(rank)] for rank in range(choice.num_ranks)]
        pairs = (pair for of_a_rank in zip(found, model, strict=True) for pair in zip(*of_a_rank, strict=True))
        off = max((one / size - 1 for one, size in pairs), key=abs)
        said = (
            f"Measured, at the peak of ranks 0 to {choice.num_ranks - 1}: {', '.join(kib(max(one)) for one in found)}. "
            "In the part of the step where ranks and model differ most, the ranks hold "
            f"{abs(off):.1%} {'more' if off > 0 else 'less'}."
        )
        return f"{said} {_LINGERS if off > 0 else _NOT_GLOO}" if abs(off) > _MUCH else said

    def _follow(self, choice: ShardedChoice | None) -> None:
        super()._follow(choice)
        for control in (self.prefetch, self.after_forward):
            control.disabled = choice is not None and choice.stage < 3

    def _measure(self, cluster: Cluster, choice: ShardedChoice) -> Measured:
        found = watched_step(cluster, **choice.settings)
        if self._yours is not None and choice.stage == 3 and choice.reshard_after_forward:
            try:
                own = watched_step(cluster, **choice.settings, wrap=self._yours)
                before = self._own.get(choice)
                self._own[choice] = _least(own, before) if isinstance(before, list) else own
            except Exception as error:  # whatever a learner's does, the course's is shown
                self._own[choice] = first_line(error)
        return _least(found, self._measured.get(choice, found))

    def _own_in_words(self, choice: ShardedChoice) -> list[str]:
        own = self._own.get(choice)
        if own is None:
            return []
        if isinstance(own, str):
            return [f"Your run did not come to its end: {own}"]
        return [
            f"Your build, at the peak of ranks 0 to {choice.num_ranks - 1}: {', '.join(kib(max(one)) for one in own)}."
        ]


def _peaks(found: Measured, groups: Iterable[range]) -> list[int]:
    """The most that one of each group of ranks held; nothing where nothing was measured."""
    return [max(max(found[rank]) for rank in ranks) for ranks in groups if found]


def _least(one: Measured, other: Measured) -> Measured:
    """Of two runs, the smaller number for each rank and part."""
    return [[min(pair) for pair in zip(*ranks, strict=True)] for ranks in zip(one, other, strict=True)]


def _rows_in_words(choice: ShardedChoice) -> list[str]:
    """Which rank keeps how much, where they differ."""
    groups = [(ranks, choice.num_rows(ranks[0])) for ranks in ranks_alike(choice, grouped=True).values()]
    if choice.stage == 0 or len(groups) == 1:
        return []
    said = [
        f"rank{'s' * (len(ranks) > 1)} {ranks[0]}{f' to {ranks[-1]}' if len(ranks) > 1 else ''} "
        f"{'keep' if len(ranks) > 1 else 'keeps'} {rows}"
        for ranks, rows in groups
    ]
    return [f"The rows of each matrix: {', '.join(said)}."]
