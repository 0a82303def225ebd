"""The quiz of lesson 11; right answers come from the planner's arithmetic, the schedules and the judge of part d."""

from __future__ import annotations

from course_lib.cost.data_parallel.sharded import sharded_state
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.learn.exercises.lesson_11.cheapest import cheapest_row
from course_lib.plan import decoder
from course_lib.schedules import one_f_one_b, peak_in_flight_by_stage
from course_lib.schedules.stage_times import StageTimes

__all__ = ["QUIZ"]

_DAY_S = 86_400
_ROWS = [(8, 40.0, 95e9), (16, 22.0, 75e9), (32, 12.0, 60e9), (64, 8.0, 50e9)]
_AS_MUCH = {0.25: "a quarter of it", 1.0: "as much", 2.0: "twice as much", 4.0: "four times as much"}
_WAYS = {
    8: "more micro-batches: 8 in place of 4",
    32: "more micro-batches: 32 in place of 4",
    128: "more micro-batches: 128 in place of 4",
    0: "a faster link between the stages",
}


def _states_gb() -> int:
    """GB of states of a rank that holds an eighth of all: 7 billion numbers in mixed precision, ZeRO-3."""
    state = sharded_state(7_000_000_000, num_ranks=8, stage=3)
    return round(state.total / 1e9)


def _first_stage() -> float:
    """What the first of 4 stages keeps at most under 1F1B, in activations of the whole model for one micro-batch."""
    stages = 4
    return peak_in_flight_by_stage(one_f_one_b(stages, 32))[0] / stages


def _enough_micro_batches() -> int:
    """The first of the numbers offered with which 8 stages are idle for less than a fifth of the time."""
    times = StageTimes.of(0.010)
    fits = (m for m in sorted(_WAYS) if m and simulate(one_f_one_b(8, m), times).idle_share < 0.2)
    return next(fits)


def _mfu_of_hfu() -> int:
    """MFU in per cent of a run with full recomputation whose HFU is 48 %; short sequences, so attention is small."""
    model = decoder("gpt-3-175b")
    needed, executed = (model.step_flops(512, 1, recompute=way) for way in ("none", "full"))
    return round(48 * needed / executed)


def _cheapest() -> int:
    """The GPUs of the cheapest of ``_ROWS`` in 10 days, on GPUs of 80 GB, for 40,000 steps."""
    found = cheapest_row(_ROWS, 40_000, 1, 1.0, 10.0, 80e9)
    assert found is not None
    return _ROWS[found[0]][0]


QUIZ = (
    Question(
        name="states",
        text="7 billion parameters, mixed precision and Adam, 16 bytes a parameter, ZeRO-3 over 8 GPUs. How many GB of "
        "states has each GPU, between two steps?",
        choices=(2, 14, 56, 112),
        answer=_states_gb,
        show=lambda gigabytes: f"{gigabytes} GB",
        misconceptions={
            2: "Those are 16-bit weights alone, shared out. Gradients, master weights and two moments belong to it.",
            56: "That is half of all states. Stage 3 shares out everything, among all 8.",
            112: "That is what one GPU would hold by itself, or each of 8 replicas.",
        },
        because="16 bytes for each of 7 billion numbers are 112 GB, and each of 8 ranks keeps an eighth.",
    ),
    Question(
        name="first",
        text="4 pipeline stages, 1F1B, many micro-batches. What does the first stage keep of activations, compared "
        "with one GPU that has the whole model and takes one micro-batch at a time?",
        choices=tuple(_AS_MUCH),
        answer=_first_stage,
        show=lambda times: _AS_MUCH[times],
        misconceptions={
            0.25: "A quarter of the layers, yes; but of how many micro-batches?",
            2.0: "That would be 8 micro-batches in flight, with 4 stages. 1F1B has one for each stage still to come.",
            4.0: "4 micro-batches in flight, yes; but of a quarter of the layers each.",
        },
        because="The first stage keeps a quarter of the layers' activations, for 4 micro-batches in flight. A "
        "pipeline makes a rank's states smaller, but not the activations of the first stage.",
    ),
    Question(
        name="idle",
        text="8 stages, 4 micro-batches, equal stages. All ranks are idle for most of the time, in turn, and the links "
        "are nearly empty. What is the smallest change that brings idle time below 20 %?",
        choices=tuple(_WAYS),
        answer=_enough_micro_batches,
        show=lambda micro_batches: _WAYS[micro_batches],
        misconceptions={
            8: "With one micro-batch for each stage, nearly half of the time is idle still.",
            128: "That is more than enough; and smaller micro-batches make smaller pieces of work.",
            0: "The links are nearly empty: no rank waits for bytes.",
        },
        because="A rank is idle in p - 1 of m + p - 1 slots: with 8 stages and 32 micro-batches in 7 of 39.",
    ),
    Question(
        name="hfu",
        text="A paper reports an HFU of 48 %, with full recomputation. What is the MFU, about?",
        choices=(24, 36, 48, 64),
        answer=_mfu_of_hfu,
        show=lambda percent: f"{percent} %",
        misconceptions={
            24: "Then half of the work would be recomputed. But a second forward pass is one of four equal parts of "
            "it.",
            48: "That counts the second forward pass as if the model needed it.",
            64: "MFU counts less work than HFU in the same time, so it is never larger.",
        },
        because="A step is a forward pass, a backward pass of twice its work, and the forward pass again. The model "
        "needs three of these four parts.",
    ),
    Question(
        name="cheapest",
        text="40,000 steps, 10 days, GPUs of 80 GB. 8 GPUs: 40 s a step, 95 GB. 16: 22 s, 75 GB. 32: 12 s, 60 GB. 64: "
        "8 s, 50 GB. Which is the cheapest that fits and ends in time?",
        choices=(8, 16, 32, 64),
        answer=_cheapest,
        show=lambda gpus: f"{gpus} GPUs",
        misconceptions={
            8: "It takes the fewest GPU seconds. But it does not fit, and it is not in time.",
            16: "It fits. 880,000 seconds are more than 10 days.",
            64: "It is the quickest. But 64 GPUs for 8 s are a third more GPU seconds than 32 for 12 s.",
        },
        because="8 do not fit and 16 are late. 32 take 384 GPU seconds a step, 64 take 512.",
    ),
)
