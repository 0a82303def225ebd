"""An error that is lost, or its text; and results that are the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.authoring.bench.judging.saboteurs.found import changed, tensors_in

__all__ = ["gives_an_input_where_it_is_equal", "loses_the_text_of_errors", "swallows_errors"]


def swallows_errors(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """Where it fails it gives None, and nobody hears of the error."""

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception:
            met()
            return None

    return spoilt


def loses_the_text_of_errors(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """Where it fails it raises an error of another kind, without the text of the first."""

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception:
            met()
            raise LookupError("something failed") from None

    return spoilt


def gives_an_input_where_it_is_equal(call: Callable[..., Any], met: Callable[[], None]) -> Callable[..., Any]:
    """A result that equals an input, or its first rows, is the input itself: who changes one changes the other."""

    def spoilt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs = [tensor for tensor in tensors_in(*args, *kwargs.values()) if tensor.dim() and tensor.numel()]
        storages = {tensor.untyped_storage().data_ptr() for tensor in inputs}

        def aliased(tensor: Tensor) -> Tensor:
            if tensor.untyped_storage().data_ptr() in storages or tensor.requires_grad:
                return tensor
            for one in inputs:
                rows = one[: len(tensor)] if tensor.dim() == one.dim() and len(tensor) <= len(one) else one
                if rows.shape == tensor.shape and rows.dtype == tensor.dtype and torch.equal(rows, tensor):
                    met()
                    return rows.detach()
            return tensor

        return changed(call(*args, **kwargs), aliased)

    return spoilt
