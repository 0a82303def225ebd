"""What part b of lesson 12 tells after a run: right beside plausible runs, frank where a run was disturbed."""

from __future__ import annotations

import pytest

from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_12.predictions.faults import FAULTS, missing_in
from course_lib.learn.sick.meetings import Meeting

ASKED = {asked.name: asked for asked in FAULTS}
NEVER = Meeting(
    {"n0": "RendezvousTimeoutError", "n1": "RendezvousTimeoutError"},
    {("10.0.0.1:29400", "llm-7"): {"participants": ["n0", "n1"], "complete": False, "waiting": []}},
)
NODES, PAIRS = ({0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}, {0: [0, 2], 1: [1, 3], 2: [0, 2], 3: [1, 3]})


def dumps(stuck):
    """What four recorders hold while ``stuck`` has entered nothing of the third step."""
    found = []
    for rank in range(4):
        mate = rank ^ 1
        entries = [entry(f"within {NODES[rank]}", 2, True), entry(f"between {PAIRS[rank]}", 2, True)]
        if rank != stuck:
            waits = mate == stuck
            entries.append(entry(f"within {NODES[rank]}", 3, not waits))
            if not waits:
                entries.append(entry(f"between {PAIRS[rank]}", 3, False))
        names = {f"within {NODES[rank]}": NODES[rank], f"between {PAIRS[rank]}": PAIRS[rank]}
        config = {f"pg {words}": {"ranks": str(ranks)} for words, ranks in names.items()}
        found.append({"entries": entries, "pg_config": config})
    return found


def entry(words, number, retired):
    return {"process_group": [f"pg {words}", words], "collective_seq_id": number, "retired": retired}


RUNS = {
    "12.dealt": ((30, 60, 4, 2), 30),
    "12.restarted": (((1, 2, 3, 4), (5, 6, 7, 8)), 4),
    "12.same": ((4.8e-7,), "equal up to rounding"),
    "12.slow": (([19.0, 19.1, 4.0, 18.7], [30.1, 30.0, 45.2, 30.2]), "rank 2"),
    "12.missing": ((dumps(3),), "rank 3"),
    "12.never": ((NEVER,), "the agents expect different numbers of nodes"),
}


@pytest.fixture(autouse=True)
def nothing_predicted():
    for name in ASKED:
        ask(name).reset()
    yield
    for name in ASKED:
        ask(name).reset()


def test_every_question_is_tried():
    assert set(ASKED) == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_told_as_it_was(name):
    values, right = RUNS[name]
    told = ASKED[name].tell(*values)
    assert told.measured == right
    assert told.model in (None, right)


@pytest.mark.parametrize("name", RUNS)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    values, right = RUNS[name]
    for wrong, sentence in ASKED[name].tell(*values).misreadings.items():
        if wrong == right:
            continue
        ask(name).reset()
        ask(name).commit(wrong)
        shown = reveal(name, *values)
        assert not shown.is_right
        assert shown.misreading == sentence


@pytest.mark.parametrize("name", RUNS)
def test_every_other_choice_hears_why(name):
    values, right = RUNS[name]
    choices = set(ASKED[name].choices or ())
    assert choices - {right} <= set(ASKED[name].tell(*values).misreadings)


DISTURBED = {
    "12.dealt": (0, 60, 4, 2),
    "12.restarted": ((1, 2, 3, 4), (4, 5, 6, 7)),
    "12.same": (0.2,),
}


@pytest.mark.parametrize("name", DISTURBED)
def test_where_run_and_model_are_apart_it_is_said(name):
    ask(name).commit(ASKED[name].choices[0] if ASKED[name].choices else 1)
    assert reveal(name, *DISTURBED[name]).is_apart


def test_weights_may_be_equal_by_chance():
    assert ASKED["12.same"].tell(0.0).measured == "equal to the last bit"


@pytest.mark.parametrize("stuck", range(4))
def test_the_missing_rank_is_the_one_that_waits_nowhere(stuck):
    lists = missing_in(dumps(stuck))
    assert ASKED["12.missing"].tell(dumps(stuck)).measured == f"rank {stuck}"
    assert lists[f"all-reduce 3 within {NODES[stuck]}"] == [stuck]
    assert len(lists) == 3  # three ranks wait, in three groups
    assert all("all-reduce 3" in what for what in lists)


def test_dumps_without_one_missing_rank_are_called_blurred():
    over = [{**dump, "entries": [e for e in dump["entries"] if e["retired"]]} for dump in dumps(3)]
    told = ASKED["12.missing"].tell(over)
    assert "not exactly one rank" in told.because


def test_waits_that_do_not_show_the_slow_rank_are_called_so():
    blurred = ASKED["12.slow"].tell([2.0, 19.1, 4.0, 18.7], [30.1, 30.0, 45.2, 30.2])
    assert blurred.measured == "rank 2"
    assert "do not show it" in blurred.because
    assert "do not show it" not in ASKED["12.slow"].tell(*RUNS["12.slow"][0]).because


def test_numbers_of_a_sentence_are_those_of_the_run():
    assert "15 samples each, 30 in all, and 60" in ASKED["12.dealt"].tell(30, 60, 4, 2).because
    assert "There is 1 list, and 2 nodes" in ASKED["12.never"].tell(NEVER).because
