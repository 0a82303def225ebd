"""The plan explorer: the best layout of a job on a cluster, its time and memory by part, and what the next ones lose.

The first row of controls is the job, the second a layout of the learner's own, which is laid beside the planner's. All
of it is the planner's arithmetic; no ranks run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from course_lib.base.checks import known
from course_lib.forms import Form, picture_box
from course_lib.plan import Option, Refusal
from course_lib.plan.inputs.layout import RECOMPUTE
from course_lib.plan.search.listing import usable_bytes
from course_lib.plot.boards.plan_bars import PlanBars, PlanRow
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown, number, status
from course_lib.widgets.mission_progress import MissionProgress
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
_NO_JOB = "These GPUs make no cluster."


class PlanExplorer(Form):
    """Two rows of controls above a picture, lines that say the same in words, and missions.

    A mission that has been reached stays so. What cannot be is told in a sentence, and every control stays as it is.
    """

    def __init__(self, *, missions: Sequence[PlanMission] = MISSIONS) -> None:
        self._standing = MissionProgress(missions)
        self._is_setting = False  # several controls are moved at once
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
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        self._draw()
        for name in (*_JOB, *_OWN):
            getattr(self, name).observe(self._draw, names="value")
        self.take.on_click(self._take)
        wrap = widgets.Layout(flex_flow="row wrap")
        rows = [[getattr(self, name) for name in names] for names in (_JOB, _OWN)]
        rows[1].append(self.take)
        super().__init__([*(widgets.HBox(row, layout=wrap) for row in rows), self.image, self.words])

    @property
    def choice(self) -> PlanChoice:
        """The job and its GPUs. ``ValueError`` where the GPUs fill no whole machines."""
        return PlanChoice(**self._values(_JOB))

    @property
    def own(self) -> OwnCut:
        """The learner's layout, whether it can be or not."""
        return OwnCut(**self._values(_OWN))

    def choose(self, **settings: int | str) -> None:
        """Set some controls at once, by their names here, such as ``gpus=64, tp=8``; the others stay.

        ``ValueError`` for what the controls cannot be set to, and for GPUs that fill no whole machines; all are left as
        they are. A layout of one's own that cannot be is told as if it had been set by hand.
        """
        for name in settings:
            known("setting", name, (*_JOB, *_OWN))
        new: dict[str, Any] = self._values((*_JOB, *_OWN)) | settings
        PlanChoice(**{name: new[name] for name in _JOB})
        OwnCut(**{name: new[name] for name in _OWN})
        self._is_setting = True
        try:
            for name, value in new.items():
                getattr(self, name).value = value
        finally:
            self._is_setting = False
        self._draw()

    @property
    def missions(self) -> str:
        """How each mission stands: a line each."""
        return "\n".join(self._standing.lines(self._missed))

    def _missed(self, mission: PlanMission) -> str:
        """What a mission lacks as things are set now."""
        try:
            choice = self.choice
        except ValueError:
            return _NO_JOB
        return mission.missed(choice, self.own)

    def picture(self) -> Raster:
        """What is shown now, as a picture."""
        try:
            choice = self.choice
        except ValueError as error:
            return self._board.blank(str(error))
        return self._drawn(choice, self._lines(choice))

    def __repr__(self) -> str:
        try:
            choice = self.choice
            best = planned(choice).best
            said = (
                f"{choice}): {best.layout}, {seconds_text(best.step_s)} a step" if best else f"{choice}): nothing runs"
            )
        except ValueError as error:
            said = f"no cluster): {error}"
        return f"Plan explorer ({said}; {self._standing}"

    def _values(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: getattr(self, name).value for name in names}

    def _judged(self, choice: PlanChoice) -> Option | Refusal | str:
        """What the planner says of the learner's layout; a sentence where its axes do not divide the GPUs."""
        try:
            return self.own.judged(choice)
        except ValueError as error:
            return f"Yours cannot be: {error}."

    def _lines(self, choice: PlanChoice) -> list[str]:
        """The picture in words."""
        listing, found = planned(choice), self._judged(choice)
        own = found if isinstance(found, str) else own_in_words(listing, found)
        if listing.best is None:
            return [nothing_runs(choice, listing), own]
        return [*best_in_words(choice, listing), next_in_words(listing), own]

    # -- what happens ---------------------------------------------------------------------------------------------

    def _draw(self, _: object = None) -> None:
        if self._is_setting:
            return
        try:
            choice = self.choice
        except ValueError as error:
            self.image.value = self._board.blank(str(error)).png()
            self.take.disabled = True
            self._say(str(error), *self.missions.splitlines())
            return
        lines = self._lines(choice)
        self.image.value = self._drawn(choice, lines).png()
        self.take.disabled = planned(choice).best is None
        self._standing.look(str(choice), self._missed)
        self._say(*lines, *self.missions.splitlines())

    def _drawn(self, choice: PlanChoice, lines: Sequence[str]) -> Raster:
        """The planner's rows and the learner's; a sentence where there is nothing to draw."""
        found, best = self._judged(choice), planned(choice).best
        rows = [] if best is None else [_row(option, best) for option in best_of_cuts(planned(choice), ROWS)]
        own = None if isinstance(found, str) else _own_row(found, best)
        if not rows and own is None:
            return self._board.blank(" ".join(lines))
        return self._board.draw(rows, own, usable_bytes(choice.cluster), alt=" ".join(lines))

    def _say(self, *lines: str) -> None:
        self.words.value = status(*lines)

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
