"""What each device of ``nn.DataParallel`` holds at the end of a forward pass, found out on any machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from course_lib.meter import LABELS, MemoryLedger
from course_lib.parallel.data.threads.data_parallel import gather, replicate, scatter

__all__ = ["memory_by_device"]


def memory_by_device(
    module: nn.Module,
    optimizer: Optimizer,
    batch: tuple[Tensor, Tensor],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    num_devices: int,
) -> dict[str, dict[str, int]]:
    """Bytes by label on "device 0", "device 1", ..., as if each had a memory of its own.

    ``batch`` is (inputs, targets), and ``loss_of(outputs, targets)`` the loss, which device 0 computes. The replicas
    run here one after another, each under a ledger that sees what *its* device would hold. Device 0 has replica 0, and
    whatever there is one of: gradients and optimizer state (where they exist already), the whole batch, the gathered
    outputs, the loss and what it keeps. A device that gets no part of the batch holds nothing. ``module`` has
    to return one tensor. Fewer than two devices are a ``ValueError``.
    """
    if num_devices < 2:
        raise ValueError(f"num_devices is {num_devices}; with one device there are no replicas, so take 2 or more")
    inputs, targets = batch
    devices = ["cpu"] * num_devices
    parts = scatter(inputs, devices)
    replicas = replicate(module, devices[: len(parts)])
    held = {f"device {r}": dict.fromkeys(LABELS, 0) for r in range(num_devices)}
    sent, graphs = list[Tensor](), list[Any]()
    for r in range(1, len(parts)):
        with MemoryLedger(inputs=parts[r]) as ledger:
            ledger.own("parameter", _weights_of(replicas[r]))
            output = replicas[r](parts[r])
        sent.append(output.detach().clone())
        graphs.append(output.grad_fn)  # what backward needs stays; the output itself has gone to device 0
        del output
        held[f"device {r}"] = ledger.now().by_label
    with MemoryLedger(module, optimizer, inputs=batch) as ledger:
        gathered = gather([replicas[0](parts[0]), *sent], "cpu")  # a training loop has a name for it, and so it stays
        loss = loss_of(gathered, targets)
    held["device 0"] = ledger.now().by_label
    held["device 0"]["other"] -= sum(output.nbytes for output in sent)  # read here, and lying elsewhere
    del gathered, loss, graphs
    return held


def _weights_of(replica: nn.Module) -> list[Any]:
    """Tensors that are attributes: a replica has no parameters."""
    return [value for m in replica.modules() for value in vars(m).values() if isinstance(value, torch.Tensor)]
