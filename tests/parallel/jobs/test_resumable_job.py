"""The course's own job that outlives its ranks; its check (12.job) holds the rest of it."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.cluster import RankFailed, folder_for_ranks, shared_cluster
from course_lib.parallel.jobs import ResumableJob

pytestmark = pytest.mark.xdist_group("exercises")  # whose ranks are warm

NUM, BATCH, UNTIL = 17, 6, 9
ROWS = torch.randn(NUM, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def loss_of(model, samples, random):
    noise = torch.randn(NUM, 3, generator=random, dtype=torch.float64)
    return ((model(ROWS[samples] + noise[samples]) - 1) ** 2).sum()


def made(me, folder, seed, every=2):
    torch.manual_seed(seed)
    model = nn.Linear(3, 1).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return model, ResumableJob(me, folder, model, optimizer, loss_of, NUM, BATCH, every=every)


def stopped(me, folder, until):
    model, job = made(me, folder, seed=1)
    return job.run(until), model.weight.detach()


def resumed(me, folder):
    model, job = made(me, folder, seed=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        begun = job.resume()
    return begun, job.run(UNTIL), model.weight.detach(), [str(one.message) for one in said]


def test_it_goes_on_with_more_ranks_as_if_nobody_had_stopped_it():
    one, two = shared_cluster(1), shared_cluster(2)
    with folder_for_ranks(two) as whole, folder_for_ranks(two) as folder:
        losses, weight = one.run(stopped, whole, UNTIL)[0]
        one.run(stopped, folder, 7)
        for begun, rest, own, said in two.run(resumed, folder):
            assert begun == 6
            assert not said
            torch.testing.assert_close(rest, losses[6:], rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(own, weight, rtol=1e-9, atol=1e-12)


def test_a_damaged_checkpoint_is_passed_over_and_rank_0_says_so():
    two = shared_cluster(2)
    with folder_for_ranks(two) as folder:
        two.run(stopped, folder, 7)
        names = sorted(path.name for path in Path(folder).iterdir())
        assert names == ["step_00000004.pt", "step_00000006.pt"]
        newest = Path(folder) / names[-1]
        newest.write_bytes(newest.read_bytes()[:-100])
        found = two.run(resumed, folder)
    assert [begun for begun, *_ in found] == [4, 4]
    assert "step_00000006.pt" in found[0][3][0]
    assert found[1][3] == []


def test_an_interval_of_no_steps_is_told():
    with folder_for_ranks(shared_cluster(1)) as folder, pytest.raises(RankFailed, match="every"):
        shared_cluster(1).run(made, folder, 1, 0)
