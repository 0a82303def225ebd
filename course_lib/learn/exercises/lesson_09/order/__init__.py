"""09.order: the order of a mesh's axes that spares the slow links between nodes.

What an order costs is defined in the lesson: each axis takes one of its two times, by whether a group of it has ranks
on two nodes. An answer is judged by that cost, so that of several best orders each is right.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_09.order import wrong_answers
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["ORDER", "fault_in", "messages_time_s"]

Seconds = dict[str, tuple[float, float]]
_JOBS: tuple[tuple[str, dict[str, int], int, Seconds], ...] = (
    (
        "a usual job on two nodes of four",
        {"tp": 2, "pp": 2, "dp_shard": 2},
        4,
        {"pp": (0.01, 0.1), "dp_shard": (0.1, 1.0), "tp": (0.5, 5.0)},
    ),
    (
        "a small batch, whose gradients are the most",
        {"tp": 2, "dp_replicate": 2},
        2,
        {"tp": (0.02, 0.2), "dp_replicate": (0.1, 1.0)},
    ),
    (
        "one axis larger than a node",
        {"dp_shard": 2, "tp": 4, "pp": 2},
        2,
        {"dp_shard": (0.2, 2.0), "tp": (1.0, 9.0), "pp": (0.1, 0.9)},
    ),
    (
        "two small axes that fit together where a large one fits alone",
        {"dp_shard": 4, "tp": 2, "pp": 2},
        4,
        {"dp_shard": (0.1, 1.0), "tp": (0.1, 0.8), "pp": (0.1, 0.7)},
    ),
    (
        "three ranks along an axis, four on a node",
        {"tp": 2, "dp_shard": 3, "pp": 2},
        4,
        {"tp": (0.2, 1.0), "dp_shard": (0.1, 3.0), "pp": (0.1, 0.5)},
    ),
    (
        "three ranks beside four, where some groups leave their node",
        {"pp": 4, "tp": 3},
        4,
        {"tp": (0.4, 1.0), "pp": (0.1, 0.5)},
    ),
    (
        "four ranks beside three, where of three groups the middle one alone leaves its node",
        {"tp": 4, "pp": 3},
        6,
        {"tp": (0.4, 2.0), "pp": (0.1, 0.5)},
    ),
    (
        "a long wait that is the same on both links",
        {"dp_replicate": 2, "tp": 2, "pp": 2},
        2,
        {"dp_replicate": (3.0, 3.5), "tp": (0.1, 2.0), "pp": (0.01, 0.05)},
    ),
    (
        "a slow start within and between",
        {"pp": 2, "dp_shard": 2, "tp": 2},
        2,
        {"pp": (0.0001, 0.1), "dp_shard": (0.9, 1.5), "tp": (0.5, 2.0)},
    ),
    (
        "nodes of six",
        {"dp_replicate": 2, "dp_shard": 3, "tp": 2, "pp": 2},
        6,
        {"dp_replicate": (0.1, 0.4), "dp_shard": (0.3, 1.1), "tp": (0.2, 1.2), "pp": (0.1, 0.3)},
    ),
    (
        "four axes of two ranks, two on a node",
        {"tp": 2, "pp": 2, "dp_replicate": 2, "dp_shard": 2},
        2,
        {"tp": (0.5, 5.0), "pp": (0.01, 0.1), "dp_replicate": (0.1, 0.6), "dp_shard": (0.1, 1.0)},
    ),
    (
        "the first job again, with other waits, of microseconds",
        {"tp": 2, "pp": 2, "dp_shard": 2},
        4,
        {"pp": (1e-6, 5e-5), "dp_shard": (1e-6, 2e-6), "tp": (1e-6, 9e-5)},
    ),
    ("one node", {"pp": 2, "tp": 4}, 8, {"pp": (0.1, 0.2), "tp": (1.0, 9.0)}),
    ("one rank on a node", {"pp": 2, "tp": 2}, 1, {"pp": (0.1, 0.2), "tp": (1.0, 9.0)}),
    ("a single axis", {"dp_shard": 4}, 2, {"dp_shard": (0.1, 1.0)}),
)


def messages_time_s(
    order: Sequence[str],
    sizes: Mapping[str, int],
    ranks_per_node: int,
    seconds: Mapping[str, Sequence[float]],
) -> float:
    """What the messages of all axes take, one axis after the other: each by the slowest of its groups."""
    mesh = Mesh(tuple(order), tuple(sizes[axis] for axis in order), ranks_per_node)
    return sum(seconds[axis][0 if mesh.stays_within_a_node(axis) else 1] for axis in order)


def fault_in(order: Any, sizes: Mapping[str, int], ranks_per_node: int, seconds: Seconds) -> str:
    """What is wrong with an order: it names other axes, or another order is faster. Empty where nothing is."""
    if not isinstance(order, list) or not all(isinstance(axis, str) for axis in order):
        return f"expected a tuple of axes, such as {tuple(sizes)}, got {short(order)}"
    for axis in order:
        if axis not in sizes:
            return f"{axis!r} is no axis of this mesh, whose axes are {', '.join(sizes)}"
    if len(set(order)) < len(order) or len(order) < len(sizes):
        return f"{tuple(order)} does not name each of the axes {', '.join(sizes)} once"
    found_s = messages_time_s(order, sizes, ranks_per_node, seconds)
    best_s = min(messages_time_s(one, sizes, ranks_per_node, seconds) for one in itertools.permutations(sizes))
    if found_s > best_s + 1e-9:
        return (
            f"of {_words(sizes, ranks_per_node)} the order {tuple(order)} takes {found_s:g} s with "
            f"seconds={seconds}, and {best_s:g} s would do"
        )
    return ""


def _words(sizes: Mapping[str, int], ranks_per_node: int) -> str:
    return f"{dict(sizes)} on nodes of {ranks_per_node}"


# -- the judge --------------------------------------------------------------------------------------------------


def _right(sizes: dict[str, int], ranks_per_node: int, seconds: Seconds) -> dict[str, Any]:
    return {"sizes": sizes, "ranks_per_node": ranks_per_node, "seconds": seconds}


def _call(answer: Any, sizes: dict[str, int], ranks_per_node: int, seconds: Seconds) -> Any:
    """The axes as a list, whether they came as a tuple, a list, an array, the sizes in order, or a generator."""
    before = copy.deepcopy({"sizes": sizes, "seconds": seconds})
    order = answer(sizes, ranks_per_node, seconds)
    if hasattr(order, "tolist"):
        order = order.tolist()
    is_many = isinstance(order, tuple | Mapping | Iterator) or type(order).__name__ in (
        "dict_keys",
        "odict_keys",
    )
    order = list(order) if is_many and isinstance(order, Iterable) else order
    after = {"sizes": sizes, "seconds": seconds}
    return _Changed([name for name in before if before[name] != after[name]]) if before != after else order


@dataclass(frozen=True)
class _Changed:
    """The answer has changed arguments of these names."""

    names: list[str]


def _compare(expected: Any, got: Any) -> str:
    if not isinstance(expected, dict):
        return "" if expected == got else "the orders differ"  # two wrong answers, side by side
    if isinstance(got, _Changed):
        return f"your function changed {' and '.join(f'`{name}`' for name in got.names)}, which others read as well"
    if got is None:
        return "nothing came back (`None`); a function gives its result with `return`"
    return fault_in(got, **expected)


ORDER = Exercise(
    name="09.order",
    may_yield=True,
    title="The order of the axes",
    judge=by_cases_apart(
        [Case(label, (sizes, per_node, seconds), _right) for label, sizes, per_node, seconds in _JOBS],
        call=_call,
        compare=_compare,
    ),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "How many orders are there? They are few enough to try them all. You need the time of *one* order, and for "
        "that you need to know which of its axes leave a node.",
        "A mesh in that order knows its groups: `Mesh.of(**{axis: sizes[axis] for axis in order}).groups(axis)`. A "
        "group leaves its node when `rank // ranks_per_node` is not the same for all its ranks, and an axis leaves "
        "when *any* of its groups does.",
        "`leaves = any(len({rank // ranks_per_node for rank in group}) > 1 for group in mesh.groups(axis))`, the time "
        "of an order is the sum of `seconds[axis][leaves]`, and "
        "`min(itertools.permutations(sizes), key=...)` finds the order.",
    ),
    forbidden=(
        "course_lib.layouts.mesh.Mesh.stays_within_a_node",
        "course_lib.layouts.mesh.Mesh.orders",
    ),
    passed="No order of the axes takes less time, whatever the axes' names, sizes and times.",
)
