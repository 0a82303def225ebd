"""The last quiz, over the whole course; right answers come from the cost model and from the library's rules."""

from __future__ import annotations

from course_lib.cost.collectives.collective_cost import collective_cost
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.cost.reliability.checkpoints import young_interval_s
from course_lib.cost.single_device.model_state import model_state
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.schedules import one_f_one_b
from course_lib.schedules.stage_times import StageTimes

__all__ = ["QUIZ"]

_GB = 10**9
_LINK = Link(latency_s=10e-6, bandwidth_bytes_per_s=10e9)
_MESHES = tuple(
    Mesh.of(**sizes)
    for sizes in (
        {"dp_replicate": 8},
        {"dp_replicate": 4, "tp": 2},
        {"pp": 2, "dp_replicate": 4},
        {"dp_replicate": 2, "dp_shard": 4},
    )
)
_ROOM_BYTES = 24 * _GB
_INTERVALS_S = {
    60: "every minute",
    1800: "every half an hour",
    14_400: "every four hours",
    28_800: "every 8 hours",
}


def _more_ranks() -> float:
    """What a rank of 64 sends for its gradients, over what a rank of 8 sends."""
    sent = {n: collective_cost("all_reduce", _GB, _LINK, num_ranks=n).bytes_sent[0] for n in (8, 64)}
    return round(sent[64] / sent[8], 3)


def _that_fits() -> str:
    """The mesh on which 4 billion parameters in float32 with AdamW fit in a rank's room."""
    states = model_state(4 * _GB, optimizer="adamw", dtype="float32").total
    fitting = [str(mesh) for mesh in _MESHES if states / mesh.size("pp", "dp_shard", "tp") <= _ROOM_BYTES]
    assert len(fitting) == 1
    return fitting[0]


def _interval_s() -> int:
    """Of the intervals offered the one nearest to Young's: a minute of writing, a failure every 8 hours."""
    best_s = young_interval_s(60, 8 * 3600)
    return min(_INTERVALS_S, key=lambda offered_s: abs(offered_s - best_s))


def _idle_percent() -> int:
    """Of 4 equal stages with 8 micro-batches, in per cent."""
    return round(100 * simulate(one_f_one_b(4, 8), StageTimes.of(0.010)).idle_share)


QUIZ = (
    Question(
        name="ranks",
        text="Data parallel on 8 ranks becomes data parallel on 64. What does a rank send for its gradients in a step "
        "now, compared with before?",
        choices=(0.125, 1.125, 2.0, 8.0),
        answer=_more_ranks,
        show=lambda times: {0.125: "an eighth", 1.125: "an eighth more"}.get(times, f"{times:.0f} times as much"),
        misconceptions={
            0.125: "Its share of the batch is an eighth. Gradients are as large as the model, on every rank.",
            2.0: "Twice the model is the limit that a ring comes near on many ranks; with 8 ranks it is near already.",
            8.0: "That would be so if each rank sent to all others. In a ring each sends to its neighbour alone.",
        },
        because="A rank sends 2(n - 1)/n of the gradients: 1.75 times their size on 8 ranks, and 1.97 times on 64. "
        "What grows is "
        "the number of rounds, and with them what latency costs (lessons 02 and 04).",
    ),
    Question(
        name="room",
        text="4 billion parameters, float32, AdamW. 8 GPUs with room for 24 GB of states each. Which mesh fits?",
        choices=tuple(map(str, _MESHES)),
        answer=_that_fits,
        misconceptions={
            str(_MESHES[0]): "Every replica holds all states: 64 GB each.",
            str(_MESHES[1]): "Half of the states are on each rank: 32 GB.",
            str(_MESHES[2]): "Half of the layers are on each rank, with all of their states: 32 GB.",
        },
        because="16 bytes a parameter are 64 GB. Only axes that cut states help: pp, tp and dp_shard. Replicas do not "
        "combine their memory (lesson 05).",
    ),
    Question(
        name="bubble",
        text="4 equal stages, 8 micro-batches, 1F1B, links that cost nothing. What share of the time is a rank idle, "
        "in per cent?",
        choices=(25, 27, 38, 75),
        answer=_idle_percent,
        show=lambda percent: f"{percent} %",
        misconceptions={
            25: "That would be one stage's share. Count slots: those of the micro-batches, and those of the bubble.",
            38: "That is 3 slots of bubble, divided by 8. But the whole time contains the bubble as well.",
            75: "That is so with one micro-batch: three stages of four wait.",
        },
        because="A rank is idle for (p - 1)/(m + p - 1) of the time: 3 slots of 11 (lesson 07).",
    ),
    Question(
        name="longer",
        text="Sequences become twice as long, and a batch has as many as before. Which bytes of a step stay the same?",
        choices=("those of dp_replicate", "those of tp", "those of pp", "those of cp"),
        answer=lambda: "those of dp_replicate",
        misconceptions={
            "those of tp": "Its sums are activations: a number for each token and column. They double.",
            "those of pp": "A stage hands on activations of all tokens. They double.",
            "those of cp": "Keys and values of all tokens travel. They double.",
        },
        because="Gradients are as large as the model, whatever was in the batch. All else that travels belongs to "
        "tokens (lessons 04, 07, 08 and 10).",
    ),
    Question(
        name="equal",
        text="The same model, batch and seed, on pp=4 in place of dp_replicate=4, without dropout. After 100 steps, "
        "how do the weights compare?",
        choices=("equal to the bit", "equal but for rounding", "equally good, and other weights"),
        answer=lambda: "equal but for rounding",
        misconceptions={
            "equal to the bit": "Sums are added up in another order, and float32 rounds after each step of it.",
            "equally good, and other weights": "If they differ by more than rounding, one of the runs is wrong. It is "
            "a mean over other samples, a gradient counted twice, a copy that drifts.",
        },
        because="A mesh decides which rank computes what. It does not change what is computed. Equality with one "
        "device is the first "
        "test of everything (lessons 03 to 10).",
    ),
    Question(
        name="interval",
        text="A job fails every 8 hours on average. It waits a minute while a checkpoint is written. How often should "
        "it write one?",
        choices=tuple(_INTERVALS_S),
        answer=_interval_s,
        show=lambda seconds: _INTERVALS_S[seconds],
        misconceptions={
            60: "Half of the time would go into writing.",
            14_400: "A failure would throw away two hours on average.",
            28_800: "A failure would throw away half of what lies between two of them: four hours.",
        },
        because="Writing and work done again cost least together at the root of 2 × 60 s × 8 h, about half an hour "
        "(lesson 12).",
    ),
)
