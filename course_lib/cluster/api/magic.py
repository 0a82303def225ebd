"""``%%ranks``: a cell that runs on every rank, in a namespace that lasts from cell to cell.

::

    %%ranks -n 4
    x = torch.full((2,), float(rank))
    dist.all_reduce(x)
    x                           # the last expression of each rank is shown

Every such cell may use ``me``, ``rank``, ``world_size``, ``device``, ``torch`` and ``dist``. ``%push name`` copies a
variable of the notebook to all ranks; ``%pull name`` brings it back as a list, one entry a rank.
"""

from __future__ import annotations

import argparse
import ast
from typing import Any, NoReturn

from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.api.shared import shared_cluster
from course_lib.cluster.failures.run import in_rank_order, leaks_in_words, say

__all__ = ["cell_cluster", "register"]

_world_size = 2  # of the next cell that does not say -n


def cell_cluster(world_size: int | None = None) -> Cluster:
    """The shared cluster that this notebook's ``%%ranks`` cells run on: the same ranks as ``shared_cluster(n)``."""
    global _world_size
    cluster = shared_cluster(_world_size if world_size is None else world_size)
    if cluster.world_size != _world_size and shared_cluster(_world_size).has_variables:
        print(f"now on {cluster.world_size} other ranks; the variables of the {_world_size} ranks stay with those")
    _world_size = cluster.world_size
    return cluster


def ranks(line: str, source: str) -> None:
    """%%ranks [-n N] [--only 0,2] [--timeout SECONDS]: run this cell on every rank, or on some."""
    options = _options(line)
    if options is None:
        return
    ast.parse(source, "<cell>")  # a slip of the keyboard is shown here, once, and not by every rank
    limit: dict[str, Any] = {} if options.timeout is None else {"timeout_s": options.timeout}
    run = cell_cluster(options.n).cell(source, only=options.only, show=False, **limit)
    shown = {rank: run.text[rank] + (f"{value}\n" if value is not None else "") for rank, value in run.results.items()}
    say(in_rank_order(shown) + "".join(f"{line}\n" for line in leaks_in_words(run.leaks)))


def push(line: str, namespace: dict[str, Any]) -> None:
    """%push name [name ...]: copy variables of the notebook to every rank."""
    names = line.replace(",", " ").split()
    missing = [name for name in names if name not in namespace]
    if missing or not names:
        what = f"the notebook has no variable {missing[0]!r}" if missing else "%push needs the name of a variable"
        raise NameError(what)
    cell_cluster().push(**{name: namespace[name] for name in names})


def pull(line: str) -> list[Any]:
    """%pull name: the value of a variable on each rank, as a list."""
    return list(cell_cluster().pull(line.strip()))


def register(shell: Any) -> None:
    """Give an IPython shell the magics ``%%ranks``, ``%push`` and ``%pull``."""
    shell.register_magic_function(ranks, "cell", "ranks")
    shell.register_magic_function(lambda line: push(line, shell.user_ns), "line", "push")
    shell.register_magic_function(pull, "line", "pull")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"%%ranks: {message}. It takes -n 4, --only 0,2 and --timeout 30")


def _options(line: str) -> argparse.Namespace | None:
    parser = _Parser(prog="%%ranks", add_help=False)
    parser.add_argument("-n", type=int)
    parser.add_argument("--only", type=_rank_list)
    parser.add_argument("--timeout", type=float)
    return parser.parse_args(line.split())


def _rank_list(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]
