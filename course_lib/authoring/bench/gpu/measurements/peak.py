"""Step ``peak``: what share of the data sheet's peak a training step of lesson 01's transformer reaches.

The step is forward, backward and AdamW, timed by device events. Its arithmetic is the model's own, counted by the
course's formulas: attention counts whole, and nothing is counted for recomputing, norms or the optimizer. The peak is
the data sheet's dense rate in bfloat16. The promise: at least 50 % on one card of the H100's class.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from course_lib.authoring.bench.gpu.measurements.sizes import BATCH_SIZE, widest
from course_lib.authoring.bench.gpu.task import NOT_RUN, BenchTask
from course_lib.cost.collectives.machines import machine_spec
from course_lib.cost.single_device.architectures import transformer_layers
from course_lib.cost.single_device.flops import flops, mfu
from course_lib.devices import machine

if TYPE_CHECKING:
    import torch

__all__ = ["machine_of", "run", "step_times_s", "times_s"]

_PROMISED_SHARE = 0.50
_PROMISED_ON = ("8x H100", "8x H200")

# The data sheets that are known, by what the driver calls the card; an H100 PCIe or NVL is another card.
_CARDS = {
    r"\bA100\b": "8x A100",
    r"\bH100\b.*\bHBM3\b": "8x H100",
    r"\bH200\b(?!.*NVL)": "8x H200",
    r"\bRTX 4090\b(?! D\b)": "4x RTX 4090",
    r"\bT4\b": "2x T4",
}


def machine_of(card: str) -> str | None:
    """The machine in ``course_lib.cost.collectives.machines`` with this card, by its name; None for one it lacks.

    None for a MIG slice too, which bears the card's name and has a part of its rate.
    """
    if re.search(r"\bMIG\b", card):
        return None
    return next((name for pattern, name in _CARDS.items() if re.search(pattern, card)), None)


def run(task: BenchTask) -> None:
    """Times, rates and shares, for weights in bfloat16 and for autocast."""
    import torch

    torch.manual_seed(0)
    matmul = _matmul_rate(task)
    ways = {"bfloat16": "bfloat16 weights", "autocast": "bfloat16 autocast"} if task.on_gpu else {"float32": "float32"}
    for way, title in ways.items():
        with task.part(f"a step, {title}"):
            step, num_flops, size = _training(task, way)
            times = step_times_s(step, task.device_name, rounds=max(task.rounds, 5))
            task.notes["model"] = size
            task.table.add(f"step, {title}", [1e3 * time_s for time_s in times], "ms")
            rates = [num_flops / time_s for time_s in times]
            task.table.add(f"rate, {title}", [rate / 1e12 for rate in rates], "TFLOP/s")
            task.table.add(f"share of the fastest matmul here, {title}", [100 * rate / matmul for rate in rates], "%")
            del step
            if task.on_gpu:
                torch.cuda.empty_cache()
                _add_share(task, title, num_flops, times)


def _add_share(task: BenchTask, title: str, num_flops: int, times: Sequence[float]) -> None:
    """A row: the share of the data sheet's peak; told as not run for a card whose sheet is not known."""
    card = machine().devices[0]
    name = None if card.is_mig_slice else machine_of(card.name)
    if name is None:
        why = f"course_lib/cost/collectives/machines.py has no data sheet of {card.name}"
        task.tell(f"share of the peak, {title}", NOT_RUN, why + (", a MIG slice" if card.is_mig_slice else ""))
        return
    peak = machine_spec(name).matmul_flops_per_s["bfloat16"]
    shares = [100 * mfu(num_flops, step_time_s=time_s, peak_flops_per_s=peak) for time_s in times]
    promised = 100 * _PROMISED_SHARE if name in _PROMISED_ON and title == "bfloat16 weights" else None
    task.table.add(f"share of the data sheet's peak, {title}", shares, "%", target=promised, at_least=True)


def _training(task: BenchTask, way: str) -> tuple[Callable[[], None], int, dict[str, Any]]:
    """A training step of the transformer, its FLOPs, and its sizes."""
    import torch

    from course_lib.models import Transformer, next_token_loss

    config = widest(task.on_gpu)
    dtype = torch.bfloat16 if way == "bfloat16" else torch.float32
    model = Transformer(config).to(task.device_name, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(256, (BATCH_SIZE, config.context_length + 1), device=task.device_name)
    autocast = torch.autocast(task.device_name, torch.bfloat16, enabled=way == "autocast")

    def step() -> None:
        optimizer.zero_grad()
        with autocast:
            loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
        loss.backward()
        optimizer.step()

    num_flops = flops(transformer_layers(config, batch_size=BATCH_SIZE)).total
    return step, num_flops, {**asdict(config), "batch_size": BATCH_SIZE}


def _matmul_rate(task: BenchTask) -> float:
    """FLOP/s of one large product of matrices, the fastest of some; a row in TFLOP/s."""
    import torch

    n, dtype = (8192, torch.bfloat16) if task.on_gpu else (1024, torch.float32)
    a, b = torch.randn(2, n, n, device=task.device_name).to(dtype)
    times = step_times_s(lambda: a @ b, task.device_name, rounds=max(task.rounds, 10))
    rates = [2 * n**3 / time_s for time_s in times]
    task.table.add(f"a product of matrices, {n} x {n} x {n}", [rate / 1e12 for rate in rates], "TFLOP/s")
    return max(rates)


def step_times_s(step: Callable[[], Any], device: str, *, rounds: int, warm_up: int = 3) -> list[float]:
    """Seconds of a call, ``rounds`` times, by device events on a GPU; the first calls do not count."""
    for _ in range(warm_up):
        step()
    return times_s(step, device, rounds)


def times_s(step: Callable[[], Any], device: str, rounds: int) -> list[float]:
    """As ``step_times_s``, without warming up."""
    if device == "cpu":
        found = []
        for _ in range(rounds):
            began_s = time.perf_counter()
            step()
            found.append(time.perf_counter() - began_s)
        return found
    import torch

    torch.cuda.synchronize()
    marks = [_mark()]
    for _ in range(rounds):
        step()
        marks.append(_mark())
    torch.cuda.synchronize()
    return [one.elapsed_time(other) / 1e3 for one, other in pairwise(marks)]


def _mark() -> torch.cuda.Event:
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
