"""ZeRO-1 and ZeRO-2: any element-wise optimizer with a share of its states computes what the plain one does."""

from __future__ import annotations

from functools import lru_cache

import pytest
import sharded_cases
import torch
from ddp_cases import message_of
from sharded_cases import odd, transformer
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

from course_lib.cluster import Rank
from course_lib.parallel.sharded import ShardedOptimizer

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NUM_STEPS = 5


@lru_cache
def expected(make, num_ranks: int, optimizer=torch.optim.AdamW):
    return sharded_cases.alone(make, num_ranks, NUM_STEPS, optimizer)


def assert_equal(run, one) -> None:
    for result in run:
        for name, tensor in one["state"].items():
            torch.testing.assert_close(result["state"][name], tensor, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("make", [odd, transformer])
def test_it_equals_one_device(clusters, make, stage, num_ranks):
    run = clusters(num_ranks).call(sharded_cases.stage_1_or_2, (make, NUM_STEPS, stage), show=False)
    assert_equal(run, expected(make, num_ranks))


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.SGD,
        torch.optim.Adam,
        torch.optim.RMSprop,
        torch.optim.Adagrad,
        torch.optim.NAdam,
        torch.optim.Adamax,
    ],
)
def test_any_element_wise_optimizer(clusters, optimizer, stage):
    run = clusters(3).call(sharded_cases.stage_1_or_2, (odd, NUM_STEPS, stage, optimizer), show=False)
    assert_equal(run, expected(odd, 3, optimizer))


def test_a_bucket_for_each_parameter(clusters):
    def run(me):
        return sharded_cases.stage_1_or_2(me, odd, NUM_STEPS, 2, bucket_size_bytes=1)

    assert_equal(clusters(2).call(run, show=False), expected(odd, 2))


def beside_torchs_own(me: Rank):
    models = [transformer(), transformer()]
    ours = ShardedOptimizer(me, models[0].parameters(), torch.optim.AdamW, lr=0.01)
    theirs = ZeroRedundancyOptimizer(models[1].parameters(), torch.optim.AdamW, lr=0.01)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.token_batch(me.world_size))
    for _ in range(3):
        for model, opt in zip(models, (ours, theirs), strict=True):
            opt.zero_grad()
            sharded_cases.loss_of(model, x, y).backward()
            if opt is theirs:  # it leaves the averaging to DDP
                for p in model.parameters():
                    torch.distributed.all_reduce(p.grad)
                    p.grad /= me.world_size
            opt.step()
    return [model.state_dict() for model in models]


def test_it_computes_what_zero_redundancy_optimizer_computes(clusters):
    for ours, theirs in clusters(2).call(beside_torchs_own, show=False):
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, rtol=1e-9, atol=1e-11, msg=name)


# -- groups, schedulers, accumulation, clipping -------------------------------------------------------------------


def train_with_groups(me: Rank | None, num_ranks: int, stage: int = 1):
    model = odd()
    groups = [
        {"params": list(model.first.parameters()), "lr": 0.05},
        {"params": [*model.blocks.parameters(), model.scale, *model.last.parameters()], "weight_decay": 0.5},
    ]
    opt = (
        ShardedOptimizer(me, groups, torch.optim.AdamW, stage=stage, lr=0.01)
        if me
        else torch.optim.AdamW(groups, lr=0.01)
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
    x, y = sharded_cases.odd_batch(num_ranks)
    if me:
        x, y = sharded_cases.own(me, x), sharded_cases.own(me, y)
    norms = []
    for _ in range(4):
        opt.zero_grad()
        for xs, ys in zip(x.chunk(2), y.chunk(2), strict=True):
            (sharded_cases.loss_of(model, xs, ys) / 2).backward()
        if me:
            norms.append(opt.clip_grad_norm(0.1).item())
        else:
            norms.append(nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 0.1).item())
        opt.step()
        scheduler.step()
    return model.state_dict(), norms


@pytest.mark.parametrize("stage", [1, 2])
def test_groups_a_scheduler_accumulation_and_clipping(clusters, stage):
    state, norms = train_with_groups(None, 3)
    for own_state, own_norms in clusters(3).call(train_with_groups, (3, stage), show=False):
        assert own_norms == pytest.approx(norms, rel=1e-9)
        assert min(norms) > 0.1
        for name, tensor in state.items():
            torch.testing.assert_close(own_state[name], tensor, rtol=1e-9, atol=1e-11, msg=name)


# -- what is kept -------------------------------------------------------------------------------------------------


def test_states_are_shared_and_gradients_too_at_stage_2(clusters):
    def kept(me, stage):
        model = transformer()
        opt = ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, stage=stage, lr=0.01)
        x, y = (sharded_cases.own(me, t) for t in sharded_cases.token_batch(me.world_size))
        sharded_cases.loss_of(model, x, y).backward()
        storages = {p.grad.untyped_storage().data_ptr(): p.grad.untyped_storage() for p in model.parameters()}
        whole = sum(storage.nbytes() for storage in storages.values()) // 8
        opt.step()
        states = sum(s["exp_avg"].numel() for s in opt.inner.state.values())
        return whole, states, sum(p.numel() for p in model.parameters())

    for stage in (1, 2):
        results = list(clusters(3).call(kept, (stage,), show=False))
        total = results[0][2]
        assert sum(states for _, states, _ in results) == total  # every number has its states once
        assert [whole for whole, _, _ in results] == [total if stage == 1 else 1] * 3  # at stage 2 a stand-in


