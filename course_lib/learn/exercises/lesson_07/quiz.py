"""The quiz of lesson 07; right answers come from the schedules and the simulator."""

from __future__ import annotations

from bisect import bisect_left

from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.schedules import get_schedule, gpipe, one_f_one_b, peak_in_flight
from course_lib.schedules.stage_times import StageTimes

__all__ = ["QUIZ"]

_F = StageTimes.of(0.010)


def _idle(kind: str, p: int, m: int, times: object = _F, latency_s: float = 0.0) -> float:
    link = Link(latency_s, float("inf"))
    return round(100 * simulate(get_schedule(kind, p, m), times, link=link).idle_share, 1)  # type: ignore[arg-type]


def _enough(p: int, share: float) -> int:
    """The smallest number of micro-batches with which GPipe is idle for at most this share; more make it less."""
    tried = range(1, 129)
    return tried[bisect_left(tried, True, key=lambda m: simulate(gpipe(p, m), _F).idle_share <= share + 1e-9)]


def _step_ms(p: int, m: int) -> int:
    """A step of GPipe whose batch, in 8 micro-batches on 4 stages, takes 110 ms."""
    piece = StageTimes.of(0.080 / 3 / m)  # a rank works 80 ms in all, whatever the pieces
    return round(1e3 * simulate(gpipe(p, m), piece).makespan_s)


def _slower_link() -> str:
    grown = {kind: _idle(kind, 4, 8, latency_s=0.005) - _idle(kind, 4, 8) for kind in ("gpipe", "1f1b")}
    return "1F1B" if grown["1f1b"] > grown["gpipe"] + 0.1 else "both the same"


def _when_to_sum() -> str:
    """A stage could send before the whole step is over if any rank ends before the others do."""
    run = simulate(one_f_one_b(4, 16), _F)
    ends_s = [row[-1].end_s for row in run.rows]
    return (
        "once, after its last backward" if min(ends_s) < run.makespan_s else "once, after the whole pipeline has ended"
    )


def _memory_growth() -> str:
    before, after = (max(peak_in_flight(one_f_one_b(8, m))) for m in (16, 64))
    return "it stays as it is" if before == after else f"{after // before} times as much"


QUIZ = (
    Question(
        name="enough",
        text="Eight equal stages. How many micro-batches are needed so that at most a tenth of the time is idle?",
        choices=(8, 10, _enough(8, 0.1), 80),
        answer=lambda: _enough(8, 0.1),
        misconceptions={
            8: "As many as stages: then 7 of 15 moments are idle, nearly half.",
            10: "Then 7 of 17 moments are idle.",
            80: "That is more than enough: 7 of 87.",
        },
        because="7/(m + 7) is a tenth at m = 63: nine times the idle moments must be work.",
    ),
    Question(
        name="memory",
        text="Eight stages under 1F1B. A batch of 16 micro-batches becomes a batch of 64 micro-batches of "
        "the same size. What happens to the activations on the fullest rank?",
        choices=("4 times as much", "it stays as it is", "a quarter as much"),
        answer=_memory_growth,
        misconceptions={
            "4 times as much": "That is so under GPipe, which keeps all. Under 1F1B each backward frees memory.",
            "a quarter as much": "The micro-batches are of the same size; what would shrink?",
        },
        because="Rank 0 has as many micro-batches in flight as there are stages, however many follow.",
    ),
    Question(
        name="halved",
        text=f"Four equal stages. A batch in 8 micro-batches takes {_step_ms(4, 8)} ms under GPipe. The same batch in "
        "16, each half as large and half as long: how long does it take?",
        choices=(55, 80, 95, 110),
        answer=lambda: _step_ms(4, 16),
        show=lambda ms: f"{ms} ms",
        misconceptions={
            55: "The pieces take half as long, and there are twice as many: the work stays.",
            80: "That is the work alone, without any bubble. Infinitely many pieces would come near it.",
            110: "The work stays. But the waiting is three moments, and a moment is now half as long.",
        },
        because="First a rank works for 8 moments and waits for 3, 110 ms in all: a moment is 10 ms. Then it works "
        "for 16 moments and waits for 3, of 5 ms each.",
    ),
    Question(
        name="latency",
        text="Every message takes half as long as a forward. For which of two schedules does the idle share grow more?",
        choices=("GPipe", "1F1B", "both the same"),
        answer=_slower_link,
        misconceptions={
            "GPipe": "Its messages of one direction follow each other, so ranks wait for latency once "
            "forward and once backward.",
            "both the same": "They send the same messages. But who waits for whom, and how often?",
        },
        because="In every turn, a stage under 1F1B sends an activation and waits for a gradient. Under GPipe ranks "
        "wait for the latency once forward and once backward.",
    ),
    Question(
        name="sync",
        text="Two replicas of a pipeline, 16 micro-batches. When are the gradients of a stage all-reduced?",
        choices=(
            "once, after its last backward",
            "after every backward",
            "once, after the whole pipeline has ended",
        ),
        answer=_when_to_sum,
        misconceptions={
            "after every backward": "The sum is right, but ranks send 16 times as many bytes.",
            "once, after the whole pipeline has ended": "The values are right. But the last stages are done earlier, "
            "and could be sending while the first ones still work.",
        },
        because="Gradients add up over micro-batches on their own rank; a rank sends their sum once, as soon as it is "
        "complete.",
    ),
)
