"""What lesson 06 tells of runs that might have been: measured, model, misreadings; and where the two are apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from told_runs import ToldRuns

from course_lib.learn import exercises
from course_lib.models import ResNet, TransformerConfig
from course_lib.parallel.model import parameter_costs, split_evenly

ASKED = {one.name: one for one in exercises.predictions_of("06")}
CONFIG = TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)
RESNET = ResNet((2, 2, 2, 2), width=8, bottleneck=False, num_classes=10, small_images=True)
BY_PARAMETERS = split_evenly(parameter_costs(RESNET), 2)


def peaks(fuller):
    """Of 1000 bytes uncut, the fuller of two ranks has so many."""
    held = {1: [1000], 2: [400, fuller]}
    return {n: [SimpleNamespace(total_bytes=each) for each in ranks] for n, ranks in held.items()}


def times(first):
    """Seconds of the ten pieces; so much of them in the first part of the cut by parameters."""
    sizes = [len(part) for part in BY_PARAMETERS]
    return [first / sizes[0]] * sizes[0] + [(1 - first) / sizes[1]] * sizes[1]


def lopsided(first):
    return times(first), BY_PARAMETERS, RESNET, torch.randn(2, 3, 32, 32)


def conv_share():
    """By hand: a block has two 3 x 3 convolutions, three of eight also a 1 x 1; sizes halve, widths double."""
    pieces = [9 * 3 * 8 * 32 * 32]
    for stage in range(4):
        wide, pixels = 8 * 2**stage, (32 // 2**stage) ** 2
        narrow = wide if stage == 0 else wide // 2
        pieces += [(9 * narrow * wide + 9 * wide * wide + (stage > 0) * narrow * wide) * pixels]
        pieces += [2 * 9 * wide * wide * pixels]
    pieces.append(64 * 10)
    return 100 * sum(pieces[i] for i in BY_PARAMETERS[0]) / sum(pieces)


FOUR_CUTS = {
    "parameters": {"parameters": 0.52, "memory": 0.69, "time": 0.95, "bytes": 65536},
    "memory": {"parameters": 0.84, "memory": 0.52, "time": 0.86, "bytes": 131072},
    "time": {"parameters": 0.99, "memory": 0.76, "time": 0.53, "bytes": 524288},
    "bytes": {"parameters": 0.74, "memory": 0.54, "time": 0.92, "bytes": 32768},
}
IN_BETWEEN = FOUR_CUTS | {"time": FOUR_CUTS["memory"]}  # a machine on which time and memory agree
ONE_PLACE = dict.fromkeys(FOUR_CUTS, FOUR_CUTS["time"])

RUNS = [  # name, what ran, what is measured, what the model says
    ("06.recv", (0,), "the sender's rank", None),
    ("06.recv", (None,), "nothing", None),
    ("06.gradients", (0, 18), 0, None),
    ("06.two", (46.4,), 46, 50),
    ("06.four", (22.6,), 23, 25),
    ("06.moving", ({"moving": 0.01, "waiting for the other": 0.05},), "waiting for the other", None),
    ("06.moving", ({"moving": 0.06, "waiting for the other": 0.05},), "about the same", None),
    ("06.moving", ({"moving": 0.09, "waiting for the other": 0.05},), "moving", None),
    ("06.memory", (peaks(600), CONFIG), 60, 54),
    ("06.lopsided", lopsided(0.9), 90, round(conv_share())),
    ("06.ways", (FOUR_CUTS,), "the cut by time", None),
    ("06.ways", (IN_BETWEEN,), "none of them, or more than one", None),
    ("06.worse", (), "each copy of the matrix learns from its own place alone", None),
]
FAR = [
    ("06.two", (30.0,)),
    ("06.four", (12.0,)),
    ("06.memory", (peaks(900), CONFIG)),
    ("06.lopsided", lopsided(0.5)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, range(101)
    one_sided = ("06.recv",)


def test_the_model_of_the_last_part_is_its_half_of_the_state_and_what_it_keeps():
    """By hand: 16 bytes a parameter; of the activations two blocks of four and the head."""
    n, d, vocab = 16 * 64, CONFIG.width, CONFIG.vocab_size
    block = 4 * n * (9 * d + 2 * CONFIG.mlp_hidden + CONFIG.num_heads) + 16 * n
    head = 4 * n * (2 * d + vocab) + 8 * n
    linear = 4 * d * d + 2 * d * CONFIG.mlp_hidden
    state = 16 * (4 * linear + (2 * vocab + CONFIG.context_length) * d)
    share = 100 * (state / 2 + 2 * block + head) / (state + 4 * block + head)
    assert ASKED["06.memory"].tell(peaks(600), CONFIG).model == pytest.approx(share, abs=1.5)


def test_who_chose_another_cut_is_told_what_it_is_the_worst_by():
    told = ASKED["06.ways"].tell(FOUR_CUTS)
    assert "The largest number of time stands in the row parameters" in told.misreadings["the cut by parameters"]
    assert "No column has its largest number in the row bytes" in told.misreadings["the cut by bytes"]
    assert "the cut by time" not in told.misreadings
    assert "No other cut of the four sends more" in told.because


def test_where_all_cuts_are_in_one_place_none_is_the_worst():
    told = ASKED["06.ways"].tell(ONE_PLACE)
    assert told.measured == "none of them, or more than one"
    assert told.measured in ASKED["06.ways"].choices
    assert told.model is None
    assert not told.misreadings


def test_where_no_cut_is_the_worst_by_all_others_nothing_is_said_of_convolutions():
    told = ASKED["06.ways"].tell(IN_BETWEEN)
    assert (
        "The largest number of parameters and bytes stands in the row memory" in told.misreadings["the cut by memory"]
    )
    assert "none of them, or more than one" not in told.misreadings
    assert "convolutions" not in told.because
