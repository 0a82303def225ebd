"""What attention over a cut sequence costs: formulas, held to the meter, the ledger and the count of operations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.cluster import Rank
from course_lib.cost import (
    activation_bytes,
    all_to_all_attention_sent_bytes,
    context_activations,
    ring_attention_sent_bytes,
    ring_attention_time,
    ring_balance,
    ring_in_flight_bytes,
    ring_pairs,
)
from course_lib.layouts.link import Link
from course_lib.layouts.sequence_cut import ORDERS, SequenceCut
from course_lib.meter import MemoryLedger, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.context import (
    ContextParallelAttention,
    all_to_all_attention,
    context_loss,
    ring_attention,
    split_context,
)
from course_lib.parallel.context import ring as ring_module

pytestmark = pytest.mark.xdist_group("context")

CONFIG = TransformerConfig(
    vocab_size=11, context_length=64, num_layers=2, width=16, num_heads=8, num_kv_heads=4, hidden=24
)
H, G, K, B = 8, 4, 2, 3
SENT = {"ring": ring_attention_sent_bytes, "all_to_all": all_to_all_attention_sent_bytes}
WAYS = {"ring": ring_attention, "all_to_all": all_to_all_attention}


def inputs(me: Rank, cut: SequenceCut, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """q, k, v of this rank, and a gradient of the output."""
    shapes = [(B, heads, cut.size(me.rank), K) for heads in (H, G, G, H)]
    return [torch.ones(shape, dtype=dtype, requires_grad=i < 3) for i, shape in enumerate(shapes)]


def a_pass(me: Rank, way: str, cut: SequenceCut, dtype: torch.dtype, backward: bool) -> None:
    *parts, grad = inputs(me, cut, dtype)
    out = WAYS[way](me, *parts, cut)
    if backward:
        out.backward(grad)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(("way", "num_tokens"), [("ring", 12), ("ring", 7), ("all_to_all", 12), ("all_to_all", 7)])
def test_the_meter_sees_the_bytes_of_the_formula(cluster4, way, num_tokens):
    cut = SequenceCut(num_tokens, 4)
    for dtype, itemsize in ((torch.float32, 4), (torch.bfloat16, 2))[: 2 if num_tokens == 7 else 1]:
        forward, both = (
            metered(cluster4, a_pass, way, cut, dtype, backward).communication for backward in (False, True)
        )
        for place in range(4):
            wanted = SENT[way](CONFIG, cut, place, batch_size=B, itemsize=itemsize)
            assert (forward.sent_bytes(place), both.sent_bytes(place)) == (wanted.forward, wanted.total)
        if way == "ring":
            assert [both.num_messages(place) for place in range(4)] == [9] * 4  # 3 x (n - 1)


def test_the_formulas_of_even_parts():
    n, t = 4, 32
    ring, exchange = (sent(CONFIG, SequenceCut(t, n), 1, batch_size=B) for sent in SENT.values())
    assert ring.forward == 4 * 2 * B * G * K * t * (n - 1) / n
    assert ring.backward == 2 * ring.forward
    assert exchange.forward == exchange.backward == 4 * B * (2 * H + 2 * G) * K * t / n * (n - 1) / n
    assert (exchange.total < ring.total) == (3 * G * n > 2 * H + 2 * G)
    halves = [sent(CONFIG, SequenceCut(t, n), 1, batch_size=B, itemsize=2) for sent in SENT.values()]
    assert halves[0].backward == 3 * halves[0].forward  # keys again in 16 bits, and sums in 32
    assert (halves[1].total < halves[0].total) == (4 * G * n > 2 * H + 2 * G)
    alone = SequenceCut(t, 1)
    assert [sent(CONFIG, alone, 0, batch_size=B).total for sent in SENT.values()] == [0, 0]


# -- balance --------------------------------------------------------------------------------------------------


def flops_of(me: Rank, cut: SequenceCut) -> list[int]:
    """Forward and backward operations of one rank."""
    *parts, grad = inputs(me, cut)
    counts = []
    with FlopCounterMode(display=False) as counter:
        out = ring_attention(me, *parts, cut, tile=1)
        counts.append(counter.get_total_flops())
        out.backward(grad)
        counts.append(counter.get_total_flops() - counts[0])
    return counts


@pytest.mark.parametrize("order", ORDERS)
def test_each_rank_computes_the_pairs_that_the_cut_says(cluster4, order):
    cut = SequenceCut(9, 4, order)
    per_place = [sum(step[place] for step in ring_pairs(cut)) for place in range(4)]
    assert sum(per_place) == 9 * 10 / 2
    for pairs, counts in zip(per_place, cluster4.call(flops_of, (cut,)), strict=True):
        assert counts == [4 * B * H * K * pairs, 10 * B * H * K * pairs]


def test_zigzag_is_balanced_in_every_step_and_contiguous_is_not():
    zigzag, contiguous = (SequenceCut(64, 4, order) for order in ORDERS)
    for step in ring_pairs(zigzag):
        assert len(set(step)) == 1
    assert ring_balance(zigzag) == 1
    assert max(map(max, ring_pairs(contiguous)[1:])) == 16 * 16
    assert ring_balance(SequenceCut(64_000, 4, "contiguous")) == pytest.approx(1 / (2 - 1 / 4), abs=1e-4)
    assert ring_balance(contiguous, is_causal=False) == 1


def test_a_message_is_hidden_where_the_parts_are_long():
    link = Link(latency_s=1e-5, bandwidth_bytes_per_s=1e9)
    rate = 1e10
    cut, long = SequenceCut(64, 4), SequenceCut(64_000, 4)
    given = {"batch_size": B, "flops_per_s": rate}
    short_time, long_time = (ring_attention_time(CONFIG, one, link, **given) for one in (cut, long))
    pairs = sum(map(max, ring_pairs(cut)))
    assert short_time.compute_s == pytest.approx(4 * B * H * K * pairs / rate)
    message_s = link.time_s(4 * 2 * B * G * K * 16)
    hidden_s = 4 * B * H * K * max(ring_pairs(cut)[1]) / rate
    assert short_time.exposed_s == pytest.approx(2 * (message_s - hidden_s) + message_s - 4 * B * H * K * 136 / rate)
    assert short_time.time_s == short_time.compute_s + short_time.exposed_s
    assert long_time.exposed_s == 0
    backward = ring_attention_time(CONFIG, long, link, **given, is_backward=True)
    assert backward.compute_s == pytest.approx(2.5 * long_time.compute_s)
    assert backward.exposed_s == pytest.approx(link.time_s(4 * 2 * B * G * K * 16_000)), "the sums' way home"
    alone = ring_attention_time(CONFIG, SequenceCut(64, 1), link, **given, is_backward=True)
    assert alone.exposed_s == 0


# -- overlap --------------------------------------------------------------------------------------------------


def order_of_events(me: Rank) -> list[str]:
    """What a rank does in forward and backward, in its order."""
    from course_lib.parallel.context import ring_exchange

    events: list[str] = []
    real = {
        "start": ring_exchange.start,
        "attend": ring_module.attend,
        "attend_backward": ring_module.attend_backward,
    }

    def start(messages, **options):
        events.append("start")
        wait = real["start"](messages, **options)
        return lambda: (events.append("wait"), wait())[1]

    def noted(name):
        return lambda *args, **options: (events.append("compute"), real[name](*args, **options))[1]

    cut = SequenceCut(2 * me.world_size, me.world_size, "contiguous")
    *parts, grad = inputs(me, cut)
    ring_exchange.start = start
    ring_module.attend, ring_module.attend_backward = noted("attend"), noted("attend_backward")
    try:
        ring_attention(me, *parts, cut, is_causal=False).backward(grad)
    finally:
        ring_exchange.start = real["start"]
        ring_module.attend, ring_module.attend_backward = real["attend"], real["attend_backward"]
    return events


def test_messages_are_on_their_way_while_the_ranks_compute(clusters):
    forward = ["start", "compute", "wait"] * 2 + ["compute"]
    backward = [
        *("start", "compute", "wait"),  # keys and values of the one before
        *("start", "compute", "start", "wait"),  # the sums set out, and the next keys have come
        *("compute", "wait", "start", "wait"),  # the sums come, go on, and come home
    ]
    for events in clusters(3).call(order_of_events):
        assert events == forward + backward


# -- memory ---------------------------------------------------------------------------------------------------


def kept_by_a_model(me: Rank, cut: SequenceCut, way: str) -> int:
    model = split_context(me, Transformer(CONFIG), cut, way=way)
    tokens = torch.zeros(B, cut.num_tokens, dtype=torch.int64)
    with MemoryLedger(model, inputs=tokens) as ledger:
        loss = context_loss(me, model(tokens), tokens, cut)
        kept = ledger.mark("after forward").by_label["activation"]
        loss.backward()
    return kept


@pytest.mark.parametrize("way", WAYS)
def test_the_ledger_finds_kept_what_the_formula_says(cluster2, way):
    for cut in (SequenceCut(16, 2), SequenceCut(9, 2, "contiguous")):
        wanted = [activation_bytes(context_activations(CONFIG, cut, place, batch_size=B, way=way)) for place in (0, 1)]
        assert list(cluster2.call(kept_by_a_model, (cut, way))) == wanted


def test_one_rank_keeps_the_output_in_one_cut(clusters):
    cut = SequenceCut(16, 1)
    wanted = activation_bytes(context_activations(CONFIG, cut, 0, batch_size=B, way="all_to_all"))
    assert list(clusters(1).call(kept_by_a_model, (cut, "all_to_all"))) == [wanted]


NARROW = TransformerConfig(width=4, num_heads=2)


def travelling(me: Rank, cut: SequenceCut) -> list[tuple[int, int]]:
    """Bytes on top of what is kept, at the peaks of forward and backward: the least and the most of several rounds.

    gloo's threads let a message go a moment early or late, so that one round says little.
    """
    rounds = [_travelling_once(me, cut) for _ in range(6)]
    return [(min(peaks), max(peaks)) for peaks in zip(*rounds, strict=True)]


def _travelling_once(me: Rank, cut: SequenceCut) -> list[int]:
    """One sequence, 2 heads of 2 numbers."""
    q, k, v, grad = (torch.ones(1, 2, cut.size(me.rank), 2, requires_grad=i < 3) for i in range(4))
    peaks = []
    for backward in (False, True):
        with MemoryLedger(None, inputs=(q, k, v, grad)) as ledger:
            out = ring_attention(me, q, k, v, cut, tile=1)
            kept = ledger.mark("after forward").total_bytes
            if backward:
                out.backward(grad)
        peaks.append(ledger.peak().total_bytes - kept)
    return peaks


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_few_blocks_travel_at_a_time(clusters, num_ranks):
    own_size = 6
    cut = SequenceCut(own_size * num_ranks, num_ranks)
    wanted = ring_in_flight_bytes(NARROW, cut, batch_size=1)
    a_position = 4 * 2 * 2  # bytes of q there; a block is 2 * own_size of them
    own = own_size * (a_position + 4 * 2)  # the gradient of q, and a number a query and head
    for forward, backward in clusters(num_ranks).call(travelling, (cut,)):
        for (least, most), bytes_ in ((forward, wanted.forward), (backward, own + wanted.backward)):
            assert least <= bytes_ + 9 * a_position, "a pair's scores and its part of the output"
            assert most >= bytes_


def peak_of_a_step(me: Rank, num_tokens: int, is_split: bool) -> int:
    """Peak bytes of a training step; unsplit it is the ordinary model with PyTorch's fused attention."""
    model, cut = (
        Transformer(replace(CONFIG, context_length=num_tokens)),
        SequenceCut(num_tokens, me.world_size),
    )
    if is_split:
        model = split_context(me, model, cut, tile=32)
    tokens = torch.zeros(1, num_tokens, dtype=torch.int64)
    with MemoryLedger(model, inputs=tokens) as ledger:
        logits = model(tokens)
        loss = context_loss(me, logits, tokens, cut) if is_split else next_token_loss(logits, tokens)
        loss.backward()
    return ledger.peak().total_bytes


