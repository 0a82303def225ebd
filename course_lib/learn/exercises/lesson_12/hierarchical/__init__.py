"""12.hierarchical: an all-reduce for ranks on several nodes, of three collectives."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_12.hierarchical import calls, mistakes
from course_lib.learn.exercises.lesson_12.hierarchical.cases import (
    KINDS,
    TURNED,
    UNEVEN,
    compare_sums,
    right,
    sum_of,
    trial,
)
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import is_not_waited_for, only_wrong

__all__ = ["HIERARCHICAL"]

_only_sent = only_wrong("between", "inside")

HIERARCHICAL = Exercise(
    name="12.hierarchical",
    title="An all-reduce for several nodes",
    judge=by_trial(
        (4, 6),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare_sums,
        timeout_s=4.0,
        makes_groups=True,
    ),
    mistakes=(
        Mistake(
            "not-waited-for",
            "A collective was begun with `async_op=True`, and nobody waited for it. The next call reads the numbers "
            "that are there at that moment. Call `wait()` on what `dist` returns first.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "in-a-wider-dtype",
            "The sum is right. But the numbers sent between nodes have a wider dtype than the tensor, so they have "
            "more bytes than needed. Keep the tensor's own dtype: `row.new_empty(...)` does.",
            recognise=calls.in_a_wider_dtype,
        ),
        Mistake(
            "flat",
            "The sum is right, but it is the flat all-reduce, over all ranks at once. The link between nodes carries "
            "more than needed. First add up inside the node, so that each rank has one part of the node's sum.",
            recognise=lambda evidence: (
                _only_sent(evidence)
                and calls.calls("all_reduce", "all")(evidence)
                and calls.handed_in("all_reduce", "all", is_a_part=False)(evidence)
            ),
        ),
        Mistake(
            "leaders",
            "The sum is right, but one rank of each node sends everything to the other nodes, while its neighbours "
            "have nothing to send. Where each rank has a network card of its own, the neighbours' cards are idle. "
            "Give every rank of the node its part.",
            recognise=lambda evidence: _only_sent(evidence) and calls.leaders(evidence),
        ),
        Mistake(
            "exchanges-the-groups",
            "The sum is right, but the two groups are exchanged: whole tensors are sent between nodes, and parts "
            "inside. The larger messages belong on the fast link: reduce-scatter and all-gather `inside`, the "
            "all-reduce of the part `between`.",
            recognise=lambda evidence: (
                _only_sent(evidence)
                and calls.calls("reduce_scatter", "between")(evidence)
                and calls.calls("all_reduce", "inside")(evidence)
            ),
        ),
        Mistake(
            "all-of-it-between",
            "The sum is right, but every rank sends the whole tensor to the other nodes: the ranks of a node all send "
            "the same sum. After the first step a rank should have one part of it, and send no more than that.",
            recognise=lambda evidence: (
                _only_sent(evidence) and calls.handed_in("all_reduce", "between", is_a_part=False)(evidence)
            ),
        ),
        Mistake(
            "gathers-between",
            "The sum is right. Between nodes you gather: every node is sent the parts of all others, to add them up "
            "by itself. With two nodes that sends as much as an all-reduce, and with each further node more. There is "
            "a collective that adds up on the way.",
            recognise=calls.gathers_to_add,
        ),
        Mistake(
            "gathers-all-inside",
            "The sum is right, and no more than needed is sent between nodes. But inside a node each rank gets the "
            "whole tensors of all others, to add them up by itself. A reduce-scatter gives it the sum of its own "
            "part.",
            recognise=only_wrong("inside"),
        ),
        Mistake(
            "inside-alone",
            "What comes out is the sum of this rank's own node: the nodes exchange nothing. Between the "
            "reduce-scatter and the all-gather, parts have to be added up over nodes.",
            recognise=mistakes.gave(lambda one: sum_of(one.kind, one.node)),
        ),
        Mistake(
            "between-alone",
            "What comes out is the sum over the ranks of the same local rank, one of each node. The ranks of a node "
            "exchange nothing.",
            recognise=mistakes.gave(lambda one: sum_of(one.kind, one.same_place)),
        ),
        Mistake(
            "everybody-between",
            "The all-reduce of the parts went over all ranks, and the ranks of a node have *different* parts. So "
            "parts were added up that do not belong together. The ranks with one local rank, one on each node, have "
            "the same part: `group=between`.",
            recognise=lambda evidence: calls.handed_in("all_reduce", "all", is_a_part=True)(evidence),
        ),
        Mistake(
            "averages",
            "You divide by the number of ranks. Return the sum.",
            recognise=mistakes.gave(lambda one: one.total.double() / one.world_size),
        ),
        Mistake(
            "a-part-alone",
            "Each rank returns its own part of the sum. What is missing is the third collective, which hands every "
            "rank of a node the parts of the others.",
            recognise=mistakes.returns_a_part,
        ),
        Mistake(
            "keeps-the-padding",
            "Where the numbers do not divide evenly, your result is longer than the tensor: what filled up the last "
            "part is still there. Cut it off: `row[: tensor.numel()]`.",
            recognise=mistakes.is_too_long,
        ),
        Mistake(
            "another-shape",
            "The numbers are right, but they come in a row. Keep the shape of the tensor: `.view(tensor.shape)` last.",
            recognise=mistakes.is_a_row,
        ),
        Mistake(
            "drops-the-rest",
            "Where the numbers do not divide evenly, the last ones are left as they were: they are in no part. Fill "
            "the row up until it divides.",
            recognise=mistakes.drops_the_rest,
        ),
        Mistake(
            "global-rank-as-a-place",
            "A rank of a later node read an entry that does not exist, in a list with an entry for each rank of its "
            "*node*. The rank's place in the node is its local rank, `dist.get_rank(inside)`, and not `me.rank`.",
            recognise=mistakes.out_of_range,
        ),
        Mistake(
            "only-even-lengths",
            "With 240 numbers all went well, and with 7 your code ended with the error below. Then parts are not "
            "equally long, and these collectives need equal parts. Fill the row up with zeros until its length "
            "divides.",
            recognise=mistakes.raised_first_in(UNEVEN),
        ),
        Mistake(
            "view-of-a-transpose",
            "All went well until a tensor came that lies transposed in memory. `view` makes a row only of a tensor "
            "that lies in memory as one row; `flatten` and `reshape` copy where they have to.",
            recognise=mistakes.raised_first_in(TURNED),
        ),
        Mistake(
            "keeps-a-sum",
            "The second of two calls with tensors of one shape gave the sum of the first: something is kept from call "
            "to call. The result depends on the numbers of this call, so work it out each time.",
            recognise=mistakes.gave_the_sum_before,
        ),
        Mistake(
            "in-float32",
            "Large whole numbers lose their last digits: your result is as near as float32 comes, which has 24 bits "
            "for them. Keep the tensor's own dtype: `row.new_empty(...)` does.",
            recognise=mistakes.only_values_of_whole_numbers,
        ),
        Mistake(
            "in-place",
            "The sum is right, but `tensor` is not what it was. Return a new tensor: the caller may need its own "
            "numbers.",
            recognise=only_wrong("kept"),
        ),
    ),
    hints=(
        "Two nodes of two. Which half of the node's sum should local rank 0 have before anything leaves the node, and "
        "which one local rank 1? Which rank on the other node has the same half?",
        "Lay the numbers in a row of n equal parts, n ranks on a node (`F.pad` fills up). Then three calls: "
        "reduce-scatter of the parts `inside`, all-reduce of your own part `between`, all-gather of the parts "
        "`inside`. Last, cut the padding off and give back the shape.",
        "`row = F.pad(tensor.flatten(), (0, -tensor.numel() % n))`; `own = row.new_empty(len(row) // n)`; "
        "`dist.reduce_scatter(own, list(row.chunk(n)), group=inside)`; `dist.all_reduce(own, group=between)`; then "
        "`dist.all_gather` into the chunks of `row`, and `row[: tensor.numel()].view(tensor.shape)`.",
    ),
    forbidden=("course_lib.parallel.collectives.hierarchical_all_reduce",),
    passed="Your function gives the sum of all ranks, on two nodes, on one, and with one rank on each node. It was "
    "tried with float32, bfloat16, float64 and whole numbers, with 240 numbers, with 7, with one and with none, and "
    "again with others. No rank sent other nodes more than its own part needs, a reduce-scatter counted as half of an "
    "all-reduce.",
)
