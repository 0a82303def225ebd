"""``course bench NAME``: measurements that the course claims, each paired with its rivals in one run.

In the order to read:

- ``class_of_users/``: ``course bench class``: N learners of one installation work through lessons at once, each in a
  JupyterLab of theirs
- ``other_launchers.py``: other ways to start ranks, for comparison
- ``floors.py``: What the machine itself asks for, forks and pipes: the floors of ``course bench launch``
- ``published_runs/``: The planner beside training runs that others published
- ``table.py``: A benchmark's result: rows of samples, told as medians, kept as JSON with the machine that made them
- ``options.py``: what every benchmark has in common
- ``judging/``: Wrong and right answers handed in to every check, counted
- ``launch.py``: ``course bench launch``: what it costs to have ranks, by this course's cluster and by other launchers
- ``kernels.py``: ``course bench kernels``: from the click to a kernel and to its first ranks, as forks of one process
  and by itself
- ``links.py``: ``course bench links``: what was asked of shaped links, beside what comes out of them
- ``meter.py``: ``course bench meter``: what the communication meter costs a training step that it watches
- ``page.py``: ``course bench page``: from a control's change to the redrawn picture on the screen, in a real JupyterLab
- ``strategies/``: Every strategy beside PyTorch's, in turns
- ``two_nodes/``: Ranks on two nodes, timed within and between them, and beside torchrun's
- ``gpu/``: ``course bench gpu``: everything that needs a GPU, by one command, for the day when one is there
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

__all__ = ["BENCHES", "main"]

BENCHES = {
    "meter": "what the communication meter costs a DDP step that it watches",
    "launch": "how long ranks take to start and to answer, beside torch's own launchers and the machine's floor",
    "kernels": "how long a click takes to a kernel and its first ranks, as forks and by itself, and their memory",
    "predict": "how long collectives take on this machine, beside what the cost model says",
    "collectives": "the course's own collectives beside those of torch.distributed, in turns",
    "data_parallel": "threads of one process against processes: what the interpreter's lock costs",
    "ddp": "a training step of the course's DDP beside torch's, and how much of its all-reduces hides",
    "pipeline": "a pipeline of the course beside torch's, and paced ones beside the simulator",
    "sharded": "a training step of the course's ZeRO-3 beside fully_shard, and what prefetching hides",
    "tensor": "a transformer block cut in two by the course and by DTensor, in turns",
    "mesh": "training steps on a mesh beside PyTorch's parts, and what the order of the axes costs, beside the model",
    "capstone": "every mesh of the capstone's jobs, run for real: the record that attempts are held against",
    "judges": "how many wrong answers the checks refuse, and how many right ones they accept",
    "gpu": "everything that needs a GPU: tests, lessons, measurements (`--cpu` tries it without)",
    "published": "the planner beside training runs that others published",
    "class": "learners of one installation who work at once: seconds, memory and errors of each",
    "nodes": "how long ranks on two nodes take to start, to answer and to all-reduce, beside torchrun",
    "page": "how long a control's change takes to reach the screen, in a real browser",
    "links": "what shaped links let through, beside what was asked of them",
}


_ROOMS = {
    "strategies": (
        "predict",
        "collectives",
        "data_parallel",
        "ddp",
        "pipeline",
        "sharded",
        "tensor",
        "mesh",
        "capstone",
    ),
    "judging": ("judges",),
    "published_runs": ("published",),
    "two_nodes": ("nodes",),
}
_HOME_OF = {name: f"{room}.{name}" for room, names in _ROOMS.items() for name in names}
_HOME_OF["class"] = "class_of_users"  # a word that Python keeps for itself


def main(arguments: Sequence[str]) -> int:
    """Run one benchmark by name; the exit code is 0 when it ran to the end."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("course bench NAME [options]\n")
        for name, about in BENCHES.items():
            print(f"  {name:12} {about}")
        return 0
    name = arguments[0]
    if name not in BENCHES:
        near = difflib.get_close_matches(name, BENCHES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(BENCHES)}."
        print(f"course bench: no benchmark is called {name!r}; {hint}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"course_lib.authoring.bench.{_HOME_OF.get(name, name)}")
    return module.main(list(arguments[1:]))
