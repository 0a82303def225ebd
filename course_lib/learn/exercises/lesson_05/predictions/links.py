"""Part d of lesson 05: bytes and time of stage 3, prefetch, hybrid sharding, dtypes."""

from __future__ import annotations

from course_lib.base.text import mib
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["LINKS"]


def _half(sharded_bytes: int, ddp_bytes: int) -> Explanation:
    """From the bytes that a rank sends, with ZeRO-3 and with DDP."""
    return Explanation(
        measured=mib(sharded_bytes),
        model=mib(1.5 * ddp_bytes),
        because="DDP's all-reduce is two halves: a reduce-scatter and an all-gather. ZeRO-3 has the same two, and "
        "gathers the weights a second time for the backward pass: three halves in place of two.",
        misreadings={
            mib(3 * ddp_bytes): "Three collectives, and each is half an all-reduce.",
            mib(2 * ddp_bytes): "Weights and gradients are as large as each other, so that would be an all-reduce for "
            "each. But nobody adds weights up: what they need is an all-gather, twice, half an all-reduce each time.",
            mib(ddp_bytes): "That is ZeRO-1 and ZeRO-2, which gather the weights once a step. Here they are let go "
            "after the forward pass.",
        },
        apart="Bytes do not depend on how busy a machine is. Count the calls that the cell prints.",
    )


def _slower(sharded_s: float, ddp_s: float, sharded_model_s: float, ddp_model_s: float) -> Explanation:
    """From a measured step of ZeRO-3 and of DDP on the dial's link, and from both by the cost model."""
    behind = sharded_model_s / ddp_model_s - 1
    if behind < 0.15:
        because = (
            f"By the model it takes {behind:.0%} longer than DDP, though it sends 1.5 times as much. It sends a third "
            "of its bytes beside the forward pass, where DDP's link is idle."
        )
    else:
        because = (
            f"On this link DDP has to wait for its gradients as well, and by the model ZeRO-3 takes "
            f"{behind:.0%} longer. Only what does not hide costs time, and ZeRO-3 has one and a half times as much "
            "of that. Give `dial` more bytes per second, and look where that ends."
        )
    here = sharded_s / ddp_s - 1
    if here > behind + 0.05 and sharded_s < 1.25 * sharded_model_s:  # further off, ``apart`` is said
        because += (
            f" In this run it takes {here:.0%} longer. Bytes are not the reason for the rest: each call costs "
            "time, and ZeRO-3 makes three for each layer where DDP makes one. Other work on this machine may add to "
            "it."
        )
    return Explanation(
        measured=round(1e3 * sharded_s),
        model=round(1e3 * sharded_model_s),
        because=because,
        misreadings={
            lambda ms: (
                ms >= 1.3e3 * ddp_s
            ): "Bytes cost time only if a rank waits for them. What is computed while they travel?",
            lambda ms: (
                ms < 0.8e3 * ddp_model_s
            ): "Both compute as much, and that alone takes nearly as long as DDP's step.",
        },
        apart=f"DDP's own step is {1e3 * (ddp_s - ddp_model_s):+.0f} ms off its model. If ZeRO-3 is off by as much, a "
        "step costs that on this machine besides computing and link. If it is off by more, its calls cost the rest: "
        "ZeRO-3 makes three for each layer. Close other programs and run both cells again.",
    )


def _larger(times: float) -> Explanation:
    """From how many times as fast a link ten times the parameters need, by arithmetic."""
    return Explanation(
        measured=round(times, 2),
        label="computed",
        because="Ten times as many weights come, and a rank computes as much with each of them as before: P cancels. "
        "A weight that has come is used once for each token. So the number of tokens decides whether it hides.",
        misreadings={
            10: "That many more bytes have to come. And how much more is there to compute meanwhile?",
            100: "Bytes and operations both grow. More bytes need a faster link, and more operations a slower one.",
            0.1: "More is computed, that is right. But more has to come as well.",
        },
    )


