"""11.planner: by mistake, a whole planner that makes this mistake and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from answers.lesson_11.planner_builds.parted import Parted

from course_lib.learn.exercises.lesson_11.planner import (
    PLANNER_STEPS,
    wrong_compute,
    wrong_layouts,
    wrong_links,
    wrong_memory,
)
from course_lib.plan.by_hand.planner import Planner


def _made(part):
    """The mistake's formula before those of this planner."""
    return type(f"Parted{part.__name__}", (part, Parted), {})


class OutOfOrder(Parted):
    def plans(self):
        return super().plans()[::-1]


class KeepsTheGuess(Parted):
    def fit(self, runs):
        return self.machines


class ScalesAll(Parted):
    """Every rate becomes slower by one factor, that of the first run."""

    def fit(self, runs):
        run = runs[0]
        factor = run.step_s / sum(Parted(run.job, run.machines).time(run.layout).values())
        machines = self.machines
        return replace(
            machines,
            share=machines.share / factor,
            pass_s=machines.pass_s * factor,
            inside_bytes_per_s=machines.inside_bytes_per_s / factor,
            network_bits_per_s=machines.network_bits_per_s / factor,
            latency_s=machines.latency_s * factor,
        )


class FarOff(Parted):
    """The share of the peak that a whole step reaches, at its best."""

    def fit(self, runs):
        at_peak = [Parted(run.job, replace(run.machines, share=1.0)).compute_s(run.layout) / run.step_s for run in runs]
        return replace(self.machines, share=min(at_peak) / 2)


class LooksUp(Parted):
    """Steps of given layouts are kept, and a job's sizes are no part of what they are kept by."""

    steps: ClassVar[dict] = {}

    def fit(self, runs):
        type(self).steps = {}
        self.steps["fitted"] = True
        return super().fit(runs)

    def time(self, layout):
        if "fitted" not in self.steps:
            return super().time(layout)
        return self.steps.setdefault(str(layout), super().time(layout))


class SaysNothing(Parted):
    def why_not(self, layout):
        return "no" if super().why_not(layout) else ""


_EXAMPLES = {
    "no-master-copy": _made(wrong_memory.NoMaster),
    "gradients-first": _made(wrong_memory.GradientsFirst),
    "copies-share": _made(wrong_memory.CopiesShare),
    "nobody-shares": _made(wrong_memory.NeverShares),
    "all-layers-on-each-stage": _made(wrong_memory.AllLayers),
    "norms-are-cut": _made(wrong_memory.NormsCut),
    "tables-are-whole": _made(wrong_memory.TablesWhole),
    "one-table": _made(wrong_memory.OneTable),
    "tables-on-every-stage": _made(wrong_memory.TablesEverywhere),
    "two-matrices": _made(wrong_memory.PlainMlps),
    "one-in-flight": _made(wrong_memory.OneInFlight),
    "all-in-flight": _made(wrong_memory.AllInFlight),
    "as-many-on-every-stage": _made(wrong_memory.AsTheFirstStage),
    "more-than-there-are": _made(wrong_memory.MoreThanThereAre),
    "keeps-what-is-computed-again": _made(wrong_memory.KeepsAll),
    "inside-forgotten": _made(wrong_memory.NoInside),
    "insides-of-all-layers": _made(wrong_memory.InsidesOfAll),
    "norms-without-sequence-parallelism": _made(wrong_memory.OutsideCut),
    "rotation-forgotten": _made(wrong_memory.NoRotation),
    "logits-in-two-bytes": _made(wrong_memory.LogitsInTwoBytes),
    "logits-on-every-stage": _made(wrong_memory.LogitsEverywhere),
    "no-bubble": _made(wrong_compute.NoBubble),
    "one-slot-too-many": _made(wrong_compute.OneSlotTooMany),
    "slowest-for-all": _made(wrong_compute.SlowestForAll),
    "first-stage-for-all": _made(wrong_compute.FirstStageForAll),
    "tokens-of-all-ranks": _made(wrong_compute.TokensOfAll),
    "forward-only": _made(wrong_compute.ForwardOnly),
    "backward-as-forward": _made(wrong_compute.BackwardAsForward),
    "recomputation-forgotten": _made(wrong_compute.NotAgain),
    "output-forgotten": _made(wrong_compute.NoOutput),
    "attention-forgotten": _made(wrong_compute.NoScores),
    "one-flop-each": _made(wrong_compute.OneFlopEach),
    "tensor-axis-computes-whole": _made(wrong_compute.ComputesWhole),
    "host-forgotten": _made(wrong_compute.NoHost),
    "bits-as-bytes": _made(wrong_links.BitsAsBytes),
    "one-port": _made(wrong_links.OnePort),
    "always-inside": _made(wrong_links.AlwaysInside),
    "copies-are-neighbours": _made(wrong_links.Neighbours),
    "starts-once": _made(wrong_links.StartOnce),
    "whole-each-round": _made(wrong_links.WholeEachRound),
    "sums-once-around": _made(wrong_links.OnceAround),
    "sums-not-again": _made(wrong_links.SumsNotAgain),
    "sums-without-bubble": _made(wrong_links.SumsWithoutBubble),
    "one-way": _made(wrong_links.OneWay),
    "whole-messages": _made(wrong_links.HopOfAllTokens),
    "nothing-hides": _made(wrong_links.NothingHides),
    "all-hides": _made(wrong_links.HidesWhole),
    "hides-in-every-backward": _made(wrong_links.HidesEverywhere),
    "gradients-once-around": _made(wrong_links.GradientsOnceAround),
    "gradients-each-time": _made(wrong_links.GradientsEachTime),
    "gathered-once": _made(wrong_links.GathersOnce),
    "weights-stay-old": _made(wrong_links.WeightsForgotten),
    "all-of-them-fit": _made(wrong_layouts.AnyMemory),
    "fits-on-its-first-stage": _made(wrong_layouts.ByItsFirstStage),
    "fits-on-its-last-stage": _made(wrong_layouts.ByItsLastStage),
    "reserve-forgotten": _made(wrong_layouts.NoReserve),
    "tensor-within-a-node": _made(wrong_layouts.WithinANode),
    "one-at-a-time": _made(wrong_layouts.OneAtATime),
    "never-sharded": _made(wrong_layouts.Unsharded),
    "never-recomputed": _made(wrong_layouts.NeverAgain),
    "powers-of-two": _made(wrong_layouts.PowersOfTwo),
    "out-of-order": OutOfOrder,
    "keeps-the-guess": KeepsTheGuess,
    "scales-everything": ScalesAll,
    "knows-no-other-job": LooksUp,
    "far-off": FarOff,
    "as-many-keys": _made(wrong_layouts.AsManyKeys),
    "tied-twice": _made(wrong_layouts.TiedTwice),
    "tied-on-one-stage": _made(wrong_layouts.TiedOnFirst),
    "nodes-are-full": _made(wrong_links.FullNodes),
    "no-reason": SaysNothing,
}


def examples_of(name):
    """By mistake of this step."""
    step = next(one for one in PLANNER_STEPS if one.name == name)
    return {mistake.name: _EXAMPLES[mistake.name] for mistake in step.mistakes}


class ByTheCourse:
    """Right, by the course's own."""

    def __init__(self, job, machines):
        self.planner = Planner(job, machines)

    def __getattr__(self, name):
        return getattr(self.planner, name)
