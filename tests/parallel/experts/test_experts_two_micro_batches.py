"""Two micro-batches by turns: against one process on one device, in float64; what is sent, and in which order."""

from __future__ import annotations

import functools

import pytest
import torch
from expert_cases import WIDTH, layer_of, tokens_of
from torch import nn

from course_lib.meter import Span, Timeline, metered
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.experts import (
    PacedStep,
    PendingExchange,
    SteppedLayer,
    exchange_rows,
    interleaved,
    num_behind_computing,
    one_after_the_other,
    start_exchange,
)

pytestmark = [
    pytest.mark.xdist_group("experts"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

A, B = (5, 0, 7, 2), (3, 4, 0, 6)  # tokens of each rank
ORDERS = {"apart": one_after_the_other, "by turns": interleaved}


class Alone:
    rank, world_size, device = 0, 1, torch.device("cpu")


def dense_of(number: int) -> nn.Module:
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double()


def layers_on(me, count=3, **options) -> nn.ModuleList:
    return nn.ModuleList(SteppedLayer(me, dense_of(n), layer_of(num_experts=5), **options) for n in range(count))


def batches(rank: int):
    return tokens_of(A[rank], seed=rank).requires_grad_(), tokens_of(B[rank], seed=10 + rank).requires_grad_()


def through_layers(me, order):
    layers, (a, b) = layers_on(me), batches(me.rank)
    out = order(layers, a, b)
    (out[0].square().sum() + 3 * out[1].square().sum()).backward()
    grads = {name: parameter.grad for name, parameter in layers.named_parameters()}
    return [one.detach() for one in out], a.grad, b.grad, grads


@functools.cache
def on_one_device(num_ranks: int):
    """Outputs of a and b of every rank behind each other, the gradients of the tokens, and those of the parameters."""
    denses, moes = zip(*((dense_of(n), layer_of(num_experts=5)) for n in range(3)), strict=True)
    given = [
        torch.cat([batches(rank)[which].detach() for rank in range(num_ranks)]).requires_grad_() for which in (0, 1)
    ]
    out = []
    for x in given:
        for dense, moe in zip(denses, moes, strict=True):
            x = dense(x)
            x = x + moe(x)
        out.append(x)
    (out[0].square().sum() + 3 * out[1].square().sum()).backward()
    return out, [x.grad for x in given], denses, moes


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_outputs_and_gradients_are_those_of_one_device(clusters, num_ranks, order):
    found = list(clusters(num_ranks).run(through_layers, ORDERS[order]))
    out, given, denses, moes = on_one_device(num_ranks)
    for which in (0, 1):
        torch.testing.assert_close(
            torch.cat([one[0][which] for one in found]), out[which].detach(), rtol=1e-10, atol=1e-12
        )
        torch.testing.assert_close(torch.cat([one[1 + which] for one in found]), given[which], rtol=1e-9, atol=1e-11)
    for number, (dense, moe) in enumerate(zip(denses, moes, strict=True)):
        experts = torch.cat([one[3][f"{number}.moe.experts.w_up"] for one in found])
        torch.testing.assert_close(experts, moe.experts.w_up.grad, rtol=1e-9, atol=1e-11)
        for name, right in (("before.0.weight", dense[0].weight.grad), ("moe.router.weight", moe.router.weight.grad)):
            total = sum(one[3][f"{number}.{name}"] for one in found)
            torch.testing.assert_close(total, right, rtol=1e-9, atol=1e-11)


def test_both_orders_send_the_same(clusters):
    sent = [metered(clusters(4), through_layers, order).communication for order in ORDERS.values()]
    for rank in range(4):
        assert sent[0].sent_bytes(rank) == sent[1].sent_bytes(rank) > 0
        assert len(sent[0].of(rank).calls) == len(sent[1].of(rank).calls)


def spans_of(me, order, count):
    timeline = Timeline(rank=me.rank)
    layers = nn.ModuleList(
        SteppedLayer(
            me,
            nn.Sequential(dense_of(number), PacedStep(me, 0.001, timeline)),
            layer_of(num_experts=5),
            pause=PacedStep(me, 0.001, timeline),
            timeline=timeline,
        )
        for number in range(count)
    )
    out = order(layers, *batches(me.rank))
    forward = timeline.spans
    sum(one.sum() for one in out).backward()
    return forward, timeline.spans[len(forward) :]


@pytest.mark.parametrize("count", [1, 3])
def test_all_exchanges_but_the_last_lie_behind_computing_forward_and_backward(clusters, count):
    for forward, backward in clusters(4).run(spans_of, interleaved, count):
        for spans in (forward, backward):
            assert sum(span.kind == "collective" for span in spans) == 4 * count
            assert num_behind_computing(spans) == 4 * count - 1
    for forward, backward in clusters(4).run(spans_of, one_after_the_other, count):
        assert num_behind_computing(forward) == num_behind_computing(backward) == 0


def test_an_exchange_counts_where_a_whole_step_lies_between_start_and_wait():
    def spans(start_s, end_s):
        wait = [Span(0, "all_to_all", "collective", 0.0, 5.0), Span(0, "wait", "wait", 3.0, 5.0)]
        return [*wait, Span(0, "forward", "compute", start_s, end_s)]

    assert [
        num_behind_computing(spans(*at)) for at in ((0.0, 3.0), (1.0, 2.0), (2.0, 4.0), (3.0, 4.0), (-1.0, 1.0))
    ] == [
        *(1, 1),
        *(0, 0, 0),
    ]


def started(me, send, recv):
    x = torch.arange(2.0 * sum(send), dtype=torch.float64).view(-1, 2).requires_grad_()
    members = Members.of(me, None)
    flight = start_exchange(members, x, send, recv)
    text = repr(flight)
    rows = flight.wait()
    rows.mul(1.0 + me.rank).sum().backward()
    y = x.detach().clone().requires_grad_()
    right = exchange_rows(members, y, send, recv)
    right.mul(1.0 + me.rank).sum().backward()
    same = torch.equal(rows, right) and torch.equal(x.grad, y.grad)
    return same, rows is flight.wait(), text, repr(flight)


def of_two(me):
    return started(me, *(([1, 2], [1, 0]) if me.rank == 0 else ([0, 3], [2, 3])))


def test_an_exchange_that_is_started_brings_what_one_that_is_waited_for_brings(clusters):
    for run in (clusters(2).run(of_two), clusters(1).run(started, [3], [3])):
        for same, once, before, after in run:
            assert same
            assert once
            assert (before, after) == ("<an exchange in flight>", "<an exchange that is over>")


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"sizes=\[2\] do not fit"):
        start_exchange(Members.of(Alone(), None), torch.ones(3, 2), [2], [2])
    with pytest.raises(ValueError, match=r"recv_rows=\[1, 2\] has 2 sizes; 1 ranks send"):
        start_exchange(Members.of(Alone(), None), torch.ones(3, 2), [3], [1, 2])


def test_a_step_that_is_given_what_is_in_flight_says_so(clusters):
    def try_it(me):
        layer = SteppedLayer(me, dense_of(0), layer_of())
        going = layer.dispatch(layer.dense(tokens_of(2)))
        said = []
        for step, given in ((layer.experts, going), (layer.combine, going), (layer.experts, tokens_of(2))):
            try:
                step(given)
            except TypeError as error:
                said.append(str(error))
        going.wait()
        return said

    (said,) = clusters(1).run(try_it)
    assert said[0] == said[1] == "this is <an exchange in flight>: call its wait() first, and give what that returns"
    assert (
        said[2] == "experts and combine take the result of dispatch(...).wait() or experts(...); this is of type Tensor"
    )


@pytest.mark.parametrize("time_s", [-1.0, float("nan"), float("inf"), "1"])
def test_a_time_that_is_none_is_refused(time_s):
    class Me(Alone):
        slow_factor = 1.0

    with pytest.raises(ValueError, match="must be a number of seconds"):
        PacedStep(Me(), time_s, Timeline())


def test_what_is_in_flight_is_finished_once():
    finished = []
    flight = PendingExchange(lambda: finished.append(1) or "rows")
    assert (flight.wait(), flight.wait(), finished) == ("rows", "rows", [1])
