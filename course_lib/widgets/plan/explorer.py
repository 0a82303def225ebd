"""The plan explorer: the best layout of a job on a cluster, its time and memory by part, and what the next ones lose.

The first row of controls is the job, the second a layout of the learner's own, which is laid beside the planner's. All
of it is the planner's arithmetic; no ranks run.
"""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets

from course_lib.plan import Option, Refusal
from course_lib.plan.inputs.layout import RECOMPUTE
from course_lib.plan.search.listing import usable_bytes
from course_lib.plot.boards.plan_bars import PlanBars, PlanRow
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown, number
from course_lib.widgets.explorer import Explorer
from course_lib.widgets.plan.choice import (
    BATCH,
    GPUS,
    MACHINES,
    MODELS,
    OWN,
    SEQ,
    OwnCut,
    PlanChoice,
)
from course_lib.widgets.plan.missions import MISSIONS, PlanMission
from course_lib.widgets.plan.search import best_of_cuts, planned
from course_lib.widgets.plan.words import (
    ROWS,
    best_in_words,
    loses,
    next_in_words,
    nothing_runs,
    own_in_words,
    seconds_text,
)

__all__ = ["PlanExplorer"]

_SHARDING = {"0: nothing": 0, "1: optimizer states": 1, "2: gradients too": 2, "3: weights too": 3}
_JOB = ("model", "machine", "gpus", "seq", "batch")  # the fields of a PlanChoice
_OWN = ("tp", "cp", "pp", "ep", "micro_batch", "sharding", "recompute")  # of an OwnCut


class PlanExplorer(Explorer[PlanChoice]):
    """Two rows of controls above a picture, lines that say the same in words, and missions.

    A mission that has been reached stays so. What cannot be is told in a sentence, and every control stays as it is.
    """

    _NAME = "Plan explorer"
    _NO_CHOICE, _REFUSED = "no cluster", "These GPUs make no cluster."

    def __init__(self, *, missions: Sequence[PlanMission] = MISSIONS) -> None:
        self._board = PlanBars()
        job, own = PlanChoice(), OwnCut()
        self.model = dropdown("model", MODELS, job.model, width="13em")
        self.machine = dropdown("machine", MACHINES, job.machine, width="13em")
        self.gpus = number("GPUs", job.gpus, GPUS, width="8em")
        self.seq = dropdown("tokens a sequence", [(f"{s:,}", s) for s in SEQ], job.seq, width="15.5em")
        self.batch = number("sequences a step", job.batch, BATCH, width="14em")
        self.tp = number("yours: tp", own.tp, OWN, width="9em")
        self.cp, self.pp, self.ep = (number(name, 1, OWN, width="7em") for name in ("cp", "pp", "ep"))
        self.micro_batch = number("micro-batch", own.micro_batch, OWN, width="10em")
        self.sharding = dropdown("shared out", list(_SHARDING.items()), own.sharding, width="17em")
        self.recompute = dropdown("recomputed", RECOMPUTE, own.recompute, width="14em")
        self.take = widgets.Button(description="take the planner's", layout={"width": "12em"})
        self.take.on_click(self._take)
        rows = [[getattr(self, name) for name in names] for names in (_JOB, _OWN)]
        super().__init__([rows[0], [*rows[1], self.take]], missions)

    @property
    def choice(self) -> PlanChoice:
        """The job and its GPUs. ``ValueError`` where the GPUs fill no whole machines."""
        return PlanChoice(**self._settings(_JOB))

    @property
    def own(self) -> OwnCut:
        """The learner's layout, whether it can be or not."""
        return OwnCut(**self._settings(_OWN))

    def choose(self, **settings: int | str) -> None:
        """Set some controls at once, by their names here, such as ``gpus=64, tp=8``; the others stay.

        ``ValueError`` for what the controls cannot be set to, and for GPUs that fill no whole machines; all are left as
        they are. A layout of one's own that cannot be is told as if it had been set by hand.
        """
        new = self._settings((*_JOB, *_OWN), **settings)
        PlanChoice(**{name: new[name] for name in _JOB})
        OwnCut(**{name: new[name] for name in _OWN})
        self._set((getattr(self, name), value) for name, value in new.items())

    def _in_short(self, choice: PlanChoice) -> str:
        best = planned(choice).best
        return f"{best.layout}, {seconds_text(best.step_s)} a step" if best else "nothing runs"

    @property
    def _found(self) -> OwnCut:
        return self.own

    def _shown(self, choice: PlanChoice) -> tuple[Raster, list[str]]:
        """The planner's rows and the learner's; a sentence where there is nothing to draw."""
        listing = planned(choice)
        best = listing.best
        own: PlanRow | None = None
        try:
            found = self.own.judged(choice)
        except ValueError as error:
            said = f"Your layout is not possible: {error}."
        else:
            said, own = own_in_words(listing, found), _own_row(found, best)
        if best is None:
            lines = [nothing_runs(choice, listing), said]
        else:
            lines = [*best_in_words(choice, listing), next_in_words(listing), said]
        rows = [] if best is None else [_row(option, best) for option in best_of_cuts(listing, ROWS)]
        alt = " ".join(lines)
        if not rows and own is None:
            return self._board.blank(alt), lines
        return self._board.draw(rows, own, usable_bytes(choice.cluster), alt=alt), lines

    def _follow(self, choice: PlanChoice | None) -> None:
        self.take.disabled = choice is None or planned(choice).best is None

    def _take(self, _: object) -> None:
        """Set the learner's layout to the planner's best: from there one setting can be turned."""
        if self.take.disabled:  # a cell may click it all the same
            return
        best = planned(self.choice).best
        assert best is not None  # else it is disabled
        self.choose(**vars(OwnCut.of(best.layout)))


def _row(option: Option, best: Option) -> PlanRow:
    note = "the best" if option is best else loses(option, best)
    return PlanRow(str(option.layout), note, option.step, option.memory)


def _own_row(found: Option | Refusal, best: Option | None) -> PlanRow:
    name = f"yours: {found.layout}"
    if isinstance(found, Refusal):
        return PlanRow(name, "does not fit" if found.memory else "cannot be", None, found.memory)
    return PlanRow(name, loses(found, best) if best else "", found.step, found.memory)
