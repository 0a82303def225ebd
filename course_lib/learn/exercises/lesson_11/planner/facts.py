"""11.planner: what a planner says of what it is asked, as facts; and how two of them are compared."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean
from typing import Any

from course_lib.learn.exercises.lesson_11.planner.situations import (
    LINK_PARTS,
    MEMORY_PARTS,
    PlanQuestion,
    PublishedCase,
)
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.report import NOT_DEMANDED, Report, fact
from course_lib.plan.by_hand.inputs import Machines, TimedRun
from course_lib.plan.inputs.layout import Layout

__all__ = ["A_PLANNER", "MEAN_ERROR", "MOST_RUNS", "NEAR", "PlanReport", "facts_of", "right_facts", "same"]

A_PLANNER = "a planner"
MEAN_ERROR, NEAR, MOST_RUNS = 0.25, 0.30, 0.65  # of published runs: this mean, or this share of them this near
_RATIO = 0.25  # a job that nobody ran takes as much longer as by the course's, within this
_TOLERANCE = 1e-6


def same(want: Any, have: Any) -> bool:
    """Whether two numbers, or two rows of numbers, are equal but for rounding."""
    if isinstance(want, tuple):
        return isinstance(have, tuple) and len(want) == len(have) and all(map(same, want, have))
    if not isinstance(have, numbers.Real) or isinstance(have, bool):
        return False
    return math.isclose(want, have, rel_tol=_TOLERANCE, abs_tol=1e-12)


def _bytes_differ(want: Sequence[float], have: Sequence[Any]) -> str:
    for stage, (due, came) in enumerate(zip(want, have, strict=True)):
        if not same(due, came):
            told = f"{came:,.0f} bytes" if isinstance(came, numbers.Real) else short(came)
            return f"on stage {stage} {due:,.0f} bytes are right, and your planner says {told}"
    return ""


def _seconds_differ(want: float, have: Any) -> str:
    if same(want, have):
        return ""
    said = f"{have:.6g} s" if isinstance(have, numbers.Real) else short(have)
    return f"{want:.6g} s are right, and your planner says {said}"


def _layouts_differ(want: Mapping[Layout, float], have: Mapping[Layout, float]) -> str:
    missing = [layout for layout in want if layout not in have]
    extra = [layout for layout in have if layout not in want]
    if missing:
        return f"{len(missing)} of {len(want)} layouts that are legal and fit are missing, such as {missing[0]}"
    return f"{len(extra)} layouts are too many, such as {extra[0]}" if extra else ""


def _times_differ(want: Mapping[Layout, float], have: Mapping[Layout, float]) -> str:
    for layout, due in want.items():
        if layout in have and (found := _seconds_differ(due, have[layout])):
            return f"{layout}: {found}"
    return ""


def _errors(measured: Sequence[float], told: Sequence[Any]) -> str:
    """Whether a planner is too far off, of the runs of a cluster."""
    for number, one in enumerate(told):
        if not isinstance(one, numbers.Real) or not math.isfinite(one) or one <= 0:
            return f"for run {number} your planner says {short(one)}"
    errors = [abs(one / true - 1) for one, true in zip(told, measured, strict=True)]
    near = sum(error <= NEAR for error in errors) / len(errors)
    if mean(errors) <= MEAN_ERROR and near >= MOST_RUNS:
        return ""
    return (
        f"over {len(errors)} published runs your planner's mean error is {mean(errors):.0%}, and {near:.0%} of them "
        f"are within {NEAR:.0%}. To pass, the error may be at most {MEAN_ERROR:.0%}, and at least {MOST_RUNS:.0%} "
        "have to be that near"
    )


def _ratios_differ(want: Sequence[tuple[str, float]], have: Sequence[tuple[str, float]]) -> str:
    for (what, due), (_, came) in zip(want, have, strict=True):
        if not due / (1 + _RATIO) <= came <= due * (1 + _RATIO):
            return (
                f"{what}: by the course's planner a step takes {due:.2f} times as long, and by yours {came:.2f} times"
            )
    return ""


def _words_differ(want: Sequence[tuple[str, str]], have: Sequence[tuple[str, Any]]) -> str:
    for (layout, due), (_, came) in zip(want, have, strict=True):
        if not isinstance(came, str):
            return f"`why_not` of {layout} is to give a sentence, or an empty one, and gave {short(came)}"
        if not due and came:
            return f"{layout} can run, and `why_not` says: {came:.80}"
        if due and due not in came.lower():
            said = f"says: {came:.80}" if came else "says nothing"
            return f"{layout} cannot run, and a sentence with the word `{due}` is expected; `why_not` {said}"
    return ""


@dataclass(frozen=True, kw_only=True)
class PlanReport(Report):
    """What a planner has said. ``asked``: what it was asked for, for recognisers."""

    asked_for = A_PLANNER
    asked: PlanQuestion | PublishedCase
    made: str = fact("{got}", right=A_PLANNER)
    weights: Any = fact('"weights": {difference}', by=_bytes_differ, right=NOT_DEMANDED)
    gradients: Any = fact('"gradients": {difference}', by=_bytes_differ, right=NOT_DEMANDED)
    optimizer: Any = fact('"optimizer": {difference}', by=_bytes_differ, right=NOT_DEMANDED)
    activations: Any = fact('"activations": {difference}', by=_bytes_differ, right=NOT_DEMANDED)
    logits: Any = fact('"logits": {difference}', by=_bytes_differ, right=NOT_DEMANDED)
    compute: Any = fact('"compute": {difference}', by=_seconds_differ, right=NOT_DEMANDED)
    tensor: Any = fact('"tensor": {difference}', by=_seconds_differ, right=NOT_DEMANDED)
    pipeline: Any = fact('"pipeline": {difference}', by=_seconds_differ, right=NOT_DEMANDED)
    data: Any = fact('"data": {difference}', by=_seconds_differ, right=NOT_DEMANDED)
    layouts: Any = fact("`plans`: {difference}", by=_layouts_differ, right=NOT_DEMANDED)
    times: Any = fact("`plans`: {difference}", by=_times_differ, right=NOT_DEMANDED)
    order: Any = fact("the layouts are the right ones, but {got}", right=NOT_DEMANDED)
    steps: Any = fact("{difference}", by=_errors, right=NOT_DEMANDED)
    needed: Any = fact("memory: {difference}", by=_errors, right=NOT_DEMANDED)
    changed: Any = fact("a job that nobody ran: {difference}", by=_ratios_differ, right=NOT_DEMANDED)
    why: Any = fact("{difference}", by=_words_differ, right=NOT_DEMANDED)
    unfitted: Any = NOT_DEMANDED  # the same steps with the share that was guessed


_FASTEST_FIRST = "they come fastest first"


def facts_of(planner: Callable[..., Any], asked: PlanQuestion | PublishedCase) -> PlanReport:
    """What ``planner`` says of it."""
    if isinstance(asked, PublishedCase):
        return _of_runs(planner, asked)
    made = planner(asked.job, asked.machines)
    if asked.is_search:
        return _of_search(made, asked)
    if asked.why:
        said = tuple((str(layout), made.why_not(layout)) for layout, _ in asked.why)
        return PlanReport(asked=asked, why=said)
    return _of_layout(made, asked)


def _of_layout(made: Any, asked: PlanQuestion) -> PlanReport:
    layout, found = asked.layout, {}
    assert layout is not None
    if wanted := [part for part in asked.parts if part in MEMORY_PARTS]:
        stages = [made.memory(layout, stage) for stage in range(layout.pp)]
        for stage in stages:
            if told := _lacks(stage, wanted, "memory"):
                return PlanReport(asked=asked, made=told)
        found |= {part: tuple(stage[part] for stage in stages) for part in wanted}
    if wanted := [part for part in asked.parts if part in ("compute", *LINK_PARTS)]:
        seconds = made.time(layout)
        if told := _lacks(seconds, wanted, "time"):
            return PlanReport(asked=asked, made=told)
        found |= {part: seconds[part] for part in wanted}
    return PlanReport(asked=asked, **found)


def _lacks(got: Any, wanted: Sequence[str], method: str) -> str:
    if not isinstance(got, Mapping):
        return f"`{method}` is to return a dictionary, and returned {short(got)}"
    missing = [part for part in wanted if part not in got]
    return f'`{method}` is to have a part "{missing[0]}", and has {short(list(got))}' if missing else ""


def _of_search(made: Any, asked: PlanQuestion) -> PlanReport:
    plans = made.plans()
    if not isinstance(plans, list | tuple):
        return PlanReport(asked=asked, made=f"`plans` is to return a list, and returned {short(plans)}")
    for plan in plans:
        if not (isinstance(plan, list | tuple) and len(plan) == 2 and isinstance(plan[1], Layout)):
            return PlanReport(asked=asked, made=f"`plans` is to have items (seconds, layout), and has {short(plan)}")
        if not isinstance(plan[0], numbers.Real):
            return PlanReport(asked=asked, made=f"`plans` is to have seconds first, and has {short(plan[0])}")
    seconds = [float(plan[0]) for plan in plans]
    found = {plan[1]: time_s for plan, time_s in zip(plans, seconds, strict=True)}
    if len(found) < len(plans):
        twice = next(plan[1] for number, plan in enumerate(plans) if plan[1] in [one[1] for one in plans[:number]])
        return PlanReport(asked=asked, made=f"`plans` has {twice} twice")
    rising = all(one <= other * (1 + _TOLERANCE) for one, other in pairwise(seconds))
    order = _FASTEST_FIRST if rising else "a slower one stands before a faster one"
    return PlanReport(asked=asked, layouts=found, times=found, order=order)


def _of_runs(planner: Callable[..., Any], asked: PublishedCase) -> PlanReport:
    first = asked.judged[0]
    fitted = planner(first.job, first.machines).fit(list(asked.given))
    if not isinstance(fitted, Machines):
        return PlanReport(asked=asked, made=f"`fit` is to return machines, and returned {short(fitted)}")

    def step_s(run: TimedRun, machines: Machines) -> float:
        return sum(planner(run.job, replace(machines, gpus=run.machines.gpus)).time(run.layout).values())

    told = tuple(step_s(run, fitted) for run in asked.judged)
    changed = tuple(
        (_change(asked.judged[number], run), step_s(run, fitted) / told[number]) for number, run in asked.changed
    )
    return PlanReport(
        asked=asked,
        steps=told,
        needed=tuple(_needed_bytes(planner, run) for run in asked.judged if _tells_memory(run)) or NOT_DEMANDED,
        changed=changed,
        unfitted=tuple(step_s(run, run.machines) for run in asked.judged),
    )


def _tells_memory(run: TimedRun) -> bool:
    """Where one stage has both tables, and they are tied, it is a later step's."""
    return bool(run.needed_bytes) and not (run.job.tied and run.layout.pp == 1)


def _needed_bytes(planner: Callable[..., Any], run: TimedRun) -> float:
    made = planner(run.job, run.machines)
    stages = range(run.layout.pp)
    return max(sum(made.memory(run.layout, stage).values()) for stage in stages) + run.machines.reserve_bytes


def _change(run: TimedRun, other: TimedRun) -> str:
    which = "batch" if other.job.batch != run.job.batch else "layers"
    return f"{run.layout} with {which}={getattr(other.job, which)} in place of {getattr(run.job, which)}"


def right_facts(planner: Callable[..., Any], asked: PlanQuestion | PublishedCase) -> PlanReport:
    """What is expected: by the course's planner, and of published runs what was measured."""
    found = facts_of(planner, asked)
    if isinstance(asked, PublishedCase):
        measured = tuple(run.needed_bytes for run in asked.judged if _tells_memory(run)) or NOT_DEMANDED
        return replace(found, steps=tuple(run.step_s for run in asked.judged), needed=measured)
    if asked.is_search:
        return replace(found, order=_FASTEST_FIRST)
    if asked.why:
        return replace(found, why=tuple((str(layout), word) for layout, word in asked.why))
    return found
