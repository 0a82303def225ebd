"""Drift: every changed bit is found, the right parameter, rank and step are named, and agreement costs 8 bytes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster import Rank
from course_lib.meter import expect, metered
from course_lib.models import SmallCNN
from course_lib.parallel.data import Divergence, DivergenceDetector, find_divergence, fingerprints
from course_lib.parallel.data.replica_divergence import _odd_numbers
from course_lib.parallel.sharded import FullySharded
from course_lib.parallel.tensor import ColumnParallelLinear, RowParallelLinear

DTYPES = (
    torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.int64, torch.int32,
    torch.uint8, torch.bool,
)  # fmt: skip


def print_of(tensor: torch.Tensor) -> int:
    """The fingerprint of a single tensor."""
    module = nn.Module()
    module.register_buffer("tensor", tensor)
    return fingerprints(module)["tensor"]


def with_bit(tensor: torch.Tensor, bit: int) -> torch.Tensor:
    """A copy in which one bit is flipped, counted from the first of the first byte."""
    size_bytes = tensor.nbytes
    raw = bytearray(tensor.clone().flatten().view(torch.uint8).tolist())
    raw[bit // 8 % size_bytes] ^= 1 << bit % 8
    return torch.frombuffer(raw, dtype=tensor.dtype).clone()


# -- fingerprints ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_single_bit_counts(dtype):
    if dtype is torch.bool:
        first = torch.tensor([True, False, True])
        changed = [torch.tensor([True, True, True]), torch.tensor([False, True, True])]
    else:
        first = torch.tensor([1.0, 2.0, 3.0]).to(dtype)
        changed = [with_bit(first, bit) for bit in range(8 * first.nbytes)]
    prints = {print_of(tensor) for tensor in [first, *changed]}
    assert len(prints) == 1 + len(changed), "all differ, from the first and from each other"
    assert print_of(first.clone()) == print_of(first)


def test_what_looks_equal_and_is_not():
    w = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    ulp = w.clone()
    ulp[5, 7] = torch.nextafter(ulp[5, 7], torch.tensor(9.0))
    swapped = w.clone()
    swapped[[3, 4]] = swapped[[4, 3]]
    zeros = torch.zeros(4)
    others = [ulp, swapped, w.T, w.flip(0), w.double(), w.reshape(32, 128), w[:63], -w, torch.zeros(64, 64)]
    others += [
        zeros,
        -zeros,
        torch.zeros(5),
        torch.zeros(4, dtype=torch.int32),
        torch.empty(0),
        torch.tensor(0.0),
    ]
    assert len({print_of(other) for other in [w, *others]}) == len(others) + 1


def test_what_looks_different_and_is_equal():
    w = torch.randn(6, 4)
    not_a_number = torch.tensor([float("nan"), float("inf"), -0.0])
    assert print_of(w.T.contiguous().T) == print_of(w), "the layout in memory does not matter"
    assert print_of(torch.cat([torch.zeros(1), w.flatten()])[1:].reshape(6, 4)) == print_of(w)
    assert print_of(torch.cat([w, w]).bfloat16()[3:9]) == print_of(torch.cat([w[3:], w[:3]]).bfloat16())
    assert print_of(torch.arange(6.0).double()[::2]) == print_of(torch.tensor([0.0, 2.0, 4.0]).double())
    assert print_of(not_a_number) == print_of(not_a_number.clone())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_values_that_change_places_are_found_at_any_distance(dtype):
    """Two values of few set bits, a power of two apart: what a sum of products forgets most easily."""
    ones = torch.ones((1 << 19) + 2, dtype=dtype)  # more than two chunks
    prints = set()
    places = [0, 1, 2, *(1 << k for k in range(2, 20)), (1 << 18) - 1, (1 << 18) + 1, (1 << 19) + 1]
    for place in places:
        x = ones.clone()
        x[place] = 2.0
        prints.add(print_of(x))
    assert len(prints) == len(places)


def test_changes_that_add_up_to_nothing_are_found():
    words = torch.arange(100, dtype=torch.int32)
    for distance in (1, 2, 3, 16, 32):
        changed = words.clone()
        changed[10] += 1
        changed[10 + distance] -= 2
        changed[10 + 2 * distance] += 1
        assert print_of(changed) != print_of(words)


def test_multipliers_are_odd_so_that_no_change_of_one_word_is_lost():
    assert bool((_odd_numbers(torch.device("cpu")) % 2 == 1).all())


def test_parameters_come_first_and_in_model_order():
    model = SmallCNN(width=2)
    names = [name for name, _ in model.named_parameters()]
    buffers = [name for name, _ in model.named_buffers()]
    assert list(fingerprints(model)) == names + buffers
    assert list(fingerprints(model, include_buffers=False)) == names
    assert fingerprints(nn.ReLU()) == {}
    before = fingerprints(model)
    with torch.no_grad():
        model.blocks[0][0].weight[1, 1, 1, 1] += 1
    after = fingerprints(model)
    assert [name for name in before if before[name] != after[name]] == ["blocks.0.0.weight"]


# -- between ranks --------------------------------------------------------------------------------------------


def change(me: Rank, changes: dict[int, list[str]], include_buffers: bool = False) -> Divergence | None:
    """The same model on all ranks, then each rank changes the parameters named for it."""
    torch.manual_seed(0)
    model = SmallCNN(width=2)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    for name in changes.get(me.rank, ()):
        with torch.no_grad():
            tensors[name].view(-1)[0] += 1 + me.rank
    return find_divergence(me, model, include_buffers=include_buffers)


STEM, BLOCK, HEAD, MEAN = "stem.0.weight", "blocks.0.0.weight", "head.2.bias", "stem.1.running_mean"
CASES = [  # who changes what, who is named, and in which words
    ({2: [HEAD, BLOCK]}, (2,), f"rank 2 differs from the others in {BLOCK} (and 1 more)"),
    ({0: [STEM]}, (0,), f"rank 0 differs from the others in {STEM}"),
    ({1: [BLOCK], 3: [HEAD]}, (1, 3), f"rank 1 differs from the others in {BLOCK} (and 1 more)"),
    ({1: [STEM], 2: [STEM]}, (1, 2), f"ranks 1 and 2 differ from the others in {STEM}"),
    ({0: [STEM], 1: [STEM], 2: [STEM]}, (0, 1, 2, 3), f"ranks 0, 1, 2 and 3 differ in {STEM}"),
]


@pytest.mark.parametrize(("changes", "ranks", "sentence"), CASES)
def test_the_parameter_and_the_ranks_are_named(cluster4, changes, ranks, sentence):
    drifts = list(cluster4.call(change, (changes,)))
    assert drifts == [drifts[0]] * 4, "all ranks get the same answer"
    assert drifts[0].ranks == ranks
    assert str(drifts[0]) == sentence
    assert set(drifts[0].parameters) == {name for names in changes.values() for name in names}
    assert drifts[0].parameter == drifts[0].parameters[0]


def test_two_ranks_have_no_majority(cluster2):
    drift = cluster2.call(change, ({1: [HEAD]},))[0]
    assert drift.ranks == (0, 1)
    assert str(drift) == f"ranks 0 and 1 differ in {HEAD}"


def test_halves_are_named_as_such():
    drift = Divergence({STEM: ((0, 2), (1, 3))})
    assert drift.ranks == (0, 1, 2, 3)
    assert str(drift) == f"ranks 0, 1, 2 and 3 differ (0 and 2 against 1 and 3) in {STEM}"


def test_buffers_are_looked_at_when_asked(cluster4):
    assert list(cluster4.call(change, ({2: [MEAN]},))) == [None] * 4
    drift = cluster4.call(change, ({2: [MEAN]}, True))[0]
    assert str(drift) == f"rank 2 differs from the others in buffer {MEAN}"
    drift = cluster4.call(change, ({2: [MEAN], 3: [HEAD]}, True))[0]
    assert (drift.parameter, drift.parameters, drift.buffers) == (HEAD, (HEAD, MEAN), (MEAN,))
    assert str(drift) == f"rank 3 differs from the others in {HEAD} (and 1 more)"


def other_models(me: Rank) -> tuple[Divergence | None, Divergence | None]:
    """Rank 1's model has a layer more; then: a rank's weights are transposed, with the same numbers in all."""
    more = nn.Sequential(*[nn.Linear(2, 2, bias=False) for _ in range(1 + (me.rank == 1))])
    square = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        for parameter in more.parameters():
            parameter.fill_(1)
        square.weight.copy_(torch.arange(9.0).reshape(3, 3))
        if me.rank == 3:
            square.weight.copy_(square.weight.T.clone())
    return find_divergence(me, more), find_divergence(me, square)


def test_other_layers_and_transposed_weights_are_found(cluster4):
    more, transposed = cluster4.call(other_models)[0]
    assert (more.parameters, more.ranks) == (("1.weight",), (1,))
    assert (transposed.parameters, transposed.ranks) == (("weight",), (3,))


def test_agreement_costs_8_bytes_to_each_other_rank(cluster4):
    run = metered(cluster4, change, {})
    assert list(run) == [None] * 4
    assert expect(run.communication, only=["all_gather"], sent_bytes=3 * 8, num_messages=3) == []
    assert metered(cluster4, change, {2: [HEAD]}).communication.sent_bytes(0) > 3 * 8


# -- in time --------------------------------------------------------------------------------------------------


def watch(me: Rank, every: int, drift_at: tuple[int, ...], mended_at: int, last: int) -> list[tuple]:
    """One rank moves a weight at some steps; at another all are made equal again."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    detector = DivergenceDetector(me, model, every)
    seen = []
    for step in range(last + 1):
        with torch.no_grad():
            if step in drift_at and me.rank == 2:
                model.bias[0] += 1
            if step == mended_at:
                dist.broadcast(model.bias.detach(), src=0)
        drift = detector.check(step)
        seen.append(None if drift is None else (drift.step, drift.last_agreed_step, str(drift)))
    return seen


