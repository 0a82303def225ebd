"""13.own: a trial that decides fairly."""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor

from answer_table import Row


def word_of(ratios):
    low, _, high = statistics.quantiles(ratios, n=4)
    if low >= 1.8 and high <= 2.2:
        return "true"
    return "false" if high < 1.8 or low > 2.2 else "open"


def together(words):
    if "open" in words:
        return "cannot tell here"
    if len(set(words)) == 1:
        return "holds" if words[0] == "true" else "false"
    return "holds with conditions"


def plain(time_s, sizes, pairs):
    words, middles = [], {}
    for size in sizes:
        ratios = []
        for _ in range(pairs):
            one = time_s(size)
            two = time_s(2 * size)
            ratios.append(two / one)
        words.append(word_of(ratios))
        middles[size] = statistics.median(ratios)
    return together(words), middles


def open_only_where_two_words_are(time_s, sizes, pairs):
    words, middles = [], {}
    for size in sizes:
        ratios = [1 / (time_s(size) / time_s(2 * size)) for _ in range(pairs)]
        words.append(word_of(ratios))
        middles[size] = statistics.median(ratios)
    if "open" in words and len(set(words)) < 3:
        return "cannot tell here", middles
    if len(set(words)) == 1:
        return ("holds" if words[0] == "true" else "false"), middles
    return "holds with conditions", middles


def all_single_sizes_first(time_s, sizes, pairs):
    ratios = {size: [] for size in sizes}
    for _ in range(pairs):
        ones = [time_s(size) for size in sizes]
        twos = [time_s(2 * size) for size in sizes]
        for size, one, two in zip(sizes, ones, twos, strict=True):
            ratios[size].append(two / one)
    return together([word_of(ratios[size]) for size in sizes]), {s: statistics.median(r) for s, r in ratios.items()}


def both_at_once(time_s, sizes, pairs):
    words, middles = [], {}
    with ThreadPoolExecutor(2) as pool:
        for size in sizes:
            ratios = []
            for _ in range(pairs):
                one, two = pool.map(time_s, (size, 2 * size))
                ratios.append(two / one)
            words.append(word_of(ratios))
            middles[size] = statistics.median(ratios)
    return together(words), middles


def one_after_the_other_in_a_thread(time_s, sizes, pairs):
    with ThreadPoolExecutor(1) as pool:
        return plain(lambda size: pool.submit(time_s, size).result(), sizes, pairs)


def without_the_outermost(time_s, sizes, pairs):
    words, middles = [], {}
    for size in sizes:
        ratios = [1 / (time_s(size) / time_s(2 * size)) for _ in range(pairs)]
        words.append(word_of(sorted(ratios)[1:-1]))
        middles[size] = statistics.median(ratios)
    return together(words), middles


def sorts_the_sizes(time_s, sizes, pairs):
    sizes.sort()
    return plain(time_s, sizes, pairs)


ROWS = [
    Row(answer=plain, verdict="passed", why="the docstring, step by step"),
    Row(
        answer=one_after_the_other_in_a_thread,
        verdict="passed",
        why="one thread that is waited for measures one after the other as well",
    ),
    Row(
        answer=open_only_where_two_words_are,
        verdict="not yet",
        why="one size open, one as claimed and one not: any open size leaves it open",
        words=("one is open", "there 'cannot tell here' is right"),
    ),
    Row(
        answer=all_single_sizes_first,
        verdict="not yet",
        mistake="pairs-apart",
        why="two measurements one right after the other are asked for",
        words=("one right after the other",),
    ),
    Row(
        answer=both_at_once,
        verdict="not yet",
        why="the two share the link, and are not one after the other",
        words=("two all-reduces ran at the same time",),
    ),
    Row(
        answer=without_the_outermost,
        verdict="passed",
        why="quartiles have several definitions, and the docstring names none: of ten ratios without the outermost the "
        "lower quartile by `statistics` is to the last bit that of all ten by `numpy.percentile`",
    ),
    Row(
        answer=sorts_the_sizes,
        verdict="not yet",
        why="the caller's list has another order when the call is over",
        words=("changed the list of sizes",),
    ),
]
