"""The quiz of lesson 10; right answers come from the cost model, and from what the ranks of the lesson run.

The quizzes of parts e, f and g stand in ``part_quizzes.py``.
"""

from __future__ import annotations

from course_lib.cost.model_parallel.context import (
    all_to_all_attention_sent_bytes,
    ring_attention_sent_bytes,
    ring_balance,
)
from course_lib.cost.model_parallel.experts import expert_parameters
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.models import TransformerConfig
from course_lib.parallel.experts import expert_capacity

__all__ = ["QUESTIONS"]

_TIMES = {1: "as long", 1.75: "1.75 times as long", 2: "twice as long", 4: "four times as long"}


def _causal_time(num_ranks: int) -> float:
    """How many times as long a lap of the ring takes with contiguous parts as with equal work."""
    cut = SequenceCut(64 * num_ranks, num_ranks, "contiguous")
    return round(1 / ring_balance(cut), 2)


def _cheaper(num_ranks: int) -> str:
    """Which attention sends fewer bytes forward, with 32 heads of queries and 8 of keys and values."""
    config = TransformerConfig(width=4096, num_heads=32, num_kv_heads=8)
    cut = SequenceCut(8192, num_ranks)
    ring, by_heads = (
        count(config, cut, 0, batch_size=1, itemsize=2).forward
        for count in (ring_attention_sent_bytes, all_to_all_attention_sent_bytes)
    )
    if ring == by_heads:
        return "they send the same"
    return "the ring" if ring < by_heads else "the all-to-alls"


def _parameters_and_arithmetic(num_experts: int, top_k: int) -> tuple[int, int]:
    """Both of a layer of experts, over those of one expert; the router counts for nothing beside wide experts."""
    one, many = (
        expert_parameters(width=4096, hidden=16_384, num_experts=number, top_k=chosen)
        for number, chosen in ((1, 1), (num_experts, top_k))
    )
    return round(many.total / one.total), round(many.active / one.active)


def _both(times: tuple[int, int]) -> str:
    parameters, arithmetic = times
    much = "as much arithmetic" if arithmetic == 1 else f"{arithmetic} times the arithmetic"
    return f"{parameters} times the parameters, {much}"


def _turned_away(chosen_by: int) -> int:
    """Of the tokens that choose one expert, those it has no room for; the other experts have room to spare."""
    return chosen_by - expert_capacity(1000, num_experts=8, top_k=2, capacity_factor=1.25)


def _divided_by(mesh: Mesh) -> int:
    """By what ``average_gradients`` divides the sum over an expert's copies: all ranks have a loss of their own."""
    return mesh.num_ranks


QUESTIONS = (
    Question(
        name="causal",
        text="Ring attention, causal, 4 ranks, each with a quarter of the sequence in its order. How long does the "
        "arithmetic of a lap take, compared with equal work in every step?",
        choices=tuple(_TIMES),
        answer=lambda: _causal_time(4),
        show=lambda times: _TIMES[times],
        misconceptions={
            1: "Rank 0's queries see no key but its own, rank 3's see all. Ranks wait for each other in every step.",
            2: "With many ranks it comes near to that. But in the first step all four have the same work.",
            4: "Rank 3 has the most to do, but not all of it.",
        },
        because="In the first step each rank has its own triangle; in the three others some rank has a whole "
        "square, and all wait for it. That takes the time of 3.5 squares; equal work takes the time of 2.",
    ),
    Question(
        name="heads",
        text="32 heads of queries, 8 of keys and values, 8 ranks. Which attention sends fewer bytes forward?",
        choices=("the ring", "the all-to-alls", "they send the same"),
        answer=lambda: _cheaper(8),
        misconceptions={
            "the ring": "On few ranks it does. With more of them the ring's bytes hardly change, and those of the "
            "all-to-alls become fewer.",
            "they send the same": "The ring sends the heads of keys and values, for nearly all positions. The "
            "all-to-alls send all heads, for a rank's own positions.",
        },
        because="Every position has 80 heads of queries, keys, values and outputs, and a rank's all-to-alls send "
        "them for an eighth of the positions. That is as much as 10 heads for all. The ring sends 16 for all. (Both "
        "leave out the eighth that stays on its rank.)",
    ),
    Question(
        name="experts",
        text="An MLP becomes 8 experts of its size, and each token uses 2. What does the layer have, compared with the "
        "MLP?",
        choices=((8, 8), (8, 2), (2, 2), (8, 1)),
        answer=lambda: _parameters_and_arithmetic(8, 2),
        show=_both,
        misconceptions={
            (8, 8): "A token does not visit experts that it has not chosen.",
            (2, 2): "Other tokens choose other experts, so all experts must be kept.",
            (8, 1): "That is with one expert for each token.",
        },
        because="All experts are kept, and each token uses two of them: more parameters for little more arithmetic.",
    ),
    Question(
        name="capacity",
        text="1,000 tokens, 8 experts, 2 for each token, a capacity factor of 1.25. 500 tokens choose expert 3; the "
        "others share the rest evenly. How many choices are turned away?",
        choices=(0, 187, 250, 343),
        answer=lambda: _turned_away(500),
        misconceptions={
            0: "Other experts have free places, but no token is sent there.",
            250: "250 is an even share, which is a factor of 1.",
            343: "That counts 1,000 choices; each token makes two.",
        },
        because="An even share is 250 of 2,000 choices, so each expert has 313 places. 500 want one of expert 3's.",
    ),
    Question(
        name="copies",
        text="8 ranks, dp_replicate=2 × ep=4, and the loss is the mean of all ranks' losses. After backward, an "
        "expert's gradients are summed over its copies. By what is the sum divided?",
        choices=(1, 2, 4, 8),
        answer=lambda: _divided_by(Mesh.of(dp_replicate=2, ep=4)),
        misconceptions={
            1: "A sum of the losses would need that. The loss is a mean.",
            2: "That is the number of copies. What each of them holds is a sum over four ranks' losses.",
            4: "That is the number of ranks in a set. There are two of them.",
        },
        because="Together the copies have seen the tokens of all 8 ranks, and each rank's loss counts an eighth.",
    ),
)
