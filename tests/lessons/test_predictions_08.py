"""What lesson 08 tells after a run: right beside plausible runs, and frank beside runs that the model does not meet."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from told_runs import ToldRuns

from course_lib import cost
from course_lib.claims import VERDICTS
from course_lib.learn import ask, exercises, reveal
from course_lib.models import TransformerConfig
from course_lib.parallel.tensor import matmul_plan, parse_placement

ASKED = {asked.name: asked for asked in exercises.predictions_of("08") if asked.name != "08.held"}  # of part e
SMALL = TransformerConfig(vocab_size=256, context_length=32, num_layers=2, width=128, num_heads=4)
GATE_KIB = 4 * 4 * 32 * 128 / 1024  # float32 numbers of 4 sequences of 32 tokens, 128 wide
SUMS_S = 16 * (2 * 0.0005 + 131_072 / 12e6)  # all-reduces between two: two messages of half the tensor each
BY_COLUMNS = matmul_plan(*map(parse_placement, ("R", "S(1)", "S(1)")))
X, A = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 3.0]])
ALONG_BYTES, ANEW_BYTES = (
    sum(
        term.course_bytes
        for term in cost.explained_activations(SMALL, batch_size=4, num_ranks=4, sequence_parallel=True, regather=way)
    )
    for way in (False, True)
)
ANEW_KIB = ANEW_BYTES / 1024
ALIKE = "neither: about equally far off"


def sent(kib):
    return SimpleNamespace(sent_bytes=lambda rank: kib * 1024)


def bet(verdict):
    return SimpleNamespace(verdict=verdict)


RUNS = [  # name, what ran, what is measured, what the model says
    ("08.rows", (X[:, :1] @ A[:1], X[:, 1:] @ A[1:], X @ A), "added up", None),
    ("08.backward", (BY_COLUMNS,), "an all-reduce of dX", None),
    ("08.bet_e10", (bet("holds with conditions"),), "holds with conditions", None),
    ("08.bytes", (sent(384), SMALL), 384, 4 * 3 / 2 * GATE_KIB),
    ("08.loss", (3.0,), 3, None),
    ("08.rounding", (2.7e-7, 2.5e-7, 0.89), ALIKE, None),
    ("08.rounding", (2e-7, 4e-7, 0.9), ALIKE, None),
    ("08.rounding", (9e-7, 2e-7, 0.9), "the one in one piece, clearly", None),
    ("08.rounding", (2e-7, 9e-7, 0.9), "the four parts, clearly", None),
    ("08.rounding", (2e-7, 2e-7, 0.0), "neither: equal to the last bit", None),
    ("08.norms", (), "the gradient is not summed at the entrance", None),
    ("08.sequence", (448.0, 448.0), "the same", None),
    ("08.sequence", (448.0, 600.0), "more", None),
    ("08.kept", (ALONG_BYTES, SMALL), round(ALONG_BYTES / 1024), round(ALONG_BYTES / 1024)),
    ("08.shares", (), "each norm gets the gradient of its own positions alone", None),
    ("08.link", (0.284, 0.080 + SUMS_S, 0.160), 284, round(80 + 1e3 * SUMS_S)),
    ("08.hidden", (0.031, 0.015, 0.012), 31, 30),
    ("08.hidden", (0.036, 0.015, 0.020), 36, 35),
    ("08.seeds", (), "each rank drops the same of its units", None),
    ("08.gather", (), "the parts are joined along the wrong dim", None),
    ("08.bet_b3", (bet("misleading"),), "misleading", None),
]
FAR = [
    ("08.bytes", (sent(768), SMALL)),
    ("08.kept", (2 * ALONG_BYTES, SMALL)),
    ("08.link", (0.900, 0.271, 0.160)),
    ("08.hidden", (0.090, 0.015, 0.012)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (90, 25_000, 42, ANEW_KIB, 100)
    one_sided = ("08.rounding", "08.sequence")

    def test_two_numbers_a_position_are_too_few_where_exponentials_overflow(self):
        assert torch.tensor(1000.0).exp().isinf()
        ask("08.loss").commit(2)
        assert "exp(1000) is infinite" in repr(reveal("08.loss", 3.0))


@pytest.mark.parametrize(("model_s", "word"), [(0.271, "slower than one"), (0.104, "faster than one")])
def test_at_another_setting_of_the_dial_the_explanation_turns_too(model_s, word):
    assert word in repr(reveal("08.link", model_s, model_s, 0.160))


def test_bets_are_on_the_verdicts_of_trials():
    assert ASKED["08.bet_e10"].choices == ASKED["08.bet_b3"].choices == VERDICTS