def test_a_sequence_that_fits_on_no_single_rank_runs_on_four(clusters, cluster4):
    num_tokens, limit_bytes = 256, 320_000
    whole, cut = SequenceCut(num_tokens, 1), SequenceCut(num_tokens, 4)
    config = replace(CONFIG, context_length=num_tokens)
    kept_by_one = activation_bytes(context_activations(config, whole, 0, batch_size=1))
    kept_by_each = activation_bytes(context_activations(config, cut, 0, batch_size=1))
    assert kept_by_each < limit_bytes / 2 < limit_bytes < kept_by_one, "by the formula"
    assert clusters(1).call(peak_of_a_step, (num_tokens, False))[0] > limit_bytes
    for peak in cluster4.call(peak_of_a_step, (num_tokens, True)):
        assert peak < limit_bytes


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: ring_attention_sent_bytes(CONFIG, SequenceCut(8, 2), 2, batch_size=1),
            "place=2 is not there",
        ),
        (lambda: ring_attention_sent_bytes(CONFIG, SequenceCut(8, 2), 0, batch_size=0), "batch_size=0 does"),
        (
            lambda: all_to_all_attention_sent_bytes(CONFIG, SequenceCut(8, 8), 0, batch_size=1),
            "num_kv_heads=4 does not divide among 8 ranks.*or ring attention",
        ),
        (
            lambda: context_activations(CONFIG, SequenceCut(3, 4), 3, batch_size=1),
            "place=3 has no positions of 3 tokens, 4 ranks, zigzag.*from 0 to 2",
        ),
        (
            lambda: context_activations(CONFIG, SequenceCut(8, 2), 0, batch_size=1, way="rings"),
            "way is 'rings'.*Did you mean 'ring'",
        ),
        (
            lambda: ring_attention_time(CONFIG, SequenceCut(8, 2), Link(), batch_size=1, flops_per_s=0.0),
            "flops_per_s is 0.0",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_the_module_says_what_it_is(clusters):
    def shown(me: Rank) -> str:
        return str(ContextParallelAttention(me, Transformer(CONFIG).blocks[0].attention, SequenceCut(8, 1)))

    assert "ring, 8 tokens, 1 ranks, zigzag" in clusters(1).call(shown)[0]
