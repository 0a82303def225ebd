"""What lesson 01 asks before a run, and tells after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib import cost
from course_lib.base.text import mib
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_01.predictions.time import ASKED_OF_TIME

if TYPE_CHECKING:
    from course_lib.cost.single_device.model_state import StateBytes
    from course_lib.meter import Balance, MemoryLedger
    from course_lib.models import TransformerConfig

__all__ = ["PREDICTIONS"]

_WINDOWS = 8  # of text, in the transformer's batch


def _peak(peak: Balance, state: StateBytes, kept: int) -> Explanation:
    alone, with_gradients, whole_state = (mib(times * state.parameters) for times in (1, 2, 4))
    return Explanation(
        measured=mib(peak.total_bytes),
        model=mib(state.total + kept),
        because="The model adds up parameters, gradients, optimizer state and activations. The real peak lies inside "
        "backward. By then some activations are freed, and there are gradients on their way, which have the label "
        "other.",
        misreadings={
            alone: "That is the parameters alone. Training also holds what the optimizer remembers, and everything "
            "that the forward pass keeps for the backward pass.",
            with_gradients: "That is parameters and gradients. AdamW keeps two more tensors of that size, and the "
            "forward pass keeps its activations.",
            whole_state: "That is the whole state of the model: parameters, gradients and AdamW's two. It leaves out "
            "the activations.",
        },
        apart="Go through the ledger's table label by label. The next sections compare each label with its formula. "
        "The rest has the label other: gradients on their way, and on a GPU also memory that kernels work in.",
    )


_SAME, _OFF, _LONGER = "the same, up to rounding", "off by more than 1 %", "four times as long"


def _pieces(off: float) -> Explanation:
    return Explanation(
        measured=_OFF if off > 0.01 else _SAME,
        because="BatchNorm subtracts the mean of the batch it is given. In pieces of 16 that is another mean, so each "
        "example is computed from other numbers than in the batch of 64.",
        misreadings={
            _SAME: "Nearly every text on accumulation says so. It holds for a network whose examples do not see each "
            "other.",
            _LONGER: "That happens when the division by the number of pieces is forgotten; here it was done.",
        },
    )


def _autocast(config: TransformerConfig, plain: MemoryLedger, mixed: MemoryLedger) -> Explanation:
    full = cost.transformer_memory(config, batch_size=_WINDOWS)
    short = cost.transformer_memory(config, batch_size=_WINDOWS, precision="bfloat16 autocast")
    return Explanation(
        measured=round(100 * mixed.peak().total_bytes / plain.peak().total_bytes),
        model=round(100 * sum(short.values()) / sum(full.values())),
        because="Only what goes into matrix products shrinks. And something is new: bfloat16 copies of the weights, "
        "and of the input once for each of q, k and v, kept until backward.",
        misreadings={
            50: "Half would be so if every number shrank. Parameters, gradients and AdamW's state stay float32, and so "
            "do the norms, the sums between blocks and the loss.",
        },
        apart="The two bars above say which label it is. The model knows what a CPU keeps until backward; the kernels "
        "of a GPU may keep other things.",
    )


def _recompute(config: TransformerConfig, most_plain: int, most_lean: int) -> Explanation:
    plain = cost.transformer_memory(config, batch_size=_WINDOWS)["activation"]
    lean = cost.transformer_memory(config, batch_size=_WINDOWS, recompute=True)["activation"]
    return Explanation(
        measured=round(100 * most_lean / most_plain),
        model=round(100 * lean / plain),
        because="By the model, the most activations are alive when backward has begun. Those of the head are freed, "
        "those of the last of four blocks are all back, and of the other blocks the inputs are kept.",
        misreadings={
            lambda percent: percent < 15: "That is about what the inputs take. Something else has to come back: one "
            "block at a time, in full.",
            lambda percent: percent > 90: "It would be so if all four blocks were back in full at the same moment. "
            "Backward needs one of them at a time.",
        },
        apart="The curve above says what is alive at its highest point. The model knows what a CPU keeps until "
        "backward; the kernels of a GPU may keep other things.",
    )


_SUSPECTS = (
    "AdamW's state grows",
    "total += loss in train_epoch",
    "total += ... in evaluate_all",
    "the batches are never freed",
)


def _clinic() -> Explanation:
    return Explanation(
        measured=_SUSPECTS[2],
        label="the evidence says",
        because="No backward() ever comes, so nothing frees what each forward pass kept, and the sum holds on to every "
        "graph. model.eval() changes dropout and BatchNorm; it does not stop the recording.",
        misreadings={
            _SUSPECTS[0]: "The state is as large in the last row as in the first: it comes with the first step.",
            _SUSPECTS[1]: "This is the best-known suspect, and here it is nearly innocent. backward() has freed what "
            "the graph kept, so the sum holds a chain of small nodes and no activations. It is still bad style; "
            "loss.item() keeps nothing.",
            _SUSPECTS[3]: "Their bytes stay the same: all batches were made before the loop.",
        },
    )


PREDICTIONS = (
    Asked(
        name="01.peak",
        question="How much does a step with AdamW hold at its fullest, batch of 64?",
        unit="MiB",
        tell=_peak,
    ),
    *ASKED_OF_TIME,
    Asked(
        name="01.pieces",
        question="Four pieces of 16 instead of one batch of 64: the gradient of our CNN is ...",
        choices=(_SAME, _OFF, _LONGER),
        tell=_pieces,
    ),
    Asked(
        name="01.autocast",
        question="Peak under autocast, in per cent of the float32 peak?",
        unit="%",
        high=200,
        tell=_autocast,
    ),
    Asked(
        name="01.recompute",
        question="Peak of the live activations, in per cent of the peak without recomputation?",
        unit="%",
        high=100,
        tell=_recompute,
    ),
    Asked(name="01.clinic", question="Which of these is the cause?", choices=_SUSPECTS, tell=_clinic),
)
