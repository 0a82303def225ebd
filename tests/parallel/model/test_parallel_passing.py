"""What a cut model sends, holds and does when; other shapes, forward passes alone, and failures with a name."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from models_to_cut import batches, gradients_of, make
from torch import nn

from course_lib.cluster import Cluster, RankFailed
from course_lib.meter import MemoryLedger, Timeline, expect, metered
from course_lib.models import next_token_loss
from course_lib.parallel.model import (
    ModelParallel,
    OnDevices,
    crossing_costs,
    cut,
    parameter_costs,
    pieces_of,
    split_evenly,
)

pytestmark = pytest.mark.xdist_group("model_parallel")

ACTIVATION_BYTES = 3 * 6 * 8 * 8  # B * T * D numbers of 8 bytes, after any piece but the last
TOLD_BYTES = 11 * 8


def some_steps(me, kind, by_hand, count):
    model = make(kind)
    model = ModelParallel(me, cut(model, split_evenly([1] * 4, me.world_size)))
    for x, y in batches(kind, count):
        if by_hand:
            model.forward_backward(x, y, next_token_loss)
        else:
            model.loss(next_token_loss, model(x), y).backward()
        model.sum_tied_gradients()


@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "by autograd"])
@pytest.mark.parametrize(
    ("kind", "back", "tied_bytes"),
    [("text", 1, 0), ("frozen text", 0, 0), ("tied text", 1, 11 * 8 * 8), ("tied frozen text", 0, 0)],
)
def test_each_cut_is_crossed_once_each_way_in_a_step(cluster4, by_hand, kind, back, tied_bytes):
    """On 4 ranks the first part is the embedding; frozen, its gradient is not sent for."""
    run = metered(cluster4, some_steps, kind, by_hand, 3)
    forth, its_back, told, tied = 3 * ACTIVATION_BYTES, 3 * ACTIVATION_BYTES, TOLD_BYTES, 3 * tied_bytes
    wanted = [forth + told + tied, forth + told + back * its_back, forth + told + its_back, its_back + tied]
    messages = [4 + 3 * bool(tied), 4 + 3 * back, 7, 3 + 3 * bool(tied)]
    assert expect(run.communication, sent_bytes=wanted, num_messages=messages, only=["send", "recv"]) == []


def step_of_a_cut(me, place):
    model, (x, y) = make("cnn"), next(batches("cnn", 1))
    ranges = [range(place), range(place, len(pieces_of(model)))]
    ModelParallel(me, cut(model, ranges)).forward_backward(x, y, F.cross_entropy)


@pytest.mark.parametrize("place", [1, 2, 3])
def test_crossing_costs_are_what_the_meter_counts_once_each_way(cluster2, place):
    x, _ = next(batches("cnn", 1))
    crossing_bytes = crossing_costs(make("cnn"), x)[place - 1]
    matrix = metered(cluster2, step_of_a_cut, place).communication.matrix()
    assert matrix == [[0, crossing_bytes + TOLD_BYTES], [crossing_bytes, 0]]


def memory_of_a_step(me):
    model = make("text")
    model = ModelParallel(me, cut(model, split_evenly([1] * 4, me.world_size)))
    optimizer = torch.optim.AdamW(model.parameters())
    (x, y), *_ = batches("text")
    model.forward_backward(x, y, next_token_loss)
    optimizer.step()
    optimizer.zero_grad()
    with MemoryLedger(model.part, optimizer, inputs=(x, y), rank=me.rank) as ledger:
        output = model(x)
        loss = model.loss(next_token_loss, output, y)
        forward = ledger.mark("after forward")
        loss.backward()
        ledger.mark("after backward")
    return forward, ledger.marks["after backward"]


def test_each_rank_holds_its_part_and_no_more(cluster4):
    model, (x, y) = make("text"), next(batches("text"))
    numbers = parameter_costs(model)
    with MemoryLedger(model, inputs=(x, y)) as ledger:
        loss = next_token_loss(model(x), y)
        whole = ledger.mark("after forward")["activation"]
        del loss
    run = cluster4.run(memory_of_a_step)
    assert [forward["parameter"] for forward, _ in run] == [8 * n for n in numbers]
    assert [backward["gradient"] for _, backward in run] == [8 * n for n in numbers]
    steps = [4 * len(list(piece.parameters())) for piece in pieces_of(model).values()]
    assert [b["optimizer state"] for _, b in run] == [16 * n + s for n, s in zip(numbers, steps, strict=True)]
    received = [forward["input"] - run[0][0]["input"] for forward, _ in run]  # from the rank before
    assert received == [0, ACTIVATION_BYTES, ACTIVATION_BYTES, ACTIVATION_BYTES]
    assert sum(forward["activation"] for forward, _ in run) + sum(received) == whole
    assert all(backward["activation"] == 0 for _, backward in run)


def spans_of_a_step(me):
    timeline = Timeline(me.rank, device=me.device)
    model = ModelParallel(me, cut(make("text"), split_evenly([1] * 4, me.world_size)), timeline=timeline)
    (x, y), *_ = batches("text")
    model.forward_backward(x, y, next_token_loss)
    return timeline


def test_nobody_need_watch(cluster2):
    """Without a timeline nothing is kept of a step, and the step is the same."""
    for loss in cluster2.run(lambda me: _step(me, None) == _step(me, Timeline(me.rank))):
        assert loss


def _step(me, timeline):
    model = ModelParallel(me, cut(make("text"), split_evenly([1] * 4, me.world_size)), timeline=timeline)
    (x, y), *_ = batches("text")
    return model.forward_backward(x, y, next_token_loss)


def test_the_timeline_is_a_staircase_down_and_up_again(cluster4):
    timelines = list(cluster4.run(spans_of_a_step))
    work = [{span.name: span for span in t.spans if span.kind == "compute"} for t in timelines]
    assert [list(spans) for spans in work] == [["forward", "backward"]] * 4
    for before, after in itertools.pairwise(work):
        assert before["forward"].end_s <= after["forward"].start_s
        assert after["backward"].end_s <= before["backward"].start_s
    assert [sorted(span.name for span in t.spans) for t in timelines] == [
        ["backward", "forward", "recv", "send", "send"],  # two sends: what is to come, and the activation
        *[["backward", "forward", "recv", "recv", "recv", "send", "send", "send"]] * 2,
        ["backward", "forward", "recv", "recv", "send"],
    ]


# -- forward only, other shapes, and what goes wrong ---------------------------------------------------------------


def evaluated_between_steps(me):
    """Outputs without gradients, on batches of another size, before and between training steps."""
    model = make("cnn")
    model = ModelParallel(me, cut(model, split_evenly([1] * 4, me.world_size)))
    found = []
    for x, y in batches("cnn", 2):
        model.eval()
        with torch.no_grad():
            output = model(x[:2])
        found.append(output.tolist() if model.is_last else output.requires_grad)
        model.train()
        model.loss(F.cross_entropy, model(x), y).backward()
    return found, gradients_of(model.part)


def test_evaluating_between_steps_sends_nothing_back_and_may_have_a_size_of_its_own(cluster4):
    model, want = make("cnn"), []
    for x, y in batches("cnn", 2):
        model.eval()
        want.append(model(x[:2]).tolist())
        model.train()
        F.cross_entropy(model(x), y).backward()
    run = cluster4.run(evaluated_between_steps)
    assert torch.allclose(torch.tensor(run[3][0]), torch.tensor(want), atol=1e-10)
    gradients = {name: tensor for _, its in run for name, tensor in its.items()}
    for name, tensor in gradients_of(model).items():
        torch.testing.assert_close(gradients[name], tensor, rtol=0, atol=1e-10)


def ragged(me, forget):
    model = ModelParallel(me, cut(make("cnn"), split_evenly([1] * 4, me.world_size)))
    for number, (x, y) in enumerate(batches("cnn", 2)):
        if number:
            x, y = x[:4], y[:4]
            if forget:
                model.forget_shapes()
        model.forward_backward(x, y, F.cross_entropy)
    return gradients_of(model.part)


def test_a_batch_of_another_shape_needs_forgetting(cluster2):
    got = {name: tensor for its in cluster2.run(ragged, True) for name, tensor in its.items()}
    model = make("cnn")
    for number, (x, y) in enumerate(batches("cnn", 2)):
        F.cross_entropy(model(x[: 4 if number else 6]), y[: 4 if number else 6]).backward()
    for name, tensor in gradients_of(model).items():
        torch.testing.assert_close(got[name], tensor, rtol=0, atol=1e-10)


class Breaks(nn.Module):
    """Raises in its forward or in its backward pass."""

    def __init__(self, where):
        super().__init__()
        self.where = where

    def forward(self, x):
        if self.where == "forward":
            raise ValueError("this layer is broken")
        if self.where == "backward":
            x.register_hook(lambda _: {}["gone"])
        return x.clone()


def with_a_broken_part(me, where):
    rows = [nn.Linear(6, 6), nn.Linear(6, 6), nn.Sequential(Breaks(where)), nn.Linear(6, 3)]
    parts = cut(nn.Sequential(*rows).double(), [range(n, n + 1) for n in range(4)])
    (x, y), *_ = batches("linear")
    ModelParallel(me, parts).forward_backward(x, y, F.cross_entropy)


WORDS = {
    "forward": r"rank 2 of 4(.|\n)*PartFailed: part 2 of 4 \(2\) failed in its forward pass: ValueError: this layer",
    "backward": r"rank 2 of 4(.|\n)*PartFailed: part 2 of 4 \(2\) failed in its backward pass: KeyError: 'gone'",
}


@pytest.mark.limit_s(60)
@pytest.mark.parametrize("where", WORDS)
def test_a_part_that_fails_ends_all_ranks_and_is_named(where):
    with Cluster(4, timeout_s=30) as cluster, pytest.raises(RankFailed, match=WORDS[where]):
        cluster.run(with_a_broken_part, where)


def mistaken(me, what):
    whole = make("linear")
    parts = cut(whole, split_evenly([1] * 4, 3 if what == "parts" else 2))
    if what == "dtype":
        parts[0] = nn.Sequential(parts[0], nn.Identity(), Cast())
    model = ModelParallel(me, parts)
    (x, y), *_ = batches("linear")
    model.forward_backward(None if what == "x" else x, None if what == "y" else y, F.cross_entropy)


class Cast(nn.Module):
    def forward(self, x):
        return x.to(torch.complex64)


@pytest.mark.limit_s(90)
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("parts", "3 parts were given to 2 ranks.*Cut the model into 2"),
        ("x", "rank 0 of 2 needs x and was given None"),
        ("y", "rank 1 of 2 needs the target and was given None"),
        ("dtype", "an activation of torch.complex64 with 2 dims cannot be passed on.*such as torch.float32"),
    ],
)
def test_bad_input_gets_a_sentence(what, words):
    with Cluster(2, timeout_s=30) as cluster, pytest.raises(RankFailed, match=words):
        cluster.run(mistaken, what)


@pytest.mark.limit_s(90)
def test_a_batch_of_another_shape_is_refused_with_the_way_out():
    words = r"shape \(4, 8, 4, 4\).* at the first batch it announced .*\(6, 8, 4, 4\) .*to rank 1.*forget_shapes\(\)"
    with Cluster(2, timeout_s=30) as cluster, pytest.raises(RankFailed, match=words):
        cluster.run(ragged, False)


def test_on_devices_refuses_what_cannot_work():
    parts = cut(make("tied text"), [range(0, 2), range(2, 4)])
    with pytest.raises(ValueError, match=r"you gave 2 parts and 1 devices.*Give 2 devices"):
        OnDevices(parts, ["cpu"])
    with pytest.raises(ValueError, match=r"parts 0, 1 share a parameter.*cpu, meta.*give them all cpu"):
        OnDevices(parts, ["cpu", "meta"])


# -- with a GPU: skipped elsewhere ---------------------------------------------------------------------------------


def step_on_gpu(me):
    model = ModelParallel(me, cut(make("cnn"), split_evenly([1] * 4, me.world_size)))
    (x, y), *_ = batches("cnn")
    model.forward_backward(x, y, F.cross_entropy)
    return {name: tensor.cpu() for name, tensor in gradients_of(model.part).items()}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_between_a_gpu_and_the_cpu_and_between_ranks_on_gpus():
    model, ((x, y), *_) = make("cnn"), batches("cnn")
    F.cross_entropy(model(x), y).backward()
    whole = make("cnn")
    moved = OnDevices(cut(whole, split_evenly([1] * 4, 2)), ["cuda:0", "cpu"])
    F.cross_entropy(moved(x), y).backward()
    with Cluster(2) as cluster:
        by_ranks = {name: tensor for its in cluster.run(step_on_gpu) for name, tensor in its.items()}
    for name, tensor in gradients_of(model).items():
        torch.testing.assert_close(gradients_of(whole)[name].cpu(), tensor, rtol=0, atol=1e-10)
        torch.testing.assert_close(by_ranks[name], tensor, rtol=0, atol=1e-10)
