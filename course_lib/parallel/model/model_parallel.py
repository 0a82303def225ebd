"""Model parallelism: a model too large for one device is cut into parts by layers, and each part has a device.

In three steps. ``OnDevices``: one process, and ``.to(device)`` between the parts. ``ModelParallel``: a process for each
part, first with the backward pass written by hand (``forward_backward``), then as a pair of autograd functions, so
that ``loss.backward()`` does it. A batch goes through the parts one after the other, so one device works at a time:
the next lesson mends that. Production code: ``torch.distributed.pipelining``, even for one micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.collectives.parts import stage_is_part
from course_lib.parallel.model.cutting import Part, tied_parameters
from course_lib.parallel.model.spans import Spans, Unwatched
from course_lib.parallel.model.stage_p2p import Passing, RecvFromPrevious, SendToNext
from course_lib.parallel.model.tied import TiedParameters, check_tied

__all__ = ["ModelParallel", "OnDevices", "PartFailed"]

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class PartFailed(RuntimeError):
    """The forward or backward pass of a part raised; the message says of which."""


class OnDevices(nn.Module):
    """One process: part i lies on ``devices[i]``, and activations are moved from device to device.

    A move is an operation like any other to autograd: its backward moves the gradient the other way, and
    ``loss.backward()`` works as before. Devices may repeat. Parts that share a parameter must share a device, since a
    parameter lies on one; else ``ValueError``.
    """

    def __init__(self, parts: Sequence[nn.Module], devices: Sequence[str | torch.device]) -> None:
        super().__init__()
        self.devices = [torch.device(device) for device in devices]
        if len(parts) != len(self.devices) or not parts:
            raise ValueError(
                f"you gave {len(parts)} parts and {len(self.devices)} devices; each part needs one device, and there "
                f"is at least one part. Give {max(1, len(parts))} devices"
            )
        for numbers in tied_parameters(parts).values():
            on_devices = sorted({str(self.devices[number]) for number in numbers})
            if len(on_devices) > 1:
                raise ValueError(
                    f"parts {', '.join(map(str, numbers))} share a parameter and have the devices "
                    f"{', '.join(on_devices)}. A parameter lies on one device: give them all "
                    f"{self.devices[numbers[0]]}, or use a rank for each part (ModelParallel)"
                )
        self.parts = nn.ModuleList(part.to(device) for part, device in zip(parts, self.devices, strict=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the uncut model gives for ``x``, on the last device."""
        for part, device in zip(self.parts, self.devices, strict=True):
            x = part(x.to(device))
        return x


