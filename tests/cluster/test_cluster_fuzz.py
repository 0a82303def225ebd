"""300 random bodies, 100 of them without ``--long``, out of a grammar of what people write, right and wrong.

After each, a right call is right.

A body is a list of steps; a step says what each rank does. Ranks that stand still for ever must be found out: no body
may reach its time limit.
"""

from __future__ import annotations

import random

import pytest
from wrong_bodies import SETTINGS, expected, perform, random_body, right

from course_lib.cluster import Cluster, RankError

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(240.0),
]

NUM_RANKS, NUM_BODIES, NUM_SEEDS = 3, 10, 24
NUM_CELL_SEEDS = 6


@pytest.fixture(scope="module")
def ranks():
    with Cluster(NUM_RANKS, timeout_s=30) as cluster:
        yield cluster


def seeds(count: int, always: int) -> list[object]:
    """The first ones run always, the others with ``--long``."""
    rest = [pytest.param(seed, marks=pytest.mark.long) for seed in range(always, count)]
    return [*range(always), *rest]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("seed", seeds(NUM_SEEDS, 8))
def test_after_any_body_a_right_call_is_right(ranks, seed):
    draw = random.Random(seed)
    for _ in range(NUM_BODIES):
        body = random_body(draw, NUM_RANKS)
        try:
            said = "\n".join(ranks.call(perform, (body,), show=False).leaks)
        except RankError as error:
            said = str(error)
        assert "had not finished" not in said, (body, said)
        run = ranks.call(right, show=False)
        assert (list(run), run.leaks) == (expected(NUM_RANKS), ()), (body, said)


@pytest.mark.parametrize("seed", seeds(NUM_CELL_SEEDS, 2))
def test_after_any_body_in_cells_a_right_call_is_right_and_variables_are_there_or_said_to_be_lost(seed):
    draw = random.Random(1000 + seed)
    with Cluster(NUM_RANKS, timeout_s=30) as cluster:
        for _ in range(NUM_BODIES):
            body = [step for step in random_body(draw, NUM_RANKS) if step[0] not in SETTINGS]  # these last in cells
            cluster.push(body=body, kept=5)
            try:
                run = cluster.cell("from wrong_bodies import perform\nperform(me, body)", show=False)
                said = "\n".join(run.leaks)
            except RankError as error:
                said = str(error)
            assert "had not finished" not in said, (body, said)
            if "variables of your %%ranks cells" not in said:
                assert list(cluster.pull("kept")) == [5] * NUM_RANKS, (body, said)
            run = cluster.call(right, show=False)
            assert (list(run), run.leaks) == (expected(NUM_RANKS), ()), (body, said)
