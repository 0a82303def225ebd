"""What lesson 06 asks before a run, and tells after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib import cost
from course_lib.cost.single_device.activations import activation_bytes, transformer_activations
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.parallel.model.cutting import buffers_kept, pieces_of

if TYPE_CHECKING:
    from course_lib.meter import Balance
    from course_lib.models import TransformerConfig

__all__ = ["PREDICTIONS"]

_BATCH = 16  # windows of text, in the transformer's batch
_NEAR = 1.25  # times within this factor of each other are about the same

_SENT, _NOTHING, _SENDER, _WORKED = _RETURNED = (
    "the tensor that was sent",
    "nothing",
    "the sender's rank",
    "whether it worked",
)


def _recv(returned: int | None) -> Explanation:
    """From what the call gave back on rank 1."""
    return Explanation(
        measured=_SENDER if returned == 0 else _NOTHING,
        misreadings={
            _SENT: "Then recv would have to make that tensor, and would have to know its size. But recv writes "
            "into a tensor that you pass.",
            _NOTHING: "Close: the numbers are in the room that you made. The return value is useful with "
            "src=None, which receives from any rank (gloo can do that, NCCL cannot).",
            _WORKED: "Where it does not work, an error is raised. The return value is useful with src=None, "
            "which receives from any rank (gloo can do that, NCCL cannot).",
        },
        because="The receiver makes a tensor of the right shape and dtype, and recv fills it. Written as in article "
        "A, the call raises TypeError: 0 is not a tensor.",
    )


def _gradients(with_a_gradient: int, num_parameters: int) -> Explanation:
    return Explanation(
        measured=with_a_gradient,
        misreadings={
            num_parameters: "In one process they all had one. Here backward goes from the loss to the activation "
            "that rank 1 received, and that tensor has no graph behind it.",
            num_parameters // 2: "Half of the model learns, and it is the other half: all that rank 1 holds.",
        },
        because="A message has numbers, and no graph. So half of the model does not learn, without an error or a "
        "warning. The other half does learn, so the loss may go down, and nobody notices.",
    )


_WHITE = (
    "The model assumes equal parts and messages that take no time. On a busy machine a rank may continue late, and "
    "then the ranks that wait for it are late as well. Run the cell with the timelines once more, then this one. If "
    "the number changes, ranks have waited for cores. If it stays, messages take that time; the picture shows them "
    "as gaps from one box to the next."
)


def _two(percent: float) -> Explanation:
    return Explanation(
        measured=round(percent),
        model=100 / 2,
        misreadings={100: "Both have work to do, but not at the same time: each needs what the other makes."},
        because="The batch is in one place. While it is with rank 1, rank 0 has nothing to do. The model says 1/p for "
        "p equal parts. It leaves out the messages.",
        apart=_WHITE,
    )


def _four(percent: float) -> Explanation:
    return Explanation(
        measured=round(percent),
        model=100 / 4,
        misreadings={lambda share: share > 40: "Each rank still does all of its part, in a row of four."},
        because="By the model each rank computes in a quarter of the time. Rank 0 waits longest in the middle of the "
        "step, the last rank at its beginning and end.",
        apart=_WHITE,
    )


_MOVING, _WAITING, _SAME = _LOST = ("moving", "waiting for the other", "about the same")


def _moving(lost_s: Mapping[str, float]) -> Explanation:
    """From seconds of a step: of moving, and of waiting for the other."""
    most, least = max(lost_s.values()), min(lost_s.values())
    measured = _SAME if most <= _NEAR * least else max(lost_s, key=lost_s.__getitem__)
    misread = {
        _MOVING: "The code shows the moving. It does not show that one device waits while the other computes.",
        _WAITING: "On a quick link it does. Here what crosses the link takes as long, or longer.",
        _SAME: f"The table has them side by side: one is {most / least:.1f} times the other.",
    }
    return Explanation(
        measured=measured,
        misreadings={answer: sentence for answer, sentence in misread.items() if answer != measured},
        because=f"Here the larger of the two is {most / least:.1f} times the smaller. On a fast link waiting is "
        "longer, and on a slow enough link moving is: the table shows where that begins on your machine.",
    )


def _memory(peaks: Mapping[int, Sequence[Balance]], config: TransformerConfig) -> Explanation:
    """From the peak of each rank, by number of parts. The model: half of the state, and what the last part keeps."""
    whole = cost.transformer_memory(config, batch_size=_BATCH)
    late = tuple(f"blocks.{i}:" for i in range(config.num_layers // 2, config.num_layers))
    kept = transformer_activations(config, batch_size=_BATCH)
    last = activation_bytes(item for item in kept if item.name.startswith((*late, "head:")))
    half_of_the_state = (sum(whole.values()) - whole["activation"]) / 2
    return Explanation(
        measured=round(100 * max(peak.total_bytes for peak in peaks[2]) / peaks[1][0].total_bytes),
        model=round(100 * (half_of_the_state + last) / sum(whole.values())),
        misreadings={
            lambda percent: percent >= 90: "That is what a replica holds. Here no rank has a layer of the other.",
            lambda percent: percent <= 30: "Two ranks share it, so the fuller one has at least half.",
        },
        because="The parts share out everything: parameters, gradients, optimizer state, activations. Each would have "
        "half if the halves were alike. Both have two blocks; the last part also has the scores, one for each of 256 "
        "possible bytes at every position, and the loss. This cut looked at parameters alone.",
        apart="The ledger counts bytes, so noise cannot change them. Compare the bars label by label: the model leaves "
        "out what lives for a moment, such as gradients of activations.",
    )


def _flops(model: torch.nn.Module, x: torch.Tensor) -> list[int]:
    """Of each piece, the arithmetic of a forward pass over ``x``."""
    counted = []
    with torch.no_grad(), buffers_kept(model):
        for piece in pieces_of(model).values():
            with FlopCounterMode(display=False) as counter:
                x = piece(x)
            counted.append(counter.get_total_flops())
    return counted


def _lopsided(
    times_s: Sequence[float], by_parameters: Sequence[range], model: torch.nn.Module, images: torch.Tensor
) -> Explanation:
    """From the seconds of each piece, and the cut in two by parameters."""

    def share_of_first(costs: Sequence[float]) -> int:
        return round(100 * sum(costs[i] for i in by_parameters[0]) / sum(costs))

    return Explanation(
        measured=share_of_first(times_s),
        model=share_of_first(_flops(model, images)),
        misreadings={
            50: "The number of parameters does not say how often each is used: an early convolution runs over every "
            "pixel.",
            lambda percent: percent < 40: "The late pieces have most parameters. Which pieces have most pixels?",
        },
        because="The late pieces hold the parameters, the early ones do the work. The model counts multiplications in "
        "convolutions and linear layers, and nothing else: no moving of memory.",
        apart="Run the cell with the times once more. If the number changes, other work on this machine is the "
        "reason. If it stays, the reason is memory: large pictures with few channels take longer than their "
        "arithmetic.",
    )


_NONE = "none of them, or more than one"
_CUTS = {by: f"the cut by {by}" for by in ("parameters", "memory", "time", "bytes")}


def _ways(table: Mapping[str, Mapping[str, float]]) -> Explanation:
    """From what each cut costs by each measure; a cut is called by the measure that it is best at."""
    largest = {measure: max(row[measure] for row in table.values()) for measure in _CUTS}
    worst_by = {by: [m for m in _CUTS if m != by and row[m] >= largest[m]] for by, row in table.items()}
    found = [by for by, measures in worst_by.items() if len(measures) == len(_CUTS) - 1]
    misreadings = {
        _CUTS[by]: f"The largest number of {' and '.join(measures)} stands in the row {by}."
        if measures
        else f"No column has its largest number in the row {by}."
        for by, measures in worst_by.items()
        if by not in found
    }
    because = "Each measure has a best cut of its own, which may be bad by the other measures. "
    if found == ["time"]:
        misreadings[_NONE] = "Go through the columns and mark the largest number of each. Look at the row time."
        because += (
            "Half of the computing is in the first few convolutions, where pictures are large. A cut behind them "
            "halves the time, but nearly all parameters and most of the memory lie beyond it. No other cut of the "
            "four sends more."
        )
    return Explanation(
        measured=_CUTS[found[0]] if len(found) == 1 else _NONE,
        label="the table says",
        misreadings=misreadings,
        because=because,
    )


_DIVIDED, _ALONE, _BEGAN, _PRECISION = _SUSPECTS = (
    "the loss is divided by the number of ranks",
    "each copy of the matrix learns from its own place alone",
    "the ranks began with different weights",
    "the activation loses precision on the way",
)


def _tied() -> Explanation:
    return Explanation(
        measured=_ALONE,
        label="the evidence says",
        because="The first loss agrees, so weights and activations were right. After the first step the copies differ: "
        "neither copy had the gradient of the uncut matrix, which is the sum of the two gradients. One tensor became "
        "two when the model was cut, and no optimizer took account of it.",
        misreadings={
            _DIVIDED: "Then every gradient would be half as large, and the two copies would stay equal.",
            _BEGAN: "Then the loss of step 0 would differ. It agrees.",
            _PRECISION: "Then the loss of step 0 would differ a little. It agrees.",
        },
    )


PREDICTIONS = (
    Asked(name="06.recv", question="What does dist.recv(...) return?", choices=_RETURNED, tell=_recv),
    Asked(
        name="06.gradients",
        question="How many of rank 0's parameters have a gradient?",
        unit="parameters",
        tell=_gradients,
    ),
    Asked(
        name="06.two",
        question="What share of the time does each of two devices compute?",
        unit="%",
        high=100,
        tell=_two,
    ),
    Asked(
        name="06.four",
        question="What share of the time does each of four devices compute?",
        unit="%",
        high=100,
        tell=_four,
    ),
    Asked(name="06.moving", question="Which costs a device more time?", choices=_LOST, tell=_moving),
    Asked(
        name="06.memory",
        question="What share of the uncut model's peak does the fuller rank hold?",
        unit="%",
        high=200,
        tell=_memory,
    ),
    Asked(
        name="06.lopsided",
        question="Cut evenly by parameters: rank 0's share of the computing?",
        unit="%",
        high=100,
        tell=_lopsided,
    ),
    Asked(
        name="06.ways",
        question="Which of the four cuts is the worst by all three other measures?",
        choices=(*_CUTS.values(), _NONE),
        tell=_ways,
    ),
    Asked(name="06.worse", question="Why does the cut model train differently?", choices=_SUSPECTS, tell=_tied),
)