def test_a_master_copy_in_float32(clusters):
    def run(me):
        model = transformer().bfloat16()
        opt = ShardedOptimizer(
            me, model.parameters(), torch.optim.SGD, master_dtype=torch.float32, lr=1e-4, momentum=0.0
        )
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        for _ in range(200):
            opt.step()
        return {p.dtype for p in model.parameters()}, [
            (b - p).float() for b, p in zip(before, model.parameters(), strict=True)
        ]

    for dtypes, moved in clusters(2).call(run, show=False):
        assert dtypes == {torch.bfloat16}
        for change in moved:  # 200 steps of 1e-4, each too small for bfloat16 weights of about 1 alone
            torch.testing.assert_close(change, torch.full_like(change, 0.02), rtol=0.3, atol=0.005)


def test_the_full_state_fits_the_plain_optimizer_and_any_number_of_ranks(clusters):
    one = expected(transformer, 3)
    run = clusters(3).call(sharded_cases.stage_1_or_2, (transformer, NUM_STEPS, 1), show=False)
    for result in run:
        assert result["optimizer"]["state"].keys() == one["optimizer"]["state"].keys()
        for number, state in one["optimizer"]["state"].items():
            for name, value in state.items():
                torch.testing.assert_close(result["optimizer"]["state"][number][name], value, rtol=1e-9, atol=1e-12)
        model = transformer()
        torch.optim.AdamW(model.parameters(), lr=0.01).load_state_dict(result["optimizer"])

    def go_on(me, state, optimizer_state):
        model = transformer()
        model.load_state_dict(state)
        opt = ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, lr=0.01)
        opt.load_full_state_dict(optimizer_state)
        x, y = (t[me.rank :: me.world_size] for t in sharded_cases.token_batch(4))
        for _ in range(2):
            opt.zero_grad()
            sharded_cases.loss_of(model, x, y).backward()
            opt.step()
        share = opt.state_dict()
        opt.load_state_dict(share)
        return model.state_dict()

    plain = [clusters(n).call(go_on, (run[0]["state"], run[0]["optimizer"]), show=False)[0] for n in (1, 2, 4)]
    for state in plain[1:]:
        for name, tensor in plain[0].items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-9, atol=1e-11, msg=name)


# -- sentences ----------------------------------------------------------------------------------------------------

ALONE = Rank(0, 1, torch.device("cpu"), "gloo")


@pytest.mark.parametrize(
    ("optimizer", "options", "sentence"),
    [
        (torch.optim.Muon, {}, "Muon needs whole matrices: on a rank's rows alone .* WholeMatrixOptimizer"),
        (torch.optim.Adafactor, {}, "Adafactor needs whole matrices"),
        (torch.optim.LBFGS, {}, "LBFGS needs all gradients at once.*AdamW"),
        (torch.optim.AdamW, {"stage": 3}, "stage=3 is not known.*3 is FullySharded"),
        (nn.Linear, {}, "Linear is no optimizer class"),
        (torch.optim.SGD, {"bucket_size_bytes": 0}, "bucket_size_bytes=0"),
    ],
)
def test_what_cannot_be_shared(optimizer, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        ShardedOptimizer(ALONE, odd().parameters(), optimizer, **options)


def test_nothing_to_train():
    with pytest.raises(ValueError, match="there is nothing to train"):
        ShardedOptimizer(ALONE, odd().requires_grad_(False).parameters(), torch.optim.SGD)


@pytest.mark.parametrize("stage", [1, 2])
def test_a_parameter_without_gradient_is_told_and_nobody_hangs(clusters, stage):
    def miss(me, stage):
        model = odd(unused=True)
        opt = ShardedOptimizer(me, model.parameters(), torch.optim.SGD, stage=stage, lr=0.1)
        x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))

        def train():
            sharded_cases.loss_of(model, x, y).backward()
            opt.step()

        return message_of(train)

    for message in clusters(2).call(miss, (stage,), show=False):
        assert "Use every parameter" in message
        assert "(11, 3)" in message


def test_a_share_of_another_number_of_ranks(clusters):
    def share(me):
        model = transformer()
        opt = ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, lr=0.1)
        sharded_cases.loss_of(model, *sharded_cases.token_batch(1)).backward()
        opt.step()
        return opt.state_dict()

    own = clusters(3).call(share, show=False)[0]
    opt = ShardedOptimizer(ALONE, transformer().parameters(), torch.optim.AdamW, lr=0.1)
    with pytest.raises(
        ValueError, match=r"has shape \(4, 12\), and this rank, 0 of 1, keeps \(11, 12\).*full_state_dict"
    ):
        opt.load_state_dict(own)