@pytest.mark.parametrize(
    ("every", "drift_at", "mended_at", "when"),
    [
        (10, (13,), 24, {20: (20, 10)}),
        (10, (13, 31), 24, {20: (20, 10), 40: (40, 30)}),
        (10, (13,), 34, {20: (20, 10), 30: (20, 10)}),
        (10, (0,), 15, {0: (0, None), 10: (0, None)}),
        (1, (3,), 5, {3: (3, 2), 4: (3, 2)}),
        (10, (20,), 21, {20: (20, 10)}),
    ],
)
def test_the_detector_knows_when(cluster4, every, drift_at, mended_at, when):
    words = {
        None: "at step 0, the first that was checked",
        2: "since step 3",
        10: "at step 20; at step 10 all agreed",
        30: "at step 40; at step 30 all agreed",
    }
    for seen in cluster4.call(watch, (every, drift_at, mended_at, 40)):
        expected = {
            step: (found, agreed, f"rank 2 differs from the others in bias {words[agreed]}")
            for step, (found, agreed) in when.items()
        }
        assert {step: drift for step, drift in enumerate(seen) if drift} == expected


def test_steps_between_send_nothing(cluster4):
    calls = metered(cluster4, watch, 10, (), 99, 40).communication.of(0).calls
    assert len(calls) == 5


