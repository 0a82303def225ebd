"""10.experts: a layer of experts of one's own, in seven steps; each demands what those before it demand, and more.

``cases.py`` has the layers and tokens, ``oracle.py`` what one process gives, ``trial.py`` a few calls on a rank,
``reports.py`` what is looked at, ``right.py`` what is expected; ``signs.py``, ``gradient_signs.py`` and ``mistakes.py``
are about wrong answers.
"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_10.expert_layer import mistakes
from course_lib.learn.exercises.lesson_10.expert_layer.cases import (
    AWKWARD,
    BACKWARD,
    BALANCE,
    CAPACITY,
    EXCHANGE,
    VALUES,
)
from course_lib.learn.exercises.lesson_10.expert_layer.reports import (
    ExpertsBackwardReport,
    ExpertsBalanceReport,
    ExpertsExchangeReport,
    ExpertsMemoryReport,
    ExpertsValuesReport,
)
from course_lib.learn.exercises.lesson_10.expert_layer.right import right
from course_lib.learn.exercises.lesson_10.expert_layer.trial import trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["EXPERTS_STEPS"]

_FORBIDDEN = (
    "course_lib.parallel.experts.given_experts.GivenExperts",
    "course_lib.parallel.experts.expert_parallel.ExpertParallel",
    "course_lib.parallel.experts.dispatch.Dispatch",
    "course_lib.parallel.experts.exchange.exchange_rows",
    "course_lib.parallel.experts.capacity.within_capacity",
    "course_lib.parallel.experts.balance.load_balancing_loss",
)
_BACKWARD = (*VALUES, *BACKWARD)
_EXCHANGE = (*_BACKWARD, *EXCHANGE)
_CAPACITY = (*_EXCHANGE, *CAPACITY)
_BALANCE = (*_CAPACITY, *BALANCE)


def _judge(labels: tuple[str, ...], report: type[ExpertsValuesReport], sizes: tuple[int, ...] = (4,)) -> RankJudge:
    looks = 2 if issubclass(report, ExpertsMemoryReport) else int(issubclass(report, ExpertsExchangeReport))
    cases = tuple(Case(label, (label, looks), right(label, report)) for label in labels)
    return by_trial(sizes, cases, trial, compare=compare, timeout_s=8.0, makes_groups=1 in sizes)


EXPERTS_STEPS = (
    Exercise(
        name="10.experts_values",
        title="Your experts, 1: the values",
        judge=_judge(VALUES, ExpertsValuesReport, (4, 2)),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "Which experts does one of your tokens need, and on which ranks are they? What can a rank compute alone?",
            "All ranks have equally many tokens here. Gather those of all ranks, let this rank's experts compute "
            "them, and count 0 where an expert was not chosen. The sum over all ranks has the outputs of all tokens; "
            "take yours.",
            "`probabilities = router(tokens).softmax(-1)`, `weights, chosen = probabilities.topk(top_k)`, and a matrix "
            "of weights (N, E) by `torch.zeros_like(probabilities).scatter(1, chosen, weights)`. Then "
            "`dist.all_gather_into_tensor`, the sum of `mix[:, e, None] * expert(tokens)`, and `dist.all_reduce`.",
        ),
        forbidden=_FORBIDDEN,
        passed="The outputs are those of one process, in each of two calls.",
    ),
    Exercise(
        name="10.experts_backward",
        title="Your experts, 2: the way back",
        judge=_judge(_BACKWARD, ExpertsBackwardReport, (4, 2)),
        mistakes=mistakes.OF_BACKWARD,
        hints=(
            "A row came from rank 2, and its output goes there. Where does the gradient of that output come from, and "
            "where does the gradient of the row go?",
            "Send rows, and outputs back, by an operation with a backward of its own. That backward is the same "
            "exchange, with the two lists of sizes the other way round. Autograd does all the rest. The router's "
            "gradient comes through the weights.",
            "In `forward(ctx, rows, going, coming)`: `dist.all_to_all_single(out, rows, coming, going)`. In "
            "`backward(ctx, grad)` the same with `going` and `coming` swapped. Counts go first: "
            "`dist.all_to_all_single(come, counts)` of `torch.bincount(chosen.flatten(), minlength=E)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Outputs and gradients are right: those of x, of the router by its own tokens, of experts by the "
        "tokens of all ranks.",
    ),
    Exercise(
        name="10.experts_exchange",
        title="Your experts, 3: the exchange",
        judge=_judge(_EXCHANGE, ExpertsExchangeReport),
        mistakes=mistakes.OF_EXCHANGE,
        hints=(
            "How many rows do you have for rank 2? What does rank 2 have to know before you can send them?",
            "Sort your choices by expert: so they are sorted by rank, too. Tell each rank how many rows it gets for "
            "each of its experts. What comes is sorted by rank, and then by expert: sort it by expert, and remember "
            "the order.",
            "`order = chosen.flatten().argsort(stable=True)`, and rows are `tokens[order // top_k]`. "
            "`own.repeat(n).repeat_interleave(come)` is the expert of each row that came. Its `argsort(stable=True)` "
            "puts them together, and `.split(...)` cuts them. The `argsort()` of that order leads back.",
        ),
        forbidden=_FORBIDDEN,
        passed="Rows go to the experts that were chosen, there and back, in no more bytes and calls than they need.",
    ),
    Exercise(
        name="10.experts_memory",
        title="Your experts, 4: memory",
        judge=_judge(_EXCHANGE, ExpertsMemoryReport),
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "Which of your tensors has a dim of all experts, of all ranks' tokens, or of the largest part?",
            "A row for each choice of this rank's tokens, and a row for each that came: no tensor need be larger. What "
            "does the backward of an exchange have to know?",
            "Keep sizes by `ctx.sizes = going, coming`, and no `save_for_backward`. Put outputs into a tensor of (N "
            "k, D), by the order in which their choices left. Then add up the k outputs of each token.",
        ),
        forbidden=_FORBIDDEN,
        passed="No tensor is larger than the rows that go or come, and nothing is left behind.",
    ),
    Exercise(
        name="10.experts_capacity",
        title="Your experts, 5: a limit",
        judge=_judge(_CAPACITY, ExpertsMemoryReport),
        mistakes=mistakes.OF_CAPACITY,
        hints=(
            "Take a choice of this rank's tokens. How many choices of the same expert have their turn before it?",
            "Put the choices in the order of their turns: the first choices of all tokens, then the second ones. "
            "Count, for each, those of the same expert before it. What has room is sent; for the rest the output is 0.",
            "`in_turn = chosen.T.flatten()`; `taken = F.one_hot(in_turn, E)`; `(taken.cumsum(0) * taken).sum(1) - 1` "
            "is the number before it. `kept = (number < room).view(k, N).T`. Sort by `chosen.masked_fill(~kept, E)`, "
            "and let the last ones go.",
        ),
        forbidden=_FORBIDDEN,
        passed="Each expert takes choices in turn, as many as it has room for. Choices without room are not sent.",
    ),
    Exercise(
        name="10.experts_balance",
        title="Your experts, 6: balance",
        judge=_judge(_BALANCE, ExpertsBalanceReport),
        mistakes=mistakes.OF_BALANCE,
        hints=(
            "Which of the two, f and P, has a gradient? Which of them does a rank know by itself?",
            "Add up the counts of all ranks: E numbers. They give f, and the number of all tokens. The rest is a sum "
            "over tokens. Each rank has its part of it, scaled so that the mean over ranks is the whole.",
            "`counts = torch.bincount(chosen.flatten(), minlength=E)`, `dist.all_reduce(counts)`, and then "
            "`total = counts.sum()` is N k of all ranks. `means = probabilities.sum(0) * top_k / total`, and "
            "`E * (counts / total * means).sum() * n`.",
        ),
        forbidden=_FORBIDDEN,
        passed="The mean over ranks of the loss is that of the whole batch, and so are its gradients.",
    ),
    Exercise(
        name="10.experts_awkward",
        title="Your experts, 7: awkward batches",
        judge=_judge((*_BALANCE, *AWKWARD), ExpertsBalanceReport, (4, 1)),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "In which of these batches would a rank skip a call that the others make? On which ranks does autograd "
            "call a backward at all?",
            "Every rank calls both exchanges, forward and backward, also with 0 rows. Autograd calls backward only "
            "where something needs a gradient: so give the tokens a history, if x brings none. Compute scores in "
            "float32 at least.",
            "`if torch.is_grad_enabled() and not tokens.requires_grad: tokens = tokens.detach().requires_grad_()`; "
            "`F.linear(wide(tokens), wide(router.weight))` with `wide = lambda x: x.to(torch.promote_types(x.dtype, "
            "torch.float32))`; an expert is called with its 0 rows as well; `group=self.group` in each call.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your layer is right with no tokens, no rows, all experts, bfloat16, frozen experts, two layers, "
        "groups, and one rank alone.",
    ),
)