def _hybrid(hybrid_bytes: int, over_all_bytes: int, weights_bytes: int) -> Explanation:
    """From what leaves a machine with hybrid sharding and with sharding over all ranks."""
    return Explanation(
        measured=mib(hybrid_bytes),
        model=mib(weights_bytes),
        because="Each rank of a machine averages its half of all gradients with one rank of the other machine. In an "
        "all-reduce between two, each sends as many bytes as that half has. Weights do not leave a machine. Sharded "
        "over four, both all-gathers send bytes to the other machine, and so does the reduce-scatter: "
        f"{over_all_bytes / hybrid_bytes:.1f} times as much in all.",
        misreadings={
            0: "A machine has all that it needs for its own forward and backward. But the other machine has seen "
            "another part of the batch, and the two must stay one model.",
            mib(2 * weights_bytes): "Between two ranks an all-reduce sends each gradient once from each side, and "
            "the question does not count what comes from the other machine.",
            mib(weights_bytes / 2): "That is one rank. Two of them average, each its own half of the rows.",
            mib(over_all_bytes): "Then hybrid sharding would save nothing. Which of the three collectives still has "
            "to cross?",
        },
        apart="Bytes do not depend on how busy a machine is. Look at calls.matrix() of both runs.",
    )


def _accumulate(num_quiet: int, num_loud: int, num_units: int) -> Explanation:
    """From the calls of a step of four pieces with ``no_sync`` and without."""
    return Explanation(
        measured=num_quiet,
        model=(2 * 4 + 1) * num_units,
        because="A piece cannot compute without weights, and they are let go after each use: two all-gathers a unit "
        "and piece remain. Only the reduce-scatters wait for the last piece.",
        misreadings={
            num_loud // 4: "Under DDP gradients were all that travelled. Here two of three messages carry weights.",
            num_loud: "Then `no_sync` would save nothing. What travels in the first three pieces that nobody needs "
            "before the optimizer's step?",
            (4 + 1) * num_units: "It would be so if weights stayed whole from forward to backward. They are let go "
            "between, so each piece gathers them twice.",
            num_loud // 2: "`no_sync` saves one of three kinds of messages, and only in three pieces of four.",
        },
    )


def _sum(ones: float) -> Explanation:
    """From the sum of 512 ones along a ring, in bfloat16."""
    return Explanation(
        measured=round(ones),
        label="computed",
        because="bfloat16 keeps 8 binary digits of a number. Between 256 and 512 it has only even numbers: "
        "256 + 1 is rounded to 256, and every further rank adds nothing. There is no error and no infinity, but the "
        "gradients of half of the ranks are lost.",
        misreadings={
            512: "512 is a number that bfloat16 has, exactly. But each rank on the ring rounds the sum that it "
            "sends on.",
            lambda total: total > 512: "Rounding cannot add more than there is: each of 512 ranks brings a 1.",
        },
    )


LINKS: tuple[Asked, ...] = (
    Asked(
        name="05.half",
        question="How many MiB does a rank send in a step of ZeRO-3?",
        unit="MiB",
        tell=_half,
    ),
    Asked(
        name="05.slower",
        question="How long does a step of ZeRO-3 take on this link?",
        unit="ms",
        tell=_slower,
    ),
    Asked(
        name="05.larger",
        question="Ten times the parameters, as many tokens: how many times as fast must the link be?",
        unit="times",
        tell=_larger,
    ),
    Asked(
        name="05.hybrid",
        question="How many MiB leave a machine in a step, with hybrid sharding?",
        unit="MiB",
        tell=_hybrid,
    ),
    Asked(
        name="05.accumulate",
        question="How many calls does a rank make in a step of four pieces, with no_sync?",
        unit="calls",
        tell=_accumulate,
    ),
    Asked(name="05.sum", question="512 ones, summed along a ring in bfloat16: what comes out?", tell=_sum),
)
