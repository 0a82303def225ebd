"""What lesson 08 asks before a run, and tells after it.

Its clinics are in ``predictions_clinic``, and what part c asks about positions in ``predictions_along``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from course_lib import cost
from course_lib.claims import VERDICTS
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_08.predictions.along import ALONG
from course_lib.learn.exercises.lesson_08.predictions.building import HELD
from course_lib.learn.exercises.lesson_08.predictions.clinic import CLINICS, NORMS

if TYPE_CHECKING:
    from course_lib.claims import Evidence
    from course_lib.meter import Communication
    from course_lib.models import TransformerConfig
    from course_lib.parallel.tensor import MatmulPlan

__all__ = ["PREDICTIONS"]

_WAYS = ("side by side", "one above the other", "added up", "multiplied")


def _rows(first: Tensor, second: Tensor, whole: Tensor) -> Explanation:
    joined = dict(
        zip(
            _WAYS,
            (
                torch.cat([first, second], dim=1),
                torch.cat([first, second], dim=0),
                first + second,
                first * second,
            ),
            strict=True,
        )
    )
    return Explanation(
        measured=next(way for way, found in joined.items() if torch.equal(found, whole)),
        because="Every number of Y is a sum over the rows of A, and each rank has computed a part of this sum. Two "
        "full-sized tensors whose sum is Y are called *partial sums*, and the collective that "
        "adds them up is an all-reduce.",
        misreadings={
            "one above the other": "Look at the shapes: each rank already has all rows and all columns of Y. What it "
            "lacks is a part of every *sum*.",
            "side by side": "That is so with the cut by columns. Here each rank's product has the full shape.",
            "multiplied": "A number of Y is a sum of products. The ranks have made the products; what is left is to "
            "sum.",
        },
    )


_NEEDS = ("nothing", "an all-gather of dY", "an all-reduce of dX", "an all-reduce of dA")


def _backward(plan: MatmulPlan) -> Explanation:
    (sent,) = (step for step in plan.backward if step.is_sent)
    return Explanation(
        measured=f"an {sent.collective.replace('_', '-')} of {sent.tensor}",
        label="computed",
        because="dX = dY Aᵀ: dY is S(1), and Aᵀ is cut by rows, S(0). That is the row cut, whose product is partial "
        "sums.",
        misreadings={
            "nothing": "Each rank has the part of X's gradient that comes through its own columns. X went into all "
            "columns, so the parts have to be added up.",
            "an all-gather of dY": "That would also give the right result, with more arithmetic. But each rank can "
            "use its columns of dY as they are.",
            "an all-reduce of dA": "Each rank's columns of A get their gradient from X and its own columns of dY, both "
            "of which it has.",
        },
    )


def _bet_e10(evidence: Evidence) -> Explanation:
    return Explanation(
        measured=evidence.verdict,
        because="Ask on which ranks the output is needed. The two collectives of the claim are those of sequence "
        "parallelism, in part 3.",
        misreadings={
            "holds": "Two of the four cases that ran call something else, or nothing.",
            "misleading": "It names the right collective for each cut, and leaves out for which placement of Y.",
            "false": "In two of the four cases that ran, the claim is right.",
        },
    )


def _bytes(block: Communication, config: TransformerConfig) -> Explanation:
    calls = cost.block_collectives(config, batch_size=4)
    return Explanation(
        measured=block.sent_bytes(0) / 1024,
        model=cost.collectives_sent_bytes(calls, 4) / 1024,
        because="The model counts two regions, each with one all-reduce forward and one backward. So there are four "
        "all-reduces of B T D numbers. On four ranks, a rank sends 3/2 of the size of each.",
        misreadings={
            1152: "No weight and no gradient of a weight travels here: each rank has its own part and keeps it. What "
            "travels are *activations*, at the gates.",
            256: "Four all-reduces of 64 KiB; but a ring of four sends 2 (n - 1)/n of the tensor, so 1.5 times as "
            "much.",
            192: "That is half: both regions forward, or one region forward and backward.",
            96: "That is one all-reduce.",
        },
        apart="Bytes do not depend on how busy a machine is. Compare the calls that are listed above with the "
        "model's: four all-reduces of 64 KiB.",
    )


def _loss(numbers: float) -> Explanation:
    return Explanation(
        measured=numbers,
        because="The three numbers are the largest logit, so that no exponential overflows, the sum of "
        "exponentials, and the target's logit, which one rank has. There are three for any vocabulary.",
        misreadings={
            lambda n: n >= 1000: "Then every rank would have the logits of others too, the tensor that the cut was to "
            "avoid. It would compute the same loss from it as all others.",
            2: "These are the sum of exponentials and the target's logit. But exp(1000) is infinite, so something "
            "has to be subtracted first. (With an all-gather two are enough: each rank gives the *logarithm* of its "
            "sum.)",
            1: "One of them is the sum of exponentials. Which rank knows the target's logit? And exp(1000) is "
            "infinite.",
        },
    )


_CLEARLY = 3.0  # times as far off
_ROUNDING = (
    "the one in one piece, clearly",
    "the four parts, clearly",
    "neither: about equally far off",
    "neither: equal to the last bit",
)


def _rounding(whole_error: float, parts_error: float, differ: float) -> Explanation:
    one_piece, parts, alike, equal = _ROUNDING
    if whole_error >= _CLEARLY * parts_error:
        measured = one_piece
    else:
        measured = parts if parts_error >= _CLEARLY * whole_error else alike
    return Explanation(
        measured=equal if differ == 0 else measured,
        because="Every order of adding rounds, and no order is the right one. In one running sum of random terms the "
        "error grows about as the root of their number. With four sums of a quarter of the terms, the error is "
        "half as large at best. Nothing changes if the library already sums in short pieces.",
        misreadings={
            one_piece: "Short sums do round less. But four sums of 1024 terms in place of one of 4096 gain a factor "
            "of two at most. And most libraries sum in pieces even without a cut.",
            parts: "Cutting loses nothing: the same products are added up, in another order. If anything, shorter sums "
            "round less.",
            equal: "Floating-point addition depends on its order. The output above says how many numbers differ in "
            "some bit.",
        },
    )


def _link(step_s: float, model_s: float, alone_s: float) -> Explanation:
    computing_ms, model_ms = 1e3 * alone_s / 2, 1e3 * model_s
    than = "slower" if model_s > alone_s else "faster"
    return Explanation(
        measured=round(1e3 * step_s),
        model=round(model_ms),
        because=f"By the model the sixteen all-reduces take {model_ms - computing_ms:.0f} ms, one after each region. "
        f"Added to {computing_ms:.0f} ms of computing, that makes two devices {than} than one.",
        misreadings={
            80: "That is the computing alone.",
            lambda ms: 80 < ms <= 110: "The messages take much time: there are sixteen all-reduces, and all ranks "
            "wait for each of them.",
            160: "That is one device. Two share the computing, 80 ms each. Then add the time of the messages.",
        },
        apart="The model adds up paced waits, latency, and bytes over bandwidth. If ranks share a core, each of the "
        "sixteen sums also waits until both ranks have had the core. Run the cell again while nothing else runs: a "
        "number that falls was such waiting. If a number stays, an all-reduce of this size takes longer on your link "
        "than in the model; time one alone.",
    )


def _hidden(step_s: float, product_s: float, sum_s: float) -> Explanation:
    product_ms, sum_ms = 1e3 * product_s, 1e3 * sum_s
    one_by_one, product = round(2 * product_ms + sum_ms), round(product_ms)
    longer = "dA, which takes longer than the sum" if product_s >= sum_s else "the sum, which takes longer than dA"
    return Explanation(
        measured=round(1e3 * step_s),
        model=round(product_ms + max(product_ms, sum_ms)),
        because=f"dX comes first. Then its sum and dA go on side by side, and both end when {longer}, has ended. "
        f"The {min(product_ms, sum_ms):.0f} ms of the other cost nothing.",
        misreadings={
            one_by_one: "That is one after the other. But while the sum is in flight, the rank can compute a product "
            "that needs no other rank.",
            product: "One product cannot hide the other: a rank computes them one after the other. Only the sum hides.",
        },
        apart="The model has paced products and the link's timetable alone. If ranks share a core, a wait ends only "
        "when its rank gets the core. Run the cell again while nothing else runs: a number that falls was such "
        "waiting.",
    )


def _bet_b3(evidence: Evidence) -> Explanation:
    return Explanation(
        measured=evidence.verdict,
        because="`x @ a` of two plain tensors cuts nothing and sends nothing, with a process group or without. The "
        "same `@` of two *DTensors*, which carry their placement, does what the table of part 1 says.",
        misreadings={
            "false": "For plain tensors it is. A DTensor knows where its parts are, and its operators act on it.",
            "holds": "For DTensors it does. The tensors that you have cut in this lesson were plain ones.",
            "holds with conditions": "That is nearly right. But somebody has to cut the tensors, and the claim says "
            "that nobody has to. So the condition contradicts the claim.",
        },
    )


PREDICTIONS = (
    Asked(name="08.rows", question="How do Y0 and Y1 become Y?", choices=_WAYS, tell=_rows),
    Asked(name="08.backward", question="What does the backward pass need?", choices=_NEEDS, tell=_backward),
    Asked(
        name="08.bet_e10",
        question="Columns need an all-gather and rows a reduce-scatter?",
        choices=VERDICTS,
        tell=_bet_e10,
    ),
    Asked(
        name="08.bytes",
        question="How many KiB does each of four ranks send for a block?",
        unit="KiB",
        tell=_bytes,
    ),
    Asked(
        name="08.loss",
        question="By all-reduces alone, with logits up to 1000: how many numbers does each rank hand in for a "
        "position?",
        unit="numbers",
        tell=_loss,
    ),
    Asked(
        name="08.rounding",
        question="Which is further from the truth? (Clearly: at least three times as far.)",
        choices=_ROUNDING,
        tell=_rounding,
    ),
    NORMS,
    *ALONG,
    Asked(name="08.link", question="A tensor-parallel step on two ranks at 12 MB/s?", unit="ms", tell=_link),
    Asked(
        name="08.hidden",
        question="How long does the backward pass take with the all-reduce beside dA?",
        unit="ms",
        tell=_hidden,
    ),
    *CLINICS,
    Asked(
        name="08.bet_b3",
        question="Built into the standard operations of PyTorch?",
        choices=VERDICTS,
        tell=_bet_b3,
    ),
    *HELD,
)
