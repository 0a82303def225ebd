"""What a file of tests has to leave in its process as it found it: the next file to run there is another each time."""

from __future__ import annotations

import builtins
import gc
import locale
import os
import random
import signal
import sys
from typing import Any

_SET_BY_OTHERS = ("PYTEST_", "TORCHINDUCTOR_", "KMP_", "JUPYTER_")  # pytest, and libraries when they are first used


def process_state() -> dict[str, Any]:
    """By name; a module that nobody has imported has none."""
    state: dict[str, Any] = {
        "the working folder": os.getcwd(),
        "environment variables": {k: v for k, v in os.environ.items() if not k.startswith(_SET_BY_OTHERS)},
        "who hears SIGINT": signal.getsignal(signal.SIGINT),
        "sys.path": list(sys.path),
        "the collector of garbage": gc.isenabled(),
        "the limit of recursion": sys.getrecursionlimit(),
        "the limit of digits": sys.get_int_max_str_digits(),
        "print": builtins.print,
        "the locale": locale.setlocale(locale.LC_ALL),
        "the umask": _umask(),
        "random.random": random.random,
    }
    if torch := sys.modules.get("torch"):
        state |= {
            "torch's default dtype": torch.get_default_dtype(),
            "torch's default device": str(torch.get_default_device()),
            "autograd": torch.is_grad_enabled(),
            "torch's threads": torch.get_num_threads(),
            "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        }
    hooks = sys.modules.get("course_lib.cluster.hooks.comm_hooks")
    state["listeners to calls"] = list(hooks._subscribers) if hooks else []
    waits = hooks._wait_subscribers if hooks else ()
    # That of a watchdog stays for the life of its process.
    state["listeners to waits"] = [one for one in waits if type(one).__name__ != "OpTracker"]
    return state


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """A sentence for each thing that both know and that is another."""
    return [
        f"{name}: {_differing(before[name], after[name])}"
        for name in before
        if name in after and before[name] != after[name]
    ]


def _differing(before: Any, after: Any) -> str:
    if isinstance(before, dict):
        names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        return ", ".join(f"{name} was {before.get(name)!r}, is {after.get(name)!r}" for name in names)
    return f"was {before!r}, is {after!r}"


def _umask() -> int:
    os.umask(found := os.umask(0o077))
    return found
