"""Sentences about nodes, ranks, programs and links that cannot be: what was given, the rule, the nearest that works."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from course_lib.base.checks import at_least, at_most, is_number, known
from course_lib.layouts.link import Link

__all__ = [
    "MOST_NODES",
    "check_env",
    "check_index",
    "check_nodes",
    "check_restarts",
    "check_seconds",
    "program_file",
]

MOST_NODES, _MOST_RANKS = 8, 16  # of a machine whose every rank imports torch


def check_nodes(num_nodes: Any, ranks_per_node: Any, link: Any, network: Any) -> None:
    """Raise ``ValueError`` for nodes that cannot be made."""
    at_least(1, num_nodes=num_nodes, ranks_per_node=ranks_per_node)
    at_most(MOST_NODES, num_nodes=num_nodes)
    if num_nodes * ranks_per_node > _MOST_RANKS:
        near = _MOST_RANKS // num_nodes
        raise ValueError(
            f"{num_nodes} nodes of ranks_per_node={ranks_per_node} are {num_nodes * ranks_per_node} processes, each of "
            f"which imports torch; {_MOST_RANKS} is the most. Use ranks_per_node={near}."
        )
    if link is not None and not isinstance(link, Link):
        raise ValueError(f"link={link!r} must be a Link, such as Link(1e-3, 25e6): 1 ms, 25 MB a second")
    known("network", network, ("auto", "loopback"))


def check_restarts(max_restarts: Any, min_nodes: Any, num_nodes: int) -> None:
    """Raise ``ValueError`` for what the agents could not be told."""
    at_least(0, max_restarts=max_restarts)
    at_least(1, min_nodes=min_nodes)
    if min_nodes > num_nodes:
        raise ValueError(f"min_nodes={min_nodes} is more than there are nodes, {num_nodes}. Use {num_nodes}, or fewer.")


def check_seconds(**values: Any) -> None:
    """Raise ``ValueError`` for a limit that is not a finite number of seconds above zero."""
    for name, value in values.items():
        if not is_number(value) or not 0 < value < math.inf:
            raise ValueError(f"{name}={value!r} must be a number of seconds above 0, 60 for example")


def check_index(what: str, number: Any, count: int) -> int:
    """A rank or a node that is there; else ``ValueError`` with the nearest."""
    if not isinstance(number, int) or isinstance(number, bool) or number not in range(count):
        is_integer = isinstance(number, int) and not isinstance(number, bool)
        near = min(max(number, 0), count - 1) if is_integer else 0
        raise ValueError(f"{what}={number!r} is not there: {what}s are 0 to {count - 1}, the nearest is {near}")
    return number


def check_env(env: Any) -> dict[str, str]:
    """Variables of the environment, whose names and values are texts."""
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise ValueError(f"env={env!r} must say which variable has which text, such as env={{'STEPS': '4'}}")
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError(
                f"env[{name!r}]={value!r} must be a text for a text; the nearest is env[{str(name)!r}]={str(value)!r}"
            )
    return dict(env)


def program_file(program: str | os.PathLike[str] | Callable[..., Any]) -> Path:
    """The file to run; ``ValueError`` where there is none, with what its folder has."""
    if not isinstance(program, (str, os.PathLike)):
        raise ValueError(f"{program!r} cannot run on nodes: give a file, such as 'train.py', or a function of a Rank")
    path = Path(program).expanduser().resolve()
    if not path.is_file():
        folder = path.parent
        there = sorted(one.name for one in folder.glob("*.py")) if folder.is_dir() else []
        has = f"the folder has {', '.join(there[:8])}" if there else "the folder has no program of Python"
        raise ValueError(f"there is no file {str(program)!r} ({has}); the first argument is the program to run")
    return path
