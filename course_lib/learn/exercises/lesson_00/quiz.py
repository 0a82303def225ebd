"""The quiz of lesson 00."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Sequence

import torch

from course_lib.learn.catalogue.quiz_spec import Question

__all__ = ["QUIZ"]


def _notebooks_value() -> int:
    """What is left in the notebook after four ranks changed their copies."""
    notebook = {"x": 5}
    for rank in range(4):
        copy_on_rank = pickle.loads(pickle.dumps(notebook))
        copy_on_rank["x"] = rank
    return notebook["x"]


def _missing(collectives_begun: Sequence[int]) -> int:
    """The rank that is behind: it has begun the fewest collectives."""
    return min(range(len(collectives_begun)), key=lambda rank: collectives_begun[rank])


def _first_cause(exit_codes: Sequence[int]) -> int:
    """The rank that a signal ended, other than the SIGTERM by which torchrun ends the rest."""
    return next(rank for rank, code in enumerate(exit_codes) if code < 0 and code != -signal.SIGTERM)


_BEGUN = (7, 7, 6, 7)
_EXIT_CODES = (1, -15, -11, -15)

QUIZ = (
    Question(
        name="memory",
        text="In the notebook x = 5. Four ranks run a function that sets x to the rank. What is x in the notebook now?",
        choices=(0, 3, 5, 6),
        answer=_notebooks_value,
        misconceptions={
            0: "Rank 0 is a process of its own too, not your notebook: its x is another x.",
            3: "The last rank writes into its own memory. Nobody writes into yours.",
            6: "Nothing adds up what ranks write; only a collective would.",
        },
        because="Ranks are processes with memory of their own; only what they return or send leaves them.",
    ),
    Question(
        name="ranks",
        text="A job runs on 3 nodes with 8 GPUs each, one rank for each GPU. What is the number of the last rank?",
        choices=(7, 8, 23, 24),
        answer=lambda: 3 * 8 - 1,
        misconceptions={
            7: "That is the last local rank, the number within a node. Ranks are counted over the whole job.",
            8: "That is how many ranks a node has.",
            24: "That is the world size. Ranks are counted from 0.",
        },
        because="The world size is nodes times ranks a node, and the first rank is 0.",
    ),
    Question(
        name="mean",
        text="Rank 0 holds the numbers 1, 2, 3 and rank 1 holds 10. What is the mean over all numbers?",
        choices=(4.0, 6.0, 8.0, 16.0),
        answer=lambda: float(torch.tensor([1.0, 2.0, 3.0, 10.0]).mean()),
        misconceptions={
            6.0: "That is the mean of the two means. It counts the one number of rank 1 as much as three.",
            8.0: "That is the sum divided by the number of ranks; divide by the number of numbers.",
            16.0: "That is the sum, which is what an all-reduce gives. It has still to be divided.",
        },
        because="Sums and counts are added up over the ranks, and divided once.",
        show=lambda value: f"{value:g}",
    ),
    Question(
        name="exit_codes",
        text=f"A job has ended. Its four ranks left the exit codes {', '.join(map(str, _EXIT_CODES))}, in this order; "
        'the last words of rank 0 are "connection closed by peer". Where do you look first?',
        choices=(0, 1, 2, 3),
        answer=lambda: _first_cause(_EXIT_CODES),
        misconceptions={
            0: "It lost the connection to a rank that was gone before. Its traceback is a consequence.",
            1: "Minus 15 is SIGTERM: torchrun ended it, since another rank had failed.",
            3: "Minus 15 is SIGTERM: torchrun ended it, since another rank had failed.",
        },
        because="Minus 11 is a crash of that rank itself (SIGSEGV), and the three others are what followed from it.",
        show=lambda rank: f"rank {rank}",
    ),
    Question(
        name="evidence",
        text=f"A job hangs. Ranks 0 to 3 have begun {', '.join(map(str, _BEGUN[:3]))} and {_BEGUN[3]} collectives. "
        "Which rank do you look at first?",
        choices=(0, 1, 2, 3),
        answer=lambda: _missing(_BEGUN),
        misconceptions={
            0: "Rank 0 waits in collective 7 with two others. It is where the hang is seen, not where it comes from.",
            1: "Rank 1 has come to collective 7 and waits there.",
            3: "Rank 3 has come to collective 7 and waits there.",
        },
        because="The others wait in collective 7 for the one rank that has not come to it yet.",
        show=lambda rank: f"rank {rank}",
    ),
)
