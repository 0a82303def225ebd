"""An attempt at a job: run it on the ranks, weigh, time, compare, and give points."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from course_lib.base.stub_words import has_words_of_a_stub
from course_lib.capstone.attempts import attempt_cache
from course_lib.capstone.attempts.own_code import ran_code
from course_lib.capstone.attempts.record import recorded, recorded_run
from course_lib.capstone.attempts.rule_violations import faults_of
from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.planning import best_plan, yardstick
from course_lib.capstone.jobs.points import PointsStep, no_points, points_of
from course_lib.capstone.jobs.result import Known, RankMemory, Result, Sent
from course_lib.capstone.memory.memory_limit import OverMemory
from course_lib.capstone.running.reference_run import compared, misfits, on_one_device
from course_lib.capstone.running.replay import replayed_s
from course_lib.capstone.running.steps import RankRecord, take_steps
from course_lib.capstone.running.task import Assemble
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.failures.errors import RankError
from course_lib.cluster.links.links import Links
from course_lib.meter.clocks.timeline import Timeline
from course_lib.meter.units import bytes_text

__all__ = ["attempt"]

_TIMED, _WEIGHED = 2, 1  # steps, after a first one that is weighed


def attempt(
    job: CapstoneJob,
    assemble: Assemble,
    cluster: Cluster,
    *,
    words: str = "",
    real: Known | None = None,
    num_timed: int = _TIMED,
    show: bool = True,
) -> Result:
    """Run ``assemble(me, task)`` and its steps on every rank of ``cluster``, and judge what came of it.

    ``words``: how the run is called, by default by its mesh. ``real``: the best real run to be held against, by default
    the one that is recorded for this job, if any. ``show``: print what the ranks print.

    A run that fails, holds too much, breaks a rule or has other weights or losses gives a result that says why. Each
    attempt begins with new ranks (variables of ``%%ranks`` cells go with the old ones): none finds what another call
    or another attempt has put into a rank's modules. ``ValueError`` for a cluster of another number of ranks
    than the job's.
    """
    if cluster.world_size != job.ranks:
        raise ValueError(
            f"the job needs {job.ranks} ranks, and this cluster has {cluster.world_size}; give it "
            f"shared_cluster({job.ranks})"
        )
    if not callable(assemble):
        raise ValueError(
            f"assemble is of type {type(assemble).__name__}; give a function assemble(me, task), or assemble_on(mesh)"
        )
    run_job = replace(job, batch_seed=random.SystemRandom().getrandbits(31)) if job.is_all_yours else job
    planned, planned_run, real = _planned(job), recorded_run(job, best_plan(job).mesh), real or recorded(job)
    try:
        with cluster.shaped(links=links_of(job)):
            cluster.renew()
            ranks = list(cluster.call(take_steps, (run_job, assemble, _WEIGHED, num_timed), show=show))
            result = _judged(run_job, words or ranks[0].words, ranks, planned, planned_run, real)
            result = replace(result, job=job, batch_seed=run_job.batch_seed)
            if not result.is_right:
                cluster.renew()  # what it has put into a rank's modules would count against the next attempt
    except RankError as error:
        return _ended(job, words or getattr(assemble, "__name__", "a run"), error, planned, planned_run, real)
    attempt_cache.keep(assemble, result)
    return result


def links_of(job: CapstoneJob) -> Links:
    """The job's links, to shape those of a cluster; each rank has a port of its own to the other node."""
    nodes = job.job.nodes
    per_node = nodes.ranks_per_node
    return Links.nodes(per_node, inside=nodes.within, across=nodes.between, ports_per_node=per_node)


def _planned(job: CapstoneJob) -> Known:
    best = best_plan(job)
    return Known(str(best.mesh), best.played_s, best.between_bytes, "played by the planner")


