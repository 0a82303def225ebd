"""The schedule studio: choose a pipeline schedule or write one, see it judged and simulated as you type, then run it.

The table of actions is a text of one line a rank, so it can be edited with the keyboard alone. What is drawn is the
simulator's prediction; the button executes the same table on real ranks, with paced computing, and lays what was
measured under what was predicted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import ipywidgets as widgets

from course_lib.base.text import counted, first_line
from course_lib.cluster.api.arguments import CrowdedWarning
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.failures.errors import RankInterrupted
from course_lib.cluster.links.links import Links
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.forms import Form, busy, picture_box
from course_lib.layouts.link import Link
from course_lib.meter.units import time_text
from course_lib.parallel.pipeline import run_pipeline
from course_lib.plot.pipeline_chart import pipeline_gantt
from course_lib.plot.raster import Raster
from course_lib.schedules import (
    SCHEDULES,
    Problem,
    Schedule,
    from_text,
    get_schedule,
    peak_in_flight,
    validate,
)
from course_lib.schedules.stage_times import StageTimes
from course_lib.schedules.trace import ScheduleTrace
from course_lib.widgets.controls import fill
from course_lib.widgets.goal import Goal
from course_lib.widgets.paired import Paired

__all__ = ["Goal", "Run", "ScheduleStudio", "run_on_ranks"]

Run = Callable[[Schedule, StageTimes, Link], ScheduleTrace]
"""Executes a schedule on real ranks with stages of these times over this link, and returns what was measured."""

_FORWARD_S = 0.010
_MOST_PROBLEMS = 3


def run_on_ranks(schedule: Schedule, times: StageTimes, link: Link) -> ScheduleTrace:
    """As many ranks as the schedule has, on the CPU, started for this run and ended after it; computing is paced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdedWarning)  # ranks that wait do not crowd each other
        with Cluster(schedule.num_ranks, links=Links()) as cluster:  # on the CPU, where links can be shaped
            return run_pipeline(cluster, schedule, times, link=link)


