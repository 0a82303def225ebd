"""The mistakes of 11.exposed by name, and what each mixes up."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_11.exposed import wrong_answers

__all__ = ["MISTAKES"]

MISTAKES = (
    Mistake(
        "all-messages",
        "You count all communication, each instant once. Communication with computing beside it is hidden, and does "
        "not count.",
        wrong_answers.all_messages,
    ),
    Mistake(
        "hidden-instead",
        "This is what is *hidden*: communication with computing beside it. The rest of the communication is exposed.",
        wrong_answers.hidden_instead,
    ),
    Mistake(
        "pairs-of-spans",
        "From each message you take away what it shares with each span of computing. Where two messages overlap, or "
        "two spans of computing, the same instant is counted twice.",
        wrong_answers.pairs_of_spans,
    ),
    Mistake(
        "messages-one-by-one",
        "Spans of computing that overlap count once, and messages do not: while two messages are on their way, the "
        "same instant is counted twice.",
        wrong_answers.messages_one_by_one,
    ),
    Mistake(
        "computing-one-by-one",
        "Messages that overlap count once, and computing does not: where two spans of computing overlap, the same "
        "hidden instant is taken away twice.",
        wrong_answers.computing_one_by_one,
    ),
    Mistake(
        "messages-less-computing",
        "You take the time of all computing from that of all communication. Computing hides a message only while "
        "both go on.",
        wrong_answers.messages_less_computing,
    ),
    Mistake(
        "idle-is-exposed",
        "You take computing from the whole time. What is left holds idle time and reading as well, in which nothing "
        "is sent.",
        wrong_answers.idle_is_exposed,
    ),
    Mistake(
        "any-overlap-hides",
        "As soon as computing overlaps a message anywhere, all of it counts as hidden. The part that has no computing "
        "beside it is waited for.",
        wrong_answers.any_overlap_hides,
    ),
    Mistake(
        "all-or-nothing",
        "A message counts as hidden when computing covers the whole of it, and else all of it counts as exposed. Most "
        "are hidden in part.",
        wrong_answers.all_or_nothing,
    ),
    Mistake(
        "the-longest-hides",
        "You take one piece of the computing beside a message, the longest. Several pieces with gaps between them can "
        "lie beside one message, and all of them hide.",
        wrong_answers.the_longest_hides,
    ),
    Mistake(
        "needs-order",
        "Your answer is right for spans in the order of their begins. They may come in any order: sort before you "
        "merge.",
        wrong_answers.needs_order,
    ),
    Mistake(
        "forgets-the-longer",
        "Where one span lies inside another, the merged one ends with the inner. It ends where the later of both ends "
        "is: `max`.",
        wrong_answers.forgets_the_longer,
    ),
    Mistake(
        "data-hides",
        "You let reading hide communication. Only computing does: while a rank reads, it gets nothing done.",
        wrong_answers.data_hides,
    ),
    Mistake(
        "what-is-not-computing",
        'Every span that is no computing counts as communication, reading too. Look for the kind "communication".',
        wrong_answers.what_is_not_computing,
    ),
    Mistake(
        "first-part-only",
        "Where a message overlaps computing, you count what comes before it. What comes after the computing has ended "
        "is exposed as well.",
        wrong_answers.first_part_only,
    ),
    Mistake(
        "until-the-end",
        "You count what comes after the last computing. A message can be exposed earlier, between two spans of "
        "computing or before the first.",
        wrong_answers.until_the_end,
    ),
    Mistake(
        "not-without-spans",
        "Your answer is right except for a list without spans: then there is no first edge, and nothing is exposed, "
        "0.0.",
        wrong_answers.not_without_spans,
    ),
    Mistake(
        "rounded",
        "Your answer is right to the millisecond. Messages can take microseconds: give what you have found without "
        "rounding.",
        wrong_answers.rounded,
    ),
    Mistake(
        "sampled",
        "You look at a hundred moments, and let each stand for the time up to the next. Spans begin and end in "
        "between: cut the time at their own edges.",
        wrong_answers.sampled,
    ),
)
