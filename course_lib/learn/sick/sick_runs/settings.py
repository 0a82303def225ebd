"""What can be changed about a run: six settings, their legal values, and a sentence for any other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isnan
from typing import Any

from course_lib.layouts.mesh import Mesh

__all__ = ["MEANING", "Settings", "changed", "legal_values"]

MEANING = {
    "mesh": "the axes, the outermost first; ranks 0 and 1 are on one node, 2 and 3 on the other",
    "micro_batches": "in how many pieces a replica takes its rows",
    "recompute": "whether a layer's forward is done again in backward, and its activations are not kept",
    "readers": "how many threads of a rank read batches ahead; 0: the rank reads when it needs one",
    "buckets": "in how many pieces gradients are averaged; each piece is sent when its layers are done",
    "spare_for": "the rank whose device is replaced by the spare one",
}


@dataclass(frozen=True)
class Settings:
    """How a run is set; ``MEANING`` has a line for each."""

    mesh: str
    micro_batches: int = 1
    recompute: str = "none"
    readers: int = 2
    buckets: int = 4
    spare_for: int | None = None


def legal_values(settings: Settings, num_rows: int) -> dict[str, tuple[Any, ...]]:
    """For each setting what it may be, in a run of these settings with ``num_rows`` rows in a step."""
    mesh = Mesh.parse(settings.mesh)
    own_rows = num_rows // mesh.size("dp_replicate")
    return {
        "mesh": tuple(sorted(str(order) for order in mesh.orders())),
        "micro_batches": tuple(number for number in (1, 2, 4, 8, 16) if own_rows % number == 0),
        "recompute": ("none", "full"),
        "readers": (0, 1, 2, 3, 4),
        "buckets": (1, 2, 4, 8),
        "spare_for": (None, *range(mesh.num_ranks)),
    }


def changed(settings: Settings, num_rows: int, **one: Any) -> Settings:
    """The settings with one of them changed. ``ValueError`` for two, for an unknown one, and for an illegal value."""
    legal = legal_values(settings, num_rows)
    if len(one) != 1:
        given = ", ".join(one) or "none"
        raise ValueError(f"{len(one)} settings were given ({given}); change exactly one, such as buckets=4")
    name, value = next(iter(one.items()))
    if name not in legal:
        near = get_close_matches(name, legal, 1) or ["micro_batches"]
        raise ValueError(f"there is no setting {name!r}; there are {', '.join(legal)}. The nearest is {near[0]}.")
    if isinstance(value, str):
        value = " ".join(value.split())
    if not any(value == each and type(value) is type(each) for each in legal[name]):
        values = ", ".join(map(repr, legal[name]))
        raise ValueError(
            f"{name}={value!r} does not work here: it may be {values}. The nearest is {_nearest(value, legal[name])!r}."
        )
    if value == getattr(settings, name):
        raise ValueError(f"{name}={value!r} is what the run has already; give it another value")
    return replace(settings, **{name: value})


def _nearest(value: Any, legal: tuple[Any, ...]) -> Any:
    """Of the legal values: among numbers by distance, else by spelling."""
    numbers = [each for each in legal if isinstance(each, int)]
    if numbers and isinstance(value, int | float) and not isnan(value):
        return min(numbers, key=lambda number: abs(number - value))
    texts = {str(each): each for each in legal}
    return texts[(get_close_matches(str(value), texts, 1, cutoff=0) or list(texts))[0]]
