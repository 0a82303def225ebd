"""11.planner: the usual mistakes of the steps about seconds, by name."""

from __future__ import annotations

from course_lib.learn.exercises.lesson_11.planner import wrong_compute, wrong_links
from course_lib.learn.exercises.lesson_11.planner.mistakes_of_bytes import OF_MEMORY
from course_lib.learn.exercises.lesson_11.planner.signs import part_mistake

__all__ = ["OF_COMPUTE", "OF_LINKS"]

_TIMES = ("compute",)
_RINGS = ("tensor", "data")
OF_COMPUTE = (
    *OF_MEMORY,
    part_mistake(
        "no-bubble",
        wrong_compute.NoBubble,
        _TIMES,
        "A step has as many slots as micro-batches. The last stage begins when the first micro-batch has come through "
        "all others.",
    ),
    part_mistake(
        "one-slot-too-many",
        wrong_compute.OneSlotTooMany,
        _TIMES,
        "There is one slot too many: m + pp of them, where m + pp - 1 are right. With one stage nothing idles.",
    ),
    part_mistake(
        "slowest-for-all",
        wrong_compute.SlowestForAll,
        _TIMES,
        "Every slot, also in the bubble, is as long as that of the slowest stage. The first micro-batch takes each "
        "stage's "
        "own time; the slowest one holds up the micro-batches after it.",
    ),
    part_mistake(
        "first-stage-for-all",
        wrong_compute.FirstStageForAll,
        _TIMES,
        "Every stage is as quick as the first. The last one scores tokens as well.",
    ),
    part_mistake(
        "tokens-of-all-ranks",
        wrong_compute.TokensOfAll,
        _TIMES,
        "Each rank computes on the whole batch. It has the sequences of its data rank, `batch / dp`.",
    ),
    part_mistake(
        "forward-only",
        wrong_compute.ForwardOnly,
        _TIMES,
        "Only the forward pass is counted. Backward computes twice as much again.",
    ),
    part_mistake(
        "backward-as-forward",
        wrong_compute.BackwardAsForward,
        _TIMES,
        "Backward computes as long as forward. For each product of forward it has two.",
    ),
    part_mistake(
        "recomputation-forgotten",
        wrong_compute.NotAgain,
        _TIMES,
        'With `recompute="full"` a step computes as long as without. Every layer has one more forward pass.',
    ),
    part_mistake(
        "output-forgotten",
        wrong_compute.NoOutput,
        _TIMES,
        "The scores of the vocabulary take no time. They are a product of `hidden` with `vocab` for each token.",
    ),
    part_mistake(
        "attention-forgotten",
        wrong_compute.NoScores,
        _TIMES,
        "Attention has only its four matrices. Each token also meets `seq` keys and `seq` values of `hidden` channels.",
    ),
    part_mistake(
        "one-flop-each",
        wrong_compute.OneFlopEach,
        _TIMES,
        "A matrix has one FLOP for each number and token. It is a multiplication and an addition: two.",
    ),
    part_mistake(
        "tensor-axis-computes-whole",
        wrong_compute.ComputesWhole,
        _TIMES,
        "Every rank of the tensor axis computes whole layers. Each has its part of the products.",
    ),
    part_mistake(
        "host-forgotten",
        wrong_compute.NoHost,
        _TIMES,
        "Small passes are shorter than the host needs to begin them. No pass of a layer takes less than `pass_s`.",
    ),
)
OF_LINKS = (
    *OF_COMPUTE,
    part_mistake(
        "bits-as-bytes",
        wrong_links.BitsAsBytes,
        _RINGS,
        "Between nodes all is eight times as quick as it should be. `network_bits_per_s` is in bits.",
    ),
    part_mistake(
        "one-port",
        wrong_links.OnePort,
        _RINGS,
        "A ring between nodes has one port, however many of its ranks sit on a node. Each brings its own.",
    ),
    part_mistake(
        "always-inside",
        wrong_links.AlwaysInside,
        _RINGS,
        "Every ring is as quick as within a node. A group that lies on several nodes sends through their ports.",
    ),
    part_mistake(
        "copies-are-neighbours",
        wrong_links.Neighbours,
        ("data",),
        "The ranks of the data axis are taken for neighbours. From one to the next lie `tp` ranks, so the group may "
        "leave the node.",
    ),
    part_mistake(
        "starts-once",
        wrong_links.StartOnce,
        _RINGS,
        "A ring pays its latency once. It has n - 1 rounds for a gather, and each starts a message.",
    ),
    part_mistake(
        "whole-each-round",
        wrong_links.WholeEachRound,
        _RINGS,
        "In each round of a ring all bytes are sent. A message has an n-th of them.",
    ),
    part_mistake(
        "sums-once-around",
        wrong_links.OnceAround,
        ("tensor",),
        "The sums of the tensor axis take half of what they should. An all-reduce goes around twice: to add up, and to "
        "hand on the sums. Or two of a layer's four are missing.",
    ),
    part_mistake(
        "sums-not-again",
        wrong_links.SumsNotAgain,
        ("tensor",),
        "With recomputation the tensor axis sends as often as without. The forward pass that is done again has its two "
        "sums, too.",
    ),
    part_mistake(
        "sums-without-bubble",
        wrong_links.SumsWithoutBubble,
        ("tensor",),
        "The tensor axis has no bubble. Its sums are part of each slot, also of those in which the pipeline fills.",
    ),
    part_mistake(
        "one-way",
        wrong_links.OneWay,
        ("pipeline",),
        "A slot has one message between stages. Activations go on, and their gradients come back.",
    ),
    part_mistake(
        "whole-messages",
        wrong_links.HopOfAllTokens,
        ("pipeline",),
        "Under sequence parallelism a rank hands on whole activations. It has a `tp`-th of the rows.",
    ),
    part_mistake(
        "nothing-hides",
        wrong_links.NothingHides,
        ("data",),
        "All that the data axis sends is waited for. The share `hidden` of it hides, as far as there is computing "
        "beside it.",
    ),
    part_mistake(
        "all-hides",
        wrong_links.HidesWhole,
        ("data",),
        "All that finds computing to hide behind is hidden. It is the share `hidden` of it.",
    ),
    part_mistake(
        "hides-in-every-backward",
        wrong_links.HidesEverywhere,
        ("data",),
        "Gradients hide behind the backward passes of all micro-batches. They are sums over these, and complete in the "
        "last one.",
    ),
    part_mistake(
        "gradients-once-around",
        wrong_links.GradientsOnceAround,
        ("data",),
        "Copies average their gradients in half the time. An all-reduce goes around twice: to add up, and to hand on.",
    ),
    part_mistake(
        "gradients-each-time",
        wrong_links.GradientsEachTime,
        ("data",),
        "Gradients are averaged after every micro-batch. They are added up on the rank, and sent once a step.",
    ),
    part_mistake(
        "gathered-once",
        wrong_links.GathersOnce,
        ("data",),
        "Under sharding 3 weights are gathered once a step. They are let go after use, so each micro-batch gathers "
        "them twice.",
    ),
    part_mistake(
        "weights-stay-old",
        wrong_links.WeightsForgotten,
        ("data",),
        "Under sharding 1 nothing is sent after the step. Each rank has new weights for its share alone, and all need "
        "them.",
    ),
)
