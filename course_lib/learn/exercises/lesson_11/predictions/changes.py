"""Part d of lesson 11, its end: what changes the choice, by the planner."""

from __future__ import annotations

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.plan import Option

__all__ = ["CHANGES"]


def _domain(eight: Option, whole: Option, unstaged_eight: Option, unstaged_whole: Option) -> Explanation:
    """From the best layouts on NVLink domains of 8 and of 72; and the best ones without stages, on each."""
    measured = 100 * (1 - whole.step_s / eight.step_s)
    gain = 1 - unstaged_whole.step_s / unstaged_eight.step_s
    simple_gain_more = "A large domain helps simple layouts more than good ones."
    moral = simple_gain_more if 100 * gain > measured else ""
    behind = [simple.step_s / best.step_s - 1 for simple, best in ((unstaged_eight, eight), (unstaged_whole, whole))]
    return Explanation(
        measured=round(measured, 1),
        label="by the planner",
        because=f"With domains of eight the best is {eight.layout}: the axis that sends most is inside a node "
        "already. So a larger domain can speed up little. It helps layouts that send more. The best layout without "
        "stages, "
        f"{unstaged_whole.layout}, gains {gain:.0%}: it was {behind[0]:.0%} behind the best of all and is "
        f"{behind[1]:.0%}. {moral}".rstrip(),
        misreadings={
            lambda percent: (
                percent > max(3 * measured, 3)
            ): "The link is several times as fast for most pairs. But a good layout sends little between nodes.",
        },
    )


CHANGES: tuple[Asked, ...] = (
    Asked(
        name="11.domain",
        question="One NVLink domain of 72: how much shorter is the best step?",
        unit="%",
        tell=_domain,
        high=100,
    ),
)
