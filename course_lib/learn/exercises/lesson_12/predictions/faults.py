"""Part b of lesson 12: ranks and nodes that die, join, lag and hang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.sick.meetings import Meeting

__all__ = ["FAULTS", "missing_in"]

_RANKS = tuple(f"rank {rank}" for rank in range(4))


def _dealt(twice: int, drawn: int, before: int, after: int) -> Explanation:
    """Samples seen twice; ``drawn`` samples had been seen by ``before`` ranks when ``after`` ranks went on."""
    of_a_rank = drawn // before
    return Explanation(
        measured=twice,
        model=max(0, drawn - of_a_rank * after),
        because=f"{after} ranks leave out {of_a_rank} samples each, {of_a_rank * after} in all, and {drawn} had been "
        "seen. A number of a rank's samples means something only with the number of ranks that counted it. With more "
        "ranks than before, too many would be left out: those are lost, and no line of a log says so.",
        misreadings={
            0: "That is right for as many ranks as before. Here there are fewer, and each leaves out as many as one "
            "of four.",
            drawn: "The first program, without a place, repeats all of them. This one keeps a place, in a wrong unit.",
            of_a_rank: "That is how many each rank leaves out.",
            of_a_rank * after: "That many are left out, and are not seen twice. The rest are seen twice.",
        },
        apart="The samples that four ranks had seen were not those that were expected; run the cells again, in order.",
    )


def _new(before: Sequence[int], after: Sequence[int]) -> int:
    return len(set(after) - set(before))


def _restarted(before: Sequence[int], after: Sequence[int]) -> Explanation:
    """The processes of the job's ranks before and after."""
    return Explanation(
        measured=_new(before, after),
        model=len(before),
        because="Agents start the whole group of ranks again, on all nodes. The surviving ranks were in a collective "
        "that cannot complete, because a rank of its group is gone. A process group cannot replace a rank. So the "
        "healthy ranks end too, by an error or by their agent, and lose what they held in memory. (torchft, in part "
        "4, avoids that.)",
        misreadings={
            1: "It is not enough to replace the rank that died: the others are in groups with it, and wait in its "
            "collective.",
            2: "The agent of that node does start its two ranks again. The other agent does the same with its own two.",
            3: "Those are the survivors. The killed one begins anew as well.",
            0: "With `--max-restarts 0`, the default, the job would be over. Here restarts are allowed.",
        },
        apart="The job was started more often than the cells asked; the events say when. Run the cells of the job "
        "again.",
    )


_BITS, _ROUNDING, _OTHER = "equal to the last bit", "equal up to rounding", "it is another model"


def _same(difference: float) -> Explanation:
    """The largest difference between weights of the disturbed job and of one that nobody disturbed."""
    return Explanation(
        measured=_BITS if difference == 0 else _ROUNDING if difference < 1e-3 else _OTHER,
        model=_ROUNDING,
        because=f"The largest difference of a weight is {difference:.1e}. Every step saw the same global batch and "
        "the same noise, whichever rank computed it. Only the order differs in which parts of a sum are added up: "
        "two parts of "
        "six samples, or four of three.",
        misreadings={
            _OTHER: "Ranks changed, and batches did not: the place and the random numbers were in the checkpoint. "
            "They belong to the job and not to a rank.",
            _BITS: "The numbers are the same, and two ranks add them up in another order than four do.",
            _ROUNDING: "Here the weights show no rounding; look at the difference.",
        },
        apart="If the weights are equal, the sums happened to round alike. If they are far apart, something was lost.",
    )


def _slow(waits_ms: Sequence[float], computes_ms: Sequence[float]) -> Explanation:
    """By rank: milliseconds in the all-reduce, and before it."""
    slowest = max(range(len(computes_ms)), key=computes_ms.__getitem__)
    least = min(range(len(waits_ms)), key=waits_ms.__getitem__)
    others = sorted(wait for rank, wait in enumerate(waits_ms) if rank != slowest)
    blurred = "" if least == slowest else " (In this run the waits do not show it: the machine was busy.)"
    return Explanation(
        measured=f"rank {slowest}",
        label="its own time says",
        because=f"Rank {slowest} comes last, so the others wait for it. It spends {waits_ms[slowest]:.0f} ms in the "
        f"all-reduce, and the others {others[len(others) // 2]:.0f} ms. Before that it computes for "
        f"{computes_ms[slowest]:.0f} ms. "
        f"Time in a collective is mostly waiting for others; all ranks wait for the rank that waits least.{blurred}",
        misreadings=dict.fromkeys(
            (name for rank, name in enumerate(_RANKS) if rank != slowest),
            "It spends much time in the all-reduce because it comes early. A slow link would make it long on all "
            "ranks.",
        ),
    )


