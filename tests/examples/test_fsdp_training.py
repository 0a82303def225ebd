"""The steps of the sharded program to take home, on warm ranks, held against one process that shards nothing."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fsdp_runs import whole
from torch import Tensor
from torch.distributed.tensor import DTensor

from course_lib.examples.train_fsdp.settings import learning_rate, parse_arguments
from course_lib.examples.train_fsdp.shards import fill
from course_lib.examples.train_fsdp.train import Training, prepare, train_step, train_steps
from course_lib.examples.train_fsdp.transformer import Transformer
from course_lib.meter import metered

pytest_plugins = ("fsdp_fixtures",)
pytestmark = [
    pytest.mark.xdist_group("example_train_fsdp"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NO_SIGNAL = SimpleNamespace(number=0)


def prepared(me, words: str, dtype: torch.dtype = torch.float32) -> Training:
    torch.set_default_dtype(dtype)
    try:
        return prepare(me, parse_arguments(words.split()))
    finally:
        torch.set_default_dtype(torch.float32)


def weights_after(me, words: str, num_steps: int) -> dict[str, Tensor]:
    training = prepared(me, words, torch.float64)
    args = training.args
    for step in range(num_steps):
        for group in training.optimizer.param_groups:
            group["lr"] = learning_rate(args, step)
        train_step(training, next(training.batches))
    return whole(training.model)


def one_process(words: str, num_steps: int) -> dict[str, Tensor]:
    """The same steps by a model in one piece, on whole batches, written down once more."""
    args = parse_arguments(words.split())
    model = Transformer(args.layers, args.width, args.heads, args.context).double()
    fill(model, args.seed)
    decayed = [p for name, p in model.named_parameters() if "norm" not in name]
    norms = [p for name, p in model.named_parameters() if "norm" in name]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95))
    row = torch.frombuffer(bytearray(Path(args.data).read_bytes()), dtype=torch.uint8).long()
    order = torch.randperm((len(row) - 1) // 8, generator=torch.Generator().manual_seed(args.seed * 1_000_003))
    for step in range(num_steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args, step)
        windows = torch.stack([row[i * 8 : i * 8 + 9] for i in order[step * 8 : step * 8 + 8].tolist()])
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        squares = sum(p.grad.square().sum() for p in model.parameters())
        scale = min(1.0, args.clip_norm / (math.sqrt(squares) + 1e-6))
        for p in model.parameters():
            p.grad *= scale
        optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}


def assert_same(weights: dict[str, Tensor], expected: dict[str, Tensor], atol: float) -> None:
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, rtol=0.0, atol=atol, msg=name)


# -- equal to one process -----------------------------------------------------------------------------------------


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("more", ["", "--clip-norm 0.05", "--accumulate 2 --recompute --clip-norm 0.05 --seed 3"])
def test_three_steps_on_two_ranks_equal_one_process(cluster2, words, more):
    expected = one_process(f"{words} {more}", 3)
    for weights in cluster2.run(weights_after, f"{words} {more}", 3):
        assert_same(weights, expected, atol=1e-12)


def test_three_steps_on_four_ranks_of_which_one_has_no_part_of_a_norm(cluster4, words):
    expected = one_process(f"{words} --clip-norm 0.05", 3)
    for weights in cluster4.run(weights_after, f"{words} --clip-norm 0.05", 3):
        assert_same(weights, expected, atol=1e-12)


def test_a_clipped_step_is_another_than_one_that_is_not(words):
    """Or the two tests above would prove nothing about clipping."""
    plain, clipped = one_process(words, 3), one_process(f"{words} --clip-norm 0.05", 3)
    assert any((plain[name] - clipped[name]).abs().max() > 1e-6 for name in plain)


def test_the_norm_that_is_told_is_that_of_the_whole_gradient(cluster2, clusters, words):
    def norm(me, words):
        training = prepared(me, words, torch.float64)
        return train_step(training, next(training.batches))[1].item()

    (alone,) = clusters(1).run(norm, words)
    assert list(cluster2.run(norm, words)) == pytest.approx([alone] * 2, rel=1e-12)


def test_gradients_travel_once_a_step_however_many_micro_batches(cluster2, words):
    def bytes_of(accumulate):
        run = metered(cluster2, weights_after, f"{words} --accumulate {accumulate}", 1)
        return {name: count for name, count in run.communication.by_operation().items() if "reduce_scatter" in name}

    once, twice = bytes_of(1), bytes_of(2)
    assert once
    assert once == twice


# -- types and memory ---------------------------------------------------------------------------------------------


def test_bfloat16_travels_and_computes_and_float32_is_kept(cluster2, words):
    def types(me):
        training = prepared(me, f"{words} --bf16 --accumulate 2")
        seen = set()
        for block in training.model.blocks:
            block.mlp_in.register_forward_hook(lambda part, _, out: seen.add((part.weight.dtype, out.dtype)))
        logits = []
        training.model.register_forward_hook(lambda *call: logits.append(call[-1].dtype))
        gradients = []
        step = training.optimizer.step

        def note():
            gradients.extend(p.grad.dtype for p in training.model.parameters())
            step()

        training.optimizer.step = note
        train_step(training, next(training.batches))
        kept = {p.dtype for p in training.model.parameters()}
        moments = {s["exp_avg"].dtype for s in training.optimizer.state.values()}
        return seen, set(logits), set(gradients), kept, moments

    wide = {torch.float32}
    for seen, *others in cluster2.run(types):
        assert seen == {(torch.bfloat16, torch.bfloat16)}
        assert others == [wide] * 4


def test_bfloat16_halves_what_is_gathered_and_not_what_is_added_up(cluster2, words):
    def one_step(me, words):
        training = prepared(me, words)
        train_step(training, next(training.batches))

    sizes = []
    for more in ("", "--bf16"):
        calls = metered(cluster2, one_step, f"{words} {more}").communication.calls
        for operation in ("all_gather", "reduce_scatter"):
            of_floats = [c for c in calls if c.operation == operation and c.size_bytes > 100]
            sizes.append((sum(c.size_bytes for c in of_floats), {c.dtype for c in of_floats}))
    assert sizes[0][0] == 2 * sizes[2][0] > 0
    assert sizes[1] == sizes[3]
    assert [types for _, types in sizes] == [{"float32"}, {"float32"}, {"bfloat16"}, {"float32"}]


def test_parameters_are_cut_and_gathered_block_by_block(cluster2, words):
    def during(me):
        training = prepared(me, words)
        first, last = training.model.blocks
        seen = []

        def note(*_):
            seen.append([isinstance(block.qkv.weight, DTensor) for block in (first, last)])

        first.attention_norm.register_forward_hook(note)
        last.attention_norm.register_forward_hook(note)
        train_step(training, next(training.batches))
        return seen[:2]

    assert list(cluster2.run(during)) == [[[False, True], [True, False]]] * 2


# -- what a run says ----------------------------------------------------------------------------------------------


def test_rank_0_tells_the_mean_of_all_ranks_and_a_loss_that_is_no_number_ends_the_run(cluster2, clusters, words):
    def steps(me, words, spoil):
        training = prepared(me, words)
        if spoil and me.rank == 1:
            training.model.norm.weight.detach().to_local().fill_(math.nan)
        try:
            return train_steps(me, training, NO_SIGNAL, 0)
        except FloatingPointError as error:
            return str(error)

    two = cluster2.run(steps, f"{words} --log-every 2", False)
    one = clusters(1).run(steps, f"{words} --log-every 2", False)
    assert list(two) == [0, 0]
    assert not two.text[1]
    lines = [line.partition("  lr")[0] for line in two.text[0].splitlines()]
    assert [line.split()[:2] for line in lines] == [["step", f"{n}/6"] for n in (2, 4, 6)]
    assert lines == [line.partition("  lr")[0] for line in one.text[0].splitlines()]
    assert "tokens/s" in two.text[0]
    for answer in cluster2.run(steps, f"{words} --log-every 2", True):
        assert answer == ("step 2/6: the loss is nan, the gradient's norm nan. Try a smaller --lr or --clip-norm.")
