"""Is this the class of an ``autograd.Function``, as an exercise asks for it? A sentence for what is none."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn

from course_lib.learn.judging.compare import short
from course_lib.learn.judging.failure import NotAnAnswer

__all__ = ["need_function_class"]


def need_function_class(answer: Any, name: str, what: str, arguments: str) -> None:
    """Raise ``NotAnAnswer`` for what is no class of a ``torch.autograd.Function``, or of its kind.

    ``name`` is how the page calls the class, ``what`` what it is ("a gate"), and ``arguments`` those of its ``apply``
    ("x, is_entrance").
    """
    if not isinstance(answer, type):
        raise NotAnAnswer(
            f"Give the class itself, `{name}`, without brackets behind it: a `torch.autograd.Function`, of which "
            f"`apply` is used. What came is {_what_it_is(answer)}."
        )
    if issubclass(answer, nn.Module):
        raise NotAnAnswer(
            f"`{answer.__name__}` is an `nn.Module`, whose backward autograd makes by itself. Give the class itself of "
            f"{what} whose backward you write: `class {answer.__name__}(torch.autograd.Function)`."
        )
    if _has_no_backward(answer):
        own = [name for name, one in vars(answer).items() if isinstance(one, staticmethod | FunctionType)]
        raise NotAnAnswer(
            f"The class `{answer.__name__}` has no `backward`, so nothing can come back through it; it has "
            f"{' and '.join(f'`{name}`' for name in own) or 'no method at all'}."
        )
    apply = getattr(answer, "apply", None)
    if not callable(apply):
        raise NotAnAnswer(
            f"`{answer.__name__}` has no `apply`, by which {what} is used. Give the class itself of a "
            f"`torch.autograd.Function`, which has one: `class {answer.__name__}(torch.autograd.Function)`."
        )
    if not _takes(apply, len(arguments.split(","))):
        raise NotAnAnswer(
            f"{what[:1].upper() + what[1:]} is used as `{answer.__name__}.apply({arguments})`, and the `apply` of "
            "yours takes other arguments. Is a `@staticmethod` missing above it?"
        )


def _has_no_backward(answer: type) -> bool:
    plain = torch.autograd.Function
    return issubclass(answer, plain) and answer.backward is plain.backward and answer.vjp is plain.vjp


def _takes(apply: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(apply).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # nobody knows its signature
        return True
    return True


def _what_it_is(answer: Any) -> str:
    if inspect.isroutine(answer):
        return f"the function `{answer.__name__}`"
    is_function = isinstance(answer, torch.autograd.Function) or hasattr(answer, "forward")
    return f"an object of the class `{type(answer).__name__}`" if is_function else short(answer)
