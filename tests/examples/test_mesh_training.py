"""The steps of the program for any mesh, on warm ranks, held against one process that cuts nothing."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from mesh_runs import WORDS, of_all_stages, one_process, prepared, steps

from course_lib.cluster import Cluster
from course_lib.examples.train_mesh.settings import parse_arguments
from course_lib.examples.train_mesh.train import train, train_step

pytestmark = [
    pytest.mark.xdist_group("example_train_mesh"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module"),
]

expected_of = functools.cache(one_process)


def assert_equal_to_one_process(run, words: str) -> None:
    numbers, weights, _ = expected_of(words, 3)
    together = of_all_stages([weights for _, weights, _ in run])
    assert together.keys() == weights.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(together[name], tensor, rtol=0.0, atol=1e-12, msg=name)
    for of_rank, _, _ in run:
        for (loss, norm), (loss_expected, norm_expected) in zip(of_rank, numbers, strict=True):
            assert loss == pytest.approx(loss_expected, rel=1e-12)
            assert norm == pytest.approx(norm_expected, rel=1e-12)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "mesh",
    [
        "--pp 2 --tp 2",
        "--dp 2 --tp 2 --recompute",
        "--shard 2 --tp 2",
        pytest.param("--pp 2 --shard 2", marks=pytest.mark.long),
        pytest.param("--pp 2 --dp 2 --recompute", marks=pytest.mark.long),
        pytest.param("--dp 2 --shard 2", marks=pytest.mark.long),
        pytest.param("--shard 4", marks=pytest.mark.long),
        pytest.param("--dp 4", marks=pytest.mark.long),
        pytest.param("--tp 2 --pp 2 --accumulate 4", marks=pytest.mark.long),
    ],
)
def test_three_steps_on_four_ranks_equal_one_process(clusters, mesh):
    assert_equal_to_one_process(clusters(4).run(steps, mesh, 3), "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_ranks", "mesh", "model"),
    [
        (3, "--pp 3", "--accumulate 4"),
        (3, "--tp 3", "--heads 3 --width 9 --context 9"),  # 256 values on three ranks: 86, 86 and 84
        (8, "--dp 2 --pp 2 --tp 2", ""),
        (8, "--shard 2 --pp 2 --tp 2", ""),
        (8, "--dp 2 --shard 2 --tp 2", ""),
        (8, "--dp 2 --shard 2 --pp 2", ""),
    ],
)
def test_three_steps_on_other_meshes_equal_one_process(num_ranks, mesh, model):
    with Cluster(num_ranks, backend="gloo") as cluster:
        assert_equal_to_one_process(cluster.run(steps, f"{mesh} {model}", 3), model)


def test_a_clipped_step_is_another_than_one_that_is_not():
    """Or the tests above would prove nothing about clipping."""
    clipped, plain = expected_of("", 3)[1], expected_of("--clip-norm 1000", 3)[1]
    assert any((plain[name] - clipped[name]).abs().max() > 1e-6 for name in plain)


@pytest.mark.long
def test_data_is_dealt_along_dp_and_shard_and_not_along_pp_and_tp(clusters):
    (_, _, whole) = expected_of("", 3)
    for mesh, shares in {
        "--dp 2 --tp 2": (0, 0, 1, 1),  # neighbours by number are neighbours along tp
        "--pp 2 --shard 2": (0, 1, 0, 1),
        "--dp 2 --shard 2": (0, 1, 2, 3),
    }.items():
        seen = [tokens for _, _, tokens in clusters(4).run(steps, mesh, 1)]
        assert all(torch.equal(seen[rank], whole.chunk(max(shares) + 1)[share]) for rank, share in enumerate(shares))


def test_a_rank_holds_its_part_and_no_more(clusters):
    def parts(me):
        model = prepared(me, "--pp 2 --tp 2 --shard 1").model
        return {name: tuple(p.to_local().shape) for name, p in model.named_parameters()}

    first, _, last, _ = clusters(4).run(parts)
    assert first["embedding.weight"] == (128, 6)
    assert first["blocks.1.attention.query.weight"] == first["blocks.0.attention.key.weight"] == (3, 6)
    assert first["blocks.0.mlp.out.weight"] == (6, 12)
    assert first["blocks.0.mlp_norm.weight"] == (6,)
    assert {name.split(".")[1] for name in first if name.startswith("blocks")} == {"0", "1"}
    assert {name.split(".")[1] for name in last if name.startswith("blocks")} == {"2"}
    assert "head.weight" in last
    assert "head.weight" not in first


@pytest.mark.long
def test_bfloat16_crosses_stages_and_float32_is_kept(clusters):
    def types(me, mesh):
        training = prepared(me, f"{mesh} --precision bf16")
        out = []
        training.model.register_forward_hook(lambda *call: out.append(call[-1].dtype))
        loss, norm = train_step(training, next(training.batches))
        moments = {s["exp_avg"].dtype for s in training.optimizer.state.values()}
        return set(out), {p.dtype for p in training.model.parameters()} | moments, loss.item(), norm.item()

    first, *_, last = clusters(4).run(types, "--pp 2 --tp 2")
    ((*_, loss, norm),) = clusters(1).run(types, "")
    assert first[:2] == ({torch.bfloat16}, {torch.float32})
    assert last[:2] == ({torch.float32}, {torch.float32})
    assert first[2] == 0.0
    assert last[2] == pytest.approx(loss, rel=0.01)
    assert first[3] == last[3] == pytest.approx(norm, rel=0.05)  # what crosses arrives as what it was


# -- what a run says ----------------------------------------------------------------------------------------------


def test_rank_0_tells_what_one_process_would_and_a_loss_that_is_no_number_ends_all(clusters):
    def told(me, words):
        return train(me, parse_arguments(f"{WORDS} {words}".split()))

    def spoiled(me, words):
        from mesh_runs import SignalAfter, train_steps

        training = prepared(me, words)
        if training.place.is_last_stage:
            training.model.norm.weight.detach().to_local().fill_(math.nan)
        try:
            train_steps(me, training, SignalAfter(me, 0), 0)
        except FloatingPointError as error:
            return str(error)

    four = clusters(4).run(told, "--pp 2 --tp 2 --log-every 2")
    one = clusters(1).run(told, "--log-every 2")
    assert list(four) == [0] * 4
    assert not any(four.text[rank] for rank in (1, 2, 3) if "step" in four.text[rank])
    lines = [line.partition("  lr")[0] for line in four.text[0].splitlines() if line.startswith("step")]
    assert [line.split()[1] for line in lines] == ["2/4", "4/4"]
    assert lines == [line.partition("  lr")[0] for line in one.text[0].splitlines() if line.startswith("step")]
    assert "mesh --dp 1 --shard 1 --pp 2 --tp 2, cpu" in four.text[0]
    assert "Peak: 4 TFLOP/s on all ranks, by --peak-tflops" in four.text[0]
    assert "% of peak" in four.text[0]
    for answer in clusters(4).run(spoiled, "--pp 2 --tp 2 --log-every 2"):
        assert answer == "step 2/4: the loss is nan, the gradient's norm nan. Try a smaller --lr or --clip-norm."
