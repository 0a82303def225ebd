"""What experts cost: bytes by the meter, memory by the ledger, the slowest expert; each exactly the formula's."""

from __future__ import annotations

import pytest
import torch
from expert_cases import HIDDEN, WIDTH, layer_of, tokens_of

from course_lib.cost import (
    Network,
    activation_bytes,
    expert_activations,
    expert_gradients_sent_bytes,
    expert_layer_time,
    expert_parameters,
    expert_sent_bytes,
    experts_of_ranks,
    rows_between_ranks,
)
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.meter import MemoryLedger, metered
from course_lib.parallel.experts import ExpertParallel, average_gradients, run_experts
from course_lib.parallel.mesh import MeshGroups

pytestmark = [
    pytest.mark.xdist_group("experts"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

TOKENS = (6, 3, 0, 5)


def step(me, num_experts, options, mode):
    layer = ExpertParallel(me, layer_of(num_experts=num_experts, **options))
    x = tokens_of(TOKENS[me.rank], seed=me.rank)
    if mode == "forward":
        with torch.no_grad():
            layer(x)
    else:
        layer(x.requires_grad_(mode == "training")).sum().backward()
    return layer.routing.loads.tolist()


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("num_ranks", "num_experts", "options", "mode"),
    [
        (1, 3, {}, "training"),
        (2, 5, {}, "training"),
        (3, 4, {"top_k": 1}, "training"),
        (4, 6, {"top_k": 3, "capacity_factor": 0.8}, "training"),
        (2, 5, {}, "forward"),
        (2, 3, {}, "input without gradient"),
    ],
)
def test_the_meter_counts_the_formulas_bytes(clusters, num_ranks, num_experts, options, mode):
    run = metered(clusters(num_ranks), step, num_experts, options, mode)
    counts = list(run)
    wanted = expert_sent_bytes(
        counts,
        width=WIDTH,
        itemsize=8,
        is_training=mode != "forward",
        input_grad=mode == "training",
    )
    assert tuple(map(run.communication.sent_bytes, range(num_ranks))) == wanted
    assert set(run.communication.by_operation()) <= {"all_to_all"}
    if num_ranks > 1:
        num_calls = {"forward": 3, "training": 5, "input without gradient": 4}[mode]
        assert run.communication.by_operation() == {"all_to_all": num_calls * num_ranks}
        rows, held = rows_between_ranks(counts), experts_of_ranks(num_experts, num_ranks)
        num_out, num_back = {"forward": (1, 1), "training": (2, 2), "input without gradient": (2, 1)}[mode]
        for i, row in enumerate(run.communication.matrix()):
            for j, sent in enumerate(row):
                numbers = WIDTH * (num_out * rows[i][j] + num_back * rows[j][i]) + held[j]
                assert sent == (8 * numbers if i != j else 0)


def test_balanced_experts_send_the_share_that_is_not_their_own():
    counts = [[6] * 8 for _ in range(4)]  # 24 tokens with 2 choices each, 8 experts on 4 ranks
    counts_bytes = 8 * 6
    sent = expert_sent_bytes(counts, width=16, itemsize=2)
    assert sent == (4 * 3 * 48 // 4 * 16 * 2 + counts_bytes,) * 4
    assert rows_between_ranks([[1, 2, 3], [4, 5, 6]]) == ((3, 3), (9, 6))


def averaged(me, mesh):
    groups = MeshGroups(me, mesh, together=[("dp_replicate", "ep")])
    layer = ExpertParallel(me, layer_of(num_experts=3), group=groups.group("ep"))
    average_gradients(layer, groups)
    groups.close()
    return layer.router.weight.numel(), sum(p.numel() for p in layer.experts.parameters())


@pytest.mark.parametrize(
    "mesh",
    [Mesh.of(dp_replicate=2, ep=2), Mesh.of(dp_replicate=1, ep=3), Mesh.of(ep=1, dp_replicate=2)],
    ids=str,
)
def test_gradients_of_experts_travel_among_their_replicas_alone(clusters, mesh):
    run = metered(clusters(mesh.num_ranks), averaged, mesh)
    for rank, (shared_numel, own_numel) in enumerate(run):
        wanted = expert_gradients_sent_bytes(
            shared_numel=shared_numel,
            own_numel=own_numel,
            num_replicas=mesh.size("dp_replicate"),
            ranks_of_replica=mesh.size("ep"),
            itemsize=8,
        )
        assert run.communication.sent_bytes(rank) == wanted
        received = {call.group for call in run.communication.of(rank).calls}
        assert received <= {tuple(range(mesh.num_ranks)), mesh.group(rank, "dp_replicate")}


def kept(me, num_experts, options):
    layer = ExpertParallel(me, layer_of(num_experts=num_experts, **options))
    x = tokens_of(TOKENS[me.rank], seed=me.rank).requires_grad_()
    with MemoryLedger(layer, inputs=(x,)) as ledger:
        y = layer(x)
        kept = ledger.mark("after forward").by_label["activation"]
    del y
    return kept, layer.routing.loads.tolist()


@pytest.mark.parametrize(
    ("num_ranks", "num_experts", "options"),
    [
        (1, 3, {}),
        (2, 5, {"normalised": True}),
        (3, 4, {"top_k": 1}),
        (4, 6, {"top_k": 3, "capacity_factor": 0.8}),
    ],
)
def test_the_ledger_agrees_to_the_byte(clusters, num_ranks, num_experts, options):
    answers = clusters(num_ranks).call(kept, (num_experts, options))
    rows = rows_between_ranks([counts for _, counts in answers])
    for rank, (kept_bytes, _) in enumerate(answers):
        saved = expert_activations(
            width=WIDTH,
            hidden=HIDDEN,
            num_experts=num_experts,
            top_k=options.get("top_k", 2),
            num_tokens=TOKENS[rank],
            sent_rows=sum(rows[rank]),
            recv_rows=sum(row[rank] for row in rows),
            normalised="normalised" in options,
            itemsize=8,
        )
        assert kept_bytes == activation_bytes(saved), rank


def sizes(me, num_experts):
    return sum(p.numel() for p in ExpertParallel(me, layer_of(num_experts=num_experts)).parameters())


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_parameters_are_those_of_the_layers(clusters, num_ranks):
    wanted = expert_parameters(width=WIDTH, hidden=HIDDEN, num_experts=5, top_k=2, num_ranks=num_ranks)
    assert tuple(clusters(num_ranks).call(sizes, (5,))) == wanted.by_rank
    assert wanted.total == sum(p.numel() for p in layer_of(num_experts=5).parameters())
    assert wanted.active == sum(p.numel() for p in layer_of(num_experts=2).parameters()) + 3 * WIDTH
    assert experts_of_ranks(5, 3) == (2, 2, 1)


# -- time ----------------------------------------------------------------------------------------------------------

LINK = Link(latency_s=1e-3, bandwidth_bytes_per_s=1e4)


def test_the_busiest_rank_sets_the_time_of_each_part():
    time = expert_layer_time([[4, 0], [4, 0]], width=5, row_s=0.01, network=LINK)
    assert time.count_s == pytest.approx(1e-3 + 8 / 1e4)
    assert time.dispatch_s == time.combine_s == pytest.approx(1e-3 + 4 * 5 * 4 / 1e4)
    assert time.compute_s == pytest.approx(0.08)
    assert time.rows == (8, 0)
    assert time.imbalance == 2.0
    assert time.idle_s == pytest.approx((0.0, 0.08))
    assert time.time_s == pytest.approx(time.count_s + 2 * time.dispatch_s + 0.08)
    even = expert_layer_time([[2, 2], [2, 2]], width=5, row_s=0.01, network=Network.uniform(2, LINK))
    assert even.imbalance == 1.0
    assert even.compute_s == time.compute_s / time.imbalance
    assert even.idle_s == (0.0, 0.0)
    none = expert_layer_time([[0, 0], [0, 0]], width=5, row_s=0.01, network=LINK)
    assert (none.imbalance, none.dispatch_s, none.compute_s, none.idle_s) == (1.0, 0.0, 0.0, (0.0, 0.0))


def test_real_ranks_wait_for_the_busiest_one(cluster2):
    """No clock decides here but in one direction: nobody is done before the busiest rank's experts are."""
    for counts in ([[3, 5], [1, 7]], [[0, 2, 1], [1, 9, 0]]):
        for link in (None, Link(0.004, 1e6)):
            plan = expert_layer_time(counts, width=8, row_s=0.002, network=link or Link())
            taken_s = run_experts(cluster2, counts, row_s=0.002, link=link, steps=1)
            assert all(time_s >= plan.compute_s for time_s in taken_s)
            if link:
                assert max(taken_s) >= plan.compute_s + 2 * link.latency_s


# -- what cannot be ------------------------------------------------------------------------------------------------


TWOS = dict.fromkeys(("width", "hidden", "num_experts", "top_k", "num_tokens", "recv_rows"), 2)


@pytest.mark.parametrize(
    ("function", "changes", "said"),
    [
        (
            experts_of_ranks,
            {"num_experts": 2, "num_ranks": 3},
            "num_experts=2 cannot be shared out among num_ranks=3",
        ),
        (
            expert_parameters,
            {"width": 2, "hidden": 2, "num_experts": 2, "top_k": 3},
            "top_k=3 experts cannot",
        ),
        (rows_between_ranks, {"counts": [[1, 2], [1]]}, r"rows of \[1, 2\] experts"),
        (rows_between_ranks, {"counts": [[1, 2], [1, -2]]}, r"counts\[1\]\[1\]=-2 does not work"),
        (rows_between_ranks, {"counts": []}, "num_ranks=0 does not work"),
        (
            expert_layer_time,
            {"counts": [[1, 2], [1, 2]], "width": 2, "row_s": 1.0, "network": Network.uniform(3, LINK)},
            "counts are of 2 ranks, and the network has 3",
        ),
        (
            expert_activations,
            {**TWOS, "sent_rows": 5},
            "sent_rows=5 are more than the 2 tokens' 2 choices",
        ),
        (
            expert_activations,
            {**TWOS, "sent_rows": 4, "itemsize": 2},
            "itemsize=2 is not that of float32 or float64; the nearest is 4",
        ),
    ],
)
def test_what_cannot_be_is_told(function, changes, said):
    with pytest.raises(ValueError, match=said):
        function(**changes)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([[1, 2]], "counts has 1 rows"),
        ([[1, 2], [1]], r"of \[1, 2\] experts"),
        ([[1, 2], [1, -1]], "tokens for expert 1=-1 does not work"),
        ([[1], [1]], "1 experts cannot be shared out among 2 ranks"),
    ],
)
def test_counts_that_cannot_run_are_told(cluster2, counts, said):
    with pytest.raises(ValueError, match=said):
        run_experts(cluster2, counts, row_s=0.001)
