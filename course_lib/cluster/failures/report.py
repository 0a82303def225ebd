"""The report of a failed call: who failed first, at which line, and the status of every other rank."""

from __future__ import annotations

import linecache
import re
import signal
from collections.abc import Mapping

from course_lib.base.text import rank_list
from course_lib.cluster.base.failure import Failure, Frame, file_of
from course_lib.cluster.failures.cpu_deadline import UncountedTime
from course_lib.cluster.failures.deadlock import deadlocked_ranks
from course_lib.cluster.failures.hang_diagnosis import members_of, numbered, payload, reasons
from course_lib.cluster.failures.rank_status import RankStatus
from course_lib.cluster.failures.unlike_tensors import NO_ROOM, unlike_tensors
from course_lib.cluster.hooks.pending_ops import PendingOp

__all__ = [
    "died",
    "failed_story",
    "interrupted_story",
    "location_of",
    "status_line",
    "stuck_story",
]

_ALL_COUNTED = UncountedTime()
_ALL_HERE: Mapping[int, str] = {}  # no rank is on a node of its own
_LONGEST_DEED = 200  # characters, of a rank that is not the first to fail


def failed_story(
    first: Failure,
    others: Mapping[int, Failure | RankStatus],
    world_size: int,
    *,
    nodes: Mapping[int, str] = _ALL_HERE,
) -> str:
    """The story of a rank that failed, with the state of each other rank (a ``Failure`` or a ``RankStatus``).

    ``nodes``: the node of each rank, in words, where there are several.
    """
    head = f"rank {first.rank} of {world_size}{_on(first.rank, nodes)} {unlike_tensors(first, others) or _deed(first)}"
    lines = [head, *_trace(first)]
    advice = _advice(first)
    if advice:
        lines.append(advice)
    if others:
        lines += ["", "Where the other ranks stood:"]
        lines += _alike({rank: _other(state, first) for rank, state in others.items()}, nodes)
    return "\n".join(lines)


def stuck_story(
    statuses: Mapping[int, RankStatus],
    world_size: int,
    *,
    timeout_s: float | None,
    uncounted: UncountedTime = _ALL_COUNTED,
    nodes: Mapping[int, str] = _ALL_HERE,
) -> str:
    """The story of ranks that never finished: who waits where, and who never came. ``timeout_s`` None: a deadlock.

    ``uncounted``: what of the time on the clock was not counted.
    """
    unfinished = [s.rank for s in statuses.values() if s.state not in ("returned", "absent")]
    names = rank_list(unfinished).capitalize()
    if timeout_s is None:
        lost = list(deadlocked_ranks(statuses)) or unfinished  # others may still have run
        calls = "the call that it waits in" if len(lost) == 1 else "the calls that they wait in"
        head = f"{rank_list(lost).capitalize()} of {world_size} can never finish: {calls} will not be answered."
    else:
        more = f" ({uncounted.in_words()})" if uncounted.in_words() else ""
        head = f"{names} of {world_size} had not finished after timeout_s = {timeout_s:g} s{more}."
    lines = [head, ""]
    lines += [f"  rank {rank}{_on(rank, nodes)}  {status_line(statuses[rank])}" for rank in sorted(statuses)]
    why = reasons(statuses)
    if why:
        lines += ["", *why]
    elif timeout_s is not None:
        lines += ["", "If they only needed more time, pass a larger timeout_s."]
    return "\n".join(lines)


def interrupted_story(
    statuses: Mapping[int, RankStatus], world_size: int, *, nodes: Mapping[int, str] = _ALL_HERE
) -> str:
    """Where the ranks were when the learner interrupted."""
    stopped = "the rank has been stopped. It" if world_size == 1 else f"the {world_size} ranks have been stopped. They"
    lines = [f"interrupted; {stopped} stood here:", ""]
    lines += [f"  rank {rank}{_on(rank, nodes)}  {status_line(statuses[rank])}" for rank in sorted(statuses)]
    return "\n".join(lines)


def _on(rank: int, nodes: Mapping[int, str]) -> str:
    return f" on {nodes[rank]}" if rank in nodes else ""


def status_line(status: RankStatus) -> str:
    """Where one rank stands, in a line: "waits in all_reduce #4 (float32, 3 x 4), cell, line 8, in step"."""
    at = f", at {location_of(status.where)}" if status.where else ""
    if status.state == "absent":
        return "does not take part in this call"
    if status.state == "returned":
        last = status.operation
        return "had returned" + (f", after {numbered(last, members_of(status, last))}" if last else _without(status))
    if status.state == "stopped":
        return f"is stopped by a signal (SIGSTOP): its process does not run{at}"
    if status.state == "silent":
        return f"does not answer: something holds Python's lock{at}"
    if status.message is not None:
        return f"waits in {_end_of(status.message)}{at}"
    if status.rendezvous:
        return f"waits in {status.rendezvous}{at}"
    pending = status.pending
    if pending is None:
        return f"waits in torch.distributed{at}" if status.is_in_wait else f"runs on{at}"
    verb = "waits in" if status.is_blocked else "has not finished"
    return f"{verb} {numbered(pending, members_of(status, pending))}{payload(pending)}{at}"


def _without(status: RankStatus) -> str:
    has_sent = status.accounts is not None and (status.accounts.sent or status.accounts.posted)
    return "" if has_sent else " without a collective"


