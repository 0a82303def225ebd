"""The build 02.all_reduce: the usual mistakes by name. A step knows its own, and those of the steps before it."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_02.sums import edges, small_tensors
from course_lib.learn.exercises.lesson_02.sums import evidence as seen
from course_lib.learn.exercises.lesson_02.sums.cases import SCALAR, TURNED, Demand
from course_lib.learn.judging.report import is_not_waited_for, only_wrong

__all__ = ["mistakes_up_to"]

_MISTAKES: dict[Demand, tuple[Mistake, ...]] = {
    Demand.VALUES: (
        Mistake(
            "not-waited-for",
            "A message was begun, and nobody waited for it. Its numbers may not be there yet when you read them. Call "
            "`wait()` on each handle first.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "all-send-first",
            "It hangs in a deadlock: ranks wait in a send until somebody takes it, and all of them send first. Begin "
            "both halves together, in one `batch_isend_irecv`.",
            recognise=seen.all_wait_to_send,
        ),
        Mistake(
            "a-new-tensor",
            "What you return is the sum. The tensor that was handed in has its old numbers. The promise is *in place*: "
            "whoever holds that tensor finds the sum in it.",
            recognise=seen.sum_is_in_another_tensor,
        ),
        Mistake(
            "returns-another",
            "The tensor that was handed in holds the sum, and you return something else. Return `tensor` itself, so "
            "that calls can be chained.",
            recognise=only_wrong("returned"),
        ),
        Mistake(
            "averages",
            "You divide by the number of ranks. The task asks for the sum.",
            recognise=seen.gave(lambda one: one.total.to(one.wide) / one.world_size),
        ),
        Mistake(
            "without-its-own",
            "What comes out is the sum of the other ranks: your own numbers are missing from it.",
            recognise=seen.gave(lambda one: one.total - one.own),
        ),
        Mistake(
            "its-own-twice",
            "Every rank has its own numbers once too often in the sum. Begin with them or add them, and not both.",
            recognise=seen.gave(lambda one: one.total + one.own),
        ),
        Mistake(
            "one-rank-alone",
            "One rank has the sum, and the others have not: the rank that has added up must send the sum to them.",
            recognise=seen.one_rank_has_it,
        ),
        Mistake(
            "one-lap",
            "Each rank has the sum of one part, and its old or half-summed numbers elsewhere. A second lap takes the "
            "parts that are done to everybody.",
            recognise=seen.one_part_is_done,
        ),
        Mistake(
            "drops-the-rest",
            "Where the numbers do not divide evenly among the ranks, the last ones are left out. `tensor_split` makes "
            "parts of which some are one longer.",
            recognise=seen.drops_the_rest,
        ),
        Mistake(
            "loses-digits",
            "Large whole numbers lose their last digits: on the way they are numbers of another dtype. Give every "
            "buffer the tensor's own, as `torch.empty_like` does.",
            recognise=seen.only_whole_numbers_are_off,
        ),
        Mistake(
            "needs-a-dim",
            "All went well until a tensor came that has no dim. `tensor.reshape(-1)` makes a row of any tensor.",
            recognise=seen.first_wrong_in(SCALAR),
        ),
        Mistake(
            "a-copy-of-a-view",
            "All went well until a tensor came whose numbers do not lie side by side. `reshape` and `contiguous` give "
            "a copy of such a tensor: sum up in that, then `tensor.copy_(...)`.",
            recognise=seen.first_wrong_in(TURNED),
        ),
    ),
    Demand.BYTES: (
        Mistake(
            "through-one-rank",
            "The sum is right, and one rank sends the whole tensor to all others, who wait for it. Deal the work out: "
            "let each rank add up one part.",
            recognise=seen.one_rank_sends_all,
        ),
        Mistake(
            "in-a-wider-dtype",
            "The sum is right. What travels are numbers of a wider dtype than the tensor's, so they are more bytes "
            "than they have to be.",
            recognise=seen.sends_wider_numbers,
        ),
        Mistake(
            "gathers-everything",
            "The sum is right, and whole tensors travel to everybody: that is n - 1 times the tensor for each rank, "
            "and grows with every rank. Send one part in each step, and pass *sums* on.",
            recognise=seen.sends_whole_ones_to_all,
        ),
        Mistake(
            "cut-by-rows",
            "The sum is right, and the tensor was cut by its rows. Where it has fewer rows than there are ranks, the "
            "parts are too large. Make one row of all numbers first, and cut that.",
            recognise=edges.cuts_by_rows,
        ),
        Mistake(
            "whole-tensors",
            "The sum is right, and every message is a whole tensor. Cut it into parts: a rank that adds up one part "
            "needs to hear of that part alone.",
            recognise=seen.sends_whole_ones,
        ),
    ),
    Demand.MEMORY: (
        Mistake(
            "keeps-its-room",
            "The sum is right, and the call is over, and what you received into is still held: a variable outside of "
            "the function has it. Make the room in the call, and it goes with the call.",
            recognise=edges.holds_on,
        ),
        Mistake(
            "in-small-bits",
            "The sum is right, and travels in more messages than it has parts. Each of them waits for the network "
            "anew. One message for each part and step is enough.",
            recognise=seen.only_cost("messages", small=False),
        ),
        Mistake(
            "a-second-tensor",
            "The sum is right, and beside the tensor you hold another of its size. In training that is memory that the "
            "model could have. Receive one part at a time, and write the sums into the tensor itself.",
            recognise=seen.holds_a_whole_one,
        ),
        Mistake(
            "a-room-for-each-step",
            "The sum is right, and you hold more than one part beside the tensor. Make one buffer before the loop, and "
            "receive into it in every step.",
            recognise=seen.only_cost("extra", small=False),
        ),
    ),
    Demand.LATENCY: (
        Mistake(
            "one-kib-is-small",
            "The sum is right. A tensor of exactly 1 KiB goes the way of the large ones. *Up to* 1 KiB has that one in "
            "it.",
            recognise=edges.one_kib_is_large,
        ),
        Mistake(
            "a-ring-for-small-ones",
            "The sum is right. A small tensor goes around the ring in 2 (n - 1) messages a rank, and each costs a "
            "latency, however few its bytes. Choose another way by the size of the tensor.",
            recognise=small_tensors.small_ones_in_a_ring,
        ),
        Mistake(
            "to-everybody-at-once",
            "The sum is right. A rank sends a small tensor to every other, so it has n - 1 messages to send. With "
            "log2 n rounds it has far fewer: what arrives in one round goes on in the next.",
            recognise=small_tensors.small_ones_to_everybody,
        ),
        Mistake(
            "one-after-another",
            "The sum is right. A small tensor goes from rank to rank, one after another, so the last one waits for all "
            "others. Let pairs exchange, then pairs of pairs: that is log2 n rounds.",
            recognise=seen.only_cost("rounds", small=True),
        ),
    ),
    Demand.GROUPS: (
        Mistake(
            "kept-from-a-call-before",
            "Each call was right as the first one. After a call in a group of two, the next one, of all ranks, was "
            "not. Something of the call before lives on outside of the function. Find members and way anew each time.",
            recognise=edges.keeps_from_a_call_before,
        ),
        Mistake(
            "the-whole-world",
            "Messages went to ranks that are not in the group. Take the members from "
            "`dist.get_process_group_ranks(group)`, and count positions among them alone.",
            recognise=seen.writes_to_strangers,
        ),
        Mistake(
            "needs-two",
            "All went well until a group came that has one rank. Its sum is what it has, and nothing is sent.",
            recognise=seen.first_wrong_alone,
        ),
        Mistake(
            "rank-as-a-position",
            "With all ranks it went well; in a group the list of members was asked for a place that it does not have. "
            "A rank's number in the job is not its position in a group: `ranks.index(me.rank)`.",
            recognise=seen.out_of_range_in_a_group,
        ),
    ),
}


def mistakes_up_to(demand: Demand) -> tuple[Mistake, ...]:
    """The mistakes that a step can show. What shows only after another call comes first: it may look like any."""
    found = [mistake for level, found in _MISTAKES.items() if level <= demand for mistake in found]
    return tuple(sorted(found, key=lambda mistake: mistake.name != "kept-from-a-call-before"))
