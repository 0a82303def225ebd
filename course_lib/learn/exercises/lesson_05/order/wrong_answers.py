"""Usual wrong answers to 05.order, each with what it mixes up."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]


def _one_by_one_twice(num_units: int, most_whole: int) -> list[str]:
    """Each unit is gathered when it is due, and let go at once."""
    uses = [("F", unit) for unit in range(num_units)] + [("B", unit) for unit in reversed(range(num_units))]
    return [word for kind, unit in uses for word in (f"G{unit}", f"{kind}{unit}", f"R{unit}")]


def _one_by_one(num_units: int, most_whole: int) -> list[str]:
    """Each unit is gathered when it is due; the last one stays."""
    order = []
    for unit in range(num_units):
        order += [f"G{unit}", f"F{unit}", f"R{unit}"]
    order.pop()
    for unit in reversed(range(num_units)):
        order += [f"G{unit}"] * (unit < num_units - 1) + [f"B{unit}", f"R{unit}"]
    return order


def _pass(kind: str, units: list[int], most_whole: int) -> list[str]:
    """Prefetched, and every unit is let go after its use."""
    order = [f"G{unit}" for unit in units[:most_whole]]
    for place, unit in enumerate(units):
        order += [f"{kind}{unit}", f"R{unit}"]
        order += [f"G{following}" for following in units[place + most_whole : place + most_whole + 1]]
    return order


def _lets_all_go(num_units: int, most_whole: int) -> list[str]:
    units = list(range(num_units))
    return _pass("F", units, most_whole) + _pass("B", units[::-1], most_whole)


def _order(
    num_units: int,
    most_whole: int,
    *,
    capped: bool = True,
    early: bool = False,
    ends: bool = True,
    floor: bool = True,
    from_zero: bool = False,
) -> list[str]:
    """The right order, with one thing wrong."""
    order = [f"G{unit}" for unit in range(min(most_whole, num_units) if capped else most_whole)]
    for unit in range(num_units):
        order.append(f"F{unit}")
        if unit + most_whole < num_units:
            swap = [f"R{unit}", f"G{unit + most_whole}"]
            order += swap[::-1] if early else swap
    for place, unit in enumerate(reversed(range(num_units))):
        order += [f"B{unit}", *([f"R{unit}"] if ends or unit >= most_whole else [])]
        following = place if from_zero else unit - most_whole
        if unit >= most_whole or not floor:
            order.append(f"G{following}")
    return order


def _gathers_more_first(num_units: int, most_whole: int) -> list[str]:
    return _order(num_units, most_whole, early=True)


def _gathers_when_due_in_backward(num_units: int, most_whole: int) -> list[str]:
    order = _order(num_units, most_whole)
    turn = order.index(f"B{num_units - 1}")
    again = [word.replace("G", "B") for word in order[turn:] if word.startswith("G")]
    backward = [word for word in order[turn:] if not word.startswith("G")]
    return order[:turn] + [w for word in backward for w in ([f"G{word[1:]}"] * (word in again) + [word])]


def _all_at_once(num_units: int, most_whole: int) -> list[str]:
    units = range(num_units)
    order = [f"G{unit}" for unit in units] + [f"F{unit}" for unit in units]
    return order + [word for unit in reversed(units) for word in (f"B{unit}", f"R{unit}")]


def _stays_whole(num_units: int, most_whole: int) -> list[str]:
    return _order(num_units, most_whole, ends=False)


def _backward_from_zero(num_units: int, most_whole: int) -> list[str]:
    return _order(num_units, most_whole, from_zero=True)


def _more_than_there_are(num_units: int, most_whole: int) -> list[str]:
    return _order(num_units, most_whole, capped=False)


def _below_zero(num_units: int, most_whole: int) -> list[str]:
    return _order(num_units, most_whole, floor=False)


def _forgets_to_gather_again(num_units: int, most_whole: int) -> list[str]:
    order = _order(num_units, most_whole)
    turn = order.index(f"B{num_units - 1}")
    return order[:turn] + [word for word in order[turn:] if not word.startswith("G")]


MISTAKES = (
    Mistake(
        "lets-all-go",
        "After its forward every unit is let go, and gathered again for backward. But the last units of forward are "
        "the first of backward: as many of them as may be whole can stay.",
        _lets_all_go,
    ),
    Mistake(
        "one-by-one",
        "Each all-gather begins when its unit is due, and the rank waits for all of it. While one unit computes, the "
        "next ones can be on their way: as many as there is room for.",
        _one_by_one,
    ),
    Mistake(
        "one-by-one-twice",
        "Each all-gather begins when its unit is due, and the rank waits for all of it. And at the turn a unit is let "
        "go that is used again at once. While one unit computes, the next ones can be on their way: as many as there "
        "is room for.",
        _one_by_one_twice,
    ),
    Mistake(
        "when-due-in-backward",
        "Forward is right. In backward each all-gather begins when its unit is due, and the rank waits for all of it. "
        "Every unit that is let go makes room: begin the next all-gather there.",
        _gathers_when_due_in_backward,
    ),
    Mistake(
        "gathers-first",
        "You begin the next all-gather before the unit that is done has been let go. For a moment one unit more than "
        "allowed is whole or on its way. First R, then G.",
        _gathers_more_first,
    ),
    Mistake(
        "all-at-once",
        "All units are gathered at the start and stay. That is the memory of DDP's weights; here only some may be "
        "whole at a time.",
        _all_at_once,
    ),
    Mistake(
        "stays-whole",
        "Backward lets a unit go only to make room for the next one. So the first units of the model are still whole "
        "when the step is over. After its backward no unit is needed any more.",
        _stays_whole,
    ),
    Mistake(
        "backward-from-zero",
        "In backward you gather the units from 0 up. Backward uses them from the last one down, and so they have to be "
        "gathered in that order.",
        _backward_from_zero,
    ),
    Mistake(
        "not-again",
        "Backward needs the weights of every unit, and some have been let go in forward. Gather them again as room "
        "comes free.",
        _forgets_to_gather_again,
    ),
    Mistake(
        "more-than-there-are",
        "Right where there are more units than may be whole. With fewer, you gather units that do not exist: begin "
        "with `min(most_whole, num_units)` of them.",
        _more_than_there_are,
    ),
    Mistake(
        "below-zero",
        "Right, until backward comes near unit 0: then there is no further unit to gather, and you ask for one below "
        "0.",
        _below_zero,
    ),
)
