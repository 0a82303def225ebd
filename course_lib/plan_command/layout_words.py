"""The words of ``--layout``: which layouts are meant, and a sentence where none can be."""

from __future__ import annotations

import re
from typing import Any

from course_lib.base.checks import at_least, known, nearest_divisor
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import RECOMPUTE, Layout
from course_lib.plan.search.search_space import candidates

__all__ = ["asked_candidates", "asked_layout", "asked_words", "check_axes", "is_like"]

# Words of --layout, and what they are called inside.
_ASKED = {
    "tp": "tp", "cp": "cp", "pp": "pp", "dp": "dp", "ep": "ep", "etp": "etp", "mb": "micro_batch", "v": "chunks",
    "zero": "sharding", "shard": "shard_size", "recompute": "recompute",
}  # fmt: skip


def asked_words(text: str | None, option: str = "--layout") -> dict[str, int | str]:
    """Names and sizes of ``--layout``, or of another ``option``, as in "tp=8 mb=1".

    Also as a layout is printed, "tp8 mb1 zero3/8 full".
    """
    found: dict[str, int | str] = {}
    for word in (text or "").lower().replace(",", " ").split():
        if word in RECOMPUTE:
            found["recompute"] = word
            continue
        if word in ("sp", "fsdp"):  # always beside tp; and the other name of zero3
            found |= {"sharding": 3} if word == "fsdp" else {}
            continue
        name, _, size = word.partition("=")
        if not size and (printed := re.fullmatch(r"([a-z]+)(\d+)(?:/(\d+))?", name)) and printed[1] in _ASKED:
            name, size = printed[1], printed[2]
            found |= {"shard_size": int(printed[3])} if printed[3] else {}
        field = _ASKED[known(option, name, _ASKED)]
        if field == "recompute":
            found[field] = known("recompute", size, RECOMPUTE)
        elif not size.isdecimal():
            raise ValueError(f"{option} says {word!r}; a size is a whole number, as in {name}=2.")
        else:
            found[field] = int(size)
    return found


def check_axes(asked: dict[str, int | str], gpus: int, option: str = "--layout") -> None:
    """ValueError for sizes of axes that no layout on so many GPUs has."""
    product = 1
    for name in ("tp", "cp", "pp", "dp"):
        size = asked.get(name, 1)
        assert isinstance(size, int)
        at_least(1, **{name: size})
        product *= size
        if gpus % product:
            near = nearest_divisor(size, gpus * size // product) if gpus * size % product == 0 else 1
            raise ValueError(
                f"{option} has {name}={size}: tp x cp x pp x dp is the number of GPUs, and {product} does not divide "
                f"{gpus}. The nearest {name} that works is {near}."
            )
    if {"tp", "cp", "pp", "dp"} <= asked.keys() and product != gpus:
        raise ValueError(
            f"{option} has {product} GPUs (tp x cp x pp x dp), and there are {gpus}: give --gpus {product}, or leave "
            "dp out."
        )


def asked_layout(asked: dict[str, int | str], gpus: int, offload: bool) -> Layout:
    """The layout of the words alone; data ranks are all that the other axes leave."""
    sizes: dict[str, Any] = {"dp": 1, **asked}
    others = sizes.get("tp", 1) * sizes.get("cp", 1) * sizes.get("pp", 1)
    sizes["dp"] = asked.get("dp", max(1, gpus // others))
    return Layout(**sizes, sequence_parallel=sizes.get("tp", 1) > 1, offload=offload)


def asked_candidates(job: Job, cluster: ClusterSpec, asked: dict[str, int | str], offload: bool) -> list[Layout]:
    """Those that the planner would try and that are like that; where there are none, the layout of the words alone.

    Experts get a mesh of their own where the words have ``etp``.
    """
    every = candidates(job, cluster, offload=offload, expert_mesh=bool(asked.get("etp")))
    layouts = [one for one in every if is_like(one, asked)]
    return layouts or ([asked_layout(asked, cluster.gpus, offload)] if asked else [])


def is_like(layout: Layout, asked: dict[str, int | str]) -> bool:
    return all(getattr(layout, name) == size for name, size in asked.items())
