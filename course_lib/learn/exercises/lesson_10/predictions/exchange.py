"""Part e of lesson 10: exchanges in a real job's trace, and two micro-batches that hide each other's."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["EXCHANGE"]


def _next(hidden_us: float, exchange_us: float) -> Explanation:
    """From the time under computing of the next batch's exchanges, and all of their time."""
    share = 100 * hidden_us / exchange_us
    return Explanation(
        measured=round(share),
        label="in the trace",
        because=f"{(exchange_us - hidden_us) / 1e3:.1f} of {exchange_us / 1e3:.1f} ms are not under computing. No "
        "kernel needs the result yet. But to hide the exchange, the GPU must have other kernels to compute, and the "
        "host must have launched them.",
        misreadings={
            (lambda guess: guess > share + 25): "An exchange *could* be hidden, since nothing waits for its result. "
            "Whether it is hidden depends on what the GPU has to compute at that moment.",
            (lambda guess: guess < share - 25): "In some steps hardly anything is hidden, in others most of it.",
        },
    )


_CAUSES = (
    "the device waits for what they bring",
    "the host waits for counts, and launches no backward meanwhile",
    "their stream is busy with other exchanges",
    "the dense gradients have to be sent first",
)


def _why(
    asked_us: Sequence[float], left_us: Sequence[float], hidden_us: Sequence[float], rows_us: Sequence[float]
) -> Explanation:
    """By step: when the host asks for the second exchange after the end of the first, how much of forward the GPU has
    left when the host has launched it, what of the exchanges was hidden, and how long that of rows took before."""
    waits = sum(one > 0 for one in asked_us)
    most, least = max(left_us) / 1e3, min(left_us) / 1e3
    behind_us = min(rows for rows, left in zip(rows_us, left_us, strict=True) if left >= max(left_us) / 2)
    return Explanation(
        measured=_CAUSES[1] if waits == len(asked_us) else _CAUSES[0],
        label="the evidence says",
        because=f"In {waits} of {len(asked_us)} steps the host asked for the second exchange when the first was "
        "over. It reads the counts, to know how many numbers will come. Backward comes after that in the program. "
        f"So the GPU has nothing to compute except the rest of forward. Where this rest was {least:.1f} ms, "
        f"{min(hidden_us) / 1e3:.1f} ms were hidden; where it was {most:.1f} ms, up to {max(hidden_us) / 1e3:.1f} "
        f"ms. Where much was left, the GPU had been in the exchange of rows for {behind_us / 1e3:.1f} ms or more, "
        "and was behind its host. So these five were hidden because another exchange was not.",
        misreadings={
            _CAUSES[0]: "What they bring is looked up in the next step. No kernel of this step reads it.",
            _CAUSES[2]: "Look at the second step above: the exchange of rows was over long before, and the next one "
            "was asked for much later.",
            _CAUSES[3]: "Those come at the end of backward, after these exchanges.",
        },
    )


def _most(gained_us: Sequence[float], exposed_us: float, steps_us: float) -> Explanation:
    """From what is gained in each step by the model, all exposed communication, and the time of all steps."""
    gained = sum(gained_us)
    return Explanation(
        measured=round(100 * gained / steps_us, 1),
        label="by the model",
        because=f"By the model {gained / 1e3:.1f} of {steps_us / 1e3:.0f} ms are saved. There is room for all of "
        f"them under backward. All exposed communication is {100 * exposed_us / steps_us:.0f} % of the time, and "
        "most of it is of other exchanges, which this order leaves where they are.",
        misreadings={
            (
                lambda percent: percent > 1.5 * 100 * gained / steps_us
            ): "That counts more than these five. The other exchanges have to wait for rows or for gradients.",
            (lambda percent: percent < 0.5 * 100 * gained / steps_us): "Add up the exposed time of the six steps. "
            "In the first two steps nearly all of the time of the five is exposed.",
        },
    )


def _two(covered: int, exchanges: int) -> Explanation:
    """From how many exchanges had computing between start and wait, and how many there were."""
    return Explanation(
        measured=covered,
        label="by the order of calls",
        because="A's rows leave while B's dense step computes, B's while A's experts compute, A's outputs come back "
        "while B's experts compute. When B's outputs come back nothing is left to compute: they are the last.",
        misreadings={
            exchanges: "Nothing is left to compute during the very last one: both have computed all of their steps.",
            2: "That is so if each waits for the other at every turn, or if only dispatch is hidden. Combine can be "
            "hidden as well.",
            1: "One exchange stays exposed. How many do not?",
            0: "That is so with one micro-batch. But the steps of the other one do not depend on the first one's rows.",
        },
        apart="Until your order has passed, the course's runs. If yours ran, look where a wait follows its start.",
        model=exchanges - 1,
    )


def _memory(by_turns_bytes: int, apart_bytes: int) -> Explanation:
    """From the bytes of activations at the end of forward: of two by turns, and of one at a time."""
    times = by_turns_bytes / apart_bytes
    return Explanation(
        measured=round(times, 1),
        model=2,
        because="A's activations stay until A comes back, and A comes back only after B has gone forward. One after "
        "the other, A's are free before B begins. Memory has to have room for both, or the micro-batches have to be "
        "smaller.",
        misreadings={
            1: "The tokens are the same; but those of both micro-batches are there at one time.",
            4: "Nothing is kept for the exchanges besides the rows themselves.",
        },
        apart="The ledger counts what is kept for backward. Ask it for its entries: what else is there?",
    )


EXCHANGE: tuple[Asked, ...] = (
    Asked(
        name="10.trace_next",
        question="What share of the next batch's exchanges lies under computing?",
        unit="%",
        high=100,
        tell=_next,
    ),
    Asked(name="10.trace_why", question="Why are the five exchanges exposed?", choices=_CAUSES, tell=_why),
    Asked(
        name="10.trace_most",
        question="By how many per cent does a step become shorter, by this model?",
        unit="%",
        high=100,
        tell=_most,
    ),
    Asked(
        name="10.two_hidden",
        question="How many of the four exchanges are behind computing?",
        unit="exchanges",
        high=4,
        tell=_two,
    ),
    Asked(
        name="10.two_memory",
        question="How many times as many activations as with one micro-batch at a time?",
        unit="times",
        high=1000,
        tell=_memory,
    ),
)
