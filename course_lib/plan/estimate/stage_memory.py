"""The bytes of a rank by hand: one factor for each axis. What lesson 11 lets learners write.

``memory.py`` knows more: stages of unequal length, interleaving, layers that sharding 3 gathers, what a pipeline hands
on. Where none of that is met, the two agree to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import divides
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout

__all__ = ["BytesEach", "stage_bytes"]


@checked
@dataclass(frozen=True, kw_only=True)
class BytesEach:
    """Bytes of one. ``weight``, ``gradient`` and ``optimizer`` are of a parameter, ``logit`` is of a logit and all that
    is made of it. ``layer`` is what a layer keeps of a token for the backward pass, ``input`` its input alone.

    ValueError for one below 0.
    """

    weight: float
    gradient: float
    optimizer: float
    layer: float
    input: float
    logit: float

    def __post_init__(self) -> None:
        for name, size in vars(self).items():
            if not size >= 0:
                raise ValueError(f"{name} is {size:g} bytes; it is at least 0. The nearest is 0.")

    @property
    def state(self) -> float:
        """Of a parameter: its weight, its gradient, and what the optimizer keeps of it."""
        return self.weight + self.gradient + self.optimizer


@checked
def stage_bytes(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
    """Bytes of a rank of ``stage``, by part, under 1F1B and with sequence parallelism on the tensor axis.

    ValueError for a stage that there is not, and for layers that the stages do not divide.
    """
    if not 0 <= stage < layout.pp:
        nearest = min(max(stage, 0), layout.pp - 1)
        raise ValueError(f"stage is {stage}; stages are numbered 0 to {layout.pp - 1}. The nearest is {nearest}.")
    divides(job.model.layers, "layers", pp=layout.pp)
    model, layers = job.model, job.model.layers // layout.pp
    tables = (stage == 0) + (stage == layout.pp - 1)  # looks tokens up, scores them
    numbers = (layers * model.layer_parameters + tables * model.embedding_parameters) / layout.tp
    of_weights, of_gradients, of_optimizer = (
        numbers / (layout.dp if layout.sharding >= first else 1) for first in (3, 2, 1)
    )
    tokens = layout.micro_batch * job.seq / layout.tp
    in_flight = min(layout.pp - stage, layout.num_micro_batches(job.batch))
    again = layout.recompute == "full"
    kept = in_flight * layers * (each.input if again else each.layer) + (each.layer if again else 0)
    return {
        "weights": each.weight * of_weights,
        "gradients": each.gradient * of_gradients,
        "optimizer": each.optimizer * of_optimizer,
        "activations": tokens * kept,
        "logits": each.logit * tokens * model.vocab if stage == layout.pp - 1 else 0.0,
    }
