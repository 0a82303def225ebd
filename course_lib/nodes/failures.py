"""Whose fault it was: from what the ranks kept, what the agents wrote, and which exit codes they saw."""

from __future__ import annotations

import contextlib
import pickle
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from course_lib.cluster.base.failure import Failure, file_of
from course_lib.nodes.launch import path_of
from course_lib.nodes.records import AttemptStart

__all__ = ["JobFailed", "JobTimeout", "ProgramFault", "faults", "first", "location", "why_no_rendezvous"]

_DIED = re.compile(
    r"^(?:[A-Z]\d{4} (\d\d:\d\d:\d\d\.\d+))?.*failed \(exitcode: (-?\d+)\) local_rank: \d+ \(pid: (\d+)\)",
    re.MULTILINE,
)


class _ShownAsText:
    """Shows its story in a notebook, in place of the library's own stack."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class JobFailed(_ShownAsText, RuntimeError):
    """A job on nodes failed; ``faults`` has what happened to which rank, the first first."""

    def __init__(self, story: str, faults: Sequence[ProgramFault] = ()) -> None:
        super().__init__(story)
        self.faults = tuple(faults)


class JobTimeout(JobFailed):
    """A job on nodes was still running at its limit of time, and was ended."""


@dataclass(frozen=True)
class ProgramFault:
    """How one process of a rank ended. ``is_echo``: another's end was the cause, as when its connection closed."""

    time: float
    rank: int
    node: int
    pid: int
    words: str  # "raised ValueError: no such file (train.py, line 8)", "was killed by SIGKILL"
    is_echo: bool = False

    def __str__(self) -> str:
        return f"rank {self.rank} (node {self.node}) {self.words}"


def faults(folder: Path, began: Sequence[AttemptStart], agent_text: Mapping[int, str]) -> list[ProgramFault]:
    """All of a job so far, in order of time; ``agent_text`` is what the agent of each node has written."""
    by_pid = {one.pid: one for one in began}
    found: dict[int, ProgramFault] = {}
    for one in began:
        with contextlib.suppress(OSError):
            at_s, failure = pickle.loads(path_of(folder, "failure", one).read_bytes())
            found[one.pid] = ProgramFault(at_s, one.rank, one.node, one.pid, _raised(failure), failure.is_echo)
    for text in agent_text.values():
        for clock, code, pid in _DIED.findall(text):
            dead = by_pid.get(int(pid))
            if dead is not None and dead.pid not in found:
                at_s = _timestamp(clock, dead.time)
                found[dead.pid] = ProgramFault(at_s, dead.rank, dead.node, dead.pid, _exited(int(code)))
    return sorted(found.values(), key=lambda fault: fault.time)


def first(found: Sequence[ProgramFault]) -> ProgramFault | None:
    """The culprit: who died or raised on its own account; echoes come last."""
    return min(found, key=lambda fault: (fault.is_echo, fault.time), default=None)


def why_no_rendezvous(agent_text: Mapping[int, str], codes: Mapping[int, int] | None = None) -> str | None:
    """What the agents say where the rendezvous itself failed; None where it did not. ``codes``: their exit codes."""
    for node, text in agent_text.items():
        if "RendezvousTimeoutError" in text:
            return f"node {node} waited for the other nodes until its timeout (RendezvousTimeoutError)"
        if "EADDRINUSE" in text or "address already in use" in text.lower():
            return f"node {node} found its port taken by another program; start the job again"
        if "RendezvousClosedError" in text:
            others = [(other, code) for other, code in (codes or {}).items() if other != node]
            done = [f"node {other} left with exit code {code}" for other, code in others]
            ended = f"; the agent of {' and of '.join(done)}" if done else ""
            return f"node {node} found the rendezvous closed: an agent closes it when it ends{ended}"
        if "RendezvousConnectionError" in text:
            return f"node {node} could not reach the store of the rendezvous"
    return None


def location(folder: Path, one: AttemptStart) -> str:
    """Where a rank stood when its stacks were asked for: the innermost lines; empty where it did not answer."""
    with contextlib.suppress(OSError):
        lines = path_of(folder, "stacks", one).read_text().splitlines()
        frames = [line.strip() for line in lines if line.strip().startswith("File ")]
        own = [frame for frame in frames if "/site-packages/" not in frame and "/course_lib/" not in frame]
        own = [frame for frame in own if "/lib/python3" not in frame and "<frozen" not in frame]
        return (own or frames or [""])[0].removeprefix("File ")
    return ""


def _raised(failure: Failure) -> str:
    where = f" ({file_of(failure.where)}, line {failure.where.line_number})" if failure.where else ""
    if failure.is_echo:
        return f"lost its connection to another rank{where}"
    if failure.type_name == "SystemExit":
        return f"left with exit code {failure.message}{where}"
    return f"raised {failure.type_name}: {failure.message}{where}"


def _exited(code: int) -> str:
    if code >= 0:
        return f"left with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def _timestamp(clock: str, after: float) -> float:
    """The first time after a moment at which a clock on this wall shows "HH:MM:SS.ssssss"."""
    if not clock:
        return after
    began = datetime.fromtimestamp(after)
    seen = datetime.combine(began.date(), datetime.strptime(clock, "%H:%M:%S.%f").time())
    return (seen if seen >= began else seen + timedelta(days=1)).timestamp()