def forgotten(me: Rank, reduces: bool) -> list[str]:
    """Training with a sampler and without an all-reduce of gradients: what a wrong notebook does."""
    torch.manual_seed(0)
    model = SmallCNN(width=2)
    optimizer = torch.optim.AdamW(model.parameters())
    detector = DivergenceDetector(me, model, include_buffers=False)
    torch.manual_seed(1 + me.rank)  # data of its own
    found = []
    for step in range(3):
        model(torch.randn(4, 1, 8, 8)).square().mean().backward()
        if reduces:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        if drift := detector.check(step):
            found.append(str(drift))
        optimizer.step()
        optimizer.zero_grad()
    return found


def test_a_forgotten_all_reduce_is_found_after_one_step(cluster2):
    found = cluster2.call(forgotten, (False,))[0]
    assert len(found) == 2, "not before the first step of the optimizer"
    assert all(one.startswith("ranks 0 and 1 differ in stem.0.weight (and ") for one in found)
    assert all(one.endswith(" more) since step 1") for one in found)
    assert list(cluster2.call(forgotten, (True,))) == [[], []], "BatchNorm's buffers differ, and may"


def test_bad_input_gets_a_sentence():
    me = Rank(0, 1, torch.device("cpu"), "gloo")
    with pytest.raises(ValueError, match=r"every=0 does not work.*nearest that works is 1"):
        DivergenceDetector(me, nn.Linear(1, 1), every=0)
    with pytest.raises(ValueError, match=r"step=1.5 does not work: step is a whole number"):
        DivergenceDetector(me, nn.Linear(1, 1)).check(1.5)
    with pytest.raises(ValueError, match=r"a rank, then a model; module is a Rank"):
        DivergenceDetector(nn.Linear(1, 1), me)


