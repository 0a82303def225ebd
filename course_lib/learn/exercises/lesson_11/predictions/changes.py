"""Part d of lesson 11, its end: what changes the choice, by the planner."""

from __future__ import annotations

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.plan import Option

__all__ = ["CHANGES"]


def _domain(eight: Option, whole: Option, unstaged_eight: Option, unstaged_whole: Option) -> Explanation:
    """From the best layouts on NVLink domains of 8 and of 72; and the best ones without stages, on each."""
    measured = 100 * (1 - whole.step_s / eight.step_s)
    gain = 1 - unstaged_whole.step_s / unstaged_eight.step_s
    simple_gain_more = "A large domain makes simple layouts good, more than good ones better."
    moral = simple_gain_more if 100 * gain > measured else ""
    behind = [simple.step_s / best.step_s - 1 for simple, best in ((unstaged_eight, eight), (unstaged_whole, whole))]
    return Explanation(
        measured=round(measured, 1),
        label="by the planner",
        because=f"With domains of eight the best is {eight.layout}: what talks most is inside a node already, so a "
        "larger domain has little left to speed up. It helps those that talk more. The best layout without stages, "
        f"{unstaged_whole.layout}, gains {gain:.0%}: it was {behind[0]:.0%} behind the best of all and is "
        f"{behind[1]:.0%}. {moral}".rstrip(),
        misreadings={
            lambda percent: (
                percent > max(3 * measured, 3)
            ): "The link is several times as fast for most pairs. But a good layout sends little between nodes.",
        },
    )


def _float8(plain: Option, fast: Option, same: Option) -> Explanation:
    """From the best layouts with the peak of bfloat16, and with twice that; ``same`` is the former with the latter."""
    measured = plain.step_s / fast.step_s
    computing_s = [option.step.compute_s + option.step.output_s for option in (plain, same)]
    others_s = [option.step_s - seconds for option, seconds in zip((plain, same), computing_s, strict=True)]
    moved = "" if fast.layout == plain.layout else f"The best is {fast.layout} now. "
    return Explanation(
        measured=round(measured, 1),
        label="by the planner",
        because=f"With the layout that was best, {plain.layout}, computing goes from {computing_s[0]:.1f} s to "
        f"{computing_s[1]:.1f} s: products take half the time, norms and softmax wait for memory as before. All the "
        f"rest goes from {others_s[0]:.1f} s to {others_s[1]:.1f} s. {moved}And the planner is kind: it gives float8 "
        "to attention as well, which most programs leave in bfloat16, and forgets the time that scaling and casting "
        "take.",
        misreadings={
            lambda times: (
                1.2 * measured < times <= 2
            ): "That is the data sheet, or nearly. A step is more than products.",
            1: "Products are the larger part of a step, and they do take half the time.",
            lambda times: times > 2: "More than the products gain, the step cannot gain.",
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
    Asked(
        name="11.float8",
        question="float8: how many times as fast is the best step?",
        unit="times",
        tell=_float8,
        high=1000,
    ),
)
