"""Whatever a function has done to its process, the next one is right: each kind of act once, and 300 random bodies."""

from __future__ import annotations

import os
import random

import pytest
from hostile_acts import COSTLY, KEPT, expected, right

from course_lib.cluster import Cluster, RankError

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(240.0),
]

ACTS = {**KEPT, **COSTLY}
NUM_BODIES, NUM_SEEDS = 25, 13


@pytest.fixture(scope="module")
def ranks():
    with Cluster(2, timeout_s=30) as cluster:
        yield cluster


def perform(me, names, who, fails):
    """Do the acts of these names on some ranks; the text of the call is to be seen, whatever they do."""
    import hostile_acts

    acts = {**hostile_acts.KEPT, **hostile_acts.COSTLY}
    if me.rank in who:
        for name in names:
            acts[name]()
    if fails and me.rank in who:
        raise ValueError("as planned")


def pids(cluster) -> list[int]:
    return list(cluster.call(lambda me: os.getpid(), show=False))


def is_right(cluster) -> bool:
    run = cluster.call(right, show=False)
    text = {rank: f"said {rank}\n" for rank in range(cluster.world_size)}
    return (list(run), run.text, run.leaks) == (expected(cluster.world_size), text, ())


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("name", KEPT)
def test_what_can_be_put_back_is_and_the_ranks_stay(ranks, name):
    before = pids(ranks)
    ranks.call(perform, ([name], {1}, False), show=False)
    assert is_right(ranks)
    assert pids(ranks) == before


@pytest.mark.parametrize("name", COSTLY)
def test_what_cannot_be_put_back_costs_the_ranks_and_is_said(ranks, name):
    before = pids(ranks)
    run = ranks.call(perform, ([name], {1}, False), show=False)
    assert run.leaks[0].startswith("rank 1 left ")
    assert run.leaks[-1] == "New ranks replace these, so the next call finds nothing of it."
    assert is_right(ranks)
    assert not set(before) & set(pids(ranks))


def test_a_name_is_told_where_it_was_changed(ranks):
    names = ["Tensor.sum", "torch.add", "builtins.print", "torch.full gone", "sys.modules gone"]
    run = ranks.call(perform, (names, {0, 1}, False), show=False)
    assert run.leaks == (
        "ranks 0, 1 left builtins.print replaced by its own",
        "ranks 0, 1 left torch.Tensor.sum, torch.add replaced by its own and sys.modules['json'], torch.full taken "
        "away",
    )


def compiles(me):
    import torch
    from torch import nn

    layer = nn.Linear(2, 2)
    torch.compile(layer, backend="eager")(torch.ones(1, 2)).sum().backward()
    torch.optim.Adam(layer.parameters()).step()


def puts_back_by_hand(me):
    """As a patch is undone by most: the class has then a name of its own for what it inherits."""
    import torch

    plain = torch.UntypedStorage.resize_
    torch.UntypedStorage.resize_ = lambda *_: None
    torch.UntypedStorage.resize_ = plain


@pytest.mark.parametrize("function", [compiles, puts_back_by_hand])
def test_what_a_library_puts_there_itself_and_what_was_put_back_are_not_told(function):
    with Cluster(2, timeout_s=60) as cluster:
        assert cluster.call(function, show=False).leaks == ()


@pytest.mark.parametrize("name", ["Tensor.sum", "inference mode"])
def test_after_an_error_with_variables_of_cells_the_next_call_is_right(name):
    with Cluster(2, timeout_s=30) as cluster:
        cluster.push(kept=5)
        with pytest.raises(RankError) as caught:
            cluster.call(perform, ([name], {1}, True), show=False)
        is_lost = "variables of your %%ranks cells" in str(caught.value)
        assert is_lost is (name in COSTLY)
        assert is_right(cluster)
        if not is_lost:
            assert list(cluster.pull("kept")) == [5, 5]


def test_what_a_cell_patches_lasts_for_cells_and_no_function_meets_it():
    with Cluster(2, timeout_s=30) as cluster:
        cluster.cell("torch.Tensor.sum = lambda s: 'patched'", show=False)
        assert is_right(cluster)
        assert list(cluster.cell("torch.ones(2).sum()", show=False)) == ["'patched'"] * 2


def test_a_function_does_not_run_in_what_a_cell_cannot_be_freed_of():
    with Cluster(2, timeout_s=30) as cluster:
        cluster.cell("mode = torch.inference_mode(); mode.__enter__()", show=False)
        with pytest.raises(RankError, match=r"cannot be put aside for a function: .*left inference mode on"):
            cluster.call(right, show=False)
        assert is_right(cluster)


def random_acts(draw: random.Random) -> tuple[list[str], set[int], bool]:
    names = draw.sample(sorted(ACTS), draw.randint(1, 4))
    return names, draw.choice([{0}, {1}, {0, 1}]), draw.random() < 0.4


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, NUM_SEEDS))])
def test_after_any_hostile_body_a_right_call_is_right(seed):
    draw = random.Random(seed)
    bodies = NUM_BODIES if seed else 4
    with Cluster(2, timeout_s=30) as cluster:
        for number in range(bodies):
            if number % 5 == 0:
                cluster.push(kept=number)
            names, who, fails = random_acts(draw)
            try:
                said = str(cluster.call(perform, (names, who, fails), show=False).leaks)
            except RankError as error:
                said = str(error)
            assert is_right(cluster), (number, names, who, fails, said)
