"""10.once_a_node: from the experts of each token, which tokens go to which node, each once."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_10.once_a_node import wrong_answers
from course_lib.learn.exercises.lesson_10.once_a_node.cases import CASES, compare, right
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["ONCE_A_NODE"]

ONCE_A_NODE = Exercise(
    name="10.once_a_node",
    title="A token goes to a node once",
    judge=by_cases_apart([Case(label, args, right) for label, args in CASES.items()], compare=compare),
    mistakes=(
        Mistake(
            "one-a-choice",
            "You send a row for each choice. Where two experts of a token lie on one node, its row goes there once: "
            "the node can copy it.",
            wrong_answers.one_a_choice,
        ),
        Mistake(
            "neighbours-only",
            "Where two experts of a token lie on one node and stand side by side, its row goes there once. They need "
            "not stand side by side in `chosen`: then you send the row again.",
            wrong_answers.neighbours_only,
        ),
        Mistake(
            "not-the-first-node",
            "You leave out node 0. Leave out no node, and not the rank's own either: tokens for it are listed, too.",
            wrong_answers.not_the_first_node,
        ),
        Mistake(
            "dealt-round",
            "You deal experts to nodes like cards, by `%`. Here each node has a block of experts: node 0 the first E / "
            "nodes of them, node 1 the next.",
            wrong_answers.dealt_round,
        ),
        Mistake(
            "divided-by-nodes",
            "You divide an expert's number by the number of nodes. Divide it by how many experts a node has.",
            wrong_answers.divided_by_nodes,
        ),
        Mistake(
            "first-choice",
            "Each token goes to the node of its first expert alone. It goes to every node that has one of its experts.",
            wrong_answers.first_choice,
        ),
        Mistake(
            "one-node-a-token",
            "Each token goes to one node. It goes once to *every* node that has one of its experts.",
            wrong_answers.one_node_a_token,
        ),
        Mistake(
            "token-after-token",
            "The tokens are the right ones, but they stand in the order of the tokens. An all-to-all cuts by the "
            "sizes: first all that go to node 0, then all for node 1.",
            wrong_answers.token_after_token,
        ),
        Mistake(
            "by-choice",
            "The tokens of a node are the right ones, but they are not in rising order. Tokens whose first expert "
            "lies there come before tokens whose second does. Put a node's tokens in rising order.",
            wrong_answers.falling,
        ),
        Mistake(
            "sizes-of-choices",
            "Each token stands once for a node, but your sizes count choices. A size says how many tokens are sent to "
            "the node.",
            wrong_answers.sizes_of_choices,
        ),
        Mistake(
            "full-nodes-only",
            "In your answer a node that gets nothing has no size. Its size is 0: the list has a size for each node.",
            wrong_answers.full_nodes_only,
        ),
        Mistake(
            "choices-not-tokens",
            "You give numbers of choices, t k + c. Give numbers of tokens: rows are taken by them, `rows[tokens]`.",
            wrong_answers.choices_not_tokens,
        ),
        Mistake(
            "a-list-a-node",
            "You give a list of tokens for each node. Join them, node after node: the sizes say where one ends.",
            wrong_answers.a_list_a_node,
        ),
        Mistake(
            "not-without-tokens",
            "Your answer is right except for a rank without tokens: then no token is sent, and every node has the "
            "size 0.",
            wrong_answers.not_without_tokens,
        ),
    ),
    hints=(
        "On which node does expert 5 lie, if 4 nodes share 8 experts? First make a table of nodes out of the table of "
        "experts.",
        "Then a table of yes and no: a row for each token, a column for each node. Where two experts of a token lie "
        "on one node, there is still one yes. Read the table column after column.",
        "`nodes = chosen // (num_experts // num_nodes)`; `goes = torch.zeros(len(chosen), num_nodes, "
        "dtype=torch.bool).scatter(1, nodes, True)`. The places of the Trues of `goes.T`, row after row, are pairs of "
        "node and token: `goes.T.nonzero()`. The sizes are its sums.",
    ),
    forbidden=("course_lib.parallel.experts.once_for_each",),
    passed="Every token goes once to each node that has one of its experts. That holds also for a rank without "
    "tokens, with one choice, with one node, and where no token chose a node.",
)
