"""04.trace_buckets: which parameters PyTorch's DDP puts into which bucket, from their sizes."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.trace_buckets import wrong_answers
from course_lib.learn.exercises.lesson_04.trace_buckets.cases import CASES, compare, right
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["TRACE_BUCKETS"]

TRACE_BUCKETS = Exercise(
    name="04.trace_buckets",
    title="PyTorch's buckets",
    may_yield=True,
    judge=by_cases_apart([Case(label, args, right) for label, args in CASES.items()], compare=compare),
    mistakes=(
        Mistake(
            "sizes-not-places",
            "Your buckets hold sizes. Give places, the indices of `sizes`: a place says which parameter it is.",
            wrong_answers.sizes_not_places,
        ),
        Mistake(
            "sums-not-places",
            "You give how many bytes each bucket has. Give its places: bytes can be added up from these, and which "
            "layers a bucket holds cannot be seen from bytes.",
            wrong_answers.sums_not_places,
        ),
        Mistake(
            "places-from-the-end",
            "Your places count from the end of the model. A place is an index of `sizes`: the last parameter has the "
            "largest.",
            wrong_answers.places_from_the_end,
        ),
        Mistake(
            "from-the-front",
            "Your first bucket begins with the first parameter. Whose gradient comes first in backward?",
            wrong_answers.from_the_front,
        ),
        Mistake(
            "front-to-back",
            "The buckets are right, and their order is not: the first to leave holds the last parameters.",
            wrong_answers.front_to_back,
        ),
        Mistake(
            "stays-below",
            "Your buckets end before the parameter that would bring them to their limit. Here that parameter is the "
            "last of its bucket; so a bucket is as large as its limit, or larger.",
            wrong_answers.stays_below,
        ),
        Mistake(
            "only-above",
            "A bucket that is exactly as large as its limit is full. Yours takes one parameter more.",
            wrong_answers.only_above,
        ),
        Mistake(
            "one-limit",
            "All your buckets have the same limit, `limit`. The first has one of its own.",
            wrong_answers.one_limit,
        ),
        Mistake(
            "keeps-the-first-limit",
            "All your buckets have the limit of the first one. From the second on it is another.",
            wrong_answers.keeps_the_first_limit,
        ),
        Mistake(
            "goes-on-counting",
            "The first bucket is right. From then on the bytes of the buckets before are counted along, so that the "
            "next ones are full too early.",
            wrong_answers.goes_on_counting,
        ),
        Mistake(
            "loses-the-last",
            "What comes after the last full bucket is in none. It is a bucket too, though it is not full: every "
            "gradient has to leave.",
            wrong_answers.loses_the_last,
        ),
        Mistake(
            "empty-bucket",
            "A bucket without parameters stands in your list. Where the last parameter fills a bucket, or where there "
            "are no parameters, nothing is left over.",
            wrong_answers.empty_bucket,
        ),
    ),
    hints=(
        "Walk over the parameters from the last to the first, with a bucket that is open. What do you ask after each "
        "parameter, and what changes when the answer is yes?",
        "Three things are kept on the way: the places in the open bucket, their bytes, and the limit that holds now. "
        "At the limit the bucket goes into the list, the places and the bytes begin anew, and the limit is `limit`. "
        "At the end an open bucket that is not empty goes into the list as well.",
        "`for place in reversed(range(len(sizes))):` with `bucket.append(place)` and `num_bytes += sizes[place]`, then "
        "`if num_bytes >= full:` with `buckets.append(bucket)` and `bucket, num_bytes, full = [], 0, limit`.",
    ),
    forbidden=("course_lib.parallel.data.assign_buckets",),
    passed="Every parameter is in the bucket that PyTorch's DDP puts it into, for all models and limits that were "
    "tried.",
)
