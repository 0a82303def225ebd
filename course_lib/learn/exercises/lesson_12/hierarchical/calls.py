"""12.hierarchical: what wrong answers show by the calls that they made, among whom, and with how many bytes."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_12.hierarchical.cases import EMPTY, FEW, Said, tensor_of
from course_lib.learn.exercises.lesson_12.hierarchical.mistakes import HierarchicalTry, tries
from course_lib.learn.judging.report import only_wrong

__all__ = ["calls", "gathers_to_add", "handed_in", "in_a_wider_dtype", "leaders"]


def calls(operation: str, among: str) -> Callable[[Evidence], bool]:
    """Whether every rank of two nodes made this call among these."""

    def recognise(evidence: Evidence) -> bool:
        found = [one for one in tries(evidence) if 1 < one.per_node < one.world_size]
        return bool(found) and all(
            any((said.operation, said.among) == (operation, among) for said in one.calls) for one in found
        )

    return recognise


def handed_in(operation: str, among: str, *, is_a_part: bool) -> Callable[[Evidence], bool]:
    """Whether such calls had a part of the tensor, or all of it, on two nodes."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            (one, said)
            for one in tries(evidence)
            if 1 < one.per_node < one.world_size and one.kind not in (FEW, EMPTY)
            for said in one.calls
            if (said.operation, said.among) == (operation, among)
        ]
        return bool(found) and all((said.size_bytes <= one.part_bytes) == is_a_part for one, said in found)

    return recognise


def gathers_to_add(evidence: Evidence) -> bool:
    """Whether every part goes to every node, and nothing is added up on the way between."""
    return (
        only_wrong("between")(evidence)
        and calls("all_gather", "between")(evidence)
        and handed_in("all_gather", "between", is_a_part=True)(evidence)
        and not any(said.operation != "all_gather" and said.among == "between" for said in _calls_of(evidence))
    )


def in_a_wider_dtype(evidence: Evidence) -> bool:
    """Whether too much is sent only where numbers are sent in a wider dtype than the tensor's."""
    wrong = [one for one in tries(evidence) if not one.outcome.right]
    return bool(wrong) and only_wrong("between", "inside")(evidence) and all(map(_widened, wrong))


def _widened(one: HierarchicalTry) -> bool:
    own = tensor_of(one.kind, one.rank).element_size()
    return bool(one.calls) and all(said.item_bytes > own for said in one.calls)


def _calls_of(evidence: Evidence) -> list[Said]:
    return [said for one in tries(evidence) for said in one.calls]


def leaders(evidence: Evidence) -> bool:
    """Whether of each node's ranks one alone made calls between nodes."""
    found = [one for one in tries(evidence) if 1 < one.per_node < one.world_size]
    speaks = {one.rank: any(said.among != "inside" for said in one.calls) for one in found}
    by_node: dict[tuple[int, ...], list[bool]] = {}
    for one in found:
        if one.world_size == found[0].world_size:
            by_node[tuple(one.node)] = [speaks.get(rank, False) for rank in one.node]
    return bool(by_node) and all(sum(spoke) == 1 for spoke in by_node.values())
