"""What part e of lesson 12 tells after a run, and that its tables say the same."""

from __future__ import annotations

import math

import pytest
import torch
from told_runs import ToldRuns, usual_runs

from course_lib import cost
from course_lib.learn.exercises.lesson_12.predictions.wrong_numbers import WRONG_NUMBERS
from course_lib.learn.sick.bit_flips import flip_bit
from course_lib.parallel.data import Divergence

ASKED = {asked.name: asked for asked in WRONG_NUMBERS}


def flips_of(value: float) -> dict[int, float]:
    found = {}
    for bit in range(32):
        number = torch.tensor([value])
        flip_bit(number, bit)
        found[bit] = number.item()
    return found


DRIFT = Divergence({"head.2.weight": ((0, 1, 3), (2,))})
NEXT_TO_002 = torch.tensor(0.02).item()
UNSPOILT = {5: True, 10: True, 15: True, 20: True, 25: False, 30: False}
SOUND = dict.fromkeys(UNSPOILT, True)

RUNS = [  # name, what ran, what is measured, what the model says
    ("12.flips", (NEXT_TO_002, flips_of(0.02)), 1, None),
    ("12.flips", (1.5, flips_of(1.5)), 1, None),
    ("12.spoilt", (None, 0.98), "none: all four hold the same", None),
    ("12.spoilt", (DRIFT, 0.98), "rank 2", None),
    ("12.trusted", (UNSPOILT,), "that of step 20", None),
    ("12.trusted", (SOUND,), "any: rank 0 writes them all", None),
    ("12.again", ({"always": False, "now and then": True},), "only the one that comes and goes", None),
    ("12.again", ({"always": True, "now and then": True},), "both", None),
    ("12.racks", (1.0467e-3, 1.0008e-2), 9.6, None),
]
USUAL = usual_runs(RUNS)


class TestToldRuns(ToldRuns):
    asked, runs, guesses = ASKED, RUNS, (18, 2, 20)
    one_sided = ("12.spoilt", "12.trusted", "12.again")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("12.flips", ["Bit 30", "24 of the 32", "make it 4 or 16 times as large, far smaller, or negative"]),
        ("12.spoilt", ["more than nine in ten"]),
        ("12.trusted", ["From step 25 on"]),
        ("12.racks", ["10.01 ms in place of 1.05"]),
    ],
)
def test_what_is_told_has_the_numbers_of_the_run(name, said):
    because = ASKED[name].tell(*USUAL[name].given).because
    assert all(part in because for part in said), because


def test_flips_to_no_number_count_as_large():
    assert ASKED["12.flips"].tell(1.0, flips_of(1.0)).measured == 1
    assert math.isinf(flips_of(1.0)[30])


def test_a_few_wrong_weights_are_not_called_most():
    assert "some of them" in ASKED["12.spoilt"].tell(None, 0.1).because


def test_the_rack_is_as_fast_as_the_page_says():
    rack = cost.machine_spec("72x GB200")
    assert rack.intra.bandwidth_bytes_per_s == 900e9
    assert rack.inter.bandwidth_bytes_per_s == 50e9
    assert rack.num_devices == 18 * 4
