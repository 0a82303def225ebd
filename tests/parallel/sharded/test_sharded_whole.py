"""Whole weights for a moment, a start from ``meta``, the clip that ranks agree on, optimizers that need matrices."""

from __future__ import annotations

from functools import partial

import pytest
import sharded_cases
import torch
from ddp_cases import message_of
from sharded_cases import odd, transformer
from torch import nn

from course_lib.meter import MemoryLedger
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded import (
    FullySharded,
    WholeMatrixOptimizer,
    assign_owners,
    clip_gradients,
    clip_shards,
    fill_from_meta,
    unsharded,
)

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


# -- to look at, and to change ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"compute_dtype": torch.bfloat16}])
def test_within_the_model_is_the_plain_one(clusters, options):
    def look(me):
        model = FullySharded(me, transformer(), **options)
        with unsharded(model) as plain:
            within = {name: p.detach().clone() for name, p in plain.named_parameters()}
        return within, {name: tuple(p.shape) for name, p in model.module.named_parameters()}

    expected = dict(transformer().named_parameters())
    for within, after in clusters(3).call(look, show=False):
        assert within.keys() == after.keys() == expected.keys()
        for name, p in expected.items():
            assert torch.equal(within[name], p)  # also where it computes in bfloat16
            assert after[name][0] <= -(-len(p) // 3)


def test_a_change_is_kept_where_that_was_asked_for_and_told_where_not(clusters):
    def change(me):
        model = FullySharded(me, transformer())
        with unsharded(model, writable=True) as plain, torch.no_grad():
            plain.head.norm.weight.mul_(2.0)
        kept = model.full_state_dict("cpu")["head.norm.weight"]

        def forget():
            with unsharded(model) as plain, torch.no_grad():
                plain.head.norm.weight.fill_(7.0)

        message = message_of(forget)
        x, _ = (sharded_cases.own(me, t) for t in sharded_cases.token_batch(me.world_size))
        model(x)  # and it still works
        return kept, message, model.full_state_dict()["head.norm.weight"]

    for kept, message, at_last in clusters(2).call(change, show=False):
        assert torch.equal(kept, torch.full((12,), 2.0, dtype=torch.float64))
        assert "head.norm.weight was changed while it was whole" in message
        assert "unsharded(model, writable=True)" in message
        assert torch.equal(at_last, kept)


def test_a_state_goes_in_and_comes_out_on_any_number_of_ranks(clusters):
    def through(me, state):
        model = FullySharded(me, odd(seed=5))
        model.load_full_state_dict(state)
        return model.full_state_dict()

    state = odd(seed=1).state_dict()
    state["shift"] += 1.0
    for num_ranks in (1, 3, 4):
        for back in clusters(num_ranks).call(through, (state,), show=False):
            assert list(back) == list(state)
            assert all(torch.equal(back[name], tensor) for name, tensor in state.items())


def test_tied_weights_stand_under_both_names(clusters):
    def names(me):
        return FullySharded(me, transformer(tied=True)).full_state_dict()

    for state in clusters(2).call(names, show=False):
        assert list(state) == list(transformer(tied=True).state_dict())


def test_states_that_do_not_fit(clusters):
    def messages(me):
        model, state = FullySharded(me, odd()), odd().state_dict()
        before = model.full_state_dict()
        cut = {**state, "first.weight": state["first.weight"][:2]}
        told = [
            message_of(partial(model.load_full_state_dict, given))
            for given in (
                cut,
                {**state, "more": state["shift"]},
                {k: v for k, v in state.items() if k != "scale"},
            )
        ]
        after = model.full_state_dict()
        return told, all(torch.equal(before[name], after[name]) for name in before)

    for (cut, more, less), unchanged in clusters(2).call(messages, show=False):
        assert "first.weight has shape (2, 5) in the state, and (7, 5) in the model. Give whole tensors" in cut
        assert "the state has unknown more" in more
        assert "the state misses scale" in less
        assert unchanged


# -- from meta ----------------------------------------------------------------------------------------------------


def reset(module: nn.Module) -> None:
    """Fill a module's own parameters and buffers."""
    if isinstance(module, sharded_cases.Odd):
        nn.init.ones_(module.scale)
        module.shift.copy_(torch.arange(7.0))
    else:
        module.reset_parameters()  # type: ignore[operator]


def test_a_start_from_meta_depends_on_no_rank_and_is_nowhere_whole(clusters):
    def start(me):
        peaks = []
        for _ in range(4):  # gloo may hold what it has sent for a moment longer, so the least of some counts
            with torch.device("meta"):
                plain = sharded_cases.Odd().double()
            model = FullySharded(me, plain)
            assert all(p.is_meta for p in model.parameters())
            with MemoryLedger() as ledger:
                fill_from_meta(model, reset, seed=3)
            peaks.append(ledger.peak().total_bytes)
        whole_units = [sum(8 * torch.Size(p.rows.shape).numel() for p in unit.parameters) for unit in model.units]
        most = sum(p.nbytes for p in model.parameters()) + model.module.shift.nbytes + max(whole_units)
        assert min(peaks) <= most  # its rows of all, and one unit whole
        state = model.full_state_dict()
        x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))
        sharded_cases.loss_of(model, x, y).backward()
        return state, torch.rand(()).item()

    alone, _ = clusters(1).call(start, show=False)[0]
    assert torch.equal(alone["shift"], torch.arange(7.0, dtype=torch.float64))
    assert not torch.equal(alone["blocks.0.0.weight"], alone["blocks.2.0.weight"])
    for state, _ in clusters(3).call(start, show=False):
        assert all(torch.equal(state[name], tensor) for name, tensor in alone.items())


