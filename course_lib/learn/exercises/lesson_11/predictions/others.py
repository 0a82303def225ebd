"""Part d of lesson 11: runs that others measured, and when several GPUs are a mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_11.predictions.changes import CHANGES
from course_lib.learn.exercises.lesson_11.predictions.step_words import largest_parts, parts_of
from course_lib.plan.runs.replayed import Replayed

__all__ = ["OTHERS"]


def _off(runs: Sequence[Replayed], seconds: Callable[[Replayed], float]) -> float:
    """The median error of a step's time, in per cent."""
    return 100 * median(abs(seconds(run) / run.measured_s - 1) for run in runs)


def _share(run: Replayed) -> Explanation:
    """From the published run of Llama 3 405B."""
    measured = 100 * run.mfu
    return Explanation(
        measured=round(measured),
        model=round(measured * run.measured_s / run.predicted_s),
        label="published",
        because=f"Each GPU gets {run.tokens_per_s_per_gpu:,.0f} tokens done a second. The planner divides a step so: "
        f"{largest_parts(parts_of(run), 3)}; that is if stages have one chunk each, which the table does not tell. And "
        "computing is no pure multiplying: even large products stay below the data sheet's rate, and norms and softmax "
        "wait for memory. For so many GPUs this is a very good number.",
        misreadings={
            lambda percent: (
                percent > 1.4 * measured
            ): "Products alone reach 60 to 80 % of the data sheet. Everything else that a step does comes on top.",
            lambda percent: (
                percent < 0.6 * measured
            ): "So little is left if most of a step waits for the network. With a layout that keeps axes that send "
            "much inside a node, waiting is far shorter, by the planner.",
        },
        apart="Was another run taken, or another profile?",
    )


def _one_share(runs: Sequence[Replayed], share: float) -> Explanation:
    """From the runs that authors show, and the one share of the peak that is assumed for all of them."""
    measured = _off(runs, lambda run: run.at_peak_s / share)
    planned, elsewhere = _off(runs, lambda run: run.predicted_s), _off(runs, lambda run: run.elsewhere_s)
    than = "more than" if elsewhere > measured else "less than"
    return Explanation(
        measured=round(measured),
        because=f"All of these reach {min(run.hfu for run in runs):.0%} to {max(run.hfu for run in runs):.0%} of the "
        f"peak. Machines do not have to be so alike: these runs were tuned until little was left to gain, and then "
        "published. The "
        f"planner, with eight constants fitted to each cluster, is off by {planned:.0f} %; with constants of other "
        f"clusters by {elsewhere:.0f} %, {than} the single number. Runs that were chosen because they are good hardly "
        "show whether a model is better than one share for every run.",
        misreadings={
            lambda percent: (
                percent > 2 * measured
            ): "That would be so if models, GPUs and layouts were drawn at random. But these have something in "
            "common: each was good enough to be published.",
            lambda percent: (
                percent < 0.4 * measured
            ): "They are alike, but not as alike as that: clusters and models differ by some per cent.",
        },
        label="here",
    )


def _spread(runs: Sequence[Replayed], share: float) -> Explanation:
    """From all layouts of one job that were measured, and the one share of the peak."""
    fastest, slowest = (pick(runs, key=lambda run: run.measured_s) for pick in (min, max))
    measured = slowest.measured_s / fastest.measured_s
    predicted = [run.predicted_s for run in runs]
    picked = min(runs, key=lambda run: run.predicted_s)
    regret = picked.measured_s / fastest.measured_s - 1
    return Explanation(
        measured=round(measured, 1),
        model=round(max(predicted) / min(predicted), 1),
        label="published",
        because=f"The fastest is {fastest.of.run.layout}, the slowest {slowest.of.run.layout}, whose tensor axis is "
        f"wider than a node: {largest_parts(parts_of(slowest), 2)}. All {len(runs)} fit and compute the same, so "
        f"one share of the peak gives about the same seconds for each. At the median it is off by "
        f"{_off(runs, lambda run: run.at_peak_s / share):.0f} %, the planner by "
        f"{_off(runs, lambda run: run.predicted_s):.0f} %. The planner's pick is {picked.of.run.layout}, with a "
        f"regret of {regret:.1%}.",
        misreadings={
            lambda times: (
                times < 0.6 * measured
            ): "That would be so among layouts that people publish. But these are all that were tried.",
            lambda times: (
                times > 2 * measured
            ): "They are not so far apart: the arithmetic is the same for all, and it is a good part of most steps.",
        },
        apart="Was the planner changed? Print `predicted_s` of the slowest.",
    )


