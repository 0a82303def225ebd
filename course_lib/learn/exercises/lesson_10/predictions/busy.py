"""Part d of lesson 10: experts that are equally busy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from torch import Tensor

from course_lib.cost.model_parallel.experts import ExpertLayerTime
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.parallel.experts import Routing
from course_lib.rounding import rounded

__all__ = ["BUSY"]

_LAST = 10  # steps that make the end of a training


def _slowest(even_s: float, skewed_s: float, even: ExpertLayerTime, skewed: ExpertLayerTime) -> Explanation:
    """From two layers' seconds on paced ranks, and what the cost model says of them."""
    return Explanation(
        measured=round(skewed_s / even_s, 2),
        model=round(skewed.time_s / even.time_s, 2),
        because=f"Rank 0 computes {skewed.rows[0]} rows: those of the busy expert, and then those of its other one. "
        f"With even experts each rank has {even.rows[0]}. The outputs go back when all ranks have theirs, so the "
        "layer takes as "
        "long as rank 0.",
        misreadings={
            4: "Expert 0 has four times the rows that it had. But all ranks wait for one rank, and its other expert "
            "has become less busy.",
            8: "That would be all tokens at one expert, and experts that are computed at once.",
            1: "All ranks together have as many rows as before. But three of the ranks wait for the fourth.",
        },
        apart="The waits are exact; what comes on top is messages and ranks that wait for a core. Run the cell again, "
        "or take a larger `ROW_S`.",
    )


def _alone(shares: Sequence[float], first: Tensor, early: Tensor) -> Explanation:
    """From the share of tokens at the busiest expert, step by step; and the probabilities (N, E) of steps 0 and 10."""
    measured = 100 * fmean(shares[-_LAST:])
    experts = [chances.mean(0).std().item() for chances in (first, early)]
    tokens = [chances.std(0).mean().item() for chances in (first, early)]
    return Explanation(
        measured=round(measured),
        because=f"Soon after the start an expert had up to {max(shares):.0%} of all tokens. From step 0 to step 10 "
        f"the router's probabilities came to differ. From expert to expert they differ by {experts[1]:.3f} in place "
        f"of {experts[0]:.3f}, and from token to token by {tokens[1]:.3f} in place of {tokens[0]:.3f}. The router "
        "learns first what all tokens have in common. So most of them go to the same two experts. An expert learns "
        "from the tokens that it gets, and the router may come to rely on experts that have had many tokens. Later, "
        "tokens differ, and some find other experts. Nothing in the loss of the text makes experts even.",
        misreadings={
            25: "That is an even router. But nothing in the training makes it even.",
            12.5: "An eighth of the choices would be even; each token makes two, so that is a quarter of the tokens.",
            lambda percent: (
                percent < 0.75 * measured
            ): "You expected that it stays about even. But the router learns, and nothing keeps it even.",
            lambda percent: (
                percent > 1.3 * measured
            ): f"At most it was {max(shares):.0%}, in step {shares.index(max(shares))}. Then tokens begin to differ, "
            "for the router as well.",
        },
    )


def _steps(num_steps: int, probabilities: Tensor, choices: Tensor) -> Explanation:
    """From the number of steps until some token went elsewhere; what the router was given, and who has tokens then."""
    best, second = probabilities.sort(descending=True).values[:2].tolist()
    apart, rate = best - second, 1e-3
    return Explanation(
        measured=num_steps,
        model=math.ceil(round(apart / (2 * rate), 6)),
        because=f"Expert 0 has more than the mean and loses {rate} a step; expert 1 has less and gains as much. So the "
        f"distance of {rounded(apart, 3)} shrinks by twice the rate. And then all {int(choices.sum())} tokens "
        "go to expert 1 "
        "at once, since they are alike: now that one is too busy.",
        misreadings={
            round(apart / rate): "Expert 0 comes down by that rate. Expert 1 goes up by it at the same time.",
            1: "After one step the bias is 0.001, and the distance is more than a hundred times as large.",
            lambda steps: (
                steps in (200, 450)
            ): "After that many steps expert 0 would be at a quarter, or at 0. But a token goes elsewhere as soon "
            "as another expert is ahead.",
        },
        apart="Has the router other probabilities, or another rate?",
    )


