"""04.drift: which parameters are no longer the same on all ranks?"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.drift import mistakes
from course_lib.learn.exercises.lesson_04.drift.cases import FOUND, right, trial
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare

__all__ = ["DRIFT"]

DRIFT = Exercise(
    name="04.drift",
    may_yield=True,
    title="Which parameters have drifted?",
    judge=by_trial((4, 2, 3, 5), tuple(Case(kind, (kind,), right(kind)) for kind in FOUND), trial, compare=compare),
    mistakes=(
        Mistake(
            "python-hash",
            "You found a drift where there is none. Python's own `hash` of bytes or text is salted, with another "
            "number in each process that starts by itself, so equal bits give unequal hashes. Take one that is the "
            "same everywhere: `zlib.crc32`.",
            recognise=mistakes.takes_pythons_hash,
        ),
        Mistake(
            "ranks-disagree",
            "The ranks come to different lists: some of them learn less than others. All ranks need all hashes "
            "(`dist.all_gather`), not those of rank 0 or of a neighbour alone; then every rank can say the same.",
            recognise=mistakes.ranks_disagree,
        ),
        Mistake(
            "sends-all-weights",
            "To find the names, every rank sent as many bytes as its weights have, or more. Send a *hash* of each "
            "parameter, a few bytes that change when any bit changes.",
            recognise=mistakes.sends_weights,
        ),
        Mistake(
            "names-buffers",
            "Your list names buffers. The statistics of BatchNorm follow each rank's own images and differ without "
            "anything being wrong; the parameters alone are asked for: `named_parameters()`.",
            recognise=mistakes.names_buffers,
        ),
        Mistake(
            "finds-nothing",
            "You found no drift anywhere, and no rank has sent another anything. A rank cannot see by itself that "
            "others hold something else.",
            recognise=mistakes.finds_nothing,
        ),
        Mistake(
            "compares-sums",
            "Two numbers changed places on one rank, and you did not see it. A sum is the same in any order, and a "
            "norm or a mean likewise. Take a hash of the bytes, in which each has its place.",
            recognise=mistakes.takes_sums,
        ),
        Mistake(
            "not-a-number",
            "You found a drift where there is none. All ranks hold the same bits, and one number is NaN, which is not "
            "equal even to itself. Compare bits, not numbers.",
            recognise=mistakes.takes_numbers,
        ),
        Mistake(
            "minus-zero",
            "One rank holds -0.0 where the others hold 0.0, and you did not see it. As numbers they are equal; their "
            "bits differ, and so does what becomes of them. Compare bits, not numbers.",
            recognise=mistakes.takes_minus_zero_for_zero,
        ),
        Mistake(
            "a-tolerance",
            "A difference in the last bit was not seen. Replicas that apply the same update to the same numbers agree "
            "to the bit, so the first bit is the first sign. A tolerance, rounding and the few digits of a printed "
            "tensor all see the drift when it is large.",
            recognise=mistakes.has_a_tolerance,
        ),
        Mistake(
            "a-part-of-the-tensor",
            "A change in the last number of a tensor was not seen, though it is a large one. All numbers of the "
            "parameter have to go into its hash.",
            recognise=mistakes.misses_the_end,
        ),
        Mistake(
            "few-bits",
            "Some changes escaped you, and they were chosen so that a part of a hash stays as it was. A change may "
            "escape once in billions of times: that takes all 32 bits of the hash, on all of its way. (A tensor of "
            "float32 keeps 24 of them.)",
            recognise=mistakes.has_few_bits,
        ),
        Mistake(
            "another-order",
            "The right names, in another order than the model's. A sorted list has `10.weight` before `2.weight`.",
            recognise=mistakes.in_another_order,
        ),
        Mistake(
            "frozen-left-out",
            "A parameter that does not learn was off, and your list leaves it out. Nothing should change it, so a rank "
            "that holds another value has drifted as well: look at all parameters, whatever their "
            "`requires_grad`.",
            recognise=mistakes.overlooks_frozen,
        ),
        Mistake(
            "only-the-first",
            "You name the first parameter that differs and leave out the others. Go through all of them.",
            mistakes.first_alone,
        ),
        Mistake(
            "one-hash-for-all",
            "One hash of the whole model says that something differs, not what. One hash for each parameter costs "
            "little more.",
            mistakes.hash_of_the_model,
        ),
    ),
    hints=(
        "How few bytes can show that two tensors differ in a bit somewhere? And which ranks have to see these bytes?",
        "A hash for each parameter, as a tensor of integers on `me.device`, in the model's order. Then an all-gather "
        "of that tensor, and the names of the columns in which not all ranks have the same.",
        "`mine = torch.tensor([zlib.crc32(p.detach().cpu().numpy().tobytes()) for p in model.parameters()])`, "
        "`rows = [torch.empty_like(mine) for _ in range(me.world_size)]`, `dist.all_gather(rows, mine)`, and "
        "`torch.stack(rows)` has a row for each rank. (Python's own `hash` of bytes differs from process to process.)",
    ),
    forbidden=(
        "course_lib.parallel.data.find_divergence",
        "course_lib.parallel.data.DivergenceDetector",
        "course_lib.parallel.data.fingerprints",
    ),
    passed="Every rank gives the same names, bit for bit, on 2, 3, 4 and 5 ranks. Each rank sent a few bytes for "
    "each parameter.",
)
