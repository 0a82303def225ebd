"""``course bench gpu``: everything that needs a GPU, by one command, for the day when one is there.

It runs the tests marked for GPUs, all lessons, and the measurements that only a GPU can make, in steps (``--list``)
that can be run one by one (``--steps``). Each has a process of its own and a share of the time. What they find goes
into one file with machine and versions, as they come, and beside it a page says what failed. No network, git or
notebook package is needed: where ipywidgets, jupytext or tqdm are missing, lessons run with stand-ins, and the file
names what was missing. ``--cpu`` tries the command on a machine without a GPU: small sizes, gloo, no promise judged.

In the order to read:

- ``child.py``: A command in a process of its own, with a limit
- ``lesson_script.py``: one lesson as a script
- ``pytest_notes.py``: A plugin for pytest: a line of JSON for each phase of each test, on the disk at once, so that a
  test which hangs is known by its name
- ``stand_ins/``: Stand-ins for packages that a bare machine lacks: as much of each as the lessons need to run as
  scripts
- ``steps.py``: the steps of ``course bench gpu``, in the order in which they run
- ``task.py``: what a step is given, and how it tells what it found
- ``lessons.py``: step ``lessons``: the solution of every lesson, as a script in a process of its own
- ``measurements/``: What ``course bench gpu`` measures, a step each
- ``record.py``: the one file that ``course bench gpu`` writes
- ``page.py``: the page beside the record
- ``runner.py``: runs steps, each in a process of its own with its share of the time
- ``step_process.py``: the process of one step
- ``tests.py``: steps ``tests`` and ``tests_many``: ``pytest -m gpu`` and ``pytest -m multigpu``, each file in a process
  of its own, so that one test that hangs or takes its process along costs no other file
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.authoring.bench.options import bench_parser, count
from course_lib.base.signals import ended_as_by_ctrl_c

if TYPE_CHECKING:
    from course_lib.authoring.bench.gpu.record import GpuRecord

__all__ = ["main"]

_MOST_ROUNDS_OF_A_TRIAL = 3


def main(arguments: list[str]) -> int:
    """Run steps; 0 when none of them failed or missed a target, 1 otherwise, 2 for a command line that is wrong."""
    from course_lib.authoring.bench.gpu.steps import STEPS, chosen

    parser = bench_parser("gpu", __doc__, rounds=10, of="measurements of a kind; 3 at most with --cpu")
    parser.add_argument("--steps", metavar="NAME,...", default="", help="run these alone, and add to the file")
    parser.add_argument("--list", action="store_true", help="name the steps, and run none")
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU")
    parser.add_argument("--minutes", type=count, default=25, help="the time for all steps together (default 25)")
    options = parser.parse_args(arguments)
    if options.list:
        for step in STEPS:
            print(f"  {step.name:12} {step.about}")
        return 0
    try:
        steps = chosen([word.strip() for word in options.steps.split(",") if word.strip()])
        record = _record(options.json, on_gpu=not options.cpu)
    except ValueError as error:
        print(f"course bench gpu: {error}", file=sys.stderr)
        return 2
    from course_lib.authoring.bench.gpu.runner import run_steps

    try:
        rounds = min(options.rounds, _MOST_ROUNDS_OF_A_TRIAL) if options.cpu else options.rounds
        with ended_as_by_ctrl_c():
            outcomes = run_steps(steps, record, on_gpu=not options.cpu, rounds=rounds, total_s=60.0 * options.minutes)
    except KeyboardInterrupt:
        print("\ncourse bench gpu: stopped; what was found so far is kept.", file=sys.stderr)
        outcomes = []
    finally:
        finish(record)
    if not outcomes:
        return 130
    return int(any(outcome not in ("passed", "not run") for outcome in outcomes))


def finish(record: GpuRecord) -> None:
    """Write the page beside the file, and say where both are."""
    from course_lib.authoring.bench.gpu.page import page

    if not record.content["steps"]:
        return
    beside = record.path.with_suffix(".md")
    beside.write_text(page(record.content), encoding="utf-8")
    print(f"kept in {record.path}\nwhat failed, and every number: {beside}", file=sys.stderr)


def _record(path: Path | None, *, on_gpu: bool) -> GpuRecord:
    """The file to add to. Raises ValueError where there is no GPU to be used, or the file is of another kind."""
    from course_lib.authoring.bench.gpu.record import GpuRecord, default_path
    from course_lib.devices import machine

    here = machine()
    if here.torch_version is None:
        raise ValueError(f"{sys.executable} has no torch; start the command with a Python that has it.")
    if on_gpu and not here.devices:
        note = f" ({here.gpu_note.rstrip('.')})" if here.gpu_note else ""
        raise ValueError(
            f"there is no GPU here that torch can use{note}; --cpu tries the command with everything that can be."
        )
    return GpuRecord(default_path(on_gpu) if path is None else path, on_gpu=on_gpu)
