"""Right, and dearer than it has to be: messages and bytes that nobody asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.authoring.bench.judging.saboteurs.found import changed, is_rank, tensors_in

__all__ = ["all_of_it_twice", "an_extra_all_reduce", "an_extra_barrier", "an_extra_broadcast", "float64_inside"]


def _on_ranks(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(is_rank(thing) for thing in (*args, *kwargs.values()))


def _adds(call: Callable[..., Any], met: Callable[[], None], what: Callable[[], Any]) -> Callable[..., Any]:
    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = call(*args, **kwargs)
        if _on_ranks(args, kwargs) and dist.is_initialized():
            met()
            what()
        return result

    return spoilt


def an_extra_barrier(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """All ranks wait for each other at the end of each call."""
    return _adds(call, met, dist.barrier)


def an_extra_all_reduce(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """An all-reduce of one number, of which nothing is done, at the end of each call."""
    return _adds(call, met, lambda: dist.all_reduce(torch.zeros(1)))


def an_extra_broadcast(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """A broadcast of one number, of which nothing is done, at the end of each call."""
    return _adds(call, met, lambda: dist.broadcast(torch.zeros(1), src=0))


def all_of_it_twice(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """On ranks, all is done twice, first with copies of the inputs: twice the messages, twice the bytes."""

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _on_ranks(args, kwargs) and getattr(call, "__name__", "") != "__init__":
            try:
                copies = [thing if is_rank(thing) else copy.deepcopy(thing) for thing in args]
            except Exception:
                return call(*args, **kwargs)  # what cannot be copied: a tensor with a graph
            met()
            call(*copies, **kwargs)
        return call(*args, **kwargs)

    return spoilt


def float64_inside(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It computes, sends and keeps in float64 what it is given in less: twice the bytes."""

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        narrow = [t for t in tensors_in(*args, *kwargs.values()) if t.is_floating_point() and t.dtype != torch.float64]
        if not narrow or any(t.requires_grad for t in narrow):
            return call(*args, **kwargs)
        met()
        wide = {id(tensor): tensor.double() for tensor in narrow}
        dtype = narrow[0].dtype

        def widened(tensor: Tensor) -> Tensor:
            return wide.get(id(tensor), tensor)

        result = call(*(changed(one, widened) for one in args), **changed(kwargs, widened))
        back = {id(wide[id(tensor)]): tensor for tensor in narrow}
        for tensor in narrow:
            if not torch.equal(wide[id(tensor)].to(dtype), tensor):
                tensor.copy_(wide[id(tensor)])

        def narrowed(tensor: Tensor) -> Tensor:
            return back.get(id(tensor), tensor.to(dtype) if tensor.dtype == torch.float64 else tensor)

        return changed(result, narrowed)

    return spoilt
