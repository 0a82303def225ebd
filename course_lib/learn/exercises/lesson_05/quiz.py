"""The quiz of lesson 05; right answers come from the cost model, and from the library's quantization."""

from __future__ import annotations

from fractions import Fraction

import torch

from course_lib.cost.data_parallel.sharded import sharded_sent_bytes, sharded_state
from course_lib.cost.single_device.model_state import precision_state
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.parallel.sharded import Rows, dequantize_blocks, quantize_blocks

__all__ = ["QUIZ"]

_MANY = 10_000  # ranks: what is shared out is nearly nothing on each
_BLOCK = [(4096, 4096)] * 4  # no padding on 64 ranks
_MORE = {Fraction(1): "as many", Fraction(4, 3): "4/3 times", Fraction(3, 2): "3/2 times", Fraction(2): "2 times"}


def _first_stage_within(most_bytes: float) -> int:
    """The first stage at which 7.5 billion parameters on 64 ranks, in mixed precision, fit into so much."""
    return next(
        stage for stage in range(4) if sharded_state(7_500_000_000, stage=stage, num_ranks=64).total <= most_bytes
    )


def _share_left_by_stage_1() -> int:
    """Per cent of float32 states with AdamW that many ranks of ZeRO-1 each keep."""
    one = precision_state(10**9, precision="float32", optimizer="adamw").total
    many = sharded_state(10**9, stage=1, num_ranks=_MANY, precision="float32", optimizer="adamw").total
    return round(100 * many / one)


def _bytes_beside_ddp(*, reshard_after_forward: bool) -> float:
    """What stage 3 sends in a step, over what an all-reduce of the gradients sends, which is what stage 1 does."""
    stage_3 = sharded_sent_bytes(_BLOCK, stage=3, num_ranks=64, reshard_after_forward=reshard_after_forward)
    return stage_3 / sharded_sent_bytes(_BLOCK, stage=1, num_ranks=64)


def _mixed_share() -> str:
    mixed = sharded_sent_bytes(_BLOCK, stage=3, num_ranks=64, dtype="bfloat16", reduce_dtype="float32")
    share = mixed / sharded_sent_bytes(_BLOCK, stage=3, num_ranks=64)
    return {0.5: "1/2", round(2 / 3, 6): "2/3", 0.75: "3/4"}.get(round(share, 6), "the same")


def _rows_of_the_last(num_rows: int, num_ranks: int) -> int:
    first, end = Rows((num_rows, 8), num_ranks).range_of(num_ranks - 1)
    return end - first


def _bytes_with_wide_sums() -> Fraction:
    """What ``reduce_dtype=torch.float32`` sends beside ``param_dtype=torch.bfloat16``, over what this sends alone."""
    wide, alone = (
        sharded_sent_bytes(_BLOCK, stage=3, num_ranks=64, dtype="bfloat16", reduce_dtype=reduce_dtype)
        for reduce_dtype in ("float32", None)
    )
    return Fraction(wide, alone)


def _sent(weight: float) -> float:
    """A weight as it arrives in int8, from a block whose largest weight is 1.27: the scale is 0.01."""
    block = torch.tensor([1.27, weight])
    return dequantize_blocks(*quantize_blocks(block, 2), 2)[1].item()


def _after_steps(num_steps: int, step: float) -> tuple[float, float]:
    """A weight of 0.5, as ranks get it: where shards stay in float32, and where they become what was sent."""
    kept = stored = 0.5
    for _ in range(num_steps):
        kept, stored = kept + step, _sent(stored + step)
    return round(_sent(kept), 2), round(_sent(stored), 2)


