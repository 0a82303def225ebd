"""Step ``memory``: the memory ledger against the device's own allocator, and against the formulas of the cost model.

The allocator knows more than a ledger can: it rounds each block up to 512 bytes, cuBLAS keeps workspaces, and cuDNN
borrows one for as long as a convolution runs. So the ledger has to lie below it at the peak, by little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from course_lib.authoring.bench.gpu.measurements.sizes import BATCH_SIZE, middle
from course_lib.authoring.bench.gpu.task import FAILED, BenchTask

if TYPE_CHECKING:
    from torch import Tensor, nn

    from course_lib.meter import MemoryLedger

__all__ = ["run"]

_MOST_UNSEEN_SHARE = 0.05  # of the allocator's peak, beside workspaces
# On an H100, cuBLAS keeps 32 MiB for forward's thread and as much for backward's; as much again is left to cuDNN.
_WORKSPACE_BYTES = 128 * 2**20

Training = tuple["nn.Module", "Tensor", "Tensor", Callable[..., Any]]


def run(task: BenchTask) -> None:
    """Each model through two steps; the second, under the ledger, finds the optimizer's state in place."""
    for name, build in {"CNN on digits": _cnn, "transformer": _transformer}.items():
        with task.part(f"a step under the ledger, {name}"):
            ledger, num_parameters, num_tensors = _watched(build(task))
            _add_state(task, name, ledger, num_parameters, num_tensors)
            _add_peak(task, name, ledger)
            del ledger  # it holds the model, which the next one's allocator would count


def _cnn(task: BenchTask) -> Training:
    import torch
    import torch.nn.functional as F

    from course_lib.models import SmallCNN

    size = 4096 if task.on_gpu else 64
    x = torch.randn(size, 1, 8, 8, device=task.device_name)
    y = torch.randint(10, (size,), device=task.device_name)
    return SmallCNN().to(task.device_name), x, y, F.cross_entropy


def _transformer(task: BenchTask) -> Training:
    import torch

    from course_lib.models import Transformer, next_token_loss

    config = middle(task.on_gpu)
    tokens = torch.randint(256, (BATCH_SIZE, config.context_length + 1), device=task.device_name)
    return Transformer(config).to(task.device_name), tokens[:, :-1], tokens[:, 1:], next_token_loss


def _watched(training: Training) -> tuple[MemoryLedger, int, int]:
    import torch

    from course_lib.meter import MemoryLedger

    model, x, y, loss_of = training
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    loss_of(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    with MemoryLedger(model, optimizer, inputs=(x, y)) as ledger:
        ledger.mark("start")
        loss = loss_of(model(x), y)
        ledger.mark("after forward")
        loss.backward()
        del loss
        ledger.mark("after backward")
        optimizer.step()
    return ledger, sum(parameter.numel() for parameter in parameters), len(parameters)


def _add_state(task: BenchTask, name: str, ledger: MemoryLedger, num_parameters: int, num_tensors: int) -> None:
    """A part: parameters, gradients and optimizer state by formula and by ledger, to the byte."""
    from course_lib.cost.single_device.model_state import model_state

    formula = model_state(num_parameters, optimizer="adamw", num_tensors=num_tensors)
    after = ledger.marks["after backward"]
    pairs = {
        "parameters": (formula.parameters, after["parameter"]),
        "gradients": (formula.gradients, after["gradient"]),
        "optimizer state": (formula.optimizer, after["optimizer state"]),
    }
    text = ", ".join(f"{what}: formula {one:,}, ledger {other:,}" for what, (one, other) in pairs.items())
    task.judge(f"state by formula, {name}", all(one == other for one, other in pairs.values()), text)


def _add_peak(task: BenchTask, name: str, ledger: MemoryLedger) -> None:
    """Rows and a part: the ledger's peak beside the allocator's."""
    peak = ledger.peak()
    task.table.add(f"peak by the ledger, {name}", [peak.total_bytes / 1e6], "MB")
    if peak.allocator_bytes is None or peak.unseen_bytes is None:
        if task.has_gpus(f"peak by the allocator, {name}", 1):
            task.tell(f"peak by the allocator, {name}", FAILED, "the ledger saw no tensor on the GPU")
        return
    task.table.add(f"peak by the allocator, {name}", [peak.allocator_bytes / 1e6], "MB")
    task.table.add(f"not seen by the ledger, {name}", [peak.unseen_bytes / 1e6], "MB")
    most = _WORKSPACE_BYTES + _MOST_UNSEEN_SHARE * peak.allocator_bytes
    text = f"unseen: {peak.unseen_bytes:,} bytes; from 0 to {most:,.0f} is what rounding and workspaces explain"
    task.judge(f"the ledger agrees with the allocator, {name}", 0 <= peak.unseen_bytes <= most, text)
