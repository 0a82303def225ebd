"""11.data: what strangers may write, right and wrong."""

from __future__ import annotations

from answer_table import Row


def term(sizes, hidden, *, bucket_times=None, behind=None, floor=None, calls=None, late=lambda s: s):
    """The definition, where nothing is exchanged."""
    group, gradients, weights = sizes.group, sizes.gradient_bytes * sizes.numbers, 2 * sizes.numbers
    if sizes.sharding == 3:
        parts = calls(sizes) if calls else sizes.calls
        one_s = group.all_gather_s(gradients / parts), sizes.gathers * group.all_gather_s(weights / parts)
        gradients_s, weights_s = (sizes.micro_batches * parts * seconds for seconds in one_s)
        window_s = sizes.micro_batches * sizes.computing_s
    else:
        reduce_s = group.all_gather_s if sizes.sharding else group.all_reduce_s
        times = bucket_times(sizes) if bucket_times else sizes.buckets
        gradients_s = times * reduce_s(gradients / sizes.buckets)
        weights_s = group.all_gather_s(weights) if sizes.sharding else 0.0
        window_s = sizes.computing_s * 2 / 3
    window_s = behind(sizes, window_s) if behind else window_s
    can_s = gradients_s + (weights_s if sizes.ahead else 0.0)
    return late(gradients_s + weights_s - hidden * min(can_s, window_s))


def plain(sizes, hidden):
    return term(sizes, hidden)


def buckets_rounded_down(sizes, hidden):
    return term(sizes, hidden, bucket_times=lambda sizes: int(sizes.buckets))


def buckets_in_a_loop(sizes, hidden):
    group, total_s = sizes.group, 0.0
    for _ in range(sizes.buckets):
        total_s += group.all_reduce_s(sizes.gradient_bytes * sizes.numbers / sizes.buckets)
    return total_s


def a_layer_less(sizes, hidden):
    """Nothing is gathered for the first layer, which is there already: as hiding would have it, not the calls."""
    return term(sizes, hidden, calls=lambda sizes: sizes.calls - 1)


def the_last_bucket_is_always_waited_for(sizes, hidden):
    """As in the paced run of the page above; here a share of all hides."""

    def behind(sizes, window_s):
        return window_s if sizes.sharding == 3 else window_s * (1 - 1 / sizes.buckets)

    return term(sizes, hidden, behind=behind)


def rounded_up_to_a_millisecond(sizes, hidden):
    return term(sizes, hidden, late=lambda seconds: -(-seconds // 1e-3) * 1e-3)


def only_the_planners_share(sizes, hidden):
    return term(sizes, sizes.hiding_share)


def sharding_three_for_all(sizes, hidden):
    from dataclasses import replace

    return term(replace(sizes, sharding=3), hidden)


def what_hides(sizes, hidden):
    """What hides, in place of what is waited for."""
    return term(sizes, 0.0) - term(sizes, hidden)


ROWS = [
    Row(answer=plain, verdict="passed", why="the definition"),
    Row(
        answer=buckets_rounded_down,
        verdict="not yet",
        why="there are three buckets and a half",
        words=("3.5 buckets",),
    ),
    Row(answer=buckets_in_a_loop, verdict="raised", why="buckets are no whole number, and there are other stages"),
    Row(answer=a_layer_less, verdict="not yet", why="every layer is gathered", mistake=""),
    Row(
        answer=the_last_bucket_is_always_waited_for,
        verdict="not yet",
        why="another model of hiding than the one that is asked for",
        mistake="",
    ),
    Row(answer=rounded_up_to_a_millisecond, verdict="not yet", why="seconds are not rounded"),
    Row(answer=only_the_planners_share, verdict="not yet", why="the share is given, and changes", mistake=""),
    Row(answer=sharding_three_for_all, verdict="not yet", why="copies are all-reduced, and once", mistake=""),
    Row(answer=what_hides, verdict="not yet", why="what is left is asked for", mistake=""),
]
