"""11.planner: the usual mistakes of the steps about bytes, by name."""

from __future__ import annotations

from course_lib.learn.exercises.lesson_11.planner import wrong_memory
from course_lib.learn.exercises.lesson_11.planner.signs import part_mistake
from course_lib.learn.exercises.lesson_11.planner.situations import STATE_PARTS

__all__ = ["OF_MEMORY", "OF_STATES"]

OF_STATES = (
    part_mistake(
        "no-master-copy",
        wrong_memory.NoMaster,
        ("optimizer",),
        "The optimizer has 8 bytes of a parameter: its two moments. In mixed precision it also keeps the weight in "
        "float32, 4 bytes more.",
    ),
    part_mistake(
        "gradients-first",
        wrong_memory.GradientsFirst,
        ("gradients", "optimizer"),
        "Sharding 1 shares out gradients here, and the optimizer only from 2 on. The optimizer, the largest part, goes "
        "first.",
    ),
    part_mistake(
        "copies-share",
        wrong_memory.CopiesShare,
        STATE_PARTS,
        "The data axis divides all states, whatever `sharding` says. Without it each copy holds all of its part.",
    ),
    part_mistake(
        "nobody-shares",
        wrong_memory.NeverShares,
        STATE_PARTS,
        "No states are shared out. From its stage of `sharding` on, a part is divided among the ranks of `dp`.",
    ),
    part_mistake(
        "all-layers-on-each-stage",
        wrong_memory.AllLayers,
        STATE_PARTS,
        "Each stage holds all layers. It has `layers / pp` of them.",
    ),
    part_mistake(
        "norms-are-cut",
        wrong_memory.NormsCut,
        STATE_PARTS,
        "The tensor axis divides norms as well. It cuts matrices; each of its ranks has the two norms of a layer "
        "whole.",
    ),
    part_mistake(
        "tables-are-whole",
        wrong_memory.TablesWhole,
        STATE_PARTS,
        "Each rank of the tensor axis has whole tables of the vocabulary. The axis cuts these matrices, too.",
    ),
    part_mistake(
        "one-table",
        wrong_memory.OneTable,
        STATE_PARTS,
        "There is one table of the vocabulary, on the first stage. The last stage has another one, that scores tokens.",
    ),
    part_mistake(
        "tables-on-every-stage",
        wrong_memory.TablesEverywhere,
        STATE_PARTS,
        "Every stage holds two tables of the vocabulary. The first looks tokens up, the last scores them, and those "
        "between have none.",
    ),
    part_mistake(
        "two-matrices",
        wrong_memory.PlainMlps,
        STATE_PARTS,
        "A gated MLP is counted with two matrices. It has two that lead in and one that leads out.",
    ),
)
OF_MEMORY = (
    *OF_STATES,
    part_mistake(
        "one-in-flight",
        wrong_memory.OneInFlight,
        ("activations",),
        "A stage keeps activations of one micro-batch. Until the first backward pass comes back to it, others have "
        "gone through.",
    ),
    part_mistake(
        "all-in-flight",
        wrong_memory.AllInFlight,
        ("activations",),
        "A stage keeps activations of all micro-batches of the step, as under GPipe. 1F1B lets each go before the next "
        "comes, once the pipeline is full.",
    ),
    part_mistake(
        "as-many-on-every-stage",
        wrong_memory.AsTheFirstStage,
        ("activations",),
        "Every stage keeps as many micro-batches as the first. Stage s waits for those between itself and the end, "
        "`pp - s`.",
    ),
    part_mistake(
        "more-than-there-are",
        wrong_memory.MoreThanThereAre,
        ("activations",),
        "A stage keeps `pp - stage` micro-batches, also where the step has fewer.",
    ),
    part_mistake(
        "keeps-what-is-computed-again",
        wrong_memory.KeepsAll,
        ("activations",),
        "With recomputation all insides of layers are kept as without. What is computed again need not be kept.",
    ),
    part_mistake(
        "inside-forgotten",
        wrong_memory.NoInside,
        ("activations",),
        "With recomputation only the inputs of layers are counted. While a layer's backward pass runs, its inside is "
        "there again: of one layer, for one micro-batch.",
    ),
    part_mistake(
        "insides-of-all-layers",
        wrong_memory.InsidesOfAll,
        ("activations",),
        "With recomputation the insides of all layers of a stage are there at once. Each goes before the next one's "
        "turn.",
    ),
    part_mistake(
        "norms-without-sequence-parallelism",
        wrong_memory.OutsideCut,
        ("activations",),
        "The tensor axis divides all that a layer keeps. What norms and regions read is whole on each rank, unless the "
        "sequence is cut (`sequence_parallel`).",
    ),
    part_mistake(
        "rotation-forgotten",
        wrong_memory.NoRotation,
        ("activations",),
        "For a gated layer you count 6 bytes too few for each channel of queries and keys. It keeps them rotated and "
        "in float32 as well.",
    ),
    part_mistake(
        "logits-in-two-bytes",
        wrong_memory.LogitsInTwoBytes,
        ("logits",),
        "A logit has 2 bytes. The loss makes two more float32 numbers from each: 10 bytes in all.",
    ),
    part_mistake(
        "logits-on-every-stage",
        wrong_memory.LogitsEverywhere,
        ("logits",),
        "Every stage holds logits. They are made on the last one.",
    ),
)
