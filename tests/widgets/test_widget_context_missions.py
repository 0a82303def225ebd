"""The missions of the context explorer: what reaches them, what does not, and what is said of that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from context_watched import RUN, as_the_model_says, every_choice

from course_lib.layouts.sequence_cut import ORDERS
from course_lib.widgets import ContextChoice, ContextExplorer
from course_lib.widgets.context.missions import MISSIONS


@pytest.fixture
def planned(monkeypatch) -> ContextExplorer:
    monkeypatch.setattr(RUN, as_the_model_says())
    return ContextExplorer(SimpleNamespace(world_size=4))


def test_the_first_two_missions_have_another_answer_each():
    reached = [
        [str(choice) for choice in every_choice(64) if not mission.missed(choice, {})] for mission in MISSIONS[:2]
    ]
    assert reached == [
        [f"64 tokens, 4 ranks, {order}, all-to-all, 4 key heads" for order in ORDERS],
        ["64 tokens, 4 ranks, zigzag, ring, 1 key head"],
    ]


def test_what_a_setting_lacks_is_said():
    few, even, _ = MISSIONS
    assert few.missed(ContextChoice(63), {}) == "This mission is for 4 ranks and 64 tokens or more."
    assert few.missed(ContextChoice(64, 2), {}) == "This mission is for 4 ranks and 64 tokens or more."
    assert few.missed(ContextChoice(key_heads=2), {}) == "This mission is for 4 key heads."
    assert few.missed(ContextChoice(), {}) == (
        "A rank sends 36.0 KiB forward and backward; the mission allows at most 12.0 KiB."
    )
    assert even.missed(ContextChoice(key_heads=1), {}) == (
        "In some step a rank's pairs are 100% from the mean; the mission allows at most 10%."
    )


def test_the_third_mission_is_decided_by_two_runs(planned):
    said = []
    for given in (
        {"ranks": 1},
        {"ranks": 4},
        {"way": "all_to_all"},
        {"way": "ring", "ranks": 2, "key_heads": 2, "order": "zigzag"},
        {"way": "all_to_all", "order": "contiguous"},
    ):
        planned.choose(**given)
        planned.run.click()
        said.append(planned.missions.splitlines()[2].removeprefix("mission 3: "))
    assert said[0] == "not yet. A single rank sends nothing; take more ranks."
    assert said[1].startswith(
        "not yet. This mission needs two runs of this setting, one by the ring and one by all-to-all"
    )
    assert said[1].endswith("So far 1 of the two has run.")
    assert said[2] == "not yet. A rank sent 36.0 KiB by the ring, and 12.0 KiB by all-to-all."
    assert said[3].endswith("So far 1 of the two has run.")
    assert said[4] == "reached (64 tokens, 2 ranks, contiguous, all-to-all, 2 key heads)"
    planned.choose(ranks=1)  # once reached, it stays so
    assert "mission 3: reached" in planned.missions
