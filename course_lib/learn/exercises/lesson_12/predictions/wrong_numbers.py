"""Part e of lesson 12: a rank that computes wrongly, what finds it, and racks in which NVLink crosses nodes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.parallel.data.replica_divergence import Divergence

__all__ = ["WRONG_NUMBERS"]

_HUGE = 1000


def _flips(value: float, flips: Mapping[int, float]) -> Explanation:
    """From the number, as float32 holds it, and what it becomes with each of its bits flipped."""
    huge = [bit for bit, wrong in flips.items() if not isfinite(wrong) or abs(wrong) >= _HUGE * abs(value)]
    near = [bit for bit, wrong in flips.items() if abs(wrong - value) <= abs(value) / 2]
    grown = [f"{wrong / value:.0f}" for wrong in flips.values() if 1.5 < wrong / value < _HUGE]
    larger = f"{' or '.join(grown)} times as large, " if grown else ""
    top = max(flips, key=lambda bit: abs(flips[bit]))
    return Explanation(
        measured=len(huge),
        label="counted",
        because=f"Bit {top}, the exponent's first, makes it {flips[top]:.0e}. {len(near)} of the 32 change it by a "
        f"half or less: they look like the noise of a batch. The others make it {larger}far smaller, or negative. "
        "So a check for NaN or for a jump finds few of them.",
        misreadings={
            8: "Those bits change the exponent, and most of them make the number *smaller*, or a few times as large. "
            "Numbers below 2 have a 0 in the exponent's first bit, and this bit alone is worth 128 doublings.",
            9: "The sign turns the number round, and leaves its size. And most bits of the exponent make it smaller.",
            lambda count: count >= 16: "Bits of the fraction change a number by a half at most, and there are 23.",
        },
    )


_WHO = ("rank 2", "ranks 0, 1 and 3", "all four, each from the others", "none: all four hold the same")


def _spoilt(found: Divergence | None, share: float) -> Explanation:
    """From the comparison of the replicas, and the share of weights that differ from a healthy run's."""
    return Explanation(
        measured=_WHO[3] if found is None else _WHO[0],
        because="The all-reduce adds rank 2's wrong gradient to the others, and hands the wrong mean to all. Equal "
        "weights take equal steps. So the replicas agree to the bit, on weights that are wrong: "
        f"{'more than nine in ten' if share > 0.9 else 'some'} of them differ from those of the healthy run. Neither "
        "the loss nor a hash of weights shows the fault.",
        misreadings={
            _WHO[0]: "Its products are wrong. Its weights come from the mean of all gradients, as everybody's do.",
            _WHO[1]: "Their weights are wrong. But rank 2 has taken the same steps.",
            _WHO[2]: "Each has had a gradient of its own; what each applies is the one mean.",
        },
    )


_ANY = "any: rank 0 writes them all"
_CHECKPOINTS = ("that of step 20", "that of step 25", "that of step 30", _ANY)


def _trusted(unspoilt: Mapping[int, bool]) -> Explanation:
    """By step, whether the checkpoint has the bits of the run without the fault."""
    good = [step for step, same in unspoilt.items() if same]
    last = max(good, default=0)
    first_bad = min((step for step in unspoilt if step > last), default=None)
    return Explanation(
        measured=_ANY if all(unspoilt.values()) else f"that of step {last}",
        label="compared bit by bit",
        because="No checkpoint has other bits than without the fault."
        if first_bad is None
        else f"From step {first_bad} on, rank 0's checkpoints have other bits than without the fault. "
        "With a wrong weight rank 2 computes wrong gradients, and the all-reduce takes them to rank 0. So a bit that "
        "flips after one all-reduce is a fault before the next. You can rely only on the last vote at which all "
        "agreed: take a checkpoint that was not written later.",
        misreadings={
            _CHECKPOINTS[1]: "It lies before the vote that named rank 2, and after the flip. Rank 0 has averaged with "
            "rank 2 twice by then.",
            _CHECKPOINTS[2]: "Rank 0's own memory is in order. What it adds to its weights comes from rank 2 as well.",
            _ANY: "Rank 0 computes rightly with what it is given. A quarter of each mean gradient is from rank 2.",
        },
    )


_FOUND = ("both", "only the one that is always there", "only the one that comes and goes", "neither")


def _again(found: Mapping[str, bool]) -> Explanation:
    """By fault, whether two runs on the rank that has it gave different bits."""
    always, sometimes = found["always"], found["now and then"]
    return Explanation(
        measured=_FOUND[0 if always and sometimes else 1 if always else 2 if sometimes else 3],
        because="A fault that is always there gives the same wrong number twice, and the bits agree. Only another rank "
        "can contradict it. A fault that comes and goes was in one of the two, and they differ.",
        misreadings={
            _FOUND[0]: "The one that is always there is wrong in the same way both times.",
            _FOUND[1]: "Both of its results are wrong, and they are equal. Compare which pair differs.",
            _FOUND[3]: "A second run repeats what the rank computes, and one fault is not repeated.",
        },
    )


def _racks(together_s: float, apart_s: float) -> Explanation:
    """From the time in one rack, and that in two."""
    ratio = apart_s / together_s
    return Explanation(
        measured=round(ratio, 1),
        label="computed",
        because=f"{1e3 * apart_s:.2f} ms in place of {1e3 * together_s:.2f}. A rank sends eight of fifteen parts "
        "to the other rack, and the network is eighteen times as slow; the rest is done long before. Two nodes in the "
        "wrong place, and the all-to-all of every layer takes that long.",
        misreadings={
            lambda times: 17 <= times <= 19: "That would be so if all bytes crossed. But about half of them stay in "
            "the rack.",
            lambda times: times <= 3: "Half of it crosses, and that half takes a link eighteen times as slow. The "
            "slower part sets the time.",
        },
    )


WRONG_NUMBERS: tuple[Asked, ...] = (
    Asked(
        name="12.flips",
        question="Each bit of 0.02 flipped in turn: how many become 1,000 times as large?",
        tell=_flips,
        high=32,
    ),
    Asked(name="12.spoilt", question="Rank 2 computes wrongly: who holds other weights?", choices=_WHO, tell=_spoilt),
    Asked(
        name="12.trusted",
        question="A flip after step 23, found after step 30: the last good checkpoint?",
        choices=_CHECKPOINTS,
        tell=_trusted,
    ),
    Asked(name="12.again", question="The same images twice on one rank: what is found?", choices=_FOUND, tell=_again),
    Asked(
        name="12.racks",
        question="Two of four nodes in another rack: how many times as long?",
        unit="times",
        tell=_racks,
        low=1,
        high=1000,
    ),
)
