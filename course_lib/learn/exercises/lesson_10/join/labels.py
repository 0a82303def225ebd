"""What the cases of 10.join are called; the recognisers of its mistakes go by these names."""

from __future__ import annotations

__all__ = ["Label", "OtherForm"]


class Label:
    """Each completes "with ..."."""

    PLAIN = "3 keys and 3 others"
    UNEVEN = "1 key and 6 others"
    SINGLE = "one query of one head"
    SQUARE = "2 sequences, 2 heads, 2 queries, 2 numbers in a head"
    LARGE = "scores around 1000"
    SMALL = "scores around -1000"
    FIRST_WINS = "scores around 1000 on the first side and -1000 on the second"
    SECOND_WINS = "scores around -1000 on the first side and 1000 on the second"
    APART = "one query's scores around 1000, another's around -1000"
    SECOND_EMPTY = "no key on the second side"
    FIRST_EMPTY = "no key on the first side"
    BOTH_EMPTY = "no key on either side"
    MIXED = "queries that saw keys on both sides, on one side, and on none"

    EMPTY = (SECOND_EMPTY, FIRST_EMPTY, BOTH_EMPTY, MIXED)  # some query saw no key on some side
    USUAL = (PLAIN, UNEVEN, SINGLE, SQUARE)  # nothing is large, and nothing is missing


class OtherForm:
    """The same numbers in another form, and what is made of them next."""

    FLOAT32 = "numbers in float32"
    BY_QUERY = "outputs that lie in memory query by query"
    NO_QUERY = "no query at all"
    GRADIENTS = "the gradients of both sides"
    THIRD = "a third side, joined with what came"