def _dealt(whole: float, dealt: float) -> Explanation:
    """From the share that is turned away where all tokens are counted at once, and where 64 ranks count their own."""
    model = math.sqrt(7 / (2 * math.pi * 64))
    return Explanation(
        measured=round(100 * dealt, 1),
        model=round(100 * model, 1),
        because="Dice are even in the mean only. In 64 throws a number comes 8 times in the mean, with a standard "
        "deviation of 2.6, a third of 8. In 4096 throws it comes 512 times, with a standard deviation of 21, a "
        "twenty-fifth of 512. What is above the mean is turned away, on each rank for itself, though the same "
        "expert may have free places for another rank. Counts of n tokens vary by about the root of n, so with a "
        "64th of the tokens the share is 8 times as large.",
        misreadings={
            round(
                100 * whole, 1
            ): "That is the share where all tokens are counted at once. On each rank an expert has fewer places, "
            "and places of one rank are of no use to another.",
            lambda percent: (
                percent < 130 * whole and round(percent, 1) != round(100 * whole, 1)
            ): "With fewer tokens experts are less even, not more. In six throws of a die each number seldom comes "
            "exactly once.",
            lambda percent: (
                percent > 250 * model
            ): "It is not 64 times as much: the variation grows with the root of the number of tokens.",
        },
        apart="The dice have a seed. Which number did you change?",
    )


_CAUSES = (
    "an expert takes fewer tokens than the factor says",
    "the balance loss is too strong",
    "the wrong tokens are turned away",
    "outputs come back to the wrong tokens",
)


def _tenth(routings: Sequence[Routing], room: int) -> Explanation:
    """From the routing of some steps, and the room of an expert by the colleague's function."""
    dropped = fmean(routing.dropped_share.item() for routing in routings)
    num_tokens, top_k = routings[0].experts.shape
    even = num_tokens * top_k // routings[0].num_experts
    fewer_choices, strong, order, places = _CAUSES
    return Explanation(
        measured=fewer_choices,
        because=f"{num_tokens} tokens with {top_k} choices each are {even} for each expert, and twice that would be "
        f"{2 * even}. The function gives {room}: it counts tokens, and forgets that each has {top_k} choices. So the "
        f"factor is 1, and {dropped:.0%} of all choices are turned away. The model still learns from the other "
        "choices, so the loss falls, and there is no error.",
        misreadings={
            strong: "In the run without a limit it was as strong, and the model was better.",
            order: "First choices come first, and among them the sequences at the front of the batch. That is "
            "intended; but with twice the room almost no token should be turned away.",
            places: "Then the model would learn almost nothing. Outputs go to their own tokens; but some tokens are "
            "never sent.",
        },
        label="here",
    )


def _copies(colleagues: float, courses: float) -> Explanation:
    """From how many times the right gradient the experts have: by the mean over copies, and by the course."""
    return Explanation(
        measured=round(colleagues, 2),
        model=2,
        because="An expert sees the tokens of both ranks of its set, so after backward its gradient is already the "
        "*sum* over two losses. Together with the gradient of its copy it is the sum over all four losses, and has "
        f"to be divided by four. The colleague divides by two. `average_gradients` gives {rounded(courses, 2)} times "
        "the right one. Adam divides by the size of gradients and hides such a factor. Clipping by the norm does "
        "not, and plain SGD takes steps that are twice as long.",
        misreadings={
            1: "It would be right if each of the two had a gradient of its own tokens alone. An expert's tokens "
            "come from two ranks.",
            4: "That is the factor before any division. The colleague divides by two.",
            0.5: "The gradient would be too small if tokens of other ranks were missing. They are all there.",
        },
        apart="Which mesh do the ranks have? With n ranks in a set it is n times.",
    )


BUSY: tuple[Asked, ...] = (
    Asked(
        name="10.slowest",
        question="Half of all tokens at one expert: how many times as long does the layer take?",
        unit="times",
        tell=_slowest,
        high=1000,
    ),
    Asked(
        name="10.alone",
        question="Left alone: which share of tokens uses the busiest expert?",
        unit="%",
        tell=_alone,
        high=100,
    ),
    Asked(
        name="10.steps",
        question="After how many steps does a token go elsewhere?",
        unit="steps",
        tell=_steps,
    ),
    Asked(
        name="10.dealt",
        question="64 ranks, each counts alone: which share is turned away?",
        unit="%",
        tell=_dealt,
        high=100,
    ),
    Asked(name="10.tenth", question="A worse model: what is wrong?", choices=_CAUSES, tell=_tenth),
    Asked(
        name="10.copies",
        question="A mean over the copies: how many times too large are the gradients?",
        unit="times",
        tell=_copies,
        high=1000,
    ),
)
