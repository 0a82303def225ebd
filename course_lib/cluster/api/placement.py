"""Placement: nodes, devices and threads of a new cluster, by this notebook's seat, with a sentence about them."""

from __future__ import annotations

import sys
import warnings

from course_lib.base.front_end import is_taken_down
from course_lib.cluster.api.arguments import CrowdedWarning, warn_if_crowded
from course_lib.cluster.api.rank_layout import RankLayout, here, over_nodes
from course_lib.cluster.nodes.found import nodes_here
from course_lib.cluster.nodes.record import NodesRecord
from course_lib.devices import Machine, seated, seats

__all__ = ["choose_layout", "in_a_notebook", "say_of_links"]

_warned: set[str] = set()


def choose_layout(
    world_size: int, *, nodes: int | None, backend: str, has_links: bool, num_threads: int
) -> tuple[RankLayout, int]:
    """Where the ranks go, and how many threads each gets of the ``num_threads`` asked for.

    Over the nodes that this notebook has, or ``nodes`` of them; else on this machine. ``has_links``: links are shaped
    between ranks of this machine. Raises ``ValueError`` for nodes that are not there.
    """
    if has_links and nodes is not None:
        raise ValueError(f"links are shaped between ranks of one machine, and nodes={nodes} asks for several: drop one")
    found = None if has_links else nodes_here(nodes)
    if found is not None:
        found = found.first(world_size)
        _say_once(found.in_words(world_size))
        return over_nodes(world_size, found, backend=backend), num_threads
    if has_links and NodesRecord.current() is not None:
        say_of_links(world_size)
    on_cpu = has_links and backend in ("auto", "gloo")
    num_gpus, num_threads = choose_devices(world_size, on_cpu=on_cpu, num_threads=num_threads)
    return here(world_size, backend=backend, num_gpus=num_gpus), num_threads


def choose_devices(world_size: int, *, on_cpu: bool, num_threads: int) -> tuple[int, int]:
    """How many GPUs there are for the ranks, and how many threads each rank gets of the ``num_threads`` asked for.

    Takes this process's seat (``devices/seats.py``). In a notebook it says where the ranks are and who else is there,
    once for each set of GPUs, and on the CPU once and only where somebody is.
    """
    here = seated(0 if on_cpu else world_size)
    seen = seats.survey()
    threads = seats.threads_each(num_threads, num_ranks=world_size, cores=here.cores, others=seen.others)
    gpus = () if on_cpu else here.devices[:world_size]
    text = seats.where(world_size, gpus, cores=here.cores, seen=seen)
    if text:
        _say_once(text, key=",".join(gpu.uuid for gpu in gpus))
    if threads < num_threads and _is_new("threads"):
        _warn(_threads_text(num_threads, threads, here, seen))
    if seen.warning and _is_new(seen.warning):
        _warn(seen.warning)
    warn_if_crowded(world_size)
    return (0 if on_cpu else len(here.devices)), threads


def in_a_notebook() -> bool:
    """Whether a person reads what is printed in a cell."""
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def say_of_links(num_ranks: int) -> None:
    """Where a notebook has nodes, and links are to be shaped: that the ranks for that are here."""
    here = "1 rank here stands" if num_ranks == 1 else f"{num_ranks} ranks here stand"
    _say_once(f"Links are shaped on this machine: {here} in for ranks on your nodes.")


def _threads_text(asked: int, got: int, here: Machine, seen: seats.Survey) -> str:
    return (
        f"Each rank gets {got} of the {asked} threads asked for: with {seen.others} of this course this one shares "
        f"{here.cores} cores."
    )


def _warn(text: str) -> None:
    if in_a_notebook():
        print(text)
    else:
        warnings.warn(text, CrowdedWarning, stacklevel=4)  # where the cluster was made


def _say_once(text: str, *, key: str | None = None) -> None:
    """To a person; within a check nobody is told, and the next cluster tells it."""
    if in_a_notebook() and not is_taken_down() and _is_new(text if key is None else key):
        print(text)


def _is_new(what: str) -> bool:
    """True the first time."""
    is_new = what not in _warned
    _warned.add(what)
    return is_new
