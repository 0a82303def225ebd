"""Part a of lesson 05: what a rank needs between two steps, and what ZeRO-1 and ZeRO-2 send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from course_lib import cost
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.rounding import rounded

__all__ = ["STATES"]

_RANKS = 4


def _memory(total_bytes: int, once_bytes: int) -> Explanation:
    """From the bytes of state of all ranks, and those that are left where every number is there once."""
    return Explanation(
        measured=round(100 * (1 - once_bytes / total_bytes)),
        model=100 * (1 - 1 / _RANKS),
        because=f"Every rank holds the same state, to the last bit. So all but one of n ranks hold nothing new: on 64 "
        f"ranks that is {1 - 1 / 64:.1%} of the memory. All ranks have the same mean gradients. So they take the same "
        "steps, and have the same states.",
        misreadings={
            56: "You kept all gradients. Each rank *computes* gradients of its own. After the all-reduce it holds "
            "their mean, as every other rank does.",
            25: "That is the part which has to stay.",
            0: "Every rank uses what it holds. But the other ranks hold and use the same numbers.",
        },
        apart="Then some copies differ in a bit. Lesson 04 called that drift. Look which tensors of `of_all` differ.",
    )


def _need(touched_bytes: int, num_parameters: int) -> Explanation:
    """From the bytes of state that forward and backward touch; the model is AdamW in float32."""
    whole = cost.model_state(num_parameters)
    short = cost.precision_state(num_parameters, precision="bfloat16 + float32 master")
    share = (short.parameters + short.gradients) / short.total
    return Explanation(
        measured=round(100 * touched_bytes / whole.total),
        model=100 * (whole.parameters + whole.gradients) / whole.total,
        because="Forward reads weights; backward reads them again and writes gradients. AdamW's two running means lie "
        f"idle all that time. With 16-bit weights and gradients and float32 master weights only {share:.0%} is used: "
        "the rest waits for the step.",
        misreadings={
            100: "All of it is there. But no operation of forward or backward uses what AdamW keeps.",
            25: "Forward reads the weights. Backward writes a gradient for each of them, too.",
            75: "AdamW keeps *two* numbers for each weight, and backward touches neither.",
        },
        apart="Look at the table above for a kind that is touched in part: a weight that the loss does not use, say.",
    )


_AMOUNTS = ("less than before", "as much as before", "more than before")


def _bytes(replicated_bytes: int, shared_bytes: int) -> Explanation:
    """From what rank 0 sends in a step: where each rank has all states, and where they are shared out."""
    less, same, more = _AMOUNTS
    sent = 2 * (_RANKS - 1) / _RANKS
    return Explanation(
        measured=same if shared_bytes == replicated_bytes else more if shared_bytes > replicated_bytes else less,
        because=f"In both a rank sends 2 (n - 1)/n times as many bytes as the model has, here {sent:.1f} times. An "
        "all-reduce is a reduce-scatter and an all-gather. Now the optimizer takes its step between the two. So the "
        "all-gather carries new weights in place of mean gradients, and those are as many numbers.",
        misreadings={
            more: "It would be so if ranks sent an all-reduce and then the weights as well. But no rank still needs "
            "the *whole* mean gradient. So half of the all-reduce is enough.",
            less: "A rank gets the mean of its own part alone, which halves that message. But then the weights are "
            "sent as well.",
        },
    )


def _states(held_bytes: int, num_parameters: int) -> Explanation:
    """From the state that a rank holds at stage 1, in float32."""
    nothing, first, second, third = (
        cost.sharded_state(num_parameters, stage=stage, num_ranks=_RANKS, precision="float32").total / 1024
        for stage in range(4)
    )
    return Explanation(
        measured=round(held_bytes / 1024),
        model=round(first),
        because=f"Weights and gradients are whole; of AdamW's half of the state a quarter is left. That is "
        f"{first / nothing:.0%} of what it was, and with ever more ranks it comes down to a half. In the course's "
        "class the rank's own weights are views of the model's, and cost nothing.",
        misreadings={
            round(third): "That is a quarter of everything. Only the optimizer's states are shared out so far.",
            round(second): "That has the gradients shared out as well: the next stage.",
            round(nothing / 2): "Nearly: that is weights and gradients, and no states at all.",
        },
        apart="Bytes do not depend on how busy a machine is. Compare the ledger's lines above with 4, 4 and 8 / 4 "
        "bytes for each parameter.",
    )


def _early(held_bytes: int, gradients_bytes: int, num_layers: int) -> Explanation:
    """From what a rank holds at backward's fullest moment beyond weights and states, one bucket a layer."""
    on_the_way = 3 / num_layers  # of a layer: the gradient, the message, and on gloo what comes for it
    return Explanation(
        measured=round(100 * held_bytes / gradients_bytes),
        model=round(100 * (1 / _RANKS + on_the_way)),
        because="At the end of backward a rank holds its own quarter of the gradients. Before that, it also holds a "
        "layer's whole gradient, and the bucket in which that is packed. With gloo it also holds what other ranks "
        f"send. Each of these three is as large as one of {num_layers} layers. With more layers, or smaller buckets, "
        "this part shrinks. With one bucket for the model nothing would be saved.",
        misreadings={
            100: "No layer's gradient waits for another bucket than its own.",
            25: "That is what stays. But backward makes each gradient whole, and a rank sends it before it lets three "
            "quarters of it go.",
            lambda share: abs(share - 33.3) < 1: "That is a quarter, and the gradient of the layer that backward "
            "computes. That gradient still has to be packed and sent.",
        },
        apart="The ledger counts buffers until gloo's threads let them go, which a busy machine delays. Run it again: "
        "the least of several runs is what the code needs.",
    )


