"""This rank's rows of a parameter, as an optimizer sees them.

A shard is a parameter like any other, but for one thing. ``nn.utils.clip_grad_norm_`` would take the norm of this
rank's rows for the norm of the gradient; every rank would scale its rows by a factor of its own, and no error would
tell. So it gets no gradient of a shard, and a sentence. Everybody else does: a norm of rows is a right thing to
compute, where it is then summed over ranks (``clipping.py``).
"""

from __future__ import annotations

import inspect
import sys
from types import CodeType

from torch import Tensor, nn
from torch.optim import optimizer as torchs_optimizer

from course_lib.parallel.sharded.misuse import CLIPPED

__all__ = ["WeightShard"]

_GRAD = inspect.getattr_static(Tensor, "grad")
_get_grad, _set_grad = _GRAD.__get__, _GRAD.__set__

_CLIP = inspect.unwrap(nn.utils.clip_grad_norm_).__code__
# Before Python 3.12 its comprehensions have code of their own.
_OF_CLIP = (_CLIP, *(constant for constant in _CLIP.co_consts if isinstance(constant, CodeType)))


class WeightShard(nn.Parameter):
    """Rows of a parameter; ``is_part`` where other ranks keep others. ``RuntimeError`` for PyTorch's clip."""

    is_part = False

    @property
    def grad(self) -> Tensor | None:
        if sys._getframe(1).f_code in _OF_CLIP and self.is_part:  # who asks?
            raise RuntimeError(CLIPPED)
        return _get_grad(self)

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        _set_grad(self, gradient)

    @grad.deleter
    def grad(self) -> None:
        _set_grad(self, None)


# Optimizers take their quick way, one call for many parameters, for the types on this list; DTensor adds itself too.
torchs_optimizer._foreach_supported_types.append(WeightShard)
