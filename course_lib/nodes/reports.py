"""The story of a job that failed or had no end: one sentence for the cause, then what else was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.nodes import failures
from course_lib.nodes.events import rank_words
from course_lib.nodes.failures import ProgramFault
from course_lib.nodes.outcome import JobOutcome

__all__ = ["failed", "not_ended"]

_TAIL_LINES = 8


def failed(outcome: JobOutcome, *, killed: Sequence[int], codes: Mapping[int, int], host: int) -> str:
    """Why a job failed. ``killed``: nodes that were killed; ``codes``: exit codes of agents, by node."""
    lines = []
    if host in killed:
        lines.append(
            f"node {host} was killed, and its agent held the store in which agents meet. Without the store no other "
            'node can go on. With rendezvous="apart" the store outlives any node.'
        )
    elif killed:
        lines.append(f"{_of_nodes(killed)} had been killed.")
    found = outcome.faults
    cause = failures.first(found)
    is_reported = bool(killed) and (cause is None or cause.is_echo)  # the kill is the cause
    if cause is not None and not is_reported:
        lines.append(f"{cause}.")
        lines += [f"Besides, {fault}." for fault in found if not fault.is_echo and fault != cause][:3]
    lines += _echoes(found, None if is_reported else cause)
    unmet = failures.why_no_rendezvous({node: outcome.agent_text(node) for node in codes}, codes)
    if unmet is not None:
        nodes = sorted({one.node for one in outcome.began})
        came = f"ranks of {_of_nodes(nodes)} had begun before" if nodes else "no rank began"
        lines.append(f"The nodes did not meet{' again' if nodes else ''}: {unmet}; {came}.")
    if cause is not None and not is_reported and " raised " in str(cause):
        lines += _tail(f"rank {cause.rank}", outcome.rank_text(cause.rank))
    if cause is None and unmet is None:
        node = next((node for node, code in codes.items() if code and node not in killed), None)
        if node is not None:
            lines.append(f"the agent of node {node} left with exit code {codes[node]}.")
            lines += _tail(f"the agent of node {node}", outcome.agent_text(node))
    lines = lines or ["the job was stopped before its end."]
    return "The job failed: " + "\n".join(lines)


def not_ended(outcome: JobOutcome, timeout_s: float, *, num_ranks: int) -> str:
    """What was seen of a job that still ran at its limit."""
    lines = [f"The job still ran after {timeout_s:g} s, and was ended with all its processes."]
    rounds = outcome.rounds
    if not rounds:
        lines.append("No rank had begun: the agents had not met yet.")
    for one in rounds[-1].ranks if rounds else ():
        where = outcome.location(one)
        lines.append(
            f"rank {one.rank} (node {one.node}) {f'stood in {where}' if where else 'did not say where it stood'}"
        )
    if rounds and not rounds[-1].is_complete:
        lines.append(f"Only {len(rounds[-1].ranks)} of {num_ranks} ranks had begun.")
    lines += [f"Before that: {fault}." for fault in outcome.faults]
    return "\n".join(lines)


def _echoes(found: Sequence[ProgramFault], cause: ProgramFault | None) -> list[str]:
    ranks = sorted({fault.rank for fault in found if fault.is_echo and fault != cause})
    many = len(ranks) > 1
    words = f"Rank{'s' * many} {rank_words(ranks)} lost {'their connections' if many else 'its connection'} by that."
    return [words] if ranks else []


def _of_nodes(nodes: Sequence[int]) -> str:
    return f"node{'s' * (len(nodes) > 1)} {rank_words(nodes)}"


def _tail(who: str, text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    return [f"What {who} wrote last:", *(f"  {line}" for line in lines)] if lines else []
