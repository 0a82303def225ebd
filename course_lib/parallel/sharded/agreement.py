"""Before the first step: do all ranks have the same parameters, and can each be cut into rows that are a rank's own?

A rank whose weights differ, by a forgotten seed say, would get the others' rows and keep its own: a mixture that
nobody has trained. And an optimizer writes to a rank's rows in place. Where two numbers lie in one place of memory,
what comes of that would depend on which rank has which of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.ddp_errors import check_model
from course_lib.parallel.data.naive_ddp import broadcast_parameters

__all__ = ["agree", "check_memory"]


def agree(
    me: Rank, parameters: Sequence[Tensor], master_dtype: torch.dtype | None, group: dist.ProcessGroup | None
) -> None:
    """Compare the parameters of all ranks of ``group``, and give them the values of its first rank.

    ``ValueError`` on all ranks where shapes or dtypes differ, and for parameters that cannot be shared out.
    """
    if any(is_lazy(p) for p in parameters):
        raise ValueError(
            "a parameter has no shape yet, as in nn.LazyLinear: call the model once before you make the optimizer"
        )
    if Members.of(me, group).count > 1:
        check_model(me, nn.ParameterList(parameters), (), [group])  # type: ignore[arg-type]
    for p in parameters:
        _check(me, p, master_dtype)
    check_memory(parameters)
    if Members.of(me, group).count > 1:
        broadcast_parameters(me, nn.ParameterList(parameters), group=group)  # type: ignore[arg-type]


def _check(me: Rank, p: Tensor, master_dtype: torch.dtype | None) -> None:
    which = f"a parameter of shape {tuple(p.shape)}"
    if p.device.type != me.device.type:
        raise ValueError(
            f"{which} lies on {p.device}, and this rank computes on {me.device}: move the model there with "
            "model.to(me.device), and make the optimizer then" + (" (model.to_empty, from meta)" if p.is_meta else "")
        )
    if p.layout != torch.strided:
        raise ValueError(f"{which} is {p.layout}, and only dense ones have rows to share: use p.to_dense()")
    if master_dtype is not None and torch.promote_types(p.dtype, master_dtype) != master_dtype:
        raise ValueError(
            f"master_dtype={master_dtype} cannot hold {which} and {p.dtype}; the nearest that can is "
            f"{torch.promote_types(p.dtype, master_dtype)}"
        )


# -- numbers that share memory ----------------------------------------------------------------------------------------


def check_memory(parameters: Sequence[Tensor]) -> None:
    """``ValueError`` where several numbers lie in one place. Weights may share a storage, each with its own part."""
    by_storage: dict[int, list[Tensor]] = {}
    for p in parameters:
        if p.numel():
            by_storage.setdefault(p.untyped_storage()._cdata, []).append(p)
    for sharing in by_storage.values():
        for p in sharing:
            if _overlaps_itself(p):
                raise ValueError(
                    f"a parameter of shape {tuple(p.shape)} and strides {p.stride()} keeps several numbers in one "
                    "place of memory, as expand() does. Each would need a gradient of its own. Give it memory with "
                    "p.contiguous()."
                )
        if len(sharing) > 1:
            _check_distinct(sharing)


def _overlaps_itself(p: Tensor) -> bool:
    """Whether strides are too small for the dims below them."""
    reach = 0  # of the dims so far: the last number's distance from the first
    for stride, size in sorted(zip(p.stride(), p.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _check_distinct(sharing: Sequence[Tensor]) -> None:
    """Byte by byte, since columns of one matrix lie between each other without touching."""
    taken = torch.zeros(sharing[0].untyped_storage().nbytes(), dtype=torch.bool)
    for p in sharing:
        size = p.element_size()
        strides = (*(stride * size for stride in p.stride()), 1)
        own = taken.as_strided((*p.shape, size), strides, p.storage_offset() * size)
        if own.any():
            raise ValueError(
                f"a parameter of shape {tuple(p.shape)} shares numbers with another one. Each rank updates rows of "
                "its own, and two ranks would update these. To tie weights let both modules have the same "
                "nn.Parameter. To keep them apart, give one of them memory of its own with p.clone()."
            )
        own.fill_(True)
