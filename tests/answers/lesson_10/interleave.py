"""10.interleave: answers as people write them. Right ones of other styles pass; each wrong one gets its words."""

from __future__ import annotations

import torch
from answer_table import Row, pieces

MORE = pieces("lesson_10/pieces/interleave.py")
Ready, with_a_class = MORE.Ready, MORE.with_a_class

# -- right ------------------------------------------------------------------------------------------------------------


def with_none(layers, a, b):
    back_a = back_b = None
    for layer in layers:
        a = a if back_a is None else back_a.wait()
        to_a = layer.dispatch(layer.dense(a))
        b = b if back_b is None else back_b.wait()
        to_b = layer.dispatch(layer.dense(b))
        back_a = layer.combine(layer.experts(to_a.wait()))
        back_b = layer.combine(layer.experts(to_b.wait()))
    return back_a.wait(), back_b.wait()


def first_layer_apart(layers, a, b):
    first, *others = layers
    to_a = first.dispatch(first.dense(a))
    to_b = first.dispatch(first.dense(b))
    back_a = first.combine(first.experts(to_a.wait()))
    back_b = first.combine(first.experts(to_b.wait()))
    for layer in others:
        to_a = layer.dispatch(layer.dense(back_a.wait()))
        to_b = layer.dispatch(layer.dense(back_b.wait()))
        back_a = layer.combine(layer.experts(to_a.wait()))
        back_b = layer.combine(layer.experts(to_b.wait()))
    return [back_a.wait(), back_b.wait()]


def by_lists(layers, a, b):
    x, going = [a, b], [None, None]
    for layer in layers:
        for which in (0, 1):
            if going[which] is not None:
                x[which] = going[which].wait()
            going[which] = layer.dispatch(layer.dense(x[which]))
        for which in (0, 1):
            going[which] = layer.combine(layer.experts(going[which].wait()))
    return tuple(one.wait() for one in going)


def by_generators(layers, a, b):
    def steps(x):
        for layer in layers:
            going = layer.dispatch(layer.dense(x))
            yield
            going = layer.combine(layer.experts(going.wait()))
            yield
            x = going.wait()
        outputs.append(x)

    outputs = []
    turns = [steps(a), steps(b)]
    while turns:
        for one in list(turns):
            if next(one, "over") == "over":
                turns.remove(one)
    return tuple(outputs)


def b_first(layers, a, b):
    """The roles are free."""
    out_b, out_a = with_a_class(layers, b, a)
    return out_a, out_b


def waits_for_b_early(layers, a, b):
    """At the top both are waited for; b's exchange has then nothing beside it but in the first case."""
    back_a, back_b = Ready(a), Ready(b)
    for layer in layers:
        a, b = back_a.wait(), back_b.wait()
        to_a = layer.dispatch(layer.dense(a))
        to_b = layer.dispatch(layer.dense(b))
        back_a = layer.combine(layer.experts(to_a.wait()))
        back_b = layer.combine(layer.experts(to_b.wait()))
    return back_a.wait(), back_b.wait()


# -- wrong ------------------------------------------------------------------------------------------------------------


def one_then_the_other(layers, a, b):
    outputs = []
    for x in (a, b):
        for layer in layers:
            x = layer.combine(layer.experts(layer.dispatch(layer.dense(x)).wait())).wait()
        outputs.append(x)
    return tuple(outputs)


def by_turns_but_waiting(layers, a, b):
    for layer in layers:
        rows_a = layer.dispatch(layer.dense(a)).wait()
        rows_b = layer.dispatch(layer.dense(b)).wait()
        a = layer.combine(layer.experts(rows_a)).wait()
        b = layer.combine(layer.experts(rows_b)).wait()
    return a, b


def combine_at_once(layers, a, b):
    for layer in layers:
        to_a = layer.dispatch(layer.dense(a))
        to_b = layer.dispatch(layer.dense(b))
        a = layer.combine(layer.experts(to_a.wait())).wait()
        b = layer.combine(layer.experts(to_b.wait())).wait()
    return a, b


def dispatch_at_once(layers, a, b):
    back_a, back_b = Ready(a), Ready(b)
    for layer in layers:
        rows_a = layer.dispatch(layer.dense(back_a.wait())).wait()
        rows_b = layer.dispatch(layer.dense(back_b.wait())).wait()
        back_a = layer.combine(layer.experts(rows_a))
        back_b = layer.combine(layer.experts(rows_b))
    return back_a.wait(), back_b.wait()


