"""Part e of lesson 05: clipping, checkpoints and tied weights of a model that is sharded."""

from __future__ import annotations

from math import sqrt

from course_lib.claims import VERDICTS, Evidence
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["ONE_MODEL"]

_CLIP = (
    "gradients are clipped before they are averaged",
    "each rank measures its own rows alone",
    "the limit has to be divided by the number of ranks",
    "the function finds no gradients on shards",
)


def _clip() -> Explanation:
    return Explanation(
        measured=_CLIP[1],
        label="the evidence says",
        because="The four ranks have four norms: each call sees only the rows that its rank keeps, and scales them "
        "by a factor of its own. The root of the sum of the four squares is the norm that one device measures.",
        misreadings={
            _CLIP[0]: "A shard's gradient is the mean already. If it were a local one, one of the four norms would "
            "be at least as large as the mean's. For no mean is longer than the longest of its parts. These four "
            "are all smaller.",
            _CLIP[2]: "Then all ranks would at least report one and the same norm. And no division mends rows that "
            "are scaled by different factors.",
            _CLIP[3]: "Then it would report a norm of 0 and scale nothing: the losses would be those of the job "
            "without clipping.",
        },
    )


def _norm(times_the_limit: float, num_ranks: int) -> Explanation:
    """From the whole gradient's norm after each rank has clipped its own rows, in limits."""
    return Explanation(
        measured=round(times_the_limit, 2),
        model=sqrt(num_ranks),
        because="Each of the n parts has been made as long as the limit, and squares add up. So with all rows together "
        "the norm is √n limits. On 1024 ranks that is 32 times. Its direction is wrong, too: a rank whose "
        "rows have a long gradient shortens it more than the other ranks do.",
        misreadings={
            1: "That would be so if all ranks had scaled by one factor. Each part alone is as long as the limit.",
            num_ranks: "Lengths add up only if all vectors point the same way. These are at right angles to each "
            "other, since each rank has rows of its own.",
        },
        apart="The model takes for granted that every rank's own rows are longer than the limit. Print the four norms "
        "and compare.",
    )


def _meta(share: float, kept_share: float, unit_share: float) -> Explanation:
    """From a rank's largest share of the model while it is filled, the share it keeps, and that of the largest unit."""
    return Explanation(
        measured=round(100 * share),
        model=round(100 * (kept_share + unit_share)),
        because=f"It keeps {100 * kept_share:.0f} %. At the peak, when the last block is filled, it also holds one "
        f"whole unit: {100 * unit_share:.0f} %. One of a hundred blocks would be about one per cent. Part 2 had the "
        "same rule: a unit is the smallest part that is ever whole.",
        misreadings={
            round(100 * kept_share): "That is what it keeps. To draw a unit's first values, it has the unit whole.",
            round(100 * unit_share): "That is the unit, and the rows of those before it are there already.",
            lambda percent: percent >= 100: "No rank ever has all units whole: one is let go before the next comes.",
        },
        apart="The model counts the rows of all units and the largest one whole. Look whether something else is alive "
        "in your ranks: a plain model that was made before is whole.",
    )


_ORDER = (
    "the files come in the wrong order of ranks",
    "the rows of different parameters are mixed",
    "padding was saved as if it were rows",
    "the optimizer's states were not saved",
)


def _order() -> Explanation:
    return Explanation(
        measured=_ORDER[1],
        label="the evidence says",
        because="The files are joined *rank by rank*: all of rank 0's parameters, then all of rank 1's. On as many "
        "ranks as before, each gets its own piece back, and every number is right. On half as many, a rank gets two "
        "of the old pieces, one after the other, and reads them *parameter by parameter*. So row 0 of b comes where "
        "row 1 of a should be. The count of numbers is right, and so is every shape.",
        misreadings={
            _ORDER[0]: "Then four ranks would get each other's rows, and would not go on as before either.",
            _ORDER[
                2
            ]: "Four rows on four ranks, or on two: there is no padding here. With other sizes, saved padding would be "
            "one more fault.",
            _ORDER[3]: "They are missing, and AdamW's first steps will differ. But this loss depends on the weights "
            "alone, before any step.",
        },
    )


_TIED = (
    "the stem's gradient is not averaged",
    "the head is gathered before the stem has stepped",
    "each wrapper made a weight of its own",
    "the two units cut the matrix at different rows",
)


def _tied() -> Explanation:
    return Explanation(
        measured=_TIED[2],
        label="the evidence says",
        because="A wrapper puts rows of a parameter in the place of the parameter. The stem's wrapper does so "
        "first. The head still holds the old matrix, and its wrapper makes other rows of that. From then on there "
        "are two matrices, equal at the start. So there are more numbers to train, each matrix gets only a part of "
        "the true gradient, and nothing keeps the two equal.",
        misreadings={
            _TIED[0]: "Both wrappers average, as the blocks' do. Each averages a part of the gradient.",
            _TIED[1]: "All-gathers happen within a pass, and steps after it.",
            _TIED[3]: "Both cut along dim 0 in equal parts: every rank keeps the same rows of both.",
        },
    )


def _d2(evidence: Evidence) -> Explanation:
    return Explanation(
        measured=evidence.verdict,
        label="the trial says",
        because="In the first three lines, all states are the same on any number of ranks: plain data parallelism "
        "pools nothing of the model. It shares out the batch, and with it the activations: a quarter on each of four. "
        "The last line shows sharding, which does make one device with more memory out of several, and sends more "
        "messages for it. A text that says *data parallelism* has to say which kind.",
        misreadings={
            "holds": "It does not hold for plain data parallelism, which the article means. There each device "
            "holds all of the states.",
            "holds with conditions": "That is a fair bet, if your condition is that the states are sharded. The "
            "article speaks of replicas.",
            "false": "That is so of weights, gradients and optimizer states: without shards not one byte of them is "
            "saved. But there are the activations, and with a large batch they are most of it.",
        },
    )


ONE_MODEL = (
    Asked(name="05.clip", question="What is wrong with the clip?", choices=_CLIP, tell=_clip),
    Asked(
        name="05.norm",
        question="4 ranks have each clipped their own rows. How long is the whole gradient?",
        unit="times the limit",
        high=1000,
        tell=_norm,
    ),
    Asked(
        name="05.meta",
        question="What share of the model does a rank hold at most while it is filled?",
        unit="%",
        high=1000,
        tell=_meta,
    ),
    Asked(name="05.files", question="Why is the loss so high on two ranks?", choices=_ORDER, tell=_order),
    Asked(name="05.tied", question="Why do the ranks train another model?", choices=_TIED, tell=_tied),
    Asked(
        name="05.d2",
        question="Data parallelism combines several GPUs into one with more memory. Your verdict?",
        choices=VERDICTS,
        tell=_d2,
    ),
)
