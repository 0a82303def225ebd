"""Part f of lesson 10: many small experts."""

from __future__ import annotations

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["SMALL"]


def _per_byte(large: float, small: float, large_hidden: int, small_hidden: int, top_k_times: float) -> Explanation:
    """From the operations for each byte sent: in a layer of few large experts, and in one of many small ones."""
    return Explanation(
        measured=round(small / large, 3),
        label="computed",
        model=round(small_hidden / large_hidden, 3),
        because="Every choice sends a row of D numbers and brings one back, and computes 3 D H products: k and D "
        f"cancel. What remains is H, {small_hidden:,} in place of {large_hidden:,}. So the size of an *expert* "
        "decides whether a layer computes or communicates, however many of them a token has.",
        misreadings={
            1 / top_k_times: f"It is true that {top_k_times:g} times as many rows travel. But each of them is "
            "computed by an expert, so the arithmetic has that factor too.",
            top_k_times: "More choices are more arithmetic, and as many more rows. How much arithmetic does one row "
            "bring?",
            large_hidden / small_hidden: "It is the other way round: a small expert has less to compute for the same "
            "row.",
            lambda answer: 0.9 < answer < 1.3: "It would be so if experts were of one size. Look at `hidden`.",
        },
    )


_EVEN = (
    "experts more even, ranks more even",
    "experts more even, ranks less even",
    "experts less even, ranks more even",
    "experts less even, ranks less even",
)


def _even(large: tuple[float, float], small: tuple[float, float]) -> Explanation:
    """From the busiest expert's and the busiest rank's rows, in means: of few large experts, and of many small ones."""
    measured = _EVEN[2 * (small[0] > large[0]) + (small[1] > large[1])]
    return Explanation(
        measured=measured,
        because=f"An expert has fewer tokens, and small counts vary more: the busiest has {small[0]:.2f} times the "
        f"mean, in place of {large[0]:.2f}. But a rank holds 32 experts, and four times as many rows come to it. The "
        f"busiest rank has {small[1]:.2f} times the mean, in place of {large[1]:.2f}. The whole layer waits for the "
        "busiest *rank*. A capacity for each expert would turn away more, for no gain.",
        misreadings={
            _EVEN[0]: "For ranks that is so. But an expert has an eighth as many tokens, and small counts vary more, "
            "compared with their size.",
            _EVEN[1]: "Think of each load as a count of throws of a die. Which load has a larger mean than before, "
            "and which a smaller one?",
            _EVEN[3]: "For experts that is so. But a rank adds up 32 of them: some have too many tokens, others too "
            "few.",
        },
    )


def _nodes(mean: float, model: float, num_nodes: int, top_k: int) -> Explanation:
    """From the mean number of different nodes of a token's experts."""
    return Explanation(
        measured=round(mean, 2),
        model=round(model, 2),
        because=f"A node gets no row if all {top_k} experts lie on other nodes. That has a probability of (7/8)^8, "
        f"about a third. So a row goes to two thirds of the {num_nodes} nodes. To send it once to a node saves a "
        "third of the rows, and no more: two random experts are seldom on one node.",
        misreadings={
            num_nodes: f"{top_k} choices do not spread so well: some nodes get two or three of them, and others none.",
            1: "That would be all experts on one node.",
            num_nodes / 2: "A node gets the row with a probability of two thirds, not a half. Work out how often it "
            "does not get it.",
            top_k * (num_nodes - 1) / num_nodes: "That many *rows* leave their node, if each choice sends one. The "
            "question is about different nodes, also the token's own.",
        },
        apart="The formula takes every set of experts for equally likely. Look whether some are chosen more often.",
    )


def _limited(limited_bytes: int, choice_bytes: int, num_nodes: int, max_nodes: int, top_k: int) -> Explanation:
    """From the bytes between nodes, with a limit, and with a row for each choice."""
    away = (num_nodes - 1) / num_nodes
    return Explanation(
        measured=round(100 * limited_bytes / choice_bytes),
        model=round(100 * max_nodes * away / (top_k * away)),
        because=f"A row goes to {max_nodes} nodes in place of {top_k} choices. In both cases one in {num_nodes} is "
        "on the rank's own node, so this cancels. The small rest is the numbers of experts and their weights, which "
        "travel with each row. The limit holds for each token: none goes to more nodes, whatever the router prefers.",
        misreadings={
            round(
                100 * max_nodes / (top_k * away)
            ): f"You left out those of the {top_k} choices that are on the rank's own node. But one of the "
            f"{max_nodes} nodes may be the own one, too.",
            100 * max_nodes / num_nodes: "That is the share of the nodes. You compare with a row for each choice, and "
            f"there are {top_k} choices.",
            100 / top_k: f"That would be one node. Here there are {max_nodes}.",
        },
        apart="Count in `routing.experts` on how many nodes tokens have their experts, and on how many others.",
    )


_FOLDED = (
    "the outputs are wrong",
    "the gradients of experts are 4 times too large",
    "4 times the rows are sent and computed, all else is right",
    "nothing: equal tokens are sent once",
)


def _folded(num_rows: int, num_needed: int, outputs_agree: bool, gradients_agree: bool) -> Explanation:
    """From the rows that experts computed, those that are needed, and whether values are those of one process."""
    measured = _FOLDED[0] if not outputs_agree else _FOLDED[1] if not gradients_agree else _FOLDED[2]
    return Explanation(
        measured=measured,
        because=f"{num_rows:,} rows were computed, and {num_needed:,} are needed. A copy of a token has the same "
        "output, and each rank uses the one that comes back to it. An expert gets four equal copies of a gradient, "
        "so their sum is four times too large. It is divided by eight ranks in place of two replicas, and so "
        "becomes four times smaller: the two cancel. The outputs and the gradients of experts are right, so no test "
        "of these finds it. A meter or a clock shows it.",
        misreadings={
            _FOLDED[0]: "An expert computes each row for itself: a copy gets what the original gets.",
            _FOLDED[1]: "Four copies do bring four gradients. Now divide by all eight ranks, as page 10c "
            "does, of which four have the same loss.",
            _FOLDED[3]: "No rank knows what the others hold. It sends a row for each of its own.",
        },
    )


SMALL: tuple[Asked, ...] = (
    Asked(
        name="10.per_byte",
        question="For each byte sent: how many times Mixtral's arithmetic?",
        unit="times",
        tell=_per_byte,
        high=1000,
    ),
    Asked(
        name="10.even",
        question="256 small experts in place of 8 large ones, on 8 ranks: what is more even?",
        choices=_EVEN,
        tell=_even,
    ),
    Asked(
        name="10.nodes",
        question="8 of 256 experts: on how many of 8 nodes, on average?",
        unit="nodes",
        tell=_nodes,
        high=8,
    ),
    Asked(
        name="10.limited",
        question="At most 2 of 4 nodes: how many bytes go between nodes, of those of a row for each choice?",
        unit="%",
        tell=_limited,
        high=1000,
    ),
    Asked(
        name="10.folded",
        question="Each of four ranks with the same tokens sends them all to their experts: what happens?",
        choices=_FOLDED,
        tell=_folded,
    ),
)
