"""How many bytes the state of a model in training takes: weights, gradients, optimizer state.

What the forward pass keeps for the backward pass is in ``activations.py``; that part grows with the batch,
this one does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least

__all__ = ["DTYPE_BYTES", "OPTIMIZERS", "PRECISIONS", "StateBytes", "model_state", "precision_state"]

DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}

# How many tensors of the parameters' shape an optimizer keeps, and whether it keeps a step count for each
# parameter.
OPTIMIZERS = {"sgd": (0, False), "momentum": (1, False), "adam": (2, True), "adamw": (2, True)}

# A step count is one float32 number of its own (torch.optim.Adam: state["step"]).
STEP_BYTES = 4

# name -> (dtype of parameters, dtype of gradients, a float32 master copy of the parameters?)
PRECISIONS = {
    "float32": ("float32", "float32", False),
    "bfloat16 autocast": ("float32", "float32", False),  # weights stay float32; autocast casts copies of them
    "bfloat16 + float32 master": ("bfloat16", "bfloat16", True),
    "bfloat16": ("bfloat16", "bfloat16", False),
}


@checked
@dataclass(frozen=True)
class StateBytes:
    """Bytes by purpose.

    ``master`` is a float32 copy of low-precision parameters, kept so that small steps are not rounded away.
    """

    parameters: int
    gradients: int
    optimizer: int
    master: int = 0

    def __post_init__(self) -> None:
        at_least(0, parameters=self.parameters, gradients=self.gradients)
        at_least(0, optimizer=self.optimizer, master=self.master)

    @property
    def total(self) -> int:
        """All of them."""
        return self.parameters + self.gradients + self.optimizer + self.master

    def as_dict(self) -> dict[str, int]:
        """The kinds that hold something, by the ledger's names; the master copy counts as a parameter."""
        kinds = {
            "parameter": self.parameters + self.master,
            "gradient": self.gradients,
            "optimizer state": self.optimizer,
        }
        return {kind: size for kind, size in kinds.items() if size}


@checked
def model_state(
    num_parameters: int,
    *,
    optimizer: str = "adamw",
    dtype: str = "float32",
    gradient_dtype: str | None = None,
    master: bool = False,
    num_trainable: int | None = None,
    num_tensors: int = 0,
) -> StateBytes:
    """Bytes held between two training steps for ``num_parameters`` numbers.

    A frozen parameter has neither gradient nor optimizer state: ``num_trainable`` counts the others (all of
    them when left out). Tied parameters are one parameter: count them once. ``num_tensors`` is the number
    of trainable parameter tensors; Adam keeps a step count of 4 bytes for each. The optimizer's tensors
    have the dtype of what it updates: the master copy where there is one. Source for 2 + 2 + 12 bytes a
    parameter: Rajbhandari et al., "ZeRO", 2020, section 3.1.

    >>> model_state(1000, optimizer="adamw", num_tensors=2)
    StateBytes(parameters=4000, gradients=4000, optimizer=8008, master=0)
    """
    at_least(0, num_parameters=num_parameters, num_tensors=num_tensors)
    trainable = num_parameters if num_trainable is None else num_trainable
    if not 0 <= trainable <= num_parameters:
        raise ValueError(f"num_trainable is {trainable}; it must lie between 0 and num_parameters = {num_parameters}.")
    copies, keeps_step = OPTIMIZERS[_known("optimizer", optimizer, OPTIMIZERS)]
    parameter_bytes = DTYPE_BYTES[_known("dtype", dtype, DTYPE_BYTES)]
    gradient_bytes = DTYPE_BYTES[_known("gradient_dtype", gradient_dtype or dtype, DTYPE_BYTES)]
    updated_bytes = DTYPE_BYTES["float32"] if master else parameter_bytes
    return StateBytes(
        parameters=num_parameters * parameter_bytes,
        gradients=trainable * gradient_bytes,
        optimizer=copies * trainable * updated_bytes + (num_tensors * STEP_BYTES if keeps_step else 0),
        master=trainable * DTYPE_BYTES["float32"] if master else 0,
    )


@checked
def precision_state(
    num_parameters: int, *, precision: str, optimizer: str = "adamw", num_tensors: int = 0
) -> StateBytes:
    """``model_state`` by the name of a common recipe: one of ``PRECISIONS``."""
    dtype, gradient_dtype, master = PRECISIONS[_known("precision", precision, PRECISIONS)]
    return model_state(
        num_parameters,
        optimizer=optimizer,
        dtype=dtype,
        gradient_dtype=gradient_dtype,
        master=master,
        num_tensors=num_tensors,
    )


def _known(what: str, name: str, table: dict) -> str:
    if name not in table:
        raise ValueError(f"{what} is {name!r}; this cost model knows {', '.join(table)}.")
    return name
