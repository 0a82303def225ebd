"""Collectives with tensors as they come: not in one piece, expanded, empty, conjugated, of every dtype, in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from course_lib.cluster import Rank
from course_lib.parallel import collectives
from course_lib.parallel.collectives import dim_collectives
from course_lib.parallel.collectives.lean_reduce_scatter import start_lean_reduce_scatter
from course_lib.parallel.collectives.members import Members

pytestmark = pytest.mark.xdist_group("collectives_awkward")

N = 3  # ranks
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {  # of (6, 4) numbers
    "plain": lambda x: x,
    "transposed": lambda x: x.reshape(4, 6).t(),
    "gaps": lambda x: torch.stack([x, x + x], -1)[..., 0],
    "offset": lambda x: torch.cat([x, x])[3:9],
    "expanded": lambda x: x[:1].expand(6, 4),
    "channels_last": lambda x: x.reshape(6, 2, 2, 1).to(memory_format=torch.channels_last),
    "empty": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "tracked": lambda x: x.clone().requires_grad_() * 1 if x.is_floating_point() else x,
}
COMPLEX = {
    "conjugated": lambda x: x.conj(),
    "conjugated and transposed": lambda x: x.mH.reshape(6, 4),
    "negated": lambda x: x.conj().imag,
}


def given(rank: int, layout: str, dtype: torch.dtype) -> torch.Tensor:
    """What a rank gives: small whole numbers, whose sums are exact in each dtype."""
    draw = torch.Generator().manual_seed(rank)
    if layout in COMPLEX:
        pair = torch.randint(-3, 4, (2, 6, 4), generator=draw).double()
        return COMPLEX[layout](torch.complex(*pair))
    low = -3 if dtype.is_signed else 0
    return LAYOUTS[layout](torch.randint(low, 4, (6, 4), generator=draw).to(dtype))


def cases() -> list[tuple[str, torch.dtype]]:
    layouts = [(layout, torch.float64) for layout in LAYOUTS]
    return [
        *layouts,
        *(("gaps", dtype) for dtype in DTYPES),
        *((layout, torch.complex128) for layout in COMPLEX),
    ]


def results(me: Rank, x: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """Of every collective, with ``x``; what is a sum, only where dtypes have one."""
    members = Members.of(me, None)
    found: dict[str, torch.Tensor | None] = {"broadcast": collectives.broadcast(me, x, root=1)}
    found["gather"] = collectives.gather(me, x, root=1)
    found["all_gather"] = collectives.all_gather(me, x)
    found["all_to_all"] = collectives.all_to_all(me, x)
    rows = len(x) // N
    found["scatter"] = collectives.scatter(
        me, x, out=torch.empty_like(x[:rows], memory_format=torch.contiguous_format), root=1
    )
    found["along all_gather"] = dim_collectives.start_all_gather(members, x, 1)()
    found["along all_to_all"] = dim_collectives.start_all_to_all(members, x, 0, 1)()
    if x.dtype == torch.bool:
        found["all_reduce"] = collectives.all_reduce(me, x, op="max")
        return found
    for algorithm in collectives.ALL_REDUCE_ALGORITHMS:
        found[f"all_reduce, {algorithm}"] = collectives.all_reduce(me, x, algorithm=algorithm)
    found["all_reduce, hierarchical"] = collectives.hierarchical_all_reduce(me, x, 1)
    found["all_reduce, one node"] = collectives.hierarchical_all_reduce(me, x, N)
    found["reduce"] = collectives.reduce(me, x, root=1)
    found["reduce_scatter"] = collectives.reduce_scatter(me, x)
    found["along reduce_scatter"] = dim_collectives.start_reduce_scatter(members, x, 0)()
    parts = x.detach().reshape(N, -1)
    found["lean reduce_scatter"] = start_lean_reduce_scatter(members, parts)()
    return found


def wanted(place: int, every: list[torch.Tensor]) -> dict[str, torch.Tensor | None]:
    """The same by one process that has all tensors."""
    every = [x.detach().resolve_conj().resolve_neg().contiguous() for x in every]
    mine = [x.tensor_split(N)[place] for x in every]
    found = {
        "broadcast": every[1],
        "gather": torch.cat(every) if place == 1 else None,
        "all_gather": torch.cat(every),
        "all_to_all": torch.cat(mine),
        "scatter": every[1].tensor_split(N)[place],
        "along all_gather": torch.cat(every, 1),
        "along all_to_all": torch.cat(mine, 1),
    }
    if every[0].dtype == torch.bool:
        return {**found, "all_reduce": torch.stack(every).any(0)}
    total = sum(every[1:], start=every[0])
    own_rows = total.tensor_split(N)[place]
    sums = (*collectives.ALL_REDUCE_ALGORITHMS, "hierarchical", "one node")
    return {
        **found,
        **{f"all_reduce, {name}": total for name in sums},
        "reduce": total if place == 1 else None,
        "reduce_scatter": own_rows,
        "along reduce_scatter": own_rows,
        "lean reduce_scatter": own_rows.flatten(),
    }


def all_cases(me: Rank) -> list[str]:
    """What is wrong on this rank."""
    wrong = []
    for layout, dtype in cases():
        every = [given(rank, layout, dtype) for rank in range(N)]
        x = every[me.rank]
        before = x.detach().clone()
        found = results(me, x)
        want = wanted(me.rank, every)
        assert found.keys() == want.keys()
        for name, right in want.items():
            got = found[name]
            same = (
                got is None
                if right is None
                else got is not None and torch.equal(got.detach().flatten(), right.flatten())
            )
            if not same:
                wrong.append(f"{layout} {dtype}: {name} is wrong")
        if not torch.equal(x.detach(), before):
            wrong.append(f"{layout} {dtype}: the input has changed")
    return wrong


def test_every_layout_and_dtype_gives_what_one_process_gives(clusters):
    for wrong in clusters(N).call(all_cases):
        assert not wrong, "\n".join(wrong)


def in_place(me: Rank) -> dict[str, bool | str]:
    """Results written over what was given: right, or refused."""

    def rows_of(rank: int) -> torch.Tensor:
        return torch.arange(6.0).view(6, 1) + 10 * rank

    right = wanted(me.rank, [rows_of(rank) for rank in range(N)])
    found: dict[str, bool | str] = {}

    def trial(name: str, call: Callable[[torch.Tensor], torch.Tensor | None]) -> None:
        try:
            got = call(rows_of(me.rank))
        except ValueError as error:
            found[name] = str(error)
            return
        want = right[name]
        found[name] = got is None if want is None else got is not None and torch.equal(got, want)

    trial("all_to_all", lambda x: collectives.all_to_all(me, x, out=x))
    for shift in range(N):  # over its own rows, and over those of others
        there = slice(2 * ((me.rank + shift) % N), 2 * ((me.rank + shift) % N) + 2)
        trial("reduce_scatter", lambda x, there=there: collectives.reduce_scatter(me, x, out=x[there]))
        assert found["reduce_scatter"] is True, shift
        trial("scatter", lambda x, there=there: collectives.scatter(me, x, out=x[there], root=1))
        assert found["scatter"] is True, shift

    def gathered(gather: Callable[..., torch.Tensor | None], **options: int) -> torch.Tensor | None:
        whole = torch.zeros(6 * N, 1)
        part = whole[6 * me.rank : 6 * me.rank + 6].copy_(rows_of(me.rank))
        return gather(me, part, out=whole if options.get("root", me.rank) == me.rank else None, **options)

    trial("all_gather", lambda _: gathered(collectives.all_gather))
    trial("gather", lambda _: gathered(collectives.gather, root=1))
    conj = torch.zeros(6, 1, dtype=torch.complex128).conj()
    found["conjugated out"] = ""
    try:
        collectives.all_reduce(me, conj.resolve_conj(), out=conj)
    except ValueError as error:
        found["conjugated out"] = str(error)
    return found


def test_results_over_what_was_given_are_right_or_refused(clusters):
    for found in clusters(N).call(in_place):
        assert "PyTorch conjugates or negates only when it is read" in str(found.pop("conjugated out"))
        said = found.pop("all_to_all")
        assert "the memory of the tensor" in str(said)
        assert set(found.values()) == {True}, found
