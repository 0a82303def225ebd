"""``course bench capstone``: every mesh of the capstone's jobs, run for real; the record that results are held against.

For each level and seed all meshes that fit, or may fit, are run with the course's parts, links shaped and computing
paced: a line each with the seconds of its steps by the clock, and one with those that count, of computing and messages
alone. Below, by these, how much slower than the best of them the planner's best is, and how much slower the mesh that
was expected to be best. ``--json assets/measured/capstone_2_cores.json`` keeps the
record; an interrupted one is kept as far as it came. No target: what the best is, is the finding.
"""

from __future__ import annotations

from course_lib.authoring.bench.options import bench_parser, count, open_table
from course_lib.authoring.bench.table import Table
from course_lib.capstone.attempts.record import MeshRun, row_name
from course_lib.capstone.attempts.searching import search_s, searching
from course_lib.capstone.jobs.job import CapstoneJob, job_for
from course_lib.capstone.jobs.planning import best_expected, best_plan
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.links.links import Links

__all__ = ["add_job", "main"]

_RANKS_LIVE_S = 600.0


def main(arguments: list[str]) -> int:
    parser = bench_parser("capstone", __doc__, rounds=2, of="timed steps of each mesh")
    parser.add_argument("--levels", type=count, nargs="+", default=[1, 2, 3], help="of these levels (default all)")
    parser.add_argument("--seeds", type=count, default=10, help="of so many seeds, from 0 (default 10)")
    parser.add_argument("--seed", type=int, nargs="+", help="of these seeds, in place of the first ones")
    options = parser.parse_args(arguments)
    seeds = range(options.seeds) if options.seed is None else options.seed
    with open_table(options) as table:
        for level in options.levels:
            jobs = [job_for(level, seed) for seed in seeds]
            with Cluster(jobs[0].ranks, links=Links(), timeout_s=_RANKS_LIVE_S) as cluster:
                for job in jobs:
                    print(f"{job.name}: about {search_s(job, options.rounds):.0f} s")
                    add_job(table, job, cluster, options.rounds)
                    if options.json is not None:
                        table.save(options.json)
    return 0


def add_job(table: Table, job: CapstoneJob, cluster: Cluster, rounds: int) -> None:
    """A line for each mesh that ran, and two regrets."""
    runs: dict[str, MeshRun] = {}
    for run in searching(job, cluster, num_timed=rounds):
        if run.ended:
            print(f"{job.name}: {run.mesh} ended: {run.ended}")
            continue
        runs[run.mesh] = run
        table.add(row_name(job, run.mesh), run.steps_s, "s")
        if run.paced_s is not None:
            table.add(row_name(job, run.mesh, paced=True), [run.paced_s], "s")
    if not runs:
        return
    best_s = min(run.counted_s for run in runs.values())
    for what, mesh in (("planner's best", best_plan(job).mesh), ("expected best", best_expected(job))):
        if str(mesh) in runs:
            regret = 100 * (runs[str(mesh)].counted_s / best_s - 1)
            table.add(f"{job.name}: regret of the {what}", [regret], "%")
