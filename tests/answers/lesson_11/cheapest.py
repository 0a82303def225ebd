"""11.cheapest: the cheapest that is in time."""

from __future__ import annotations

from math import ceil

from answer_table import Row


def _found(rows, tokens, step_tokens, price, most_days, gpu_bytes, tie):
    steps = ceil(tokens / step_tokens)
    kept = []
    for number, (gpus, step_s, needed) in enumerate(rows):
        total_s = steps * step_s
        if needed <= gpu_bytes and total_s <= most_days * 86_400:
            kept.append((gpus * total_s / 3600 * price, total_s, number, gpus))
    if not kept:
        return None
    cost, _, number, _ = min(kept, key=lambda one: (one[0], tie(one), one[2]))
    most = max(one[3] for one in kept)
    habit = min(one[0] for one in kept if one[3] == most)
    return number, cost, habit / cost - 1


def plain(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    return _found(rows, tokens, step_tokens, price, most_days, gpu_bytes, lambda one: one[1])


def the_fewest_gpus_of_equal_cost(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    return _found(rows, tokens, step_tokens, price, most_days, gpu_bytes, lambda one: one[3])


def the_slowest_of_equal_cost(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    return _found(rows, tokens, step_tokens, price, most_days, gpu_bytes, lambda one: -one[1])


def the_first_of_equal_cost(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    return _found(rows, tokens, step_tokens, price, most_days, gpu_bytes, lambda one: 0)


FIRST = ("you take the first",)

ROWS = [
    Row(answer=plain, verdict="passed", why="by cost, then by time, then by number"),
    Row(
        answer=the_fewest_gpus_of_equal_cost,
        verdict="not yet",
        why="the one that is done sooner is asked for; the row that it takes is not the first",
        unsaid=FIRST,
    ),
    Row(answer=the_slowest_of_equal_cost, verdict="not yet", why="as above", unsaid=FIRST),
    Row(answer=the_first_of_equal_cost, verdict="not yet", mistake="equal-cost-first", why="here it is true"),
]
