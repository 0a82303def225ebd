"""What lesson 01 tells after a run: right beside plausible runs, and frank beside runs that the model does not meet."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from told_runs import ToldRuns

from course_lib.cost import model_state
from course_lib.learn import exercises
from course_lib.meter import Span, Timeline
from course_lib.models import TransformerConfig

ASKED = {asked.name: asked for asked in exercises.predictions_of("01")}
# Of the CNN, and what its forward pass keeps of 64 digits, as the ledger found.
PARAMETERS, KEPT = 94_186, 1_872_132
STATE = model_state(PARAMETERS, optimizer="adamw", num_tensors=11)
READER = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
CONVOLUTIONS = [2 * 9 * 1 * 32 * 64, 2 * 9 * 32 * 64 * 16, 2 * 9 * 64 * 128 * 4, 2 * 128 * 10]  # FLOP a digit
TWICE_BUT_THE_FIRST = 2 - CONVOLUTIONS[0] / sum(CONVOLUTIONS)  # nobody asks for the gradient of the pixels


def held(size_bytes):
    """A balance, and as well a ledger with this balance at its peak."""
    balance = SimpleNamespace(total_bytes=size_bytes)
    return SimpleNamespace(total_bytes=size_bytes, peak=lambda: balance)


def epoch(forward_s, backward_s):
    """Six batches, the first of them disturbed by something else."""
    timeline, now = Timeline(), 0.0
    for batch in range(6):
        for name, lasts_s in (("forward", forward_s), ("backward", backward_s)):
            end = now + lasts_s * (50 if batch == 0 and name == "forward" else 1)
            timeline.add(Span(0, name, "compute", now, end))
            now = end
    return timeline


def fed_epoch(wait_s, compute_s, num_batches=10):
    """An epoch of equal batches."""
    timeline, now = Timeline(), 0.0
    for _ in range(num_batches):
        for name, kind, lasts_s in (("wait", "wait", wait_s), ("compute", "compute", compute_s)):
            timeline.add(Span(0, name, kind, now, now + lasts_s))
            now += lasts_s
    return timeline


HUNGRY = fed_epoch(0.02, 0.01)  # 300 ms

RUNS = [  # name, what ran, what is measured, what the model says
    (
        "01.peak",
        (held(3_621_740), STATE, KEPT),
        3.45,
        round((4 * 4 * PARAMETERS + 11 * 4 + KEPT) / 2**20, 2),
    ),
    ("01.backward", (epoch(0.003, 0.006),), 2.0, round(TWICE_BUT_THE_FIRST, 2)),
    ("01.fed", (HUNGRY, fed_epoch(0.0105, 0.01)), 68, 70),  # (20 + 9 x 20 + 10) of 300 ms
    ("01.fed", (fed_epoch(0.01, 0.03), fed_epoch(0.0005, 0.03)), 76, 78),  # the arithmetic is the longer part
    ("01.fed", (fed_epoch(0.01, 0.01), fed_epoch(0.001, 0.01)), 55, 55),  # half is as good as right here
    ("01.mfu", (0.331,), 33.1, None),
    ("01.pieces", (0.4,), "off by more than 1 %", None),
    ("01.pieces", (1e-7,), "the same, up to rounding", None),
    ("01.autocast", (READER, held(1000), held(788)), 79, 79),  # 79 %: also what the ledger found
    ("01.recompute", (READER, 1000, 271), 27, 27),  # 27 %: also what the ledger found
    ("01.clinic", (), "total += ... in evaluate_all", None),
]
FAR = [
    ("01.peak", (held(9_000_000), STATE, KEPT)),
    ("01.backward", (epoch(0.003, 0.003),)),
    ("01.autocast", (READER, held(1000), held(500))),
    ("01.fed", (HUNGRY, fed_epoch(0.02, 0.01))),
    ("01.recompute", (READER, 1000, 900)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, range(101)
    one_sided = ("01.pieces",)


@pytest.mark.parametrize(
    ("percent", "times", "words"),
    [
        (50, (0.02, 0.01), "if reading and computing lasted equally long"),
        (33, (0.02, 0.01), "reads no faster than the notebook did"),
        (50, (0.01, 0.01), None),  # half is right, or nearly
        (75, (0.01, 0.03), None),  # the arithmetic alone, and right
        (90, (0.02, 0.01), None),
    ],
)
def test_a_worker_misread_is_told_what_it_mixes_up(percent, times, words):
    hungry = fed_epoch(*times)
    told = ASKED["01.fed"].tell(hungry, fed_epoch(max(times[0] - times[1], 0.0), times[1]))
    found = [text for wrong, text in told.misreadings.items() if wrong == percent]
    assert len(found) == (words is not None)
    assert words is None or words in found[0]