class ScheduleStudio(Form):
    """Controls, the table to edit, what is wrong with it, the picture, and numbers by rank.

    ``run`` executes the table when the button is pressed, ``run_on_ranks`` for one; without it there is only the
    simulation. ``goal`` is shown and judged. A forward of a stage takes 10 ms; the other times follow from the
    controls.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        kind: str = "1f1b",
        num_ranks: int = 4,
        num_micro_batches: int = 8,
        goal: Goal | None = None,
    ) -> None:
        self._run, self.goal = run, goal
        self._measured: ScheduleTrace | None = None
        self._filled = self._typed = ""
        self._make_controls(kind, num_ranks, num_micro_batches)
        self.table = widgets.Textarea(description="table", continuous_update=True)
        self.table.layout, self.table.style = (
            {"width": "98%", "height": "9em"},
            {"description_width": "initial"},
        )
        self.table.add_class("course-schedule")  # letters of one width, so that columns stand in line
        self.verdict = widgets.HTML()
        self.image = picture_box()
        self.numbers = widgets.HTML()
        self.numbers.add_class("course-numbers")
        for control in (self.kind, self.ranks.number, self.micro_batches.number, self.virtual_stages.number):
            control.observe(self._fill, names="value")
        numbers = self.ratio.number, self.latency.number
        for control in (*numbers, self.overlap, self.beside, self.limit, self.table):
            control.observe(self._draw, names="value")
        self.fill.on_click(self._fill)
        self.back.on_click(self._take_back)
        self.execute.on_click(self._execute)
        self._fill()
        rows = [
            [self.kind, self.ranks, self.micro_batches, self.virtual_stages],
            [self.ratio, self.latency, self.overlap, self.beside, self.limit],
            [self.execute, self.fill, self.back],
        ]
        wrap = widgets.Layout(flex_flow="row wrap")
        boxes = [widgets.HBox(row, layout=wrap) for row in rows]
        super().__init__([*boxes[:2], self.table, boxes[2], self.verdict, self.image, self.numbers])

    def _make_controls(self, kind: str, num_ranks: int, num_micro_batches: int) -> None:
        style = {"description_width": "initial"}
        options = [(known.title, name) for name, known in SCHEDULES.items()]
        self.kind = widgets.Dropdown(
            options=options, value=kind, description="schedule", style=style, layout={"width": "17em"}
        )
        self.ranks = Paired("ranks", num_ranks, 1, 8)
        self.micro_batches = Paired("micro-batches", num_micro_batches, 1, 32)
        self.virtual_stages = Paired("virtual stages a rank", 2, 1, 4)
        self.ratio = Paired("backward / forward", 2.0, 0.5, 4.0, step=0.1)
        self.latency = Paired("latency (ms)", 0.0, 0.0, 10.0, step=0.5)
        self.overlap = widgets.Checkbox(True, description="send messages during computing", indent=False)
        self.beside = widgets.Checkbox(False, description="F&B takes as long as the longer of F and B", indent=False)
        self.limit = widgets.BoundedIntText(
            0, min=0, max=99, description="most in flight a rank (0: any)", style=style,
            layout={"width": "19em"},
        )  # fmt: skip
        self.execute = widgets.Button(
            description="run on ranks", tooltip="Run this table on real ranks", disabled=self._run is None
        )
        self.fill = widgets.Button(description="fill the table anew", tooltip="Write the chosen schedule into it")
        self.back = widgets.Button(
            description="back to my table",
            tooltip="Restore what you typed before a choice overwrote it",
            disabled=True,
        )

    # -- what is chosen -----------------------------------------------------------------------------------------

    @property
    def times(self) -> StageTimes:
        """Of each stage. Stages that share a rank share out what one stage would take.

        A forward and a backward that overlap (F&B) take both their times, or that of the longer one.
        """
        whole = StageTimes.of(_FORWARD_S, self.ratio.value)
        if self.beside.value:
            whole = replace(whole, overlapped_s=max(whole.forward_s, whole.time_s("B")))
        return whole.divided(max(1, self._schedule.num_stages // self._schedule.num_ranks))

    @property
    def link(self) -> Link:
        return Link(self.latency.value / 1e3, float("inf"))

    @property
    def schedule(self) -> Schedule:
        """The table as it stands; ``ValueError`` where it cannot be read. One that was edited is *your table*."""
        return from_text(self.table.value, name=None if self.table.value == self._filled else "your table")

    def picture(self) -> Raster:
        """What is shown, as a picture that stays."""
        return pipeline_gantt(self._simulation, self._measured)

    def __repr__(self) -> str:
        return (
            f"Schedule studio ({SCHEDULES[self.kind.value].title}, {counted(int(self.ranks.value), 'rank')}, "
            f"{counted(int(self.micro_batches.value), 'micro-batch')})"
        )

    # -- what happens -------------------------------------------------------------------------------------------

    def _fill(self, _: object = None) -> None:
        """Write the chosen schedule into the table; what was typed there can be had back."""
        free = SCHEDULES[self.kind.value].virtual_stages == "any"
        self.virtual_stages.disabled = not free
        made = get_schedule(
            self.kind.value, int(self.ranks.value), int(self.micro_batches.value),
            num_virtual_stages=int(self.virtual_stages.value) if free else None,
        )  # fmt: skip
        if self.table.value not in (self._filled, self._typed):
            self._typed, self.back.disabled = self.table.value, False
        self._filled = str(made.aligned())
        if self._filled == self.table.value:
            self._draw()
        self.table.value = self._filled

    def _take_back(self, _: object) -> None:
        self.table.value = self._typed

    def _draw(self, change: object = None) -> None:
        self._measured = None  # it belongs to what was there before
        try:
            schedule = self.schedule
        except ValueError as error:
            self._say("bad", f"Cannot be read yet: {error}")
            self.execute.disabled = True
            return
        problems = validate(schedule, max_in_flight=self.limit.value or None)
        fatal = [problem for problem in problems if problem.reason != "memory"]
        self.execute.disabled = bool(fatal) or self._run is None
        if fatal:
            self._say("bad", self._list(fatal))
            return
        self._schedule = schedule
        self._simulation = simulate(schedule, self.times, link=self.link, overlap=self.overlap.value)
        self._show(problems)

    def _show(self, problems: tuple[Problem, ...]) -> None:
        picture = self.picture()
        self.image.value = picture.png()
        self.image.layout.width = f"{picture.size[0]}px"
        self.numbers.value = self._table_of_numbers()
        missed = self.goal.missed(self._schedule, self._simulation) if self.goal else []
        if problems:
            self._say("bad", f"It can run, but: {self._list(problems)}")
        elif missed:
            self._say("info", f"{self._ran()} Not the goal yet: {'; '.join(missed)}.")
        else:
            reached = " The goal is reached." if self.goal else ""
            self._say("good", f"{self._ran()}{reached} {picture.alt}")

    def _execute(self, _: object) -> None:
        if self._run is None or self.execute.disabled:  # clicked while a change was on its way
            return
        with busy(self.execute):
            self._say("info", f"{self._schedule.num_ranks} ranks run the table ...")
            try:
                self._measured = self._run(self._schedule, self.times, self.link)
            except (
                Exception,
                RankInterrupted,
            ) as error:  # whatever it is: a button has no cell to show it in
                self._say("bad", f"The ranks could not run it: {first_line(error)}")
            else:
                self._show(validate(self._schedule, max_in_flight=self.limit.value or None))

    # -- words --------------------------------------------------------------------------------------------------

    def _ran(self) -> str:
        run = self._measured
        return f"It ran in {time_text(run.makespan_s)}, {run.idle_share:.1%} idle." if run else "It can run."

    def _say(self, mood: str, text: str) -> None:
        sign = {"good": "✓", "bad": "✗", "info": "…"}[mood]
        self.verdict.value = fill("verdict.html", goal=self.goal, sign=sign, text=text)

    @staticmethod
    def _list(problems: list[Problem] | tuple[Problem, ...]) -> str:
        shown = "; ".join(str(problem) for problem in problems[:_MOST_PROBLEMS])
        more = len(problems) - _MOST_PROBLEMS
        return f"{shown}; and {more} more." if more > 0 else f"{shown}."

    def _table_of_numbers(self) -> str:
        """Idle share and in-flight micro-batches of each rank, predicted and measured."""
        runs = {"predicted": self._simulation} | ({"measured": self._measured} if self._measured else {})
        heads = [f"idle, {name}" for name in runs] + [
            "most micro-batches in flight" + ("" if self._schedule.has_one_stage_a_rank else ", of single stages")
        ]
        lines = [
            [f"rank {rank}", *(f"{run.idle_share_by_rank[rank]:.1%}" for run in runs.values()), str(peak)]
            for rank, peak in enumerate(peak_in_flight(self._schedule))
        ]
        lines.append(["all", *(f"{run.idle_share:.1%}" for run in runs.values()), ""])
        times = ", ".join(f"{time_text(run.makespan_s)} {name}" for name, run in runs.items())
        return fill("numbers.html", times=times, head=heads, rows=lines)
