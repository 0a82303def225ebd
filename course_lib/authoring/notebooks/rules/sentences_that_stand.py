"""Sentences that a rule over wordings finds, and that stand all the same: where, how they begin, and why.

No reason lets a sentence of more than 25 words stand in a lesson: two sentences say the same.
"""

from __future__ import annotations

__all__ = ["LENGTH", "NOT_YET", "REASONED"]

LENGTH = "more than 25 words"
_WORDINGS = frozenset(
    (
        "an inversion",
        "'who' without a noun",
        "'told' for a number",
        "'of what'",
        "a pronoun that begins a paragraph",
    )
)

REASONED: dict[str, dict[str, str]] = {
    "docs/at-scale.md": {"Measured by:": "a list of sources, each with its year, its number and its table"},
    "docs/instructor/lessons/02.md": {'"It is a ring': "what a learner says, in the learner's words"},
    "docs/instructor/lessons/04.md": {"Of what?": "a question of the instructor, who points at a number"},
}
"""For each page by its name: the beginnings of sentences that stand, each with the reason."""

NOT_YET: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            "02d_build_all_reduce",
            "03c_build_data_parallel",
            "04d_build_ddp",
            "05c_what_stays_whole",
            "05f_build_sharded_optimizer",
            "05g_build_fully_sharded",
            "07a_pipeline_parallel",
            "07b_smaller_bubbles",
            "07c_runtime_and_faults",
            "11a_does_it_fit",
            "11b_how_long",
            "11c_sick_runs",
            "11d_runs_of_others",
        ),
        _WORDINGS | {LENGTH},
    ),
    **dict.fromkeys(
        (
            "04b_batches_and_scaling",
            "04c_drift_and_production",
            "04e_read_a_trace",
            "04f_divide_once",
            "05a_sharded_data_parallel",
            "05d_links_and_precision",
            "05e_one_model_again",
            "05h_precision_on_the_wire",
        ),
        _WORDINGS,
    ),
    "docs/nodes.md": _WORDINGS | {LENGTH},
}
"""Pages that nobody has gone through yet, and what may still stand there. A page that is done is taken out."""
