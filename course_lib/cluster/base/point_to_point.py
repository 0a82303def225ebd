"""Messages between two ranks that work on every back end.

gloo cannot send or receive CUDA tensors. On such ranks the message goes through the host: a CPU copy is sent, and
what arrives is copied into the CUDA tensor. Everywhere else this is ``torch.distributed.batch_isend_irecv`` itself.
Batched always: on NCCL two ranks that each send first and receive second, one by one, wait for each other for ever.

Verified with CPU tensors over gloo; the staged path also there, with the staging forced. Not yet run on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["Message", "Started", "exchange", "recv", "send", "start"]


@dataclass(frozen=True)
class Message:
    """One half of a message: ``tensor`` goes to ``peer``, or is filled by what ``peer`` sends."""

    tensor: torch.Tensor
    peer: int  # the global rank at the other end
    is_recv: bool = False


def send(tensor: torch.Tensor, peer: int) -> Message:
    return Message(tensor, peer)


def recv(tensor: torch.Tensor, peer: int) -> Message:
    """A message whose content is written into ``tensor``: same shape and dtype as what the peer sends."""
    return Message(tensor, peer, is_recv=True)


def exchange(messages: Sequence[Message], *, group: dist.ProcessGroup | None = None, stage: bool | None = None) -> None:
    """Start all ``messages`` together and wait until each is sent or has arrived.

    ``stage`` forces the way through the host on or off; by default it is taken for CUDA tensors on gloo.
    """
    start(messages, group=group, stage=stage)()


def start(messages: Sequence[Message], *, group: dist.ProcessGroup | None = None, stage: bool | None = None) -> Started:
    """Start all ``messages`` together and return at once; call what is returned to wait for them."""
    import torch.distributed as dist

    if not messages:
        return Started((), (), [])
    if stage is None:
        stage = messages[0].tensor.is_cuda and dist.get_backend(group) == "gloo"
    buffers = [_host_copy(message) if stage else message.tensor for message in messages]
    operations = [
        dist.P2POp(dist.irecv if message.is_recv else dist.isend, buffer, message.peer, group=group)
        for message, buffer in zip(messages, buffers, strict=True)
    ]
    works = dist.batch_isend_irecv(operations)
    return Started(messages, buffers, works)


class Started:
    """Messages in flight: call it to wait for all of them, or ``wait_for`` one.

    A message is forgotten once it has been waited for: from then on its tensor is free to go. Until then it is kept,
    on gloo also when it has long been sent, since gloo says so only to those who wait.
    """

    def __init__(
        self, messages: Sequence[Message], buffers: Sequence[torch.Tensor], works: Sequence[dist.Work]
    ) -> None:
        # NCCL hands out one piece of work for all messages that were started together; gloo, one for each.
        shared = works if len(works) == len(messages) else [*works] * len(messages)
        self._in_flight = dict(enumerate(zip(messages, buffers, shared, strict=True)))

    def __call__(self) -> None:
        for index in list(self._in_flight):
            self.wait_for(index)

    def wait_for(self, index: int) -> None:
        """Wait until the message at this place of the list is sent or has arrived. Safe to repeat."""
        if index not in self._in_flight:
            return
        message, buffer, work = self._in_flight.pop(index)
        work.wait()
        if message.is_recv and buffer is not message.tensor:
            message.tensor.copy_(buffer)


def _host_copy(message: Message) -> torch.Tensor:
    """The bytes to send, or room for those to receive, in the host's memory."""
    import torch

    if message.is_recv:
        return torch.empty(message.tensor.shape, dtype=message.tensor.dtype, device="cpu")
    return message.tensor.detach().to("cpu", copy=True).contiguous()
