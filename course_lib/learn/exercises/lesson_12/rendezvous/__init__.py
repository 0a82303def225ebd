"""12.rendezvous: from the settings of agents, which of them meet, and why the others wait."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_12.rendezvous import wrong_answers
from course_lib.learn.exercises.lesson_12.rendezvous.cases import CASES
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.sick.meetings import fates

__all__ = ["RENDEZVOUS"]

RENDEZVOUS = Exercise(
    name="12.rendezvous",
    title="A rendezvous that never completes",
    judge=by_cases([Case(label, (agents,), fates) for label, agents in CASES.items()]),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Where does an agent go? Write that first: a host and a port, with the loopback and a missing port put right. "
        "Which agents go to their own node?",
        "Two rounds over the agents. In the first, collect the places where an agent opens a store. In the second, "
        "sort the agents that have a store into lists, by all that they must agree in.",
        '`stores = {place(a) for a in agents if place(a)[0] == a["address"]}`; then lists in a dictionary by '
        '`(place(a), a["rdzv_id"], least, most)`. In a list of n nodes, node number i, counted from 0: "too few" if '
        'n < least, else "complete" if i < most, else "too many".',
    ),
    forbidden=("course_lib.learn.sick.meetings.fates",),
    passed="Your function has the right word for each node, also where settings look alike and are not.",
)
