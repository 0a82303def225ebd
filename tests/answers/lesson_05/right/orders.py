"""Right answers to 05.order in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["ALL", "SAME"]


def by_looking_ahead(num_units: int, most_whole: int) -> list[str]:
    """Holds the next distinct units of the list of uses."""
    uses = [f"F{i}" for i in range(num_units)] + [f"B{i}" for i in range(num_units)][::-1]
    order: list[str] = []
    held: set[str] = set()
    for place, use in enumerate(uses):
        wanted = list(dict.fromkeys(word[1:] for word in uses[place:]))[:most_whole]
        order += [f"R{unit}" for unit in sorted(held - set(wanted))]
        order += [f"G{unit}" for unit in wanted if unit not in held]
        order += [use]
        held = set(wanted)
    return order + [f"R{unit}" for unit in held]


def with_a_counter(num_units: int, most_whole: int) -> str:
    """A text; what is free is counted."""
    words, free, following = [], most_whole, 0
    for unit in range(num_units):
        while free and following < num_units:
            words.append(f"G{following}")
            following, free = following + 1, free - 1
        words.append(f"F{unit}")
        if following < num_units:
            words.append(f"R{unit}")
            free += 1
    lowest = max(0, num_units - most_whole)
    for unit in range(num_units - 1, -1, -1):
        words += [f"B{unit}", f"R{unit}"]
        if lowest:
            lowest -= 1
            words.append(f"G{lowest}")
    return " ".join(words)


def as_generator(num_units: int, most_whole: int) -> Iterator[str]:
    """Gathers late in the list: a word before the use that follows."""
    first = min(most_whole, num_units)
    yield from (f"G{unit}" for unit in range(first))
    for unit in range(num_units):
        yield f"F{unit}"
        if unit < num_units - first:
            yield f"R{unit}"
            yield f"G{unit + first}"
    for unit in reversed(range(num_units)):
        yield f"B{unit}"
        yield f"R{unit}"
        if unit >= first:
            yield f"G{unit - first}"


def only_one_ahead(num_units: int, most_whole: int) -> list[str]:
    """Keeps at the turn what may stay, but begins no more than one all-gather ahead: no step is longer for it."""
    room = min(most_whole, num_units)
    ahead = min(room, 2)
    order = [f"G{unit}" for unit in range(ahead)]
    for unit in range(num_units):
        order.append(f"F{unit}")
        order += [f"R{unit}"] * (unit < num_units - room)
        order += [f"G{unit + ahead}"] * (unit + ahead < num_units)
    for unit in reversed(range(num_units)):
        order += [f"B{unit}", f"R{unit}"]
        order += [f"G{unit - room}"] * (unit >= room)
    return order


ALL = (by_looking_ahead, with_a_counter, as_generator, only_one_ahead)
_OWN_LIST = "The list is the function's own: nobody else sees whether it grows or is made anew."
SAME: dict[str, str] = {
    "1: `min(most_whole, num_units)` -> `min(num_units, most_whole)`": (
        "The smaller of two numbers is the same in either order."
    ),
    "5: `order += [f'R{unit}', f'G{unit + most_whole}']` -> a new name for a new value": _OWN_LIST,
    "7: `order += [f'B{unit}', f'R{unit}']` -> a new name for a new value": _OWN_LIST,
}
