"""11.planner: the usual mistakes by name. Those of a step are told in every later step as well."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_11.planner import wrong_layouts, wrong_links
from course_lib.learn.exercises.lesson_11.planner.mistakes_of_bytes import OF_MEMORY, OF_STATES
from course_lib.learn.exercises.lesson_11.planner.mistakes_of_time import OF_COMPUTE, OF_LINKS
from course_lib.learn.exercises.lesson_11.planner.signs import (
    keeps_the_guess,
    knows_no_other_job,
    part_mistake,
    scales_everything,
    shows,
)
from course_lib.learn.exercises.lesson_11.planner.situations import STATE_PARTS
from course_lib.learn.judging.report import only_wrong

__all__ = ["OF_AWKWARD", "OF_COMPUTE", "OF_LAYOUTS", "OF_LINKS", "OF_MEMORY", "OF_RUNS", "OF_STATES"]

_RINGS = ("tensor", "data")
_SEARCHED = ("layouts",)
OF_LAYOUTS = (
    *OF_LINKS,
    part_mistake(
        "all-of-them-fit",
        wrong_layouts.AnyMemory,
        _SEARCHED,
        "Your plans have layouts that do not fit. All parts of a rank together, with `reserve_bytes`, may take at "
        "most `memory_bytes`.",
    ),
    part_mistake(
        "fits-on-its-first-stage",
        wrong_layouts.ByItsFirstStage,
        _SEARCHED,
        "Your plans have layouts that fit on the first stage and not on another. The fullest of all stages decides.",
    ),
    part_mistake(
        "fits-on-its-last-stage",
        wrong_layouts.ByItsLastStage,
        _SEARCHED,
        "Your plans have layouts that fit on the last stage and not on another. The fullest of all stages decides.",
    ),
    part_mistake(
        "reserve-forgotten",
        wrong_layouts.NoReserve,
        _SEARCHED,
        "Your plans have layouts that fit only where nothing is reserved. On each GPU `reserve_bytes` are taken "
        "already.",
    ),
    part_mistake(
        "tensor-within-a-node",
        wrong_layouts.WithinANode,
        _SEARCHED,
        "No layout has a tensor axis over two nodes. Such a layout may be slow, and then comes late in the order, "
        "but it is legal.",
    ),
    part_mistake(
        "one-at-a-time",
        wrong_layouts.OneAtATime,
        _SEARCHED,
        "In your plans every micro-batch has one sequence. Each power of two that divides a rank's share of the batch "
        "is a legal size.",
    ),
    part_mistake(
        "never-sharded",
        wrong_layouts.Unsharded,
        _SEARCHED,
        "No layout shares out states. Where `dp` is above 1, try sharding 1 and 3 as well.",
    ),
    part_mistake(
        "never-recomputed",
        wrong_layouts.NeverAgain,
        _SEARCHED,
        'No layout computes layers again. Try each with `recompute="full"` as well.',
    ),
    part_mistake(
        "powers-of-two",
        wrong_layouts.PowersOfTwo,
        _SEARCHED,
        "All axes are powers of two. Any sizes are legal that divide what they cut.",
    ),
    Mistake(
        "out-of-order",
        "The layouts are the right ones, but a slower one stands before a faster one.",
        recognise=only_wrong("order"),
    ),
)


OF_RUNS = (
    *OF_LAYOUTS,
    Mistake(
        "keeps-the-guess",
        "After `fit` your planner says the same seconds as before it. `machines.share` was a guess; find a better one "
        "by the runs.",
        recognise=keeps_the_guess,
    ),
    Mistake(
        "scales-everything",
        "In each cluster all steps became longer by one factor. So links and the host became slower, too. Only "
        "`machines.share` was a guess.",
        recognise=scales_everything,
    ),
    Mistake(
        "knows-no-other-job",
        "A run's job with twice the batch, or twice the layers, takes as long as the run itself. Are the seconds "
        "looked up?",
        recognise=knows_no_other_job,
        shows=shows("changed"),
    ),
    Mistake(
        "far-off",
        "All formulas are right, but with the machines of `fit` the seconds are too far from what was measured. With "
        "which share are they nearest to the given runs, when computing, links and host are all in the step?",
        recognise=only_wrong("steps"),
    ),
)
OF_AWKWARD = (
    *OF_RUNS,
    part_mistake(
        "as-many-keys",
        wrong_layouts.AsManyKeys,
        (*STATE_PARTS, "activations"),
        "Keys and values are as wide as queries. With grouped heads they have `kv_heads` heads of "
        "`hidden / heads` channels.",
    ),
    part_mistake(
        "tied-twice",
        wrong_layouts.TiedTwice,
        STATE_PARTS,
        "Tied tables count twice on one stage. They are one matrix there.",
    ),
    part_mistake(
        "tied-on-one-stage",
        wrong_layouts.TiedOnFirst,
        STATE_PARTS,
        "Tied tables stand on the first stage alone. The last stage scores with the same numbers, so it holds a copy.",
    ),
    part_mistake(
        "nodes-are-full",
        wrong_links.FullNodes,
        _RINGS,
        "A ring has as many ports as a full node has ranks. On the last node there may be fewer, and the ring is as "
        "slow as its slowest part.",
    ),
    Mistake(
        "no-reason",
        "`why_not` gives no sentence that names what is at fault, or refuses what can run.",
        recognise=only_wrong("why"),
    ),
)
