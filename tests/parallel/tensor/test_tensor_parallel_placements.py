"""Placements as data, and what is derived from them: every combination of a matmul is run and compared."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch

from course_lib.cluster import Rank, RankFailed
from course_lib.meter import metered
from course_lib.parallel.tensor import (
    MATMUL_RULES,
    Partial,
    Replicate,
    Shard,
    change,
    gradient_placement,
    local_part,
    local_product,
    matmul_plan,
    parse_placement,
    redistribute,
    run_matmul,
)

OF_A_MATRIX = [parse_placement(text) for text in ("R", "S(0)", "S(1)", "P")]
COMBINATIONS = list(itertools.product(OF_A_MATRIX, repeat=3))
N, K, M = 4, 8, 12  # all divide by 4


def plan_of(text: str, **options):
    return matmul_plan(*map(parse_placement, text.split()), **options)


def test_text_reads_back():
    for placement in (*OF_A_MATRIX, Shard(7)):
        assert parse_placement(str(placement)) == placement
    for text in ("S", "s(0)", "S(-1)", "replicate", ""):
        with pytest.raises(ValueError, match=r"is no placement; write R .* The nearest is"):
            parse_placement(text)
    with pytest.raises(ValueError, match=r"X is placed S\(2\); a matrix has dims 0 and 1. The nearest is S\(1\)"):
        matmul_plan(Shard(2), Replicate(), Partial())


@pytest.mark.parametrize(
    ("text", "multiplied", "forward", "backward"),
    [  # X A Y               what each rank multiplies
        ("S(0) R S(0)", "S(0) R", "", "dA: P -> R by all_reduce"),  # data parallel
        ("R S(1) S(1)", "R S(1)", "", "dX: P -> R by all_reduce"),  # column parallel
        ("S(1) S(0) R", "S(1) S(0)", "Y: P -> R by all_reduce", ""),  # row parallel
        ("S(1) S(0) S(0)", "S(1) S(0)", "Y: P -> S(0) by reduce_scatter", "dY: S(0) -> R by all_gather"),
        ("S(0) S(1) S(1)", "R S(1)", "X: S(0) -> R by all_gather", "dX: P -> S(0) by reduce_scatter"),
        ("S(0) S(0) S(0)", "S(0) R", "A: S(0) -> R by all_gather", "dA: P -> S(0) by reduce_scatter"),  # FSDP
        ("R R R", "R R", "", ""),
        ("R S(1) R", "R S(1)", "Y: S(1) -> R by all_gather", "dY: R -> S(1) by split; dX: P -> R by all_reduce"),
        ("S(1) R P", "S(1) S(0)", "A: R -> S(0) by split", "dA: S(0) -> R by all_gather"),
    ],
)
def test_the_known_ways_are_derived(text, multiplied, forward, backward):
    plan = plan_of(text)
    assert f"{plan.x_used} {plan.a_used}" == multiplied
    assert ("; ".join(map(str, plan.forward)), "; ".join(map(str, plan.backward))) == (forward, backward)


def test_columns_then_rows_need_no_word_between_them():
    first, second = plan_of("R S(1) S(1)"), plan_of("S(1) S(0) R")
    assert first.y == second.x
    assert first.collectives() == ((), ("all_reduce",))
    assert second.collectives() == (("all_reduce",), ())


def test_operands_stay_or_the_least_is_sent():
    """A weight cut by columns, a product wanted whole: gather the product, or, for less in all, the weight."""
    assert [str(step) for step in plan_of("R S(1) R").forward] == ["Y: S(1) -> R by all_gather"]
    gathers_weight = plan_of("R S(1) R", operands_stay=False)
    assert [str(step) for step in gathers_weight.forward] == ["A: S(1) -> R by all_gather"]
    for combination in COMBINATIONS:
        stays, least = matmul_plan(*combination), matmul_plan(*combination, operands_stay=False)
        assert sum(stays.sent_bytes((6, 6, 6), 4)) >= sum(least.sent_bytes((6, 6, 6), 4))
        if local_product(*combination[:2]) is not None:
            assert (stays.x_used, stays.a_used) == combination[:2]


def test_rules_speak_for_their_gradients():
    """Each rule's two backward products are products that the rules allow: no plan can get stuck."""
    assert len(MATMUL_RULES) == 6
    assert local_product(Shard(0), Shard(1)) is None
    assert [str(gradient_placement(p)) for p in OF_A_MATRIX] == ["R", "S(0)", "S(1)", "R"]
    assert change(Shard(0), Shard(1)) == "all_to_all"
    assert change(Partial(), Partial()) == "nothing"


