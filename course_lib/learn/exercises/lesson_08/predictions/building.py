"""Part e of lesson 08: which share of a model each rank holds, of a model whose table of positions is large."""

from __future__ import annotations

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["HELD"]

_RANKS = 4


def _held(numbers: int, whole: int, positions: int) -> Explanation:
    """From the numbers that a rank holds, those of the model, and those of its table of positions."""
    share, cut = 100 * numbers / whole, 100 / _RANKS
    return Explanation(
        measured=round(share),
        model=round(100 * ((whole - positions) / _RANKS + positions) / whole),
        because="Matrices are cut. But each rank holds the whole of some parameters: norms, the biases after a row "
        f"cut, and the table of positions. The table is {positions / whole:.0%} of this model. The more ranks there "
        "are, the larger is its share of what a rank holds.",
        misreadings={
            lambda percent: abs(percent - cut) <= 2: "That is the share of what is cut. Which parameters are not?",
            lambda percent: percent >= 99: "That is data parallelism: each rank holds everything.",
        },
        apart="Norms and biases are whole as well, and the model leaves them out. They are small.",
    )


HELD = (
    Asked(
        name="08.held",
        question="Which share of the model's numbers does each of four ranks hold, in percent?",
        unit="percent",
        high=100,
        tell=_held,
    ),
)
