"""Step ``precision``: the same training in float32, TF32, bfloat16 and float16: its loss, its time, its memory.

Weights stay float32 but in the pure kind; autocast casts copies of them. float16 needs its gradients scaled. The loss
of each is to stay by that of float32, and bfloat16 is to be faster than float32 on a GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.authoring.bench.gpu.measurements.peak import step_times_s
from course_lib.authoring.bench.gpu.measurements.sizes import BATCH_SIZE, middle
from course_lib.authoring.bench.gpu.task import BenchTask

if TYPE_CHECKING:
    import torch

__all__ = ["run"]

_NUM_STEPS = 10
_MOST_OFF = 0.05  # of float32's loss, after so many steps
_PROMISED_SPEED_UP = 1.0


@dataclass(frozen=True)
class _Way:
    """Autocast to ``dtype``, if any; ``tf32`` lets float32 products be rounded; ``pure`` casts the weights too."""

    dtype: str = ""
    tf32: bool = False
    scaled: bool = False
    pure: bool = False


_WAYS = {
    "float32": _Way(),
    "TF32": _Way(tf32=True),
    "bfloat16 autocast": _Way("bfloat16"),
    "float16 autocast, scaled": _Way("float16", scaled=True),
    "bfloat16 weights": _Way("bfloat16", pure=True),
}
_ON_CPU = ("float32", "bfloat16 autocast")


def run(task: BenchTask) -> None:
    """A loss, times and a peak for each way; ratios to float32."""
    losses: dict[str, float] = {}
    times: dict[str, list[float]] = {}
    for name, way in _WAYS.items():
        if not task.on_gpu and name not in _ON_CPU:
            task.has_gpus(name, 1)
            continue
        with task.part(f"training in {name}"):
            losses[name], times[name] = _train(task, name, way)
    if "float32" not in losses:
        return
    for name in [name for name in losses if name != "float32"]:
        off = abs(losses[name] / losses["float32"] - 1)
        text = f"loss {losses[name]:.4f} after {_NUM_STEPS} steps, float32 {losses['float32']:.4f}: {off:.2%} off"
        task.judge(f"the loss of {name}", off <= _MOST_OFF, text)
        ratios = [one / other for one, other in zip(times["float32"], times[name], strict=True)]
        promised = task.target(_PROMISED_SPEED_UP) if name == "bfloat16 autocast" else None
        task.table.add(f"speed-up over float32, {name}", ratios, "x", target=promised, at_least=True)


def _train(task: BenchTask, name: str, way: _Way) -> tuple[float, list[float]]:
    """The loss after some steps, and the times of further ones."""
    import torch

    with _products(way.tf32):
        step = _step(task, way)
        if task.on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        found = [step() for _ in range(_NUM_STEPS)]
        times = step_times_s(step, task.device_name, rounds=task.rounds, warm_up=1)
        task.table.add(f"step, {name}", [1e3 * time_s for time_s in times], "ms")
        if task.on_gpu:
            task.table.add(f"peak, {name}", [torch.cuda.max_memory_allocated() / 1e6], "MB")
    return float(found[-1]), times


def _step(task: BenchTask, way: _Way) -> Callable[[], torch.Tensor]:
    import torch

    from course_lib.models import Transformer, next_token_loss

    torch.manual_seed(0)
    config = middle(task.on_gpu)
    dtype = getattr(torch, way.dtype) if way.dtype else torch.float32
    model = Transformer(config).to(task.device_name, dtype if way.pure else torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(256, (BATCH_SIZE, config.context_length + 1)).to(task.device_name)
    scaler = torch.amp.GradScaler(task.device_name, enabled=way.scaled)
    autocast = torch.autocast(task.device_name, dtype, enabled=bool(way.dtype) and not way.pure)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with autocast:
            loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step


@contextlib.contextmanager
def _products(tf32: bool) -> Iterator[None]:
    """Whether a GPU may round the factors of float32 products to 10 bits."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
