"""Trials of what is said about speed: what a link takes away, what overlap gives back, when one device is faster.

All steps here are *paced* (emulated compute): a rank waits for as long as its share of the computing would take on a
device of its own, so two cores can play four devices, and the links are shaped (traffic shaping). Ranks, messages and
their order are real.
"""

from __future__ import annotations

import time
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.claims.busy import borne_out, in_quiet, too_busy
from course_lib.claims.evidence import Evidence, Ranks, tries
from course_lib.cluster import Cluster, Links, Rank, pace
from course_lib.link import Link
from course_lib.meter import metered, time_text
from course_lib.parallel.data import PacedLayers

__all__: list[str] = []

_GRADIENT_BYTES = 1_000_000
_COMPUTE_S = 0.080  # of the whole batch on one device
_FAST, _SLOW = Link(0.0, 1e9), Link(0.0, 10e6)  # seconds, bytes a second


def _step_time_s(cluster: Cluster, link: Link, *, compute_s: float, weak: bool = False) -> float:
    """Seconds of one paced data-parallel step: the slowest rank, median of some steps."""
    with cluster.shaped(links=Links(link)):
        by_rank = list(cluster.run(_paced_steps, compute_s=compute_s, weak=weak))
    return median(max(times) for times in zip(*by_rank, strict=True))