def _end_of(message: PendingOp) -> str:
    """A receive from rank 1 (float32, 2 x 3)."""
    peer = "anyone" if message.peer is None else f"rank {message.peer}"
    what = f"a receive from {peer}" if message.name == "irecv" else f"a send to {peer}"
    return f"{what} ({message.dtype}, {' x '.join(map(str, message.shape)) or 'one number'})"


def location_of(frame: Frame | None) -> str:
    """A line of code as a person says it: "cell, line 8, in step"; a cell's number would change with each run."""
    if frame is None:
        return "an unknown line"
    function = "" if frame.function.startswith("<module") else f", in {frame.function}"
    return f"{file_of(frame)}, line {frame.line_number}{function}"


def died(rank: int, exit_code: int | None, time_s: float, text: str = "", *, lost_with: str = "") -> Failure:
    """The failure of a process that is gone: killed from outside, or left through ``os._exit``. ``text``: its last.

    ``lost_with``: the node that is not heard of any more.
    """
    from course_lib.cluster.base.failure import Cause

    size = re.search(r"op.preamble.length <= op.nbytes. (\d+) vs (\d+)", text)
    if lost_with:
        message = f"the notebook hears nothing any more from {lost_with}"
    elif size:
        message = (
            f"a message of {int(size[1]):,} bytes {NO_ROOM} of {int(size[2]):,} bytes (in a collective: a piece of "
            "the tensors), and gloo then ends the process. Do shape and dtype agree on all ranks that take part?"
        )
    elif exit_code is not None and exit_code < 0:
        name = _signal_name(-exit_code)
        hint = " (often the system, when memory runs out)" if name == "SIGKILL" else ""
        message = f"its process was killed by {name}{hint}"
    else:
        message = f"its process ended with exit code {exit_code}, without a word"
    return Failure(rank, "died", (Cause("died", message, ()),), time_s)


def _signal_name(number: int) -> str:
    """ "SIGKILL"; "SIGRTMIN+3" for a real-time signal, which Python has no name for."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first = getattr(signal, "SIGRTMIN", number)
        return f"SIGRTMIN+{number - first}" if number > first else f"signal {number}"


def _deed(failure: Failure) -> str:
    if failure.kind == "died":
        return f"is gone: {failure.message}."
    if failure.kind == "unsendable":
        return f"finished, but {failure.message}"
    if failure.kind == "interrupted":
        return "was interrupted."
    if failure.type_name == "SystemExit":
        return f"called sys.exit({failure.message}), which ends a rank's function, not the rank:"
    return f"failed: {failure.type_name}: {failure.message}"


def _trace(failure: Failure) -> list[str]:
    lines: list[str] = []
    for link in failure.chain if failure.kind == "raised" else ():
        if link is not failure.chain[-1]:
            lines.append(f"  first {link.type_name}: {link.message}")
        lines += _folded([_step(frame) for frame in link.frames])
    return lines


def _step(frame: Frame) -> tuple[str, ...]:
    source = frame.line or linecache.getline(frame.filename, frame.line_number).strip()
    return (f"  {location_of(frame)}", *([f"      {source}"] if source else []))


def _folded(steps: list[tuple[str, ...]]) -> list[str]:
    """The steps, with a function that calls itself again and again told once."""
    lines: list[str] = []
    start = 0
    while start < len(steps):
        length, times = _repetition(steps, start)
        for step in steps[start : start + length]:
            lines += step
        if times > 1:
            what = "this line" if length == 1 else f"these {length} lines"
            lines.append(f"  ... and {what} {times - 1:,} more time{'s' * (times > 2)}")
        start += length * times
    return lines


def _repetition(steps: list[tuple[str, ...]], start: int) -> tuple[int, int]:
    """How long the pattern is that begins here, and how often it comes; (1, 1) for none worth telling."""
    for length in (1, 2, 3, 4):
        pattern, times = steps[start : start + length], 1
        while steps[start + times * length : start + (times + 1) * length] == pattern:
            times += 1
        if times > 2:
            return length, times
    return 1, 1


def _advice(failure: Failure) -> str:
    if "initialize the default process group twice" in failure.message:
        return (
            "The cluster has made the process group already. To make it yourself, use Cluster(n, process_group=False)."
        )
    if failure.is_echo:
        return "Each failure reported here follows from a closed connection; the first cause did not report itself."
    return ""


def _alike(said: Mapping[int, str], nodes: Mapping[int, str] = _ALL_HERE) -> list[str]:
    """A line per rank; one line for all the echoes of one cause."""
    echoes: dict[str, list[int]] = {}
    for rank in sorted(said):
        echoes.setdefault(said[rank] if "(an echo of" in said[rank] else f"{rank}", []).append(rank)
    return [
        f"  {rank_list(who)}{_on(who[0], nodes)}  {said[who[0]]}"
        if len(who) == 1
        else f"  {rank_list(who)}  {said[who[0]].replace('heard its', 'heard their')}"
        for who in echoes.values()
    ]


def _other(state: Failure | RankStatus, first: Failure) -> str:
    if isinstance(state, RankStatus):
        return status_line(state)
    where = f" at {location_of(state.where)}" if state.where else ""
    if state.is_echo:
        return f"heard its connection close{where} (an echo of rank {first.rank})"
    if state.kind == "interrupted":
        return f"was interrupted{where}"
    deed = _deed(state)
    short = deed if len(deed) <= _LONGEST_DEED else f"{deed[:_LONGEST_DEED]} ..."
    return f"also {short}{where}"
