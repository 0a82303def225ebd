"""``course bench meter``: what the communication meter costs a training step that it watches.

The same DDP step, of a model of a million parameters, with the meter off and on, in turn, on warm ranks.
"""

from __future__ import annotations

import time

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank

__all__ = ["main", "step_times"]

_STEPS = 10  # timed together


def step_times(me: Rank, rounds: int) -> list[tuple[float, float]]:
    """Seconds of a step with the meter off and on, ``rounds`` times, each pair in the other order than the last."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from course_lib.meter.communication.recorder import Recorder

    torch.manual_seed(0)
    layers = [torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 704), torch.nn.ReLU()]
    whole = torch.nn.Sequential(*layers, torch.nn.Linear(704, 10))  # 1.0 million parameters
    model = DistributedDataParallel(whole.to(me.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(128, 256, device=me.device)

    def block() -> float:
        began_s = time.perf_counter()
        for _ in range(_STEPS):
            _train(model, optimizer, x)
        if me.device.type == "cuda":
            torch.cuda.synchronize(me.device)
        return (time.perf_counter() - began_s) / _STEPS

    def watched() -> float:
        with Recorder(me.rank):  # opened once for many steps, as a run does
            return block()

    block(), watched()  # warm up
    pairs = []
    for number in range(rounds):
        if number % 2:
            on = watched()
            pairs.append((block(), on))
        else:
            off = block()
            pairs.append((off, watched()))
    return pairs


def _train(model: object, optimizer: object, x: object) -> None:
    optimizer.zero_grad()  # type: ignore[attr-defined]
    model(x).square().mean().backward()  # type: ignore[operator]
    optimizer.step()  # type: ignore[attr-defined]


def main(arguments: list[str]) -> int:
    options = bench_parser("meter", __doc__, rounds=20, of="pairs of ten steps").parse_args(arguments)
    with open_table(options) as table:
        with Cluster(2) as cluster:
            pairs = cluster.call(step_times, (options.rounds,), show=False)[0]
        table.add("DDP step, meter off", [1e3 * off for off, _ in pairs], "ms")
        table.add("DDP step, meter on", [1e3 * on for _, on in pairs], "ms")
        table.add("on / off, pair by pair", [on / off for off, on in pairs], "x", target=1.05)
    return 0