# -- clipping -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_norm", [0.01, 1e6])
def test_every_rank_clips_by_the_same_norm_as_one_device(clusters, max_norm):
    def clip(me):
        model = FullySharded(me, odd())
        x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))
        sharded_cases.loss_of(model, x, y).backward()
        norm = clip_gradients(model, max_norm)
        return norm.item(), sharded_cases.whole_gradients(model)

    plain = odd()
    sharded_cases.loss_of(plain, *sharded_cases.odd_batch(3)).backward()
    norm = nn.utils.clip_grad_norm_(plain.parameters(), max_norm).item()
    for own_norm, gradients in clusters(3).call(clip, show=False):
        assert own_norm == pytest.approx(norm, rel=1e-12)
        for name, p in plain.named_parameters():
            if p.grad is not None:
                torch.testing.assert_close(gradients[name], p.grad, rtol=1e-10, atol=1e-14, msg=name)


def test_what_cannot_be_clipped(clusters):
    def messages(me):
        model = FullySharded(me, odd())
        return message_of(lambda: clip_gradients(model, 1.0)), message_of(lambda: clip_gradients(model, -1.0))

    for without, negative in clusters(2).call(messages, show=False):
        assert "there are no gradients to clip: call it between backward() and step()" in without
        assert "max_norm is -1.0" in negative


def test_a_rank_without_gradients_takes_part_in_the_clip(clusters):
    def clip(me):
        row = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        if me.rank != 1:
            row.grad = torch.tensor([3.0, 4.0], dtype=torch.float64)
        norm = clip_shards([row], 1.0, Members.of(me, None))
        return norm, row.grad

    norm = 50.0**0.5
    for rank, (own_norm, gradient) in enumerate(clusters(3).call(clip, show=False)):
        assert own_norm.item() == pytest.approx(norm)
        assert gradient is None if rank == 1 else gradient.tolist() == pytest.approx([3 / norm, 4 / norm])


# -- whole matrices -----------------------------------------------------------------------------------------------

MUON = {"lr": 0.05, "weight_decay": 0.1}


def matrices_of(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.dim() == 2}


def by_muon(me, num_steps, per_shard):
    """Weights after steps of Muon on the matrices: right, or on each rank's rows."""
    model = FullySharded(me, transformer().float())
    if per_shard:
        opt = torch.optim.Muon([p for p in model.parameters() if p.dim() == 2], **MUON)
    else:
        opt = WholeMatrixOptimizer(model, torch.optim.Muon, **MUON)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.token_batch(me.world_size))
    for _ in range(num_steps):
        opt.zero_grad()
        sharded_cases.loss_of(model, x, y).backward()
        opt.step()
    return model.full_state_dict()


def muon_alone(num_ranks, num_steps):
    model = transformer().float()
    opt = torch.optim.Muon(list(matrices_of(model).values()), **MUON)
    for _ in range(num_steps):
        opt.zero_grad()
        sharded_cases.loss_of(model, *sharded_cases.token_batch(num_ranks)).backward()
        opt.step()
    return model


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*Muon.*")
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_muon_on_whole_matrices_is_that_of_one_device_and_on_rows_it_is_not(clusters, num_ranks):
    start, one = transformer().float().state_dict(), muon_alone(num_ranks, 1)
    right = clusters(num_ranks).call(by_muon, (1, False), show=False)[0]
    wrong = clusters(num_ranks).call(by_muon, (1, True), show=False)[0]
    for name, p in matrices_of(one).items():
        true_update = (p.detach() - start[name]).flatten()
        own, by_rows = ((state[name] - start[name]).flatten() for state in (right, wrong))
        assert torch.cosine_similarity(own, true_update, dim=0) > 0.999, name
        assert torch.cosine_similarity(by_rows, true_update, dim=0) < 0.97, name


def test_a_whole_optimizer_is_right_after_many_steps(clusters):
    def run(me):
        model = FullySharded(me, odd())
        names = [p.name for unit in model.units for p in unit.parameters if p.shard.requires_grad]
        opt = WholeMatrixOptimizer(model, torch.optim.AdamW, names=names, lr=0.01)
        x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))
        for _ in range(5):
            opt.zero_grad()
            sharded_cases.loss_of(model, x, y).backward()
            opt.step()
        return model.full_state_dict(), len(opt.owned)

    one = sharded_cases.alone(odd, 3, 5)["state"]
    results = list(clusters(3).call(run, show=False))
    assert sum(owned for _, owned in results) == sum(p.requires_grad for p in odd().parameters())
    assert all(owned for _, owned in results)
    for state, _ in results:
        for name, tensor in one.items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-9, atol=1e-11, msg=name)


def test_matrices_are_dealt_out_by_size():
    assert assign_owners([(4, 4), (2, 2), (3, 4), (1, 5)], 2) == [0, 0, 1, 1]
    assert assign_owners([(2, 2)] * 4, 2) == [0, 1, 0, 1]
    assert assign_owners([(3, 3)], 3) == [0]


def test_names_and_gradients_that_are_missing(clusters):
    def messages(me):
        model = FullySharded(me, odd())
        opt = WholeMatrixOptimizer(model, torch.optim.SGD, names=["first.weight"], lr=0.1)
        return [
            message_of(lambda: WholeMatrixOptimizer(model, torch.optim.SGD, names=["nothing"], lr=0.1)),
            message_of(lambda: WholeMatrixOptimizer(model, torch.optim.SGD, names=["blocks.1.0.weight"], lr=0.1)),
            message_of(opt.step),
        ]

    for unknown, frozen, without in clusters(2).call(messages, show=False):
        assert "the model has no parameter 'nothing' to train; it has " in unknown
        assert "no parameter 'blocks.1.0.weight' to train" in frozen
        assert "first.weight has no gradient: call backward() before step()" in without