QUIZ = (
    Question(
        name="stage",
        text="7.5 billion parameters, AdamW, bfloat16 with a float32 master copy, 64 ranks. A rank has 20 GB for "
        "weights, gradients and states. Which is the first stage that fits?",
        choices=(0, 1, 2, 3),
        answer=lambda: _first_stage_within(20e9),
        show=lambda stage: f"stage {stage}",
        misconceptions={
            0: "Every rank would hold 16 bytes a parameter: 120 GB.",
            1: "Weights and gradients are whole still, 4 bytes a parameter: 30 GB before any state.",
            3: "It fits, and so does one before it, which sends fewer bytes.",
        },
        because="Stage 2 keeps the weights whole, 15 GB, and a 64th of gradients and states.",
    ),
    Question(
        name="left",
        text="All in float32, AdamW. On very many ranks, how much of what DDP holds between steps is left on each "
        "rank by ZeRO-1?",
        choices=(0, 25, 50, 75),
        answer=_share_left_by_stage_1,
        show=lambda percent: f"about {percent} %",
        misconceptions={
            0: "That is stage 3: here weights and gradients are whole.",
            25: "That is the weights alone; the gradients are as large.",
            75: "AdamW has two states a parameter, and both are shared out.",
        },
        because="Weights and gradients stay: two of the four numbers that belong to a parameter.",
    ),
    Question(
        name="keep",
        text="ZeRO-3 with `reshard_after_forward=False`. How many bytes does a rank send in a step, compared with "
        "DDP and its ring?",
        choices=(0.5, 1.0, 1.5, 2.0),
        answer=lambda: _bytes_beside_ddp(reshard_after_forward=False),
        show=lambda ratio: {1.0: "as many"}.get(ratio, f"{ratio} times as many"),
        misconceptions={
            0.5: "The gradients' reduce-scatter alone is half an all-reduce; the weights have to come, too.",
            1.5: "That is with a second all-gather in backward, which is what this setting saves.",
            2.0: "One all-gather and one reduce-scatter: the two halves of an all-reduce.",
        },
        because="Weights are gathered once, gradients are scattered once: together an all-reduce. The price is a model "
        "that is whole from forward to backward.",
    ),
    Question(
        name="mixed",
        text="ZeRO-3: weights travel in bfloat16, gradients in float32. What is sent, compared with all in float32?",
        choices=("1/2", "2/3", "3/4", "the same"),
        answer=_mixed_share,
        misconceptions={
            "1/2": "The gradients still travel in four bytes.",
            "3/4": "It would be so if weights and gradients went once each. Weights are gathered twice.",
            "the same": "What a rank keeps stays the same; the weights' messages are half as large.",
        },
        because="For each number, two all-gathers send 2 bytes each and a reduce-scatter sends 4: 8 bytes in place "
        "of 12.",
    ),
    Question(
        name="rows",
        text="A matrix of 10 rows on four ranks. How many rows does the last rank keep?",
        choices=(0, 1, 2, 3),
        answer=lambda: _rows_of_the_last(10, 4),
        misconceptions={
            0: "Three ranks with three rows make nine; one is left.",
            2: "Then two ranks would have three rows and two would have two. Parts are equal but for the end, or no "
            "collective could move them in one piece.",
            3: "That would be twelve rows; the message has twelve, and two of them are padding.",
        },
        because="A quarter, rounded up, is three rows. The first three ranks get three each, and the last gets the "
        "row that is left.",
    ),
    Question(
        name="wide-sums",
        part="h",
        text="`fully_shard` with `MixedPrecisionPolicy(param_dtype=torch.bfloat16)`, weights gathered in forward and "
        "in backward. Somebody adds `reduce_dtype=torch.float32`. How many times as many bytes does a step send?",
        choices=tuple(_MORE),
        answer=_bytes_with_wide_sums,
        show=lambda times: _MORE[times],
        misconceptions={
            Fraction(1): "Then gradients would be float32 on the way in either case. Which format have they where "
            "`param_dtype` stands alone?",
            Fraction(3, 2): "It would be so with one gather in a step. How many messages are there of each kind?",
            Fraction(2): "That makes all messages twice as long. The new setting says nothing of gathers.",
        },
        because="Before, two gathers and a reduce-scatter had 2 bytes a parameter each. The reduce-scatter now has 4: "
        "8 bytes in place of 6. Without the setting gradients take the format in which backward made them.",
    ),
    Question(
        name="stored",
        part="h",
        text="Weights travel in int8, and the scale of a block stays 0.01. One of its weights is 0.5, and the "
        "optimizer adds 0.006 to it in each of 50 steps. Job A keeps its shards in float32. Job B stores in them what "
        "was sent, after each step. Which weight do ranks compute with in the end?",
        choices=((0.8, 1.0), (0.8, 0.8), (0.8, 0.5), (1.0, 1.0)),
        answer=lambda: _after_steps(50, 0.006),
        show=lambda weights: f"job A {weights[0]:.2f}, job B {weights[1]:.2f}",
        misconceptions={
            (0.8, 0.8): "Job B adds each step to a rounded weight. Write down what its shard is after two steps.",
            (0.8, 0.5): "A step that is shorter than half the distance of two codes is lost. Is this one?",
            (1.0, 1.0): "Job A rounds each message as well. But what does its optimizer add the next step to?",
        },
        because="In job B 0.506 becomes 0.51: each step moves the weight by a whole code, 50 times 0.01. Rounding does "
        "not only lose steps, it can lengthen them. Job A has all steps of 0.006 in its shard, and rounds 0.8.",
    ),
)