def wrong_products(me: Rank, operands_stay: bool) -> list[str]:
    """Plans whose Y, dX or dA, put together, are not those of the unsplit product."""
    generator = torch.Generator().manual_seed(1)  # the same matrices on every rank
    x, a, grad_y = (
        torch.randint(-9, 9, size, generator=generator).double().to(me.device) for size in ((N, K), (K, M), (N, M))
    )
    wanted = {"Y": x @ a, "dX": grad_y @ a.T, "dA": x.T @ grad_y}
    wrong = []
    for x_at, a_at, y_at in COMBINATIONS:
        plan = matmul_plan(x_at, a_at, y_at, operands_stay=operands_stay)
        grad = local_part(me, grad_y, gradient_placement(y_at))
        parts = run_matmul(me, plan, local_part(me, x, x_at), local_part(me, a, a_at), grad)
        places = (y_at, gradient_placement(x_at), gradient_placement(a_at))
        for (name, whole), part, at in zip(wanted.items(), parts, places, strict=True):
            if not isinstance(at, Partial):  # a part of its own, not any summand
                same = part.shape == local_part(me, whole, at).shape and torch.allclose(
                    part, local_part(me, whole, at), rtol=0, atol=1e-10
                )
            else:
                same = torch.allclose(redistribute(me, part, at, Replicate()), whole, rtol=0, atol=1e-10)
            if not same:
                wrong.append(f"{name} of {plan}")
    return wrong


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("operands_stay", [True, False])
def test_every_combination_gives_the_unsplit_product(cluster2, cluster4, operands_stay):
    for cluster in (cluster2, cluster4):
        assert list(cluster.call(wrong_products, (operands_stay,))) == [[]] * cluster.world_size


def one_product(me: Rank, combination: tuple) -> None:
    plan = matmul_plan(*combination)
    whole = {"x": torch.ones(N, K, device=me.device), "a": torch.ones(K, M, device=me.device)}
    grad_y = torch.ones(N, M, device=me.device)
    parts = [local_part(me, whole[name], at) for name, at in zip("xa", combination, strict=False)]
    run_matmul(me, plan, *parts, local_part(me, grad_y, gradient_placement(plan.y)))


def all_products(me: Rank) -> list[int]:
    """Runs every plan; returned is how many calls each made, so that the meter's list can be cut up again."""
    from course_lib.meter.communication.recorder import Recorder

    counts = []
    for combination in COMBINATIONS:
        with Recorder(me.rank) as recorder:
            one_product(me, combination)
        counts.append(len(recorder.calls))
    return counts


def test_the_meter_sees_what_the_plan_says(cluster4):
    run = metered(cluster4, all_products)
    calls = iter(run.communication.of(0).calls)
    sizes = {"X": 4 * N * K, "A": 4 * K * M, "Y": 4 * N * M}
    for combination, count in zip(COMBINATIONS, run.results[0], strict=True):
        plan = matmul_plan(*combination)
        steps = [step for step in (*plan.forward, *plan.backward) if step.is_sent]
        seen = [next(calls) for _ in range(count)]
        assert [call.operation for call in seen] == [step.collective for step in steps], plan
        for step, call in zip(steps, seen, strict=True):
            sent = step.sent_bytes(sizes[step.tensor[-1]], 4)
            if step.collective == "reduce_scatter" and "gloo" in str(cluster4):
                sent *= 2  # gloo's is an all_reduce of which each rank keeps a part
            assert sum(call.sent_bytes.values()) == sent, f"{step} in {plan}"
        if not any(step.collective == "reduce_scatter" for step in steps):
            total = sum(sum(call.sent_bytes.values()) for call in seen)
            assert sum(plan.sent_bytes((N, K, M), 4)) == total


def test_a_size_that_does_not_divide_gets_a_sentence(cluster2):
    sentence = r"(?s)dim 1 of a tensor of shape \(4, 5\) has size 5, .* 2 ranks.*nearest size that works is 6"
    for source, target in ((Replicate(), Shard(1)), (Partial(), Shard(1)), (Shard(0), Shard(1))):
        with pytest.raises(RankFailed, match=sentence):
            cluster2.call(lambda me, s=source, t=target: redistribute(me, torch.ones(4, 5), s, t))


def test_placements_need_no_torch():
    program = "import sys; from course_lib.parallel.tensor import matmul_plan, Shard, Replicate; "
    program += "print(matmul_plan(Replicate(), Shard(1), Shard(1))); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "dX: P -> R by all_reduce" in done.stdout
