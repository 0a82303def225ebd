"""What lesson 04 asks of times: two paced ranks on links that are slowed down, beside the cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.cost.collectives.collective_cost import collective_cost
from course_lib.cost.data_parallel.scaling import scaling_curve
from course_lib.cost.data_parallel.step import ddp_buckets
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["BREAK_EVEN", "BUCKETS", "CALLS", "SPEEDUP"]

# The lesson's paced model: 8 layers of 256 x 256, a weight and a bias each, 96 ms of computing.
_TENSOR_BYTES = [size_bytes for _ in range(8) for size_bytes in (4 * 256 * 256, 4 * 256)]
_TWO_BUCKETS = ddp_buckets(_TENSOR_BYTES, bucket_cap_bytes=4 * 2**18, first_bucket_bytes=4 * 2**18)
_FORWARD_S, _BACKWARD_S = 0.032, 0.064
_FAR = Link(latency_s=5e-3, bandwidth_bytes_per_s=100e6)
_SLOW = Link(latency_s=1e-3, bandwidth_bytes_per_s=200e6)


def _all_reduce_s(size_bytes: float, num_ranks: int, link: Link) -> float:
    return collective_cost("all_reduce", size_bytes, link, num_ranks=num_ranks).time_s


def _strong_speedup(num_ranks: int, link: Link) -> float:
    (point,) = scaling_curve(
        [num_ranks],
        _TWO_BUCKETS,
        forward_s=_FORWARD_S,
        backward_s=_BACKWARD_S,
        all_reduce_time_s=lambda n, size_bytes: _all_reduce_s(size_bytes, n, link),
        kind="strong",
    )
    return point.speedup


def _calls(measured_s: Mapping[str, float]) -> Explanation:
    """From the seconds of communication that "16 calls" and "1 call" took."""
    sixteen_s = sum(_all_reduce_s(size_bytes, 2, _FAR) for size_bytes in _TENSOR_BYTES)
    one_s = _all_reduce_s(sum(_TENSOR_BYTES), 2, _FAR)
    return Explanation(
        measured=round(measured_s["16 calls"] / measured_s["1 call"], 1),
        model=round(sixteen_s / one_s, 1),
        because="Each call pays two latencies, however small its gradient. By the model a bias of 1 KiB costs nearly "
        "as much as a weight of 256 KiB.",
        misreadings={
            1: "The bytes are the same, and each call has latencies of its own.",
            16: "That would be so if bytes took no time at all: latencies are paid 16 times, bytes once.",
        },
        apart=f"The model has {sixteen_s * 1e3:.0f} ms for 16 calls and {one_s * 1e3:.0f} ms for one; look which of "
        "your two times is further off. A call also waits until both ranks have come and have a core. Sixteen short "
        "waits add up, and one long wait weighs most where there is one call. Close other programs and run the cell "
        "again: such waiting moves, the link does not.",
    )


def _buckets(swept_s: Sequence[float], predicted_s: Sequence[float]) -> Explanation:
    """From the measured and the predicted step times, in the order of the choices."""
    by_model = predicted_s.index(min(predicted_s))
    behind = swept_s[by_model] / min(swept_s) - 1
    if behind < 0.05:
        apart = (
            f"But the model's choice took only {behind:.0%} longer than the fastest. So little is within the noise: "
            "run the sweep again, and another one may win."
        )
    else:
        apart = (
            f"The model's choice took {behind:.0%} longer than the fastest. Compare the two columns of the sweep. "
            "Where many buckets are further off than few, a call costs more here than the link's latency: ranks and "
            "messages wait for cores. Run the sweep again; what moves is other work on this machine."
        )
    return Explanation(
        measured=_COUNTS[swept_s.index(min(swept_s))],
        model=_COUNTS[by_model],
        because="The best size depends on the link's latency: on a fast one, by the model, small buckets win. "
        "PyTorch's default, 25 MiB with a first one of 1 MiB, suits models of hundreds of MiB on fast links.",
        misreadings={
            "16 buckets": "They start earliest, and 16 times two latencies take longer than backward itself.",
            "1 bucket": "One bucket is complete when backward ends. Nothing of it is hidden.",
            "8 buckets": "The last one is short, and eight times two latencies are still longer than backward.",
            "2 buckets": "Close: two buckets pay fewer latencies. But the second one has half of all bytes, and "
            "nothing hides it.",
        },
        apart=apart,
    )


def _speedup(measured: Sequence[float]) -> Explanation:
    """From the measured speed of one rank, of two and of four that share the batch over the slow link."""
    two, four = (_strong_speedup(n, _SLOW) for n in (2, 4))
    return Explanation(
        measured=round(measured[-1], 2),
        model=round(four, 2),
        because="What does not shrink sets the limit. By the model, weak scaling loses much less on the same link.",
        misreadings={
            4: "The arithmetic is four times as fast. The gradients do not shrink, and there is less backward pass to "
            "hide them behind."
        },
        apart=f"For two ranks the model says {two:.2f}, and your run {measured[1]:.2f}. If these agree, the reason is "
        "the number of ranks: four of them, and what carries their messages, wait for the cores of this machine. If "
        "they are apart as well, other work is in the run. Close other programs and run the cell again.",
    )


def _break_even(one_rank_s: float, dial: Sequence[float], two_ranks_s: Sequence[float]) -> Explanation:
    """From a step of one rank, and of two ranks on each bandwidth of the dial (bytes per second, falling)."""
    alone_s = _FORWARD_S + _BACKWARD_S
    model_s = [alone_s / _strong_speedup(2, Link(1e-3, rate)) for rate in dial]
    model = max(rate for rate in range(1, 200) if _strong_speedup(2, Link(1e-3, rate * 1e6)) < 1)
    beside = ", ".join(f"{time_s * 1e3:.0f}" for time_s in model_s)
    return Explanation(
        measured=max(1, round(_crossing(one_rank_s, dial, two_ranks_s) / 1e6)),
        model=model,
        because="There the exposed part of the all-reduces takes as long as the half of the computing that the second "
        "rank took over. Links that are much faster than that are called slow.",
        misreadings={
            lambda rate: (
                rate < model / 3
            ): "Every byte of the gradients crosses the link, in every step, and a step is short.",
            lambda rate: rate > model * 3: "On so fast a link two ranks still gain: they need half of the computing, "
            "and hide a part of the messages.",
        },
        apart=f"By the model one rank takes {alone_s * 1e3:.0f} ms, and two take {beside} ms at the bandwidths of the "
        "dial. Compare that with your list. If one time alone does not fit, something disturbed that run. If all of "
        "them are longer by the same amount, each step costs this amount beside computing and link. Run the cell again "
        "to find out.",
    )


def _crossing(one_rank_s: float, dial: Sequence[float], two_ranks_s: Sequence[float]) -> float:
    """The bandwidth at which two ranks take as long as one; times are straight in 1 / bandwidth between neighbours."""
    beyond = next((i for i, time_s in enumerate(two_ranks_s) if time_s > one_rank_s), len(dial) - 1)
    i = max(1, beyond)
    near_s, far_s = two_ranks_s[i - 1 : i + 1]
    if far_s <= near_s:
        return dial[i]
    part = (one_rank_s - near_s) / (far_s - near_s)
    inverse = 1 / dial[i - 1] + part * (1 / dial[i] - 1 / dial[i - 1])
    return 1 / inverse if inverse > 0 else dial[0]


_COUNTS = ("16 buckets", "8 buckets", "4 buckets", "2 buckets", "1 bucket")

CALLS = Asked(
    name="04.calls",
    question="How many times as long do 16 calls take as one call for all?",
    unit="times",
    tell=_calls,
)
BUCKETS = Asked(name="04.buckets", question="In how many buckets is the step fastest?", choices=_COUNTS, tell=_buckets)
SPEEDUP = Asked(
    name="04.speedup",
    question="Four ranks share the batch: how many times as fast?",
    unit="times",
    tell=_speedup,
)
BREAK_EVEN = Asked(
    name="04.break_even",
    question="Below which bandwidth are two ranks slower than one?",
    unit="MB/s",
    tell=_break_even,
)