def _paced_steps(me: Rank, compute_s: float, weak: bool, num_steps: int = 3) -> list[float]:
    share_s = compute_s if weak else compute_s / me.world_size
    gradient, times = torch.zeros(_GRADIENT_BYTES // 4), []
    for _ in range(num_steps):
        dist.barrier()
        began_s = time.perf_counter()
        pace(me, share_s)
        if me.world_size > 1:
            dist.all_reduce(gradient)
        times.append(time.perf_counter() - began_s)
    return times


@tries("A11")
@in_quiet
def bad_communication_cancels_what_more_compute_gains(ranks: Ranks) -> Evidence:
    """Two devices against one, on a fast link and on a slow one."""
    alone_s = _COMPUTE_S
    fast_s, slow_s = (_step_time_s(ranks(2), link, compute_s=_COMPUTE_S) for link in (_FAST, _SLOW))
    return Evidence(
        "holds" if fast_s < alone_s < slow_s else "false",
        {
            "gradients": f"{_GRADIENT_BYTES / 1e6:g} MB",
            "computing of a step": time_text(alone_s),
            "two devices are faster, 1 GB/s": fast_s < alone_s,
            "two devices are faster, 10 MB/s": slow_s < alone_s,
        },
        timings={"1 GB/s": f"{alone_s / fast_s:.2f}x", "10 MB/s": f"{alone_s / slow_s:.2f}x"},
        because="half the computing is saved and an all-reduce is added; on the slow link that takes longer",
    )


@tries("D1")
@in_quiet
def data_parallelism_is_not_about_speed(ranks: Ranks) -> Evidence:
    """The same two links: is data parallelism ever faster, and ever slower?"""
    fast_s, slow_s = (_step_time_s(ranks(2), link, compute_s=_COMPUTE_S) for link in (_FAST, _SLOW))
    faster, slower = fast_s < 0.75 * _COMPUTE_S, slow_s > _COMPUTE_S
    verdict = "misleading" if faster and slower else "false" if faster else "holds"
    return Evidence(
        verdict,
        {"faster on a fast link": faster, "slower on a slow link": slower},
        timings={"1 GB/s": f"{_COMPUTE_S / fast_s:.2f}x", "10 MB/s": f"{_COMPUTE_S / slow_s:.2f}x"},
        because="speed is what it is for, since it saves no memory for weights; it is slow where sending the "
        "gradients takes longer than the computing that it spares",
    )


@tries("C3")
@in_quiet
def more_gpus_give_no_proportional_speed_up(ranks: Ranks) -> Evidence:
    """One, two and four devices on a link of 100 MB/s: the same batch shared out, and a batch for each."""
    link = Link(0.0, 100e6)
    strong = {n: _COMPUTE_S / _step_time_s(ranks(n), link, compute_s=_COMPUTE_S) for n in (2, 4)}
    weak = {n: n * _COMPUTE_S / _step_time_s(ranks(n), link, compute_s=_COMPUTE_S, weak=True) for n in (2, 4)}
    below = all(speed_up < n for scaling in (strong, weak) for n, speed_up in scaling.items())
    return Evidence(
        "holds" if below else "false",
        {
            "devices": "2, 4",
            "every speed-up is below the number of devices": below,
            "weak beats strong": weak[4] > strong[4],
        },
        timings={
            "strong scaling (one batch shared out)": ", ".join(f"{strong[n]:.2f}x" for n in (2, 4)),
            "weak scaling (a batch for each)": ", ".join(f"{weak[n]:.2f}x" for n in (2, 4)),
        },
        because="the all-reduce stays as long while each device has less to compute; with a batch for each device "
        "it weighs less, and is still there",
    )


@tries("C12")
@in_quiet
def very_small_models_train_faster_on_one_device(ranks: Ranks) -> Evidence:
    """A link with 10 ms of latency, and steps that compute for 4 ms up to 256 ms on one device."""
    link, faster = Link(10e-3, 1e9), {}
    for compute_s in (0.004, 0.016, 0.064, 0.256):
        faster[compute_s] = compute_s / _step_time_s(ranks(2), link, compute_s=compute_s)
    small, large = faster[0.004], faster[0.256]
    break_even_s = next((compute_s for compute_s, speed_up in faster.items() if speed_up > 1), None)
    return Evidence(
        "holds" if small < 1 < large else "false",
        {"two devices are faster at 4 ms": small > 1, "at 256 ms": large > 1},
        timings={"first faster at": "none of them" if break_even_s is None else time_text(break_even_s)}
        | {f"two devices, {time_text(step_s)}": f"{up:.2f}x" for step_s, up in faster.items()},
        because="a message takes its time however little there is to compute",
    )


@tries("C8")
@in_quiet
def that_model_parallelism_is_always_better_is_a_myth(ranks: Ranks) -> Evidence:
    """A model that fits one device: cut in two halves that work in turn, and replicated with half the batch each."""
    data_s = _step_time_s(ranks(2), _FAST, compute_s=_COMPUTE_S)
    with ranks(2).shaped(links=Links(_FAST)):
        model_s = median(max(times) for times in zip(*ranks(2).run(_halves, _COMPUTE_S), strict=True))
    return Evidence(
        "holds" if data_s < 0.8 * model_s else "false",
        {"devices": 2, "replicas are faster": data_s < model_s},
        timings={"replicas": f"{_COMPUTE_S / data_s:.2f}x", "halves in turn": f"{_COMPUTE_S / model_s:.2f}x"},
        because="while one half of the layers works the other waits; what cutting the model buys is memory",
    )


def _halves(me: Rank, compute_s: float, num_steps: int = 3) -> list[float]:
    """Rank 0 has the first half of the layers, rank 1 the second; forward goes up, backward comes down."""
    activations, times = torch.zeros(1000), []
    for _ in range(num_steps):
        dist.barrier()
        began_s = time.perf_counter()
        if me.rank == 0:
            pace(me, compute_s / 6)  # forward; backward takes twice as long
            dist.send(activations, 1)
            dist.recv(activations, 1)
            pace(me, compute_s / 3)
        else:
            dist.recv(activations, 0)
            pace(me, compute_s / 2)  # forward and backward of the second half
            dist.send(activations, 0)
        times.append(time.perf_counter() - began_s)
    return times


def _backward_with_ddp(me: Rank, in_one_bucket: bool) -> None:
    layers = PacedLayers(me, num_layers=8, layer_bytes=64 * 1024, forward_s=0.0, backward_s=0.08)
    model = DistributedDataParallel(layers, bucket_cap_mb=1000 if in_one_bucket else 0.05)
    for _ in range(3):
        model(torch.ones(4)).sum().backward()


def _hidden_share(cluster: Cluster, in_one_bucket: bool) -> float:
    """The part of the all-reduces' time on rank 0 that went by beside computing."""
    with cluster.shaped(links=Links(Link(0.0, 10e6))):
        sent = metered(cluster, _backward_with_ddp, in_one_bucket).communication.of(operation="all_reduce")
    return sent.hidden_s(0) / (sent.hidden_s(0) + sent.exposed_s(0))


@tries("E6")
def ddp_hides_communication_behind_the_backward_pass(ranks: Ranks) -> Evidence:
    """A link on which all gradients take about as long as the backward pass: in small buckets, and in one."""

    def hidden_shares() -> dict[bool, float]:
        return {in_one_bucket: _hidden_share(ranks(2), in_one_bucket) for in_one_bucket in (False, True)}

    def much(hidden: dict[bool, float]) -> bool:
        return hidden[False] > 0.5 and hidden[False] > 2 * hidden[True]

    hidden, in_line = borne_out(ranks(2), [hidden_shares] * 4, much)
    if not much(hidden) and (undecided := too_busy(in_line)):
        return undecided
    return Evidence(
        "holds" if much(hidden) else "false",
        {"more than half is hidden, small buckets": hidden[False] > 0.5, "one bucket": hidden[True] > 0.5},
        timings={
            "hidden, small buckets": f"{hidden[False]:.0%}",
            "hidden, one bucket": f"{hidden[True]:.0%}",
        },
        because="a bucket is sent as soon as it is full, while earlier layers still compute; what is left is the "
        "last bucket, and with one bucket that is everything",
    )
