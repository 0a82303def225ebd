"""The quiz of lesson 04; right answers come from the cost model, or from counting."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from course_lib.cost.collectives.collective_cost import collective_cost
from course_lib.cost.data_parallel.scaling import scaling_curve
from course_lib.cost.single_device.model_state import model_state
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.quiz_spec import Question

__all__ = ["QUIZ"]

_LINK = Link(latency_s=10e-6, bandwidth_bytes_per_s=10e9)
_MILLION = 1_000_000


def _sent_mb(num_ranks: int) -> float:
    cost = collective_cost("all_reduce", 100 * _MILLION, _LINK, num_ranks=num_ranks)
    return cost.bytes_sent[0] / _MILLION


def _steps(num_items: int, num_ranks: int, batch_size: int) -> int:
    share = ceil(num_items / num_ranks)
    return ceil(share / batch_size)


def _averaged(pieces: int, *, no_sync: bool) -> int:
    return sum(1 for piece in range(pieces) if not no_sync or piece == pieces - 1)


def _speedup() -> Fraction:
    (point,) = scaling_curve([4], [100.0], forward_s=0.03, backward_s=0.06, all_reduce_time_s=lambda n, size: 0.0225)
    return Fraction(point.speedup).limit_denominator(1000)


def _state_mb(num_ranks: int) -> float:
    """What one of the replicas holds: as many as there are, each holds the whole."""
    held = [model_state(_MILLION, optimizer="adamw").total for _ in range(num_ranks)]
    return max(held) / _MILLION


def _valid_tokens(mesh: Mesh, on_each_rank: int) -> int:
    """Of a step, where sequences were cut along ``cp`` before anybody counted: each token once."""
    readers = {mesh.group_rank(rank, "dp_shard", "cp") for rank in range(mesh.num_ranks)}
    return on_each_rank * len(readers)


def _weight_by_rounds(*rounds: tuple[int, ...]) -> Fraction:
    """A token of the first round over one of the second, where each round is divided by its own count of all ranks."""
    first, second = (Fraction(1, len(rounds) * sum(counts)) for counts in rounds)
    return first / second


QUIZ = (
    Question(
        name="bytes",
        text="Four ranks train a model whose gradients take 100 MB. What does each rank send in a step?",
        choices=(100.0, 150.0, 300.0, 400.0),
        answer=lambda: _sent_mb(4),
        show=lambda size: f"{size:g} MB",
        misconceptions={
            100.0: "That is what two ranks send each; with four it is 2 (n - 1)/n of the gradients.",
            300.0: "That is a gradient for each of the three others. The sum is made on the way.",
            400.0: "No rank has to send everything to everybody, itself included.",
        },
        because="In a ring all-reduce a rank sends three quarters of the gradients to add them up, and three quarters "
        "to share out the sums.",
    ),
    Question(
        name="steps",
        text="1,438 images, four ranks, `batch_size=32` in each process's loader. How many steps has an epoch?",
        choices=(45, 12, 11, 44),
        answer=lambda: _steps(1438, 4, 32),
        misconceptions={
            45: "That is one process that reads everything. Four of them share the images.",
            11: "That leaves out the last, short batch of every rank.",
            44: "That is a single process, and the rest left out.",
        },
        because="The sampler gives each rank 360 images, and 360 in batches of 32 are 12. A step takes 128 images.",
    ),
    Question(
        name="no-sync",
        text="A step accumulates 8 pieces under `no_sync`, all but the last. What share of the bytes does it "
        "send, compared with a step without `no_sync`?",
        choices=(Fraction(1, 8), Fraction(7, 8), Fraction(1, 2), Fraction(1)),
        answer=lambda: Fraction(_averaged(8, no_sync=True), _averaged(8, no_sync=False)),
        misconceptions={
            Fraction(7, 8): "It is the other way round: seven of the eight pieces send nothing.",
            Fraction(1, 2): "That would be so for two pieces.",
            Fraction(1): "Without `no_sync` every backward pass averages, whether the optimizer steps or not.",
        },
        because="The gradients of the pieces add up on each rank, and their sum travels once.",
    ),
    Question(
        name="speed-up",
        text="A step on one device: forward 30 ms, backward 60 ms. Four ranks share the batch; one bucket holds all "
        "gradients, and its all-reduce takes 22.5 ms. How many times as fast are they?",
        choices=(Fraction(4), Fraction(2), Fraction(1), Fraction(16, 5)),
        answer=_speedup,
        show=lambda times: f"{float(times):g} times",
        misconceptions={
            Fraction(4): "The arithmetic is shared by four; the all-reduce comes on top, for nothing hides it.",
            Fraction(1): "90 ms become 22.5 ms of arithmetic and 22.5 ms of waiting.",
            Fraction(16, 5): "One bucket is complete when backward ends, so none of its time is hidden.",
        },
        because="A quarter of 90 ms is 22.5 ms. Then comes the whole all-reduce: 45 ms together. Several buckets would "
        "hide some of it.",
    ),
    Question(
        name="memory",
        text="A million float32 parameters and AdamW take 16 MB on one device. What does each of eight ranks hold?",
        choices=(2.0, 16.0, 128.0, 4.0),
        answer=lambda: round(_state_mb(8)),
        show=lambda size: f"{size:g} MB",
        misconceptions={
            2.0: "Nothing is cut but the batch: each rank has a whole model, whole gradients, a whole optimizer.",
            128.0: "That is all eight together.",
            4.0: "That is the parameters alone.",
        },
        because="Data parallelism pools no memory for the model: every rank is a complete replica. Only activations "
        "shrink with its share of the batch.",
    ),
    Question(
        name="batch-norm",
        text="A batch of 64 images on eight ranks. Over how many images does a BatchNorm layer take its mean?",
        choices=(64, 8, 512, 1),
        answer=lambda: 64 // 8,
        misconceptions={
            64: "That is what SyncBatchNorm does, for two more messages a layer.",
            512: "There are 64 images in all.",
            1: "BatchNorm looks at all images that the rank has.",
        },
        because="Each rank normalises with what it sees, so the model is another one than on one device.",
    ),
    Question(
        name="rounds",
        part="f",
        text="Two ranks, two micro-batches each. Those of rank 0 have 10 and 90 valid tokens, those of rank 1 have 30 "
        "and 70. A script divides the sum of the first micro-batches' losses by 10 + 30, and that of the second ones' "
        "by 90 + 70. Then it takes the mean of both. How many times as much does a token of the first micro-batches "
        "weigh as one of the second?",
        choices=(Fraction(1), Fraction(2), Fraction(4), Fraction(9)),
        answer=lambda: _weight_by_rounds((10, 30), (90, 70)),
        misconceptions={
            Fraction(1): "Between the two ranks tokens now weigh alike. Look at the two counts by which the script "
            "divides.",
            Fraction(2): "The mean divides both by 2. This factor is the same for the two tokens.",
            Fraction(9): "That is rank 0 with its own two counts. The script adds counts up over ranks.",
        },
        because="A token of the first weighs a 40th of its mean, and one of the second a 160th. It is a mean of means "
        "still: over micro-batches, and not over ranks. One count for the whole step makes all of them equal.",
    ),
    Question(
        name="axes",
        part="f",
        text="16 ranks form a grid: 4 × 2 × 2 along the axes of data, context and tensor parallelism. Sequences are "
        "cut for context parallelism first. Then each rank counts 1,000 valid tokens in what it reads. How many valid "
        "tokens has the step?",
        choices=(16_000, 1000, 4000, 8000),
        answer=lambda: _valid_tokens(Mesh.of(dp_shard=4, cp=2, tp=2), 1000),
        show=lambda tokens: f"{tokens:,}",
        misconceptions={
            1000: "That is the part of one rank. Other ranks read other tokens in the same step.",
            4000: "That adds up data-parallel ranks alone. It would do if ranks had counted before the cut.",
            16_000: "That adds up over all ranks. Do all of them read different tokens?",
        },
        because="4 × 2 ranks read different tokens: along the data-parallel axis other sequences, along the "
        "context-parallel one other parts of them. A tensor-parallel pair reads the same, which counts once.",
    ),
)
