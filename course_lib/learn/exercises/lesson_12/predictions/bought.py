"""What is left of a large job's time and what gains some back, for part c of lesson 12; and the clinic's suspects."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.cost.reliability.goodput_runs import SimulatedGoodput
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.sick.sick_job import JobLog

__all__ = ["BOUGHT", "BUYS", "SUSPECTS"]

BUYS = (
    "a failure is noticed after 10 seconds",
    "nine tenths of a write go on beside training",
    "storage four times as fast",
    "a start in one minute in place of four",
)
SUSPECTS = (
    "it fails more often than it should",
    "failures are noticed too late",
    "it starts again too slowly",
    "too much work is thrown away at a failure",
    "checkpoints are too close together",
)


def _buy(runs: Mapping[str, SimulatedGoodput]) -> Explanation:
    """From simulated runs of what each purchase makes of the job; ``runs["as it is"]`` without any."""
    before = runs["as it is"].mean.useful
    gains = {name: runs[name].mean.useful - before for name in BUYS}
    ranked = sorted(gains, key=lambda name: -gains[name])
    told = "; ".join(f"{name}: {100 * gains[name]:+.1f} points" for name in ranked)
    behind = 100 * (gains[ranked[0]] - gains[BUYS[1]])
    silence = "  The time until a failure is noticed counts like restart time, on all GPUs, at each failure."
    sentences = {
        BUYS[0]: "It shortens every restart, and there is more to gain elsewhere.",
        BUYS[1]: f"It is {behind:.1f} points behind. People see the writing; no profile shows the waiting for a "
        "time-out.",
        BUYS[2]: "That halves what writing and work done again cost. The restarts stay as they were, and are the "
        "larger part.",
        BUYS[3]: "Restarts do cost most. But look which parts a restart has.",
    }
    return Explanation(
        measured=ranked[0],
        label="simulated",
        because=f"The goodput was {before:.1%}. {told[:1].upper()}{told[1:]}.{silence * (ranked[0] == BUYS[0])}",
        misreadings={name: text for name, text in sentences.items() if name != ranked[0]},
    )


def _dear(log: JobLog) -> Explanation:
    """From the clinic's log."""
    setup, count = log.setup, len(log.failures)
    expected = log.days * 86_400 / setup.job.mean_time_between_s
    writing = log.num_checkpoints * setup.write_s / 3600
    down = sum(failure.notice_s + failure.start_s for failure in log.failures) / 3600
    again = sum(failure.redone_s for failure in log.failures) / 3600
    return Explanation(
        measured=SUSPECTS[4],
        label="here",
        because=f"{log.num_checkpoints:,} times {setup.write_s:.0f} seconds are {writing:.0f} hours of writing, of "
        f"{24 * log.days:.0f} hours in all. All {count} failures together cost {down:.1f} hours until training went "
        "on, and "
        f"{again:.1f} hours of work done again. Rare events have a line each in the log; the writing, which happens "
        f"every {(setup.interval_s + setup.write_s) / 60:.1f} minutes, has one number at its end.",
        misreadings={
            SUSPECTS[
                0
            ]: f"{setup.num_gpus:,} GPUs at Llama 3's rate fail {expected:.0f} times in {log.days:g} days on average; "
            f"this job failed {count} times.",
            SUSPECTS[
                1
            ]: f"{setup.notice_s / 60:.0f} minutes each, {count} times: add them up. And then add up the last line.",
            SUSPECTS[
                2
            ]: f"{setup.start_s / 60:.0f} minutes each, {count} times: add them up. And then add up the last line.",
            SUSPECTS[3]: "Look at the column: a few minutes each. Little work is thrown away here.",
        },
    )


BOUGHT: tuple[Asked, ...] = (
    Asked(
        name="12.buy",
        question="Which one gains most goodput?",
        choices=BUYS,
        tell=_buy,
    ),
    Asked(
        name="12.dear",
        question="What costs this job most?",
        choices=SUSPECTS,
        tell=_dear,
    ),
)
