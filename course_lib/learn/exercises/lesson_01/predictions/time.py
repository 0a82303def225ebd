"""What lesson 01 asks and tells about time: backward against forward, a worker, the share of the machine's rate."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from course_lib import cost
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

if TYPE_CHECKING:
    from course_lib.meter import Timeline

__all__ = ["ASKED_OF_TIME"]

_NEAR = 6  # per cent of an epoch: an answer so near to the run, or to the model, mixes nothing up


def _medians_s(timeline: Timeline, *names: str) -> tuple[float, ...]:
    return tuple(statistics.median(span.time_s for span in timeline.spans if span.name == name) for name in names)


def _backward(timeline: Timeline) -> Explanation:
    forward_s, backward_s = _medians_s(timeline, "forward", "backward")
    work = cost.flops(cost.cnn_layers(batch_size=256))
    return Explanation(
        measured=round(backward_s / forward_s, 2),
        model=round(work.backward / work.forward, 2),
        because="By the model, forward makes one matrix product in each layer and backward two. The model counts "
        "nothing else. The stopwatch also sees BatchNorm, ReLU and the start of each operation.",
        misreadings={
            1: "Backward goes through the same layers. In each of them it computes two gradients: that of the layer's "
            "input and that of its weights.",
            3: "That is the whole step, compared with forward. The question is about backward alone.",
        },
        apart="Run the epoch again. If the number moves, other work on this machine is in it. If it stays, raise the "
        "batch from 256 to 1024 above: the products grow with it, the start of an operation does not.",
    )


def _fed(hungry: Timeline, fed: Timeline) -> Explanation:
    read_s, compute_s = _medians_s(hungry, "wait", "compute")
    num_batches = sum(span.name == "compute" for span in hungry.spans)
    with_worker_s = read_s + (num_batches - 1) * max(read_s, compute_s) + compute_s
    model = round(100 * with_worker_s / (num_batches * (read_s + compute_s)))
    measured = round(100 * fed.wall_s / hungry.wall_s)
    computing_alone = round(100 * compute_s / (read_s + compute_s))
    wrong = {
        50: "Half would be right if reading and computing lasted equally long. The longer of the two decides.",
        computing_alone: "That is the arithmetic alone. One worker reads no faster than the notebook did, so where "
        "reading is the longer part, the device still waits for the rest of it.",
    }

    return Explanation(
        measured=measured,
        model=model,
        because="By the model, a batch took the sum of reading and computing before. Now it takes the longer of the "
        "two. The first batch is an exception: nothing is computed while it is read.",
        misreadings={
            percent: text
            for percent, text in wrong.items()
            if min(abs(percent - model), abs(percent - measured)) > _NEAR
        },
        apart="The model leaves out a worker's start, and handing a batch from process to process. And it "
        "assumes that the reads of both epochs last equally long. If other work runs on this machine, run both again.",
    )


def _mfu(share: float) -> Explanation:
    return Explanation(
        measured=round(100 * share, 1),
        because="The rest of the time goes to operations that wait for memory rather than for arithmetic (norms, GELU, "
        "the optimizer). It also goes to starting hundreds of small operations, and to matrices too small to keep the "
        "machine busy.",
        misreadings={
            lambda percent: percent >= 80: "A step is more than matmuls, and small matmuls are slower than the large "
            "ones of the calibration.",
        },
    )


ASKED_OF_TIME = (
    Asked(
        name="01.backward",
        question="How many times as long as forward does backward take?",
        unit="times",
        tell=_backward,
    ),
    Asked(
        name="01.fed",
        question="How many per cent of the time before does an epoch take with one worker?",
        unit="%",
        high=300,
        tell=_fed,
    ),
    Asked(
        name="01.mfu",
        question="What share of this machine's matmul rate does the step reach?",
        unit="%",
        high=100,
        tell=_mfu,
    ),
)
