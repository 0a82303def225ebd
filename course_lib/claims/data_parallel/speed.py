"""Trials of what is said about speed: what a link takes away, what overlap gives back, when one device is faster.

All steps here are *paced* (emulated compute): a rank waits for as long as its share of the computing would take on a
device of its own, so two cores can play four devices, and the links are shaped (traffic shaping). Ranks, messages and
their order are real.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.timing_noise import Bounds, Timed, borne_out, too_busy, unclear
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link
from course_lib.meter import metered, time_text
from course_lib.parallel.data import PacedLayers

__all__: list[str] = []

_GRADIENT_BYTES = 1_000_000
_COMPUTE_S = 0.080  # of the whole batch on one device
_FAST, _SLOW = Link(0.0, 1e9), Link(0.0, 10e6)  # seconds, bytes a second
_NUM_STEPS = 6
_MUCH_FASTER = 0.8  # of the time


def _step_time(cluster: Cluster, link: Link) -> Bounds:
    """One paced data-parallel step on this link, where every rank has a core."""
    with cluster.shaped(links=Links(link)):
        return Bounds.of(cluster.run(_paced_steps))


def _paced_steps(me: Rank) -> list[Timed]:
    gradient = torch.zeros(_GRADIENT_BYTES // 4)

    def step() -> None:
        pace(me, _COMPUTE_S / me.world_size)
        dist.all_reduce(gradient)

    return [Timed.of(me, dist.barrier, step) for _ in range(_NUM_STEPS)]


@tries("A11")
def bad_communication_cancels_what_more_compute_gains(ranks: Ranks) -> Evidence:
    """Two devices against one, on a fast link and on a slow one."""
    fast, slow = (_step_time(ranks(2), link) for link in (_FAST, _SLOW))
    fast_gains, slow_gains = (step.below(_COMPUTE_S) for step in (fast, slow))
    if fast_gains is None or slow_gains is None:
        return unclear(fast, slow)
    return Evidence(
        "holds" if fast_gains and not slow_gains else "false",
        {
            "gradients": f"{_GRADIENT_BYTES / 1e6:g} MB",
            "computing of a step": time_text(_COMPUTE_S),
            "two devices are faster, 1 GB/s": fast_gains,
            "two devices are faster, 10 MB/s": slow_gains,
        },
        timings=_speed_ups(fast, slow),
        because="two devices each do half of the computing, and need an all-reduce. On the slow link the all-reduce "
        "takes longer than the saved computing",
        turns_if=f"no link was slower than {_GRADIENT_BYTES / (_COMPUTE_S / 2) / 1e6:.0f} MB/s: at that rate sending "
        "takes as long as the computing that a second device saves",
    )


def _speed_ups(fast: Bounds, slow: Bounds) -> dict[str, str]:
    return {name: f"{_COMPUTE_S / step.most_s:.2f}x" for name, step in (("1 GB/s", fast), ("10 MB/s", slow))}


@tries("D1")
def data_parallelism_is_not_about_speed(ranks: Ranks) -> Evidence:
    """The same two links: is data parallelism ever faster, and ever slower?"""
    fast, slow = (_step_time(ranks(2), link) for link in (_FAST, _SLOW))
    faster, not_slower = fast.below(0.75 * _COMPUTE_S), slow.below(_COMPUTE_S)
    if faster is None or not_slower is None:
        return unclear(fast, slow)
    return Evidence(
        ("false" if not_slower else "misleading") if faster else "holds",
        {"faster on a fast link": faster, "slower on a slow link": not not_slower},
        timings=_speed_ups(fast, slow),
        because="data parallelism is for speed: it saves no memory for weights. It is slow where sending the gradients "
        "takes longer than the computing that it saves",
        turns_if="every link was slow (then it holds), or no link was (then it is false)",
    )


@tries("C8")
def that_model_parallelism_is_always_better_is_a_myth(ranks: Ranks) -> Evidence:
    """A model that fits one device: cut in two halves that work in turn, and replicated with half the batch each."""
    replicas = _step_time(ranks(2), _FAST)
    with ranks(2).shaped(links=Links(_FAST)):
        halves = Bounds.of(ranks(2).run(_halves))
    faster = replicas.below(halves.times(_MUCH_FASTER))
    if faster is None:
        return unclear(replicas, halves)
    return Evidence(
        "holds" if faster else "false",
        {"devices": 2, "replicas are faster": faster},
        timings={
            "replicas": f"{_COMPUTE_S / replicas.most_s:.2f}x",
            "halves in turn": f"{_COMPUTE_S / halves.most_s:.2f}x",
        },
        because="while one half of the layers works, the other half waits. Cutting the model saves memory, not time",
        turns_if="replicas were never faster. Here they gain little on a link below "
        f"{_GRADIENT_BYTES / ((_MUCH_FASTER - 0.5) * _COMPUTE_S) / 1e6:.0f} MB/s. Where the model does not fit "
        "on one device, they cannot run",
    )


def _halves(me: Rank) -> list[Timed]:
    """Rank 0 has the first half of the layers, rank 1 the second; forward goes up, backward comes down."""
    activations = torch.zeros(1000)

    def step() -> None:
        if me.rank == 0:
            pace(me, _COMPUTE_S / 6)  # forward; backward takes twice as long
            dist.send(activations, 1)
            dist.recv(activations, 1)
            pace(me, _COMPUTE_S / 3)
        else:
            dist.recv(activations, 0)
            pace(me, _COMPUTE_S / 2)  # forward and backward of the second half
            dist.send(activations, 0)

    return [Timed.of(me, dist.barrier, step) for _ in range(_NUM_STEPS)]


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
        because="DDP sends a bucket as soon as it is full, while earlier layers still compute. Nothing hides the last "
        "bucket, and a single bucket is also the last one",
        turns_if="all gradients went in one bucket, or sending them took several times as long as the backward pass",
    )
