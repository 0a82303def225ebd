"""Right, and something beside the result is changed, or left behind."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.authoring.bench.judging.saboteurs.found import is_rank, modules_in, parameters_in, tensors_in

__all__ = [
    "changes_a_dictionary",
    "changes_a_list",
    "changes_an_input",
    "keeps_all_tensors_alive",
    "leaves_a_default_dtype",
    "leaves_a_group",
    "leaves_a_hook",
    "leaves_a_seed",
    "leaves_a_thread",
    "makes_a_grad",
    "replaces_a_grad",
]


def _after(
    call: Callable[..., Any], met: Callable[[], None], spoil: Callable[[tuple[Any, ...], Any], bool]
) -> Callable[..., Any]:
    """``spoil(given, result)`` is done after each call, and says whether there was something to spoil."""

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = call(*args, **kwargs)
        if spoil((*args, *kwargs.values()), result):
            met()
        return result

    return spoilt


def changes_an_input(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """Its last input tensor that is no result is another one after the call."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        storages = {tensor.untyped_storage().data_ptr() for tensor in tensors_in(result)}
        own = [t for t in tensors_in(*given) if t.numel() and t.untyped_storage().data_ptr() not in storages]
        for tensor in own[-1:]:
            tensor.data.add_(1) if tensor.dtype != torch.bool else tensor.data.logical_not_()
        return bool(own)

    return _after(call, met, spoil)


def changes_a_list(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """A list that it was given has an item less after the call."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        lists = [one for one in given if isinstance(one, list) and one and one is not result]
        for one in lists[:1]:
            one.pop()
        return bool(lists)

    return _after(call, met, spoil)


def changes_a_dictionary(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """A dictionary that it was given has an item less after the call."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        found = [one for one in given if isinstance(one, dict) and one and one is not result]
        for one in found[:1]:
            one.popitem()
        return bool(found)

    return _after(call, met, spoil)


def replaces_a_grad(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """The ``.grad`` of a parameter is another tensor with the same numbers: who holds the old one holds an old one."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        with_grad = [(p, p.grad) for p in parameters_in(*given) if p.grad is not None]
        for parameter, grad in with_grad:
            parameter.grad = grad.clone()
            grad.data.add_(1)
        return bool(with_grad)

    return _after(call, met, spoil)


def makes_a_grad(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """A parameter that has no ``.grad`` gets one of zeros: an optimizer then steps it."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        without = [p for p in parameters_in(*given) if p.grad is None]
        for parameter in without:
            parameter.grad = torch.zeros_like(parameter)
        return bool(without)

    return _after(call, met, spoil)


def keeps_all_tensors_alive(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """Every tensor that it is given or gives is kept in a list, for ever."""
    kept: list[Tensor] = []

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        tensors = list(tensors_in(*given, result))
        kept.extend(tensors)
        return bool(tensors)

    return _after(call, met, spoil)


def leaves_a_group(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """On ranks it makes a process group at each call, and leaves it."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        on_ranks = any(is_rank(thing) for thing in given) and dist.is_initialized()
        if on_ranks:
            dist.new_group()
        return on_ranks

    return _after(call, met, spoil)


def leaves_a_thread(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It starts a thread that still runs when the call is over."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        threading.Thread(target=lambda: time.sleep(20), daemon=True).start()
        return True

    return _after(call, met, spoil)


def leaves_a_hook(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """A module that it was given has a hook more after the call."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        modules = list(modules_in(*given))
        for module in modules[:1]:
            module.register_forward_hook(lambda *_: None)
        return bool(modules)

    return _after(call, met, spoil)


def leaves_a_seed(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It seeds the random numbers of everybody."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        torch.manual_seed(0)
        random.seed(0)
        return True

    return _after(call, met, spoil)


def leaves_a_default_dtype(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """Tensors that are made after it are float64."""

    def spoil(given: tuple[Any, ...], result: Any) -> bool:
        torch.set_default_dtype(torch.float64)
        return True

    return _after(call, met, spoil)