def _judged(
    job: CapstoneJob,
    words: str,
    ranks: Sequence[RankRecord],
    planned: Known,
    planned_run: Known | None,
    real: Known | None,
) -> Result:
    steps = ranks[0].steps
    expected, state = on_one_device(job, len(steps)), ranks[0].state or {}
    odd = misfits(expected, state)
    told = [[step.loss for step in one.steps] for one in ranks]
    values = None if odd else compared(expected, state, told)
    faults = faults_of(job, ranks, odd, values is not None and values.are_equal)
    memory = tuple(_memory(number, one) for number, one in enumerate(ranks))
    timed = [number for number, step in enumerate(steps) if step.peak is None]
    slowest_s = {number: max(one.steps[number].time_s for one in ranks) for number in timed}
    shortest = min(slowest_s, key=lambda number: slowest_s[number])
    sent, paced_s = _sent(job, ranks, shortest), _paced_s(job, ranks, timed)
    result = Result(
        job=job,
        words=words,
        planned=planned,
        planned_run=planned_run,
        real=real,
        points=(),
        faults=faults,
        values=values,
        memory=memory,
        sent=sent,
        steps_s=tuple(slowest_s.values()),
        timeline=Timeline.join(one.steps[shortest].spans for one in ranks),
        mesh=ranks[0].mesh if ranks[0].mesh and ranks[0].mesh.num_ranks == job.ranks else None,
        computed=sum(one.steps[shortest].work.computed for one in ranks)
        / (2 * job.job.batch_size * job.job.config.num_layers),
        paced_s=paced_s,
        code=ran_code(ranks),
        best=yardstick(job, real),
    ).as_told()
    if faults or values is None or result.best is None:
        names = ", ".join(dict.fromkeys(fault.name for fault in faults))
        return replace(result, points=no_points(f"no points, because the run broke rules of the job: {names}"))
    most, step = max(one.peak_bytes for one in memory), PointsStep(slowest_s[shortest], paced_s)
    return replace(result, points=points_of(job, values, most, sent, step, result.best))


def _paced_s(job: CapstoneJob, ranks: Sequence[RankRecord], timed: Sequence[int]) -> float | None:
    """The longest of the timed steps, each played again; None where one of them cannot be."""
    links = links_of(job)
    found = [replayed_s(links, [one.steps[number].did for one in ranks]) for number in timed]
    known = [time_s for time_s in found if time_s is not None]
    return max(known) if len(known) == len(found) else None


def _memory(number: int, one: RankRecord) -> RankMemory:
    peaks = [step.peak for step in one.steps if step.peak is not None]
    fullest = max(peaks, key=lambda peak: sum(peak.values()))
    return RankMemory(number, sum(fullest.values()), dict(fullest))


def _sent(job: CapstoneJob, ranks: Sequence[RankRecord], number: int) -> Sent:
    """Of one step, all ranks."""
    n, per_node = job.ranks, job.ranks // job.nodes
    matrix, by_axis = [[0] * n for _ in range(n)], Counter[str]()
    for rank, one in enumerate(ranks):
        for axis, receiver, size_bytes in one.steps[number].sent:
            by_axis[axis] += size_bytes
            matrix[rank][receiver] += size_bytes
    pairs = [(a // per_node == b // per_node, matrix[a][b]) for a in range(n) for b in range(n)]
    within, between = (sum(size for same, size in pairs if same == wanted) for wanted in (True, False))
    return Sent(dict(by_axis), within, between, tuple(map(tuple, matrix)))


def _ended(
    job: CapstoneJob,
    words: str,
    error: RankError,
    planned: Known,
    planned_run: Known | None,
    real: Known | None,
) -> Result:
    """Of a run that did not come to its end."""
    over = [one for failure in error.failures.values() if isinstance(one := failure.exception, OverMemory)]
    memory, story = tuple(RankMemory(one.rank, sum(one.parts.values()), one.parts) for one in over), ""
    if over:
        parts = ", ".join(f"{label} {bytes_text(size)}" for label, size in over[0].parts.items())
        ended = f"{over[0]}: {parts}. The judge ended the run there."
    elif (
        (failed := error.failure) and failed.type_name == "NotImplementedError" and has_words_of_a_stub(failed.message)
    ):
        ended = f"not attempted: {failed.where.function if failed.where else 'assemble'} is not written yet."
    else:
        ended, story = str(error).partition("\n")[0], str(error)
    points = no_points("the run did not come to its end")
    return Result(
        job, words, planned, real, points, ended, memory=memory, planned_run=planned_run, story=story
    ).as_told()
