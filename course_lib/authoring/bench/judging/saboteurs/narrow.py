"""Right for some inputs only: for a dtype, a layout, a number of ranks, for something to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.authoring.bench.judging.saboteurs.found import changed, floats_in, is_rank, tensors_in

__all__ = [
    "fails_on_one_rank",
    "fails_on_two_ranks",
    "fails_where_nothing_is_to_do",
    "gives_float32_always",
    "gives_float64_always",
    "only_contiguous",
    "only_float32",
    "only_float64",
    "only_without_requires_grad",
]


def _refuses(
    meets: Callable[[tuple[Any, ...]], bool], refuses: Callable[[tuple[Any, ...]], bool], rule: str
) -> Callable[[Callable[..., Any], Callable[[], None]], Callable[..., Any]]:
    def around(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
        def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            given = (*args, *kwargs.values())
            if meets(given):
                met()
                if refuses(given):
                    raise RuntimeError(f"this answer is for {rule} alone")
            return call(*args, **kwargs)

        return spoilt

    return around


def _is_plain(tensor: Tensor) -> bool:
    return not isinstance(tensor, nn.Parameter)


def only_float64(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It fails with any floating-point input but float64."""
    other = _refuses(
        lambda given: bool(floats_in(*given)),
        lambda given: any(tensor.dtype != torch.float64 for tensor in floats_in(*given)),
        "float64",
    )
    return other(call, met)


def only_float32(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It fails with any floating-point input but float32."""
    other = _refuses(
        lambda given: bool(floats_in(*given)),
        lambda given: any(tensor.dtype != torch.float32 for tensor in floats_in(*given)),
        "float32",
    )
    return other(call, met)


def only_contiguous(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It fails with a tensor that does not lie in memory in its own order."""
    other = _refuses(
        lambda given: any(tensor.dim() > 1 for tensor in tensors_in(*given)),
        lambda given: not all(tensor.is_contiguous() for tensor in tensors_in(*given)),
        "contiguous tensors",
    )
    return other(call, met)


def only_without_requires_grad(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It fails with a tensor that asks for a gradient."""
    other = _refuses(
        lambda given: any(_is_plain(tensor) for tensor in tensors_in(*given) if tensor.is_floating_point()),
        lambda given: any(tensor.requires_grad for tensor in tensors_in(*given) if _is_plain(tensor)),
        "tensors that ask for no gradient",
    )
    return other(call, met)


def fails_on_one_rank(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It fails where there is one rank."""
    other = _refuses(
        lambda given: any(is_rank(thing) for thing in given),
        lambda given: any(is_rank(thing) and thing.world_size == 1 for thing in given),
        "several ranks",
    )
    return other(call, met)


def fails_on_two_ranks(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It fails where there are two ranks."""
    other = _refuses(
        lambda given: any(is_rank(thing) for thing in given),
        lambda given: any(is_rank(thing) and thing.world_size == 2 for thing in given),
        "other numbers of ranks than two",
    )
    return other(call, met)


def fails_where_nothing_is_to_do(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """It fails with no rows, no items or no parameters."""
    other = _refuses(
        lambda given: any(isinstance(thing, list | tuple | dict | Tensor) for thing in given),
        lambda given: (
            any(
                thing.numel() == 0 if isinstance(thing, Tensor) else not thing
                for thing in given
                if isinstance(thing, list | tuple | dict | Tensor)
            )
            or any(tensor.numel() == 0 for tensor in tensors_in(*given))
        ),
        "inputs with something in them",
    )
    return other(call, met)


def gives_float32_always(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """What it gives is float32, whatever it was given."""
    return _cast(call, met, torch.float32)


def gives_float64_always(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """What it gives is float64, whatever it was given."""
    return _cast(call, met, torch.float64)


def _cast(call: Callable[..., Any], met: Callable[[], None], dtype: torch.dtype) -> Callable[..., Any]:
    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {id(tensor) for tensor in tensors_in(*args, *kwargs.values())}

        def cast(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or id(tensor) in given:
                return tensor
            met()
            return tensor.to(dtype)

        return changed(call(*args, **kwargs), cast)

    return spoilt