# -- groups, and parts -----------------------------------------------------------------------------------------------


def changed_in_groups(me: Rank, odd: int) -> tuple[Divergence | None, Divergence | None]:
    """Rows and columns of a square of ranks; one rank has changed a weight."""
    pairs = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3])]
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    if me.rank == odd:
        nn.init.zeros_(model.bias)
    return find_divergence(me, model, group=pairs[me.rank // 2]), find_divergence(
        me, model, group=pairs[2 + me.rank % 2]
    )


def test_a_group_is_asked_alone_and_its_ranks_are_named(cluster4):
    by_row, by_column = zip(*cluster4.call(changed_in_groups, (3,)), strict=True)
    assert by_row[:2] == (None, None)
    assert [str(one) for one in by_row[2:]] == ["ranks 2 and 3 differ in bias"] * 2
    assert [one and one.ranks for one in by_column] == [None, (1, 3), None, (1, 3)]


def test_a_group_costs_as_many_bytes_as_it_has_ranks(cluster4):
    run = metered(cluster4, changed_in_groups, -1)
    assert expect(run.communication, only=["all_gather"], sent_bytes=2 * 8, num_messages=2) == []


def watched_in_a_group(me: Rank) -> list[str]:
    """A tensor-parallel model on each half of the ranks; rank 3 loses its copy of a bias between two steps."""
    group = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][me.rank // 2]
    torch.manual_seed(0)
    model = nn.Sequential(
        ColumnParallelLinear(me, nn.Linear(4, 4), group=group), RowParallelLinear(me, nn.Linear(4, 4), group=group)
    )
    detector, found = DivergenceDetector(me, model, group=group), []
    for step in range(3):
        if (step, me.rank) == (2, 3):
            nn.init.zeros_(model[1].bias)
        found.append(str(detector.check(step)))
    return found


def test_of_a_model_in_slices_the_copies_are_compared(cluster4):
    found = list(cluster4.call(watched_in_a_group))
    assert found[:2] == [["None"] * 3] * 2
    assert found[2:] == [["None", "None", "ranks 2 and 3 differ in 1.bias since step 2"]] * 2


def of_parts_alone(me: Rank) -> str:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="hold different parts") as caught:
        find_divergence(me, FullySharded(me, nn.Linear(4, 4)))
    return str(caught.value)


def test_a_model_of_parts_alone_has_nothing_to_compare(cluster2):
    for said in cluster2.call(of_parts_alone):
        assert said.startswith(
            "ranks 0 and 1 hold different parts of module.weight and of this model's other parameters"
        )
        assert "Give the group of ranks that hold the same parts" in said
