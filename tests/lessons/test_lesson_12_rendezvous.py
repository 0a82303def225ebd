"""The judge of 12.rendezvous: what it refuses, in whose words, and what it lets pass."""

from __future__ import annotations

import pytest
from answers.lesson_12.right.rendezvous import ANSWERS, by_counting_down

from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_12.rendezvous import RENDEZVOUS
from course_lib.learn.exercises.lesson_12.rendezvous.cases import CASES
from course_lib.learn.exercises.lesson_12.rendezvous.wrong_answers import MISTAKES
from course_lib.learn.sick.meetings import fates


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_gets_its_own_message(mistake):
    verdict = judged(RENDEZVOUS, mistake.example)
    assert not verdict.passed
    assert (verdict.mistake, verdict.message) == (mistake.name, mistake.message)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_right_answers_of_another_style_pass(answer):
    assert judged(RENDEZVOUS, answer).passed


RIGHT = by_counting_down


def by_list(agents):
    return list(RIGHT(agents).values())


def words_to_nodes(agents):
    found = RIGHT(agents)
    return {word: [node for node in found if found[node] == word] for word in found.values()}


def by_address(agents):
    return {agent["address"]: RIGHT(agents)[agent["node"]] for agent in agents}


def booleans(agents):
    return {node: word == "complete" for node, word in RIGHT(agents).items()}


def only_the_complete(agents):
    return {node: word for node, word in RIGHT(agents).items() if word == "complete"}


def capitals(agents):
    return {node: word.title() for node, word in RIGHT(agents).items()}


def all_or_none(agents):
    words = set(RIGHT(agents).values())
    return dict.fromkeys((a["node"] for a in agents), "complete" if words == {"complete"} else "too few")


def sorted_first(agents):
    return RIGHT(sorted(agents, key=lambda agent: agent["address"]))


def backwards(agents):
    return RIGHT(agents[::-1])


def compares_text(agents):
    """Numbers of nodes as text: "10" is less than "9"."""
    found = RIGHT(agents)
    for agent in agents:
        same = [a for a in agents if (a["rdzv_id"], a["nnodes"]) == (agent["rdzv_id"], agent["nnodes"])]
        least = agent["nnodes"].partition(":")[0]
        if found[agent["node"]] == "complete" and str(len(same)) < least:
            found[agent["node"]] = "too few"
        if found[agent["node"]] == "too many" and str(len(same)) > least * 2:
            found[agent["node"]] = "complete"
    return {node: "too few" if word == "too many" and len(agents) > 9 else word for node, word in found.items()}


def on_the_page(agents):
    """Right for two agents that agree."""
    return dict.fromkeys((agent["node"] for agent in agents), "complete")


def never_empty(agents):
    return RIGHT(agents) or {"": "no store"}


def first_agent_decides(agents):
    found = RIGHT(agents)
    return dict.fromkeys(found, found[agents[0]["node"]]) if agents else {}


def first_hosts(agents):
    """The store is where the first agent runs."""
    found = RIGHT(agents)
    for agent in agents:
        host = agent["endpoint"].partition(":")[0]
        if host not in ("localhost", "127.0.0.1", agents[0]["address"]):
            found[agent["node"]] = "no store"
    return found


def lost_are_too_few(agents):
    return {node: "too few" if word == "no store" else word for node, word in RIGHT(agents).items()}


def changes_agents(agents):
    for agent in agents:
        agent["endpoint"] = agent["endpoint"].replace("localhost", agent["address"])
    return RIGHT(agents)


TIRED = (by_list, words_to_nodes, by_address, booleans, only_the_complete, capitals, all_or_none, sorted_first,
         backwards, compares_text, on_the_page, never_empty, first_agent_decides, first_hosts, lost_are_too_few,
         changes_agents)  # fmt: skip


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_of_another_form_is_refused(answer):
    verdict = judged(RENDEZVOUS, answer)
    assert not verdict.passed
    named = {"backwards": "the-last-ones"}  # the same thing
    assert verdict.mistake == named.get(answer.__name__)


def test_the_library_is_not_handed_in():
    verdict = judged(RENDEZVOUS, lambda agents: fates(agents))
    assert not verdict.passed
    assert "fates" in verdict.message


def test_the_nodes_of_a_case_have_names_and_addresses_of_their_own():
    for label, agents in CASES.items():
        for key in ("node", "address"):
            assert len({agent[key] for agent in agents}) == len(agents), label


def test_every_word_is_the_answer_somewhere():
    words = [word for agents in CASES.values() for word in fates(agents).values()]
    for word in ("complete", "too few", "too many", "no store"):
        assert words.count(word) > 4


def test_by_hand():
    agents = CASES["all sorts at once"]
    assert fates(agents) == {
        "n0": "complete",  # without a port: 29400
        "n1": "complete",  # the host, by its loopback
        "n2": "too few",  # by the loopback of another node: a store of its own
        "n3": "complete",  # another job
        "n4": "no store",  # nobody runs there
        "n5": "complete",
        "n6": "too many",  # three were there
        "n7": "no store",  # nobody opens that port
    }
