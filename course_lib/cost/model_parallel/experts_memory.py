"""What a layer of experts keeps for the backward pass on one rank: by its tokens, and by the rows that come.

Everything but the experts' own terms is known before the step. Those grow with R, the rows that come to this rank's
experts: with balanced experts R = N k, and without a capacity a rank may have to hold the rows of all.
"""

from __future__ import annotations

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cost.single_device.activations import Saved

__all__ = ["expert_activations"]

_NUMBER_BYTES = 8  # of an expert, and of a place: int64


@checked
def expert_activations(
    *,
    width: int,
    hidden: int,
    num_experts: int,
    top_k: int,
    num_tokens: int,
    sent_rows: int,
    recv_rows: int,
    normalised: bool = False,
    itemsize: int = 4,
) -> tuple[Saved, ...]:
    """What one ``ExpertParallel`` keeps (on one rank: ``MixtureOfExperts``), its input not counted.

    ``num_tokens`` N are this rank's; ``sent_rows`` those of their N k choices that have room, ``recv_rows`` R what
    comes for the experts of this rank (on one rank, the same). ``itemsize`` 4 or 8: that of the router's numbers too.
    """
    at_least(1, width=width, hidden=hidden, num_experts=num_experts, top_k=top_k)
    at_least(0, num_tokens=num_tokens, sent_rows=sent_rows, recv_rows=recv_rows)
    if itemsize not in (4, 8):
        nearest = 4 if itemsize < 6 else 8
        raise ValueError(f"itemsize={itemsize} is not that of float32 or float64; the nearest is {nearest}")
    choices = num_tokens * top_k
    if sent_rows > choices:
        raise ValueError(
            f"sent_rows={sent_rows} are more than the {num_tokens} tokens' {top_k} choices each; the nearest that "
            f"works is {choices}"
        )
    return (
        Saved("probabilities", itemsize * num_tokens * num_experts),
        Saved("experts chosen", _NUMBER_BYTES * choices),
        Saved("weights of the outputs", itemsize * choices),
        Saved("weights before they are normalised", itemsize * (choices + num_tokens) if normalised else 0),
        Saved("order of the rows", _NUMBER_BYTES * choices),
        Saved("tokens of the rows", _NUMBER_BYTES * sent_rows),
        Saved("input of w_up", itemsize * recv_rows * width),
        Saved("input of GELU", itemsize * recv_rows * hidden),
        Saved("input of w_down", itemsize * recv_rows * hidden),
        Saved("outputs, before they are weighted", itemsize * choices * width),
    )
