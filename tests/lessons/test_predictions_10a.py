"""What part a of lesson 10 tells after a run: right beside plausible runs, frank beside runs far from the model."""

from __future__ import annotations

import math

from told_runs import ToldRuns

from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_10.predictions.ring import RING
from course_lib.models import TransformerConfig

ASKED = {asked.name: asked for asked in RING}
SMALL = TransformerConfig(width=64, num_heads=8, num_kv_heads=2)
ALIKE = TransformerConfig(width=64, num_heads=8, num_kv_heads=8)
EXPOSED = {64: 0.90, 128: 0.75, 256: 0.45, 512: 0.07, 1024: 0.01}

RUNS = [  # name, what ran, what is measured, what the model says
    ("10.length", (897_024, 1_794_048), 2, 2),
    ("10.mean", (0.52, 1.61), "something else", None),
    ("10.mean", (3e-16, 1.61), "that, but for rounding", None),
    ("10.queries", (6144, 30_208, SMALL), 4.92, 4.92),
    ("10.queries", (24_576, 30_208, SMALL), 1.23, 4.92),
    ("10.back", (3072, 9216), 2, 2),
    ("10.longest", (256, 1024), 1024, 1024),
    ("10.hidden", (EXPOSED, 0.002, 0.008, 128), 512, 512),
    ("10.hidden", ({64: 0.9, 128: 0.7}, 0.002, 0.008, 128), math.inf, 512),
]
FAR = [
    ("10.length", (897_024, 4 * 897_024)),
    ("10.queries", (6144, 12_288, SMALL)),
    ("10.back", (3072, 6144)),
    ("10.longest", (256, 512)),
    ("10.hidden", ({**EXPOSED, 512: 0.4}, 0.002, 0.008, 128)),
]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (3, 768, 10**9)
    unforeseen = (math.inf,)
    one_sided = ("10.mean",)

    def test_only_a_wrong_answer_is_asked_about_the_weights(self):
        """900 tokens are near enough to 1,024 to be right, and nothing was mixed up."""
        for tokens, is_right in ((768, False), (900, True)):
            ask("10.longest").reset()
            ask("10.longest").commit(tokens)
            shown = reveal("10.longest", 256, 1024)
            assert shown.is_right == is_right
            assert bool(shown.misreading) != is_right


def test_what_is_said_of_other_heads_is_so():
    """With as many heads of each kind the model is what the sentence about grouped heads says."""
    because = ASKED["10.queries"].tell(6144, 30_208, SMALL).because
    alike = ASKED["10.queries"].tell(24_576, 30_208, ALIKE)
    assert alike.model == 1.23
    assert "it would be 1.23 times" in because


def test_what_is_said_of_bfloat16_is_so():
    """Backward sends three times what forward does, by the cost model."""
    from course_lib.cost import ring_attention_sent_bytes
    from course_lib.layouts.sequence_cut import SequenceCut

    sent = ring_attention_sent_bytes(SMALL, SequenceCut(64, 4), 0, batch_size=1, itemsize=2)
    assert sent.backward == 3 * sent.forward
    assert "In bfloat16 it is three times" in ASKED["10.back"].tell(3072, 9216).because