def missing_in(dumps: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """By group and collective: the members that have not entered the newest one that another member waits in."""
    waiting: dict[str, tuple[int, set[int], set[int]]] = {}
    for rank, dump in enumerate(dumps):
        for entry in dump["entries"]:
            if not entry["retired"]:
                name, words = entry["process_group"][:2]
                members = {int(word) for word in dump["pg_config"][name]["ranks"].strip("[]").split(",")}
                number = entry["collective_seq_id"]
                entered = waiting.get(words, (number, members, set()))[2]
                waiting[words] = (number, members, entered | {rank})
    return {
        f"all-reduce {number} {words}": sorted(members - entered)
        for words, (number, members, entered) in sorted(waiting.items())
    }


def _missing(dumps: Sequence[Mapping[str, Any]]) -> Explanation:
    """``dumps``: of every rank what its flight recorder holds."""
    lists = missing_in(dumps)
    waits = {rank for rank, dump in enumerate(dumps) if any(not entry["retired"] for entry in dump["entries"])}
    guilty = [rank for rank in range(len(dumps)) if rank not in waits]
    told = "; ".join(
        f"{what}: rank {' and '.join(map(str, ranks))} has not come" for what, ranks in lists.items() if ranks
    )
    blurred = "" if len(guilty) == 1 else " (In this run not exactly one rank was free: the machine was busy.)"
    measured = " and ".join(f"rank {rank}" for rank in guilty) or "none"
    return Explanation(
        measured=measured,
        label="the recorders say",
        because=f"{told[:1].upper()}{told[1:]}. Of those who have not come, only {measured} waits nowhere. A wait in "
        f"one group holds up the next group, and so on over both nodes, until all ranks wait.{blurred}",
        misreadings=dict.fromkeys(
            (name for name in _RANKS if name != measured),
            "It waits itself, in a collective that it has entered. Ask for which rank it waits.",
        ),
    )


_ABSENT = "a node is not there"
_ID = "one agent has another rdzv_id"
_ENDPOINT = "one agent goes to another endpoint"
_NUMBER = "the agents expect different numbers of nodes"
_TWICE = "two agents have the same node rank"
_FIREWALL = "a firewall holds up the messages"
_CAUSES = (_ABSENT, _ID, _ENDPOINT, _NUMBER, _TWICE, _FIREWALL)


def _never(seen: Meeting) -> Explanation:
    """What the agents said, and what the store held."""
    lists = list(seen.lists.values())
    together = max((len(held["participants"]) for held in lists), default=0)
    return Explanation(
        measured=_NUMBER,
        label="set",
        because=f"There is {len(lists)} list, and {together} nodes are on it: they found the same store and the same "
        "id. Still the rendezvous is not complete, and no agent had an error other than a time-out. Only the number "
        "of nodes is left. "
        "One agent has --nnodes 2 and came first, when it was alone. The other has 3, sees two agents, and waits.",
        misreadings={
            _ABSENT: f"{together} of two nodes are on the list.",
            _ID: "Then there would be two lists, each with one node on it.",
            _ENDPOINT: "Then there would be two stores, or one of the agents would have found none.",
            _TWICE: "A c10d rendezvous gives out ranks itself; node ranks matter for the static one.",
            _FIREWALL: "Both have written into the same store, so messages arrive.",
        },
    )


FAULTS: tuple[Asked, ...] = (
    Asked(name="12.dealt", question="Samples seen twice, at the end of the epoch?", high=96, tell=_dealt),
    Asked(name="12.restarted", question="How many of the four processes are new?", high=4, tell=_restarted),
    Asked(name="12.same", question="How do the weights compare?", choices=(_BITS, _ROUNDING, _OTHER), tell=_same),
    Asked(name="12.slow", question="Which device?", choices=_RANKS, tell=_slow),
    Asked(name="12.missing", question="Which rank is missing?", choices=_RANKS, tell=_missing),
    Asked(name="12.never", question="Why does this rendezvous not complete?", choices=_CAUSES, tell=_never),
)