_STAGES = ("stage 1, the optimizer's part", "stage 2, the gradients", "stage 3, the weights")


def _table(states: Sequence[cost.StateBytes]) -> Explanation:
    """From the states at stages 0 to 3."""
    totals = [state.total / 1e9 for state in states]
    freed = [before - after for before, after in pairwise(totals)]
    _, second, third = _STAGES
    return Explanation(
        measured=_STAGES[freed.index(max(freed))],
        label="computed",
        because=f"It frees {freed[0]:.1f} GB of {totals[0]:.0f}, and no rank sends a byte more for it. The two other "
        f"stages free {freed[1]:.1f} GB each. But they free what would otherwise stay, however many ranks there are.",
        misreadings={
            third: "A weight has 2 bytes here; what AdamW keeps for it has 12.",
            second: "A gradient has 2 bytes here; what AdamW keeps for it has 12.",
        },
    )


_UPDATES = ("what one device computes", "an error", "something else, without an error")
_EQUAL = 0.999


def _muon(cosines: Mapping[str, float]) -> Explanation:
    """From the cosine of each matrix between the update of one device and that of ranks with rows."""
    same, error, other = _UPDATES
    least, most = min(cosines.values()), max(cosines.values())
    return Explanation(
        measured=same if least > _EQUAL else other,
        because=f"Cosines of {rounded(least, 2)} to {rounded(most, 2)}: roughly the right direction, so that "
        "a loss may still "
        "fall, and there is no error. Each rank has made its *own rows* orthogonal to each other. They are not "
        "orthogonal to the rows of other ranks, which it has never seen.",
        misreadings={
            same: "AdamW changes each number by itself. How Muon changes a number depends on the whole matrix.",
            error: "A rank's rows are a matrix as well, and Muon takes any matrix.",
        },
    )


STATES: tuple[Asked, ...] = (
    Asked(
        name="05.memory",
        question="How much of what four ranks hold could be dropped?",
        unit="%",
        high=100,
        tell=_memory,
    ),
    Asked(
        name="05.need",
        question="How much of the state do forward and backward touch?",
        unit="%",
        high=100,
        tell=_need,
    ),
    Asked(name="05.bytes", question="What does a rank send in a step now?", choices=_AMOUNTS, tell=_bytes),
    Asked(
        name="05.states",
        question="How much does each rank hold, with the optimizer's states shared out?",
        unit="KiB",
        tell=_states,
    ),
    Asked(
        name="05.early",
        question="What does a rank hold at the peak beside weights and states, compared with all gradients?",
        unit="%",
        high=1000,
        tell=_early,
    ),
    Asked(name="05.table", question="Which stage frees the most?", choices=_STAGES, tell=_table),
    Asked(name="05.muon", question="Muon on each rank's own rows: what comes out?", choices=_UPDATES, tell=_muon),
)
