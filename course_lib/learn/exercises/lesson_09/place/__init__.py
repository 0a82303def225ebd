"""09.place: ranks by place and place by place, and the groups of an axis.

The answer is a class, made of the axes' sizes, with two methods: ``rank_of(place)`` and ``groups_along(axis)``. It is
judged without ranks, on meshes in several orders, with sizes that are not powers of two, and with axes of size 1.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_09.place import wrong_answers
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["PLACE", "fault_in_groups", "fault_in_ranks"]

Sizes = dict[str, int]
_MESHES: tuple[Sizes, ...] = (
    {"pp": 2, "dp_shard": 2, "tp": 2},
    {"pp": 2, "dp_replicate": 3, "tp": 4},
    {"pp": 2, "dp_shard": 2, "tp": 3},  # the names of the first one, with another size
    {"tp": 4, "pp": 3},
    {"dp_shard": 3, "tp": 1, "pp": 2},
    {"tp": 2, "dp_shard": 3, "dp_replicate": 2, "pp": 5},
    {"dp_shard": 6},
)
_A_CLASS = "expected the class itself, with its two methods, and got something else"
_CHANGED = "`rank_of` changed the place that it was given, which others read as well"
_RANKS = ""  # in the place of an axis: the ranks of all places are asked for


def fault_in_ranks(sizes: Sizes, got: Any) -> str:
    """What is wrong with the ranks of all places; ``got`` has one for each place, in the right order of ranks."""
    for rank, found in enumerate(got):
        number = _whole(found)
        if number != rank:
            place = Mesh.of(**sizes).coordinates(rank)
            if found is None:
                return f"rank_of({place}) gives nothing back (`None`); a method gives its result with `return`"
            what = f"{short(found)}, which is no whole number" if number is None else f"rank {number}"
            return f"rank_of({place}) gives {what}, and that place is rank {rank}'s"
    return ""


def fault_in_groups(sizes: Sizes, axis: str, got: Any) -> str:
    """What is wrong with the groups along ``axis``; they may come in any order, as may the ranks in them."""
    groups = _groups(got)
    if groups is None:
        return f"expected a list of lists of ranks, such as [[0, 1], [2, 3]], got {short(got)}"
    mesh, seen = Mesh.of(**sizes), dict[int, list[int]]()
    for group in groups:
        for rank in group:
            if rank not in range(mesh.num_ranks):
                return f"the group {group} names rank {rank}, and the ranks are 0 to {mesh.num_ranks - 1}"
            if rank in seen:
                where = f"twice in {group}" if seen[rank] is group else f"in two groups, {seen[rank]} and {group}"
                return f"rank {rank} is {where}"
            seen[rank] = group
        if said := _fault_in_group(mesh, axis, group):
            return said
    missing = [rank for rank in range(mesh.num_ranks) if rank not in seen]
    return f"rank {missing[0]} is in no group" if missing else ""


def _fault_in_group(mesh: Mesh, axis: str, group: list[int]) -> str:
    for rank in group[1:]:
        first, here = mesh.coordinates(group[0]), mesh.coordinates(rank)
        others = [name for name in mesh.axes if name != axis and first[name] != here[name]]
        if others:
            return f"the group {group} has ranks {group[0]} and {rank}, which differ along {' and '.join(others)}"
    if len(group) != mesh.size(axis):
        return f"the group {group} has {len(group)} of the {mesh.size(axis)} ranks that differ along {axis} alone"
    return ""


def _groups(got: Any) -> list[list[int]] | None:
    """Lists of whole numbers, of whatever kinds they came; None where that is not what came."""
    groups = _settled(got)
    if not isinstance(groups, list) or not all(isinstance(one, list) for one in groups):
        return None
    numbers = [[_whole(rank) for rank in one] for one in groups]
    found = [[rank for rank in one if rank is not None] for one in numbers]
    return found if found == numbers else None


def _settled(value: Any) -> Any:
    """Arrays, sets, generators and the like as lists, to any depth; each is read before the next one is asked for."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
        return value
    return [_settled(one) for one in value]


def _whole(value: Any) -> int | None:
    """A whole number of any kind, as an int."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError):
        return None


# -- the judge --------------------------------------------------------------------------------------------------


def _right(sizes: Sizes, axis: str, places: Any) -> dict[str, Any]:
    """What the comparison needs: it looks at the groups themselves, which may come in any order."""
    return {"sizes": sizes, "axis": axis}


def _call(answer: Any, sizes: Sizes, axis: str, places: list[Sizes]) -> Any:
    """The ranks of all places, or the groups of an axis, which a mesh may be asked for more than once."""
    if not isinstance(answer, type):
        return _A_CLASS
    mine = answer(sizes)
    if axis == _RANKS:
        before = [dict(place) for place in places]
        ranks = [mine.rank_of(place) for place in places]
        return ranks if places == before else _CHANGED
    _settled(mine.groups_along(axis))
    return _settled(mine.groups_along(axis))


def _compare(expected: Any, got: Any) -> str:
    if not isinstance(expected, dict):
        return "" if expected == got else "they differ"  # two wrong answers, side by side
    if got is None or (isinstance(got, str) and got in (_A_CLASS, _CHANGED)):
        return got or "nothing came back (`None`); a method gives its result with `return`"
    if expected["axis"] == _RANKS:
        return fault_in_ranks(expected["sizes"], got)
    return fault_in_groups(expected["sizes"], expected["axis"], got)


def _cases() -> list[Case]:
    """Each place is written in another order of axes than the mesh's."""
    cases = []
    for sizes in _MESHES:
        mesh = Mesh.of(**sizes)
        places = [dict(sorted(mesh.coordinates(rank).items())) for rank in range(mesh.num_ranks)]
        cases.append(Case(f"the ranks of all places of {mesh}", (sizes, _RANKS, places), _right))
        cases += [Case(f"the groups along {axis} of {mesh}", (sizes, axis, []), _right) for axis in sizes]
    return cases


PLACE = Exercise(
    name="09.place",
    title="Places and groups",
    judge=by_cases_apart(_cases(), call=_call, compare=_compare),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "A rank is a number, and a place is its digits. In 2 x 3 x 4, one step along the last axis is 1, along the "
        "middle one 4, along the first 12. How would you read a number whose digits each have their own base?",
        "`rank_of`: from the outermost axis on, take what you have times the size of the next axis, plus the place "
        "along it. `groups_along`: one group for every place along the *other* axes (`itertools.product`), and in it "
        "a rank for every place along this one.",
        "`for axis, size in self.sizes.items(): rank = rank * size + place[axis]`. And for each `here` of the product "
        "of the other axes: `[self.rank_of(dict(zip(others, here)) | {axis: number}) for number in "
        "range(self.sizes[axis])]`.",
    ),
    forbidden=(
        "course_lib.layouts.mesh.Mesh.rank_at",
        "course_lib.layouts.mesh.Mesh.coordinates",
        "course_lib.layouts.mesh.Mesh.group",
        "course_lib.layouts.mesh.Mesh.groups",
    ),
    passed="Every place has its rank, and along every axis each rank is in one group, whatever the order and the "
    "sizes. PyTorch's `init_device_mesh` numbers ranks in the same way.",
)
