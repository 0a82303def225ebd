"""What part a of lesson 11 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

from dataclasses import fields

from told_runs import ToldRuns

from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_11.predictions.fits import FITS
from course_lib.plan import StepParts, decoder

ASKED = {asked.name: asked for asked in FITS}
LLAMA = decoder("llama-3-8b")
KEPT_BYTES = 8192 * 32 * 198_656
LOGITS_BYTES = 10 * 8192 * 128_256
MIB = 2**20


def step(total_s, optimizer_s=4.8):
    """A step of so many seconds, by the planner."""
    others = {field.name: 0.0 for field in fields(StepParts)}
    return StepParts(**others | {"compute_s": total_s - optimizer_s, "optimizer_s": optimizer_s})


RUNS = [  # name, what ran, what is measured, what the model says
    ("11.kept", (KEPT_BYTES, 8192, LLAMA), 52.1, None),
    ("11.logits", (LOGITS_BYTES, 8192, LLAMA), 10.5, None),
    ("11.stages", (400, [392, 300, 200, 110]), 98, 100),
    ("11.fewest", (4, 2), "4, and 2", None),
    ("11.fewest", (4, 4), "4, and 4", None),
    ("11.died", (), "the scores of all tokens, and what comes of them", None),
    ("11.alone", (step(80.0), 8.0, 8, 64), 80, None),
    ("11.alone", (step(160.0), 8.0, 8, 64), 40, None),
]
FAR = [("11.stages", (400, [110, 110, 110, 110]))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (0.1, 20, 250)

    def test_gigabytes_are_shown_as_they_were_asked_for(self):
        ask("11.kept").commit(36.5)
        shown = repr(reveal("11.kept", KEPT_BYTES, 8192, LLAMA))
        assert "36.5 GB" in shown
        assert "GiB" not in shown


def test_the_misreadings_of_activations_are_numbers_of_this_model():
    """GPT's formula, the layers' inputs, and one layer: each as somebody would work it out."""
    numbers = [key for key in ASKED["11.kept"].tell(KEPT_BYTES, 8192, LLAMA).misreadings if not callable(key)]
    by_hand = (34 * 8192 * 4096 * 32, 2 * 8192 * 4096 * 32, 8192 * 198_656)
    assert numbers == [round(size / 1e9, 1) for size in by_hand]


def test_what_is_said_of_the_gated_mlp_is_so():
    because = ASKED["11.kept"].tell(KEPT_BYTES, 8192, LLAMA).because
    assert "48.5 bytes for each token and channel" in because
    assert "The gated MLP keeps 28 of them" in because
    assert 8 * LLAMA.ffn / LLAMA.hidden == 28


def test_what_the_host_costs_is_told_of_a_large_step_and_of_one_sequence():
    """60 s of computing 60 sequences, and 5 s for the host: of one sequence 1 s, and 5 s again."""
    because = ASKED["11.alone"].tell(step(65.0, 5.0), 8.0, 8, 60).because
    assert "are 5.0 s of it" in because
    assert "In a step of one sequence their share would be 83%" in because