def both_dense_first(layers, a, b):
    back_a, back_b = Ready(a), Ready(b)
    for layer in layers:
        dense_a, dense_b = layer.dense(back_a.wait()), layer.dense(back_b.wait())
        to_a, to_b = layer.dispatch(dense_a), layer.dispatch(dense_b)
        made_a, made_b = layer.experts(to_a.wait()), layer.experts(to_b.wait())
        back_a, back_b = layer.combine(made_a), layer.combine(made_b)
    return back_a.wait(), back_b.wait()


def waits_after_each_layer(layers, a, b):
    for layer in layers:
        to_a = layer.dispatch(layer.dense(a))
        to_b = layer.dispatch(layer.dense(b))
        back_a = layer.combine(layer.experts(to_a.wait()))
        back_b = layer.combine(layer.experts(to_b.wait()))
        a, b = back_a.wait(), back_b.wait()
    return a, b


def turns_about_who_begins(layers, a, b):
    flights = [Ready(a), Ready(b)]
    for number, layer in enumerate(layers):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        to = {}
        for who in order:
            to[who] = layer.dispatch(layer.dense(flights[who].wait()))
        for who in order:
            flights[who] = layer.combine(layer.experts(to[who].wait()))
    return flights[0].wait(), flights[1].wait()


def experts_of_b_first(layers, a, b):
    flights = [Ready(a), Ready(b)]
    for layer in layers:
        to = [layer.dispatch(layer.dense(flight.wait())) for flight in flights]
        for who in (1, 0):
            flights[who] = layer.combine(layer.experts(to[who].wait()))
    return flights[0].wait(), flights[1].wait()


def both_as_one(layers, a, b):
    x = torch.cat([a, b])
    for layer in layers:
        x = layer.combine(layer.experts(layer.dispatch(layer.dense(x)).wait())).wait()
    return x[: len(a)], x[len(a) :]


def in_float64(layers, a, b):
    a, b = with_none(layers, a.double(), b.double())
    return a, b


def forgets_the_last_waits(layers, a, b):
    back_a, back_b = Ready(a), Ready(b)
    for layer in layers:
        to_a = layer.dispatch(layer.dense(back_a.wait()))
        to_b = layer.dispatch(layer.dense(back_b.wait()))
        back_a = layer.combine(layer.experts(to_a.wait()))
        back_b = layer.combine(layer.experts(to_b.wait()))
    return back_a, back_b


def forgets_a_wait(layers, a, b):
    for layer in layers:
        a = layer.combine(layer.experts(layer.dispatch(layer.dense(a))))
        b = layer.combine(layer.experts(layer.dispatch(layer.dense(b))))
    return a.wait(), b.wait()


def swapped(layers, a, b):
    return with_a_class(layers, b, a)


def a_twice(layers, a, b):
    return with_a_class(layers, a, a)


def detached(layers, a, b):
    return with_a_class(layers, a.detach(), b)


def without_gradients(layers, a, b):
    with torch.no_grad():
        return with_a_class(layers, a, b)


def dense_again(layers, a, b):
    for layer in layers:
        layer.dense(a)
    return with_a_class(layers, a, b)


def an_exchange_too_many(layers, a, b):
    layers[0].dispatch(a)
    return with_a_class(layers, a, b)


def in_float32(layers, a, b):
    return tuple(one.float() for one in with_a_class(layers, a, b))


def in_place(layers, a, b):
    out = with_a_class(layers, a, b)
    with torch.no_grad():
        a.mul_(0)
    return out


def only_the_first_layer(layers, a, b):
    return with_a_class(layers[:1], a, b)


def skips_the_experts(layers, a, b):
    for layer in layers:
        a = layer.combine(layer.dispatch(layer.dense(a)).wait()).wait()
        b = layer.combine(layer.dispatch(layer.dense(b)).wait()).wait()
    return a, b


def one_output(layers, a, b):
    return torch.cat(with_a_class(layers, a, b))


def nothing(layers, a, b):
    with_a_class(layers, a, b)


KEPT = {}


def kept_by_layers(layers, a, b):
    """Right once for each number of layers."""
    if len(layers) not in KEPT:
        KEPT[len(layers)] = with_a_class(layers, a, b)
    return KEPT[len(layers)]