class ModelParallel(nn.Module):
    """A rank for each part: this rank holds ``parts[me.rank]`` and passes activations and gradients on.

    Every rank makes the same parts, from the same seed, and keeps its own; weights that parts share are compared, once,
    and a ``ValueError`` says where they differ. Each rank runs the same loop; ``x`` is
    looked at by the first rank, the target by the last::

        model = ModelParallel(me, parts)
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in batches:
            loss = model.loss(loss_of, model(x), y)     # or, by hand: model.forward_backward(x, y, loss_of)
            loss.backward()
            model.sum_tied_gradients()
            optimizer.step()
            optimizer.zero_grad()

    ``timeline`` is told what this rank does, such as a ``course_lib.meter.Timeline``. A model that is not cut gives the
    same, but for dropout, where each rank draws its own numbers. Source of the idea: Dean et al., "Large Scale
    Distributed Deep Networks" (2012), section 3.
    """

    def __init__(self, me: Rank, parts: Sequence[nn.Module], *, timeline: Spans | None = None) -> None:
        super().__init__()
        if len(parts) != me.world_size:
            raise ValueError(
                f"{len(parts)} parts were given to {me.world_size} ranks; each rank holds one part. "
                f"Cut the model into {me.world_size}."
            )
        self.me, self.is_first, self.is_last = me, me.rank == 0, me.rank == me.world_size - 1
        self.parts_among = Members.of(me, None)
        self.ties = TiedParameters(me.rank, parts, range(me.world_size))
        check_tied(me, self.parts_among, type(self).__name__, parts, range(me.world_size))
        self.part = parts[me.rank].to(me.device)
        stage_is_part(self.part, type(self).__name__, self.parts_among)
        self.ties.watch()
        self.timeline = timeline or Unwatched()
        self.passing = Passing(me, self.timeline)

    # -- by hand ------------------------------------------------------------------------------------------------

    def forward_backward(
        self, x: torch.Tensor | None, target: torch.Tensor | None, loss_of: Loss
    ) -> torch.Tensor | None:
        """One batch forward and backward: adds to the parameters' gradients. The loss on the last rank, else None.

        x: (B, ...), needed on the first rank; target on the last. Sent by a rank in the middle: an activation to the
        next rank and the gradient of an activation to the one before.
        """
        # Forward: from the rank before, through this part, to the next rank.
        if self.is_first:
            entering = self._here(x, "x")
        else:
            spec = self.passing.recv_spec()
            entering = self.passing.recv_activation(spec)
            entering.requires_grad_(spec.needs_gradient)  # a leaf, whose .grad is sent back below
        with self._working("forward"):
            leaving: torch.Tensor = self.part(entering)
            loss = loss_of(leaving, self._here(target, "the target")) if self.is_last else None
        if not self.is_last:
            self.passing.send_spec(leaving)
            self.passing.send_activation(leaving)

        # Backward: from the next rank, back through this part, to the rank before.
        if loss is not None:
            with self._working("backward"):
                loss.backward()
        elif leaving.requires_grad:  # else everything up to here is frozen, and nobody sends a gradient
            gradient = self.passing.recv_gradient(leaving.shape, leaving.dtype)
            with self._working("backward"):
                leaving.backward(gradient)
        if not self.is_first and entering.requires_grad:
            assert entering.grad is not None
            self.passing.send_gradient(entering.grad)
        return None if loss is None else loss.detach()

    # -- by autograd --------------------------------------------------------------------------------------------

    def forward(self, x: torch.Tensor | None = None) -> torch.Tensor:
        """The output of the whole model on the last rank; on the others a zero, whose ``backward()`` does their part.

        Under ``torch.no_grad()``, on all ranks, no gradient travels back.
        """
        entering = self._here(x, "x") if self.is_first else self._from_previous()
        with self._working("forward"):
            leaving: torch.Tensor = self.part(entering)
        return leaving if self.is_last else self._to_next(leaving)

    def loss(self, loss_of: Loss, output: torch.Tensor, target: torch.Tensor | None) -> torch.Tensor:
        """``loss_of(output, target)`` on the last rank; elsewhere the zero that ``forward`` gave."""
        return loss_of(output, self._here(target, "the target")) if self.is_last else output

    def _from_previous(self) -> torch.Tensor:
        spec = self.passing.recv_spec()
        if not spec.needs_gradient:
            return self.passing.recv_activation(spec)
        anchor = torch.zeros((), device=self.me.device, requires_grad=True)
        received: torch.Tensor = RecvFromPrevious.apply(anchor, self.passing, spec)
        return received

    def _to_next(self, leaving: torch.Tensor) -> torch.Tensor:
        self.passing.send_spec(leaving)
        if leaving.requires_grad:
            begin: torch.Tensor = SendToNext.apply(leaving, self.passing)
            return begin
        self.passing.send_activation(leaving)
        return torch.zeros((), device=self.me.device, requires_grad=True)  # its backward() has nothing to do

    # -- both ---------------------------------------------------------------------------------------------------

    def sum_tied_gradients(self) -> None:
        """Before the step: each copy of a tied parameter gets the sum of the gradients of all copies."""
        self.ties.sum_gradients()

    def forget_shapes(self) -> None:
        """On every rank, before a batch with another shape or dtype, or after (un)freezing parameters."""
        self.passing.forget()

    def _here(self, tensor: torch.Tensor | None, name: str) -> torch.Tensor:
        if tensor is None:
            raise ValueError(f"rank {self.me.rank} of {self.me.world_size} needs {name} and was given None")
        return tensor.to(self.me.device)

    @contextmanager
    def _working(self, what: str) -> Iterator[None]:
        """A span on the timeline; whatever goes wrong in it bears the name of this part."""
        with self.timeline.span(what):
            try:
                yield
            except Exception as error:
                names = self.part.names if isinstance(self.part, Part) else [type(self.part).__name__]
                raise PartFailed(
                    f"part {self.me.rank} of {self.me.world_size} ({', '.join(names)}) failed in its {what} pass: "
                    f"{type(error).__name__}: {error}"
                ) from error
