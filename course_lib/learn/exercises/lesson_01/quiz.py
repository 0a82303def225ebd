"""The quiz of lesson 01."""

from __future__ import annotations

from fractions import Fraction

from course_lib.cost.single_device.flops import flops
from course_lib.cost.single_device.layer_shapes import Linear
from course_lib.cost.single_device.model_state import model_state
from course_lib.learn.catalogue.quiz_spec import Question

__all__ = ["QUIZ"]

_MILLION = 1_000_000


def _in_mb(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:g} MB"


def _steps_with_recomputation() -> Fraction:
    once = flops(Linear("a layer inside", rows=1, in_features=1, out_features=1))
    return Fraction(once.total + once.forward, once.total)


QUIZ = (
    Question(
        name="state",
        text="A model of a million float32 parameters trains with AdamW. How much do its parameters, gradients and "
        "optimizer state take?",
        choices=(4 * _MILLION, 8 * _MILLION, 12 * _MILLION, 16 * _MILLION),
        answer=lambda: model_state(_MILLION, optimizer="adamw").total,
        show=_in_mb,
        misconceptions={
            4 * _MILLION: "That is the parameters alone.",
            8 * _MILLION: "That is parameters and gradients; AdamW remembers two more numbers for each.",
            12 * _MILLION: "One of the four is missing: parameters, gradients, and two tensors of AdamW's.",
        },
        because="Four tensors of 4 bytes a number: parameters, gradients, and the two that AdamW keeps.",
    ),
    Question(
        name="autocast",
        text="The same model under bfloat16 autocast: what does its state take now?",
        choices=(4 * _MILLION, 8 * _MILLION, 16 * _MILLION),
        answer=lambda: model_state(_MILLION, optimizer="adamw", dtype="float32").total,
        show=_in_mb,
        misconceptions={
            4 * _MILLION: "Autocast changes matmuls and what they keep. It touches no parameter and no optimizer.",
            8 * _MILLION: "That would be a model turned to bfloat16 as a whole. Autocast casts copies, and the "
            "parameters stay float32.",
        },
        because="Autocast casts copies on the way into a matmul. Parameters, gradients and AdamW's tensors stay as "
        "they were, so that small steps are not rounded away.",
    ),
    Question(
        name="ragged",
        text="A batch comes in pieces of 64, 64 and 16 examples. By which number do you multiply the last piece's mean "
        "loss, so that the gradient is that of the whole batch?",
        choices=(Fraction(1, 3), Fraction(1, 9), Fraction(1), Fraction(1, 4)),
        answer=lambda: Fraction(16, 64 + 64 + 16),
        misconceptions={
            Fraction(1, 3): "That divides by the number of pieces: the last one's examples would count four times.",
            Fraction(1): "Then the step is about three times as long as the whole batch's.",
            Fraction(1, 4): "That compares it with a full piece; compare it with the whole batch.",
        },
        because="Each piece counts by its share of the examples.",
    ),
    Question(
        name="recompute",
        text="Every layer is recomputed. By how much does the arithmetic of a step grow?",
        choices=(Fraction(1), Fraction(4, 3), Fraction(3, 2), Fraction(2)),
        answer=_steps_with_recomputation,
        show=lambda factor: {1: "not at all", 2: "it doubles"}.get(factor, f"to {factor} of what it was"),
        misconceptions={
            Fraction(1): "The forward pass runs a second time; that is not free.",
            Fraction(3, 2): "That would be so if backward were as long as forward; it is twice as long.",
            Fraction(2): "Only the forward pass runs twice, and it is a third of a step.",
        },
        because="Forward is one part and backward two. With a second forward, three parts become four.",
    ),
    Question(
        name="batch",
        text="You double the batch. Which of these doubles?",
        choices=("parameters", "gradients", "optimizer state", "activations"),
        answer=lambda: "activations",
        misconceptions={
            "parameters": "They belong to the model, whatever the batch.",
            "gradients": "There is one gradient for each parameter, the sum over all examples.",
            "optimizer state": "It has the shape of the parameters.",
        },
        because="What the forward pass keeps, it keeps for each example.",
    ),
)
