"""What a sharded optimizer cannot make right gets a sentence; and what it has done to a model ends with it."""

from __future__ import annotations

import copy
import gc
import pickle
import re

import pytest
import torch
from ddp_cases import message_of
from sharded_cases import backward
from sharded_cases import optimizer_step as step
from sharded_cases import with_a_frozen_bias as make
from torch import nn

from course_lib.cluster import Rank
from course_lib.parallel.sharded import ShardedOptimizer

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

# -- sentences -----------------------------------------------------------------------------------------------------

ALONE = Rank(0, 1, torch.device("cpu"), "gloo")


def clips_by_torch(model, opt, x):
    backward(model, x)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    opt.step()


def clips_by_torch_strictly(model, opt, x):
    backward(model, x)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=True, foreach=False)
    opt.step()


def steps_by_torch(model, opt, x):
    backward(model, x)
    torch.optim.AdamW(model.parameters(), lr=0.1).step()


def clips_values_by_torch(model, opt, x):
    backward(model, x)
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    opt.step()


def goes_on_after_a_clip(model, opt, x):
    backward(model, x)
    opt.clip_grad_norm(0.1)
    backward(model, x)
    opt.step()


def goes_on_with_a_part_after_a_clip(model, opt, x):
    backward(model, x)
    opt.clip_grad_norm(0.1)
    model[5].weight.grad = torch.ones(3, 4, dtype=torch.float64)
    opt.step()


def zeroes_in_place(model, opt, x):
    backward(model, x)
    opt.clip_grad_norm(0.1)
    model.zero_grad(set_to_none=False)
    backward(model, x)


def scales_by_a_scaler(model, opt, x):
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(x).square().mean()).backward()
    scaler.step(opt)


def unfreezes(model, opt, x):
    model[3].bias.requires_grad_(True)
    step(model, opt, x)


def converts(model, opt, x):
    step(model, opt, x)
    model.float()
    step(model, opt, x.float())


def has_no_gradient(model, opt, x):
    opt.step()


def copies(model, opt, x):
    copy.deepcopy(opt)


def pickles(model, opt, x):
    pickle.dumps(opt)


CUT = r"got a stand-in for a gradient.*To clip.* optimizer\.clip_grad_norm\(max_norm\)"
SENTENCES = [  # what is done, and what is said at stage 1, and 2
    (clips_by_torch, r"was changed between backward and step.*optimizer\.clip_grad_norm", CUT),
    (clips_by_torch_strictly, r"was changed between backward and step.*optimizer\.clip_grad_norm", CUT),
    (clips_values_by_torch, "was changed between backward and step", CUT),
    (steps_by_torch, None, CUT),
    (goes_on_after_a_clip, r"was changed after its mean .* after the last backward", None),
    (
        goes_on_with_a_part_after_a_clip,
        "4 of 5 parameters have the mean gradient",
        "4 of 5 parameters have the mean",
    ),
    (zeroes_in_place, None, r"got a stand-in for a gradient.*optimizer\.zero_grad\(\)"),
    (scales_by_a_scaler, "a GradScaler looks for .* bfloat16", "a GradScaler looks for .* bfloat16"),
    (unfreezes, r"shape \(4,\) requires a gradient now", r"shape \(4,\) requires a gradient now"),
    (
        converts,
        "was torch.float64 of .* and is torch.float32",
        "was torch.float64 of .* and is torch.float32",
    ),
    (has_no_gradient, "no parameter has a gradient on this rank", "no parameter has a gradient on this rank"),
    (copies, "cannot be copied or pickled.*load_full_state_dict", "cannot be copied or pickled"),
    (pickles, "cannot be copied or pickled", "cannot be copied or pickled"),
]


@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize(("way", "first", "second"), SENTENCES, ids=[way.__name__ for way, *_ in SENTENCES])
def test_what_cannot_be_right_gets_a_sentence(clusters, way, first, second, stage):
    def run(me):
        model = make()
        opt = ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, stage=stage, lr=0.05)
        x = torch.full((2, 3, 3, 3), 1.0 + me.rank, dtype=torch.float64)
        try:
            return message_of(lambda: way(model, opt, x))
        except TypeError as error:
            return str(error)

    sentence = second if stage == 2 else first
    for message in clusters(2).call(run, show=False):
        assert re.search(sentence or "nothing was raised", message), message


@pytest.mark.parametrize("kind", [torch.optim.Muon, torch.optim.LBFGS])
def test_a_class_of_ones_own_above_one_that_needs_more_is_refused(kind):
    with pytest.raises(ValueError, match="Mine needs"):
        ShardedOptimizer(ALONE, make().parameters(), type("Mine", (kind,), {}))


# -- more than one optimizer, and none -------------------------------------------------------------------------------


def test_hooks_end_with_their_optimizer(clusters):
    def run(me):
        model, x = make(), torch.ones(2, 3, 3, 3, dtype=torch.float64)
        opt = ShardedOptimizer(me, model.parameters(), torch.optim.SGD, stage=2, lr=0.1)
        step(model, opt, x)
        del opt
        gc.collect()
        before = model[0].weight.detach().clone()
        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        step(model, plain, x)
        return torch.equal(model[0].weight, before)

    assert list(clusters(2).call(run, show=False)) == [False, False]


def test_two_optimizers_that_share_gradients_of_one_model_are_told(clusters):
    def run(me):
        model, x = make(), torch.ones(2, 3, 3, 3, dtype=torch.float64)
        opts = [ShardedOptimizer(me, model.parameters(), torch.optim.SGD, stage=2, lr=0.1) for _ in range(2)]
        return message_of(lambda: step(model, opts[1], x))

    for message in clusters(2).call(run, show=False):
        assert "two ShardedOptimizers" in message


def test_weights_that_were_loaded_come_into_the_master_copy(clusters):
    def run(me, load):
        torch.manual_seed(0)
        model = nn.Linear(4, 3).bfloat16()
        options = {"master_dtype": torch.float32, "lr": 1e-4}
        opt = ShardedOptimizer(me, model.parameters(), torch.optim.SGD, **options)
        x = torch.ones(2, 4, dtype=torch.bfloat16)
        if load:  # 30 small steps, which the master copy keeps and the weights do not show
            for _ in range(30):
                step(model, opt, x)
            with torch.no_grad():
                model.weight[0] = 5.0
        return opt.inner.param_groups[0]["params"][0].tolist() if not load else after(model, opt, x)

    def after(model, opt, x):
        masters = [shard.detach().clone() for shard in opt.inner.param_groups[0]["params"]]
        step(model, opt, x)
        return [(a - b).abs().max().item() for a, b in zip(masters, opt.inner.param_groups[0]["params"], strict=True)]

    moved = list(clusters(2).call(run, (True,), show=False))
    assert moved[0][0] > 1  # row 0 lies on rank 0
    assert 0 < moved[1][0] < 0.01  # the others go on from what their master copies had
