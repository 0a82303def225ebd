"""Published runs in the words of the planner of one page."""

from __future__ import annotations

from pathlib import Path

from course_lib.base.checked import checked
from course_lib.base.checks import known
from course_lib.plan.by_hand.inputs import Machines, PlannedJob, TimedRun, planned_job
from course_lib.plan.inputs.profiles import profile_of
from course_lib.plan.runs.published import PublishedRun, read_runs
from course_lib.plan.runs.replayed import replayed_runs

__all__ = ["KEPT_BACK_FILE", "kept_back_runs", "shown_runs", "timed_run"]

KEPT_BACK_FILE = Path(__file__).with_name("kept_back.csv")  # no page shows one of these

# The same for every cluster, whatever its runs tell: shares of data sheets, and what a host needs for a pass.
_INSIDE, _OUTSIDE, _HIDDEN, _SHARE = 0.8, 0.6, 0.5, 1.0
_PASS_S, _LATENCY_S, _RESERVE_BYTES = 1.1e-3, 8e-6, 2e9


@checked
def timed_run(run: PublishedRun) -> TimedRun:
    """A published run. ValueError for one without a time or a micro-batch, or with axes that this planner has not."""
    layout = run.layout
    if not run.step_s or not run.has_micro_batch:
        raise ValueError(f"{run.name}: its source does not state the time of a step, or the micro-batch")
    if layout.cp > 1 or layout.chunks > 1 or layout.recompute == "selective":
        raise ValueError(f"{run.name}: cp, interleaved stages and selective recomputation are left out here")
    gradient_bytes = 2 if run.dtype == "float16" else 4
    job: PlannedJob = planned_job(run.job, gradient_bytes=gradient_bytes)
    profile = profile_of(run.cluster, run.gpu)
    machines = Machines(
        gpus=run.gpus,
        node_size=run.node_size,
        memory_bytes=profile.gpu.memory_bytes,
        reserve_bytes=_RESERVE_BYTES,
        peak_flops_per_s=profile.gpu.peak_flops_per_s,
        share=_SHARE,
        pass_s=_PASS_S,
        inside_bytes_per_s=profile.gpu.link_bandwidth_bytes_per_s * _INSIDE,
        network_bits_per_s=8 * profile.node_bandwidth_bytes_per_s / run.node_size * _OUTSIDE,
        latency_s=_LATENCY_S,
        hidden=_HIDDEN,
    )
    return TimedRun(job=job, machines=machines, layout=layout, step_s=run.step_s, needed_bytes=run.memory_bytes or 0.0)


@checked
def shown_runs(table: str) -> list[TimedRun]:
    """The runs of a table of ``runs/replayed.csv``, such as "vtrain-multi" or "ultra-scale"."""
    return [timed_run(one.of.run) for one in replayed_runs(table)]


@checked
def kept_back_runs(table: str, use: str) -> list[TimedRun]:
    """Runs that judge planners: "given" to them, or "judged". ``table``: "vtrain-single" or "ultra-scale"."""
    known("use", use, ("given", "judged"))
    runs, refused = read_runs(KEPT_BACK_FILE)
    if refused:
        raise ValueError(f"{KEPT_BACK_FILE} has rows that cannot be read: {refused}")
    known("table", table, {run.table: None for run in runs})
    return [timed_run(run) for run in runs if (run.table, run.note) == (table, use)]
