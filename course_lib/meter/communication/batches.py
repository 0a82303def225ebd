"""Which messages were started together by ``torch.distributed.batch_isend_irecv``.

gloo starts the messages of a batch one by one, so a call of its operator does not say so. The frame of
``batch_isend_irecv`` above it does: its list ``reqs`` is empty when the first message of a batch begins.
"""

from __future__ import annotations

import inspect
from types import FrameType

import torch.distributed as dist

__all__ = ["BatchCounter"]

_BATCH = inspect.unwrap(dist.batch_isend_irecv).__code__
_DEEPEST = 12  # frames between a message and its batch; PyTorch has three, and wrappers may add to them


class BatchCounter:
    """Numbers the batches of this process."""

    def __init__(self) -> None:
        self._count = 0
        self._frame_id = 0

    def number(self, frame: FrameType | None) -> int | None:
        """The batch of the message that is being started in ``frame``; None where it is started alone."""
        for _ in range(_DEEPEST):
            if frame is None or frame.f_code is _BATCH:
                break
            frame = frame.f_back
        if frame is None or frame.f_code is not _BATCH:
            return None
        is_first = not frame.f_locals.get("reqs")
        if is_first or id(frame) != self._frame_id:
            self._count += 1
        self._frame_id = id(frame)
        return self._count