def _inside(run: Replayed, best: Replayed) -> Explanation:
    """From a layout whose tensor axis fills a node, and the best layout of the same job."""
    measured = run.measured_s
    flops_share = run.at_peak_s / measured
    return Explanation(
        measured=round(measured, 1),
        model=round(run.predicted_s, 1),
        label="published",
        because=f"Only {flops_share:.0%} of the peak is left. By the planner, {largest_parts(parts_of(run), 3)}. "
        "A layer of this width, cut in eight, for one sequence, is a handful of very short kernels. The GPUs are done "
        "before the host has issued the next ones, and each collective takes its latency, however fast the link. "
        "NVLink sends bytes fast, but it does not make short kernels longer.",
        misreadings={
            lambda seconds: (
                seconds < 1.6 * best.measured_s
            ): "The links are fast enough for that. Count the kernels in place of the bytes.",
            lambda seconds: (
                1.6 * best.measured_s <= seconds < 0.75 * measured
            ): "The direction is right, but it is worse: the pieces are so small that neither GPUs nor links are busy.",
            lambda seconds: seconds > 1.5 * measured: "It is not so slow; but it is slow.",
        },
        apart="Was the planner changed? Print the parts of the run.",
    )


def _price(times_s: Mapping[int, float], model: float) -> Explanation:
    """From seconds a step, by number of ranks; and what the cost model says of the price on four."""
    price = {ranks: ranks * step_s / times_s[1] for ranks, step_s in times_s.items()}
    two = "Two are quicker" if times_s[2] < times_s[1] else "Even two are not quicker"
    return Explanation(
        measured=round(price[4], 2),
        model=round(model, 2),
        because=f"A step takes {times_s[1] * 1e3:.0f} ms on one, {times_s[2] * 1e3:.0f} ms on two and "
        f"{times_s[4] * 1e3:.0f} ms on four. {two}, and a token costs {price[2]:.2f} times as much. On four there is "
        "less computing to hide behind, while the all-reduce is longer. So you pay four GPUs that wait for a link.",
        misreadings={
            1: "That is if nothing is lost: four GPUs for a quarter of the time.",
            lambda times: (
                times > max(4, 1.3 * price[4])
            ): "They would cost that much if they took longer than one, or if the all-reduce were even longer.",
            lambda times: (
                times < 1
            ): "Below 1, four ranks would have to be more than four times as quick as one. A step on four takes "
            f"{times_s[4] / times_s[1]:.2f} times as long as on one.",
            lambda times: 1 < times < 1.5: "That would be a small loss. Compare the all-reduce with what hides it.",
        },
        apart="The waits are exact; messages and a busy machine come on top. Run the cell again.",
    )


OTHERS: tuple[Asked, ...] = (
    Asked(
        name="11.share",
        question="Llama 3 405B on 8,192 H100: which share of the peak?",
        unit="%",
        tell=_share,
        high=100,
    ),
    Asked(
        name="11.one_share",
        question="One share for all: how far off at the median?",
        unit="%",
        tell=_one_share,
        high=1000,
    ),
    Asked(
        name="11.spread",
        question="26 layouts of one job: the slowest takes how many times as long as the fastest?",
        unit="times",
        tell=_spread,
        low=1,
        high=1000,
    ),
    Asked(
        name="11.inside",
        question="A tensor axis of 8 inside one node: how long is a step?",
        unit="s",
        tell=_inside,
        high=10_000,
    ),
    Asked(
        name="11.price",
        question="Four ranks: what does a token cost, in prices on one?",
        unit="times",
        tell=_price,
        high=1000,
    ),
    *CHANGES,
)