ROWS = [
    Row(answer=with_none, verdict="passed", why="by turns"),
    Row(answer=first_layer_apart, verdict="passed", why="a list of two, and the first layer in front of the loop"),
    Row(answer=by_lists, verdict="passed", why="micro-batches by number"),
    Row(answer=by_generators, verdict="passed", why="a generator for each, which take turns"),
    Row(answer=with_a_class, verdict="passed", why="what is there already has a wait, too"),
    Row(answer=b_first, verdict="passed", why="who begins is free"),
    Row(answer=one_then_the_other, verdict="not yet", mistake="waits-at-once", why="nothing hides"),
    Row(answer=by_turns_but_waiting, verdict="not yet", mistake="waits-at-once", why="turns alone hide nothing"),
    Row(answer=combine_at_once, verdict="not yet", mistake="waits-for-combine", why="the way back stands exposed"),
    Row(answer=dispatch_at_once, verdict="not yet", mistake="waits-for-dispatch", why="the way there stands exposed"),
    Row(answer=both_dense_first, verdict="not yet", mistake="computes-first", why="the first exchange leaves late"),
    Row(answer=waits_after_each_layer, verdict="not yet", mistake="between-layers", why="one exposed in each layer"),
    Row(answer=waits_for_b_early, verdict="not yet", mistake="between-layers", why="the same, written at the top"),
    Row(
        answer=turns_about_who_begins,
        verdict="not yet",
        mistake="waits-too-early",
        unsaid=("At its end you wait for both",),
        why="who ends a layer begins the next, and its way back has nothing beside it",
    ),
    Row(answer=experts_of_b_first, verdict="not yet", mistake="waits-too-early", why="b came last, over one link"),
    Row(answer=both_as_one, verdict="not yet", words=("steps were computed",), why="one batch hides nothing"),
    Row(answer=in_float64, verdict="not yet", words=("numbers in float32", "float64"), why="(N, D) of another type"),
    Row(answer=forgets_the_last_waits, verdict="not yet", mistake="leaves-in-flight", why="no tensors come back"),
    Row(answer=forgets_a_wait, verdict="not yet", mistake="in-flight", why="experts are given a handle"),
    Row(answer=swapped, verdict="not yet", mistake="swapped", why="b in the place of a"),
    Row(answer=a_twice, verdict="not yet", mistake="one-twice", why="b is nowhere"),
    Row(answer=detached, verdict="not yet", mistake="cut-off", why="no gradient reaches a"),
    Row(
        answer=without_gradients, verdict="not yet", mistake="cut-off", words=("nothing leads back",), why="none at all"
    ),
    Row(answer=dense_again, verdict="not yet", mistake="computes-twice", why="a step for nothing"),
    Row(answer=an_exchange_too_many, verdict="not yet", mistake="", words=("nobody waited for",), why="left pending"),
    Row(answer=in_float32, verdict="not yet", mistake="", words=("outputs",), why="digits are lost"),
    Row(answer=in_place, verdict="not yet", mistake="", words=("`a`",), why="the tokens are the caller's"),
    Row(answer=only_the_first_layer, verdict="not yet", mistake="", words=("outputs",), why="layers are left out"),
    Row(answer=skips_the_experts, verdict="raised", mistake="", words=("no expert has computed",), why="as it says"),
    Row(answer=one_output, verdict="not yet", mistake="", words=("two outputs",), why="one tensor"),
    Row(answer=nothing, verdict="not yet", mistake="", why="no return"),
    Row(answer=kept_by_layers, verdict="not yet", mistake=None, why="another call's outputs"),
    Row(
        answer=MORE.kept_by_sizes, verdict="not yet", mistake="", words=("other values",), why="another call's outputs"
    ),
    Row(answer=MORE.of_the_course, verdict="forbidden", why="by another's hand"),
    Row(answer=MORE.meets_at_a_barrier, verdict="not yet", mistake="", words=("dist.barrier",), why="all wait for all"),
    Row(
        answer=MORE.counts_first, verdict="not yet", mistake="", words=("dist.all_reduce",), why="one more to wait for"
    ),
    Row(
        answer=MORE.rests_without_tokens, verdict="not yet", mistake="leaves-steps-out", why="others wait for this rank"
    ),
    Row(answer=MORE.rests_with_an_empty_one, verdict="not yet", mistake="leaves-steps-out", why="so they do for one"),
    Row(answer=MORE.waits_for_both_rows, verdict="not yet", mistake="waits-too-early", why="A's experts could begin"),
    Row(answer=MORE.waits_for_a_before_experts_of_b, verdict="not yet", mistake=None, why="B's experts could compute"),
    Row(answer=MORE.experts_of_b_first, verdict="not yet", mistake="waits-too-early", why="A's rows came before B's"),
    Row(answer=MORE.both_in_one, verdict="not yet", mistake="", words=("steps were computed",), why="nothing to turn"),
    Row(
        answer=MORE.whole_layers, verdict="raised", words=("dense, dispatch, experts and combine",), why="no such call"
    ),
    Row(answer=MORE.inner_dense, verdict="raised", words=("no `before`",), why="no such step"),
]
