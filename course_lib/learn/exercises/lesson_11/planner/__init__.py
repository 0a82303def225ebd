"""11.planner: a planner from formulas, in seven steps; each demands what those before it demand.

``situations.py`` has what a planner is asked, ``facts.py`` what it says and how that is compared, ``mistakes.py`` the
usual mistakes, with ``mistakes_of_bytes.py`` and ``mistakes_of_time.py``; ``signs.py`` by what they are recognised;
``wrong_memory.py``, ``wrong_compute.py``, ``wrong_links.py`` and ``wrong_layouts.py`` what each does to one formula.
``course_lib/plan/by_hand`` is what is expected.
"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_11.planner import mistakes, situations
from course_lib.learn.exercises.lesson_11.planner.facts import MEAN_ERROR, MOST_RUNS, NEAR, facts_of, right_facts
from course_lib.learn.exercises.lesson_11.planner.situations import PlanQuestion, PublishedCase
from course_lib.learn.judging.isolated_judge import CasesApart, by_cases_apart
from course_lib.learn.judging.report import compare
from course_lib.plan.by_hand.planner import Planner

__all__ = ["PLANNER_STEPS"]

_LIMIT_S = 40.0  # of all cases together; the course's planner takes a few seconds
_FORBIDDEN = (
    "course_lib.plan.by_hand.planner.Planner",
    "course_lib.plan.estimate.memory.memory_parts",
    "course_lib.plan.estimate.stage_memory.stage_bytes",
    "course_lib.plan.estimate.step_time.step_parts",
    "course_lib.plan.search.listing.list_layouts",
    "course_lib.cost.mesh.layout_step.layout_step_s",
)


def _expected(asked: PlanQuestion | PublishedCase | str) -> object:
    return right_facts(Planner, _asked(asked))


def _asked(asked: PlanQuestion | PublishedCase | str) -> PlanQuestion | PublishedCase:
    """Published runs are named, and read on the rank."""
    if isinstance(asked, str):
        return next(one for one in situations.published() if one.label == asked)
    return asked


def _use(answer: type, asked: PlanQuestion | PublishedCase | str) -> object:
    return facts_of(answer, _asked(asked))


def _judge(*groups: tuple[PlanQuestion | str, ...]) -> CasesApart:
    cases = [
        Case(asked if isinstance(asked, str) else asked.label, (asked,), _expected)
        for group in groups
        for asked in group
    ]
    return by_cases_apart(cases, call=_use, compare=compare, limit_s=_LIMIT_S)


_STEPS = (
    situations.STATES,
    situations.MEMORY,
    situations.COMPUTE,
    situations.LINKS,
    situations.LAYOUTS,
    situations.RUNS,
    situations.AWKWARD,
)

PLANNER_STEPS = (
    Exercise(
        name="11.planner_states",
        title="Your planner, 1: states",
        judge=_judge(*_STEPS[:1]),
        mistakes=mistakes.OF_STATES,
        hints=(
            "How many numbers does one layer have, by its sizes alone? Which of them does each axis cut?",
            "A layer: `2 h (h + kv)` in attention, two or three matrices of `h x ffn`, and two norms of `h`. Then the "
            "layers of a stage, and its tables. Then find for each part from which `sharding` on the data axis "
            "divides it.",
            "`numbers = layers // pp * (matrices / tp + 2 * h) + tables * vocab * h / tp`, where "
            "`tables = (stage == 0) + (stage == pp - 1)`. Optimizer: `12 * numbers / (dp if sharding >= 1 else 1)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your planner has the weights, gradients and optimizer states of every rank, to the byte.",
    ),
    Exercise(
        name="11.planner_memory",
        title="Your planner, 2: activations",
        judge=_judge(*_STEPS[:2]),
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "What does one layer keep for one token? And for how many micro-batches at once, on each stage?",
            "Rows are `micro_batch * seq`. Stage s has `min(pp - s, m)` micro-batches in flight, and a step has `m = "
            "batch / (dp * micro_batch)` of them. Where layers are computed again: inputs of all layers, and the "
            "inside of one.",
            "`kept = in_flight * layers // pp * (inside or input of a layer)`, with "
            '`+ inside` once for `recompute="full"`; `logits = 10 * rows * vocab / tp` on the last stage, else 0.',
        ),
        forbidden=_FORBIDDEN,
        passed="Your planner knows micro-batches in flight, layers that are computed again, and logits where they are "
        "made.",
    ),
    Exercise(
        name="11.planner_compute",
        title="Your planner, 3: computing",
        judge=_judge(*_STEPS[:3]),
        mistakes=mistakes.OF_COMPUTE,
        hints=(
            "How many FLOPs does a forward pass of one layer take, for one token? How many passes does a micro-batch "
            "make?",
            "Seconds of a pass of a layer: `max(flops / tp / rate, pass_s)`, where `rate` is a share of the peak. A "
            "slot of a stage has forward, backward of twice the FLOPs, and forward once more where it is computed "
            "again. The last stage scores tokens as well.",
            "`slots = [slot of each stage]`, `compute = sum(slots) + (m - 1) * max(slots)`. A layer's forward: "
            "`rows * (2 * matrices + 4 * seq * h)` FLOPs; scores: `3 * rows * 2 * vocab * h`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your planner knows FLOPs at the rate that is reached, the host, and a pipeline with its bubble.",
    ),
    Exercise(
        name="11.planner_links",
        title="Your planner, 4: links",
        judge=_judge(*_STEPS[:4]),
        mistakes=mistakes.OF_LINKS,
        hints=(
            "Write one function for a ring: how many rounds, how many bytes in each, at which rate? All messages are "
            "made of it, except those between stages.",
            "`n` ranks that lie `stride` apart: `tp` has stride 1, `dp` has `tp`. If a ring leaves the node, each of "
            "its ranks on that node brings a port. Tensor: two all-reduces a layer and pass, in `m + pp - 1` slots. "
            "Then the gradients: what is sent, and how much of it can hide behind a backward pass?",
            "`ring = (n - 1) * (size / n / rate + latency)`; an all-reduce is two of it. "
            "`rate = min(inside, min(n, node_size // stride) * bits / 8)` between nodes. "
            "`data = sent - hidden * min(sent, backward)`, for sharding 1 `+ ring` of the weights.",
        ),
        forbidden=_FORBIDDEN,
        passed="Every ring has its rounds, its bytes and its link, and what hides is not waited for.",
    ),
    Exercise(
        name="11.planner_layouts",
        title="Your planner, 5: the layouts that fit",
        judge=_judge(*_STEPS[:5]),
        mistakes=mistakes.OF_LAYOUTS,
        hints=(
            "Which sizes can `tp` have, whatever the others are? And `pp`? Then `dp` is fixed.",
            "Loop over `tp`, `pp`, micro-batch, sharding and recomputation. Leave out early what does not divide, and "
            "last what does not fit. To fit, the fullest stage and the reserve need room.",
            "`sizes = [n for n in range(1, gpus + 1) if gpus % n == 0]`; "
            "`plans.append((sum(self.time(layout).values()), layout))`; `sorted(plans, key=lambda plan: plan[0])`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your planner gives all layouts that are legal and fit, and no others, fastest first; also for 1,024 "
        "GPUs.",
    ),
    Exercise(
        name="11.planner_runs",
        title="Your planner, 6: runs of others",
        judge=_judge(*_STEPS[:6]),
        mistakes=mistakes.OF_RUNS,
        hints=(
            "Given a share, your planner has seconds for each run. Which share would you call a good one?",
            "For each share from 5 to 100 %, plan every given run with `replace(run.machines, share=share)`, and look "
            "how far off it is, as a part of `run.step_s`. Keep the share with the smallest error at the median, or on "
            "average.",
            "`def error(share): return median(abs(sum(MyPlanner(run.job, replace(run.machines, share=share))"
            ".time(run.layout).values()) / run.step_s - 1) for run in runs)`, then "
            "`replace(self.machines, share=min(shares, key=error))`.",
        ),
        forbidden=_FORBIDDEN,
        passed=f"Your planner had not seen these runs. Its mean error is at most {MEAN_ERROR:.0%}, and at least "
        f"{MOST_RUNS:.0%} of the runs are within {NEAR:.0%}, in both clusters.",
    ),
    Exercise(
        name="11.planner_awkward",
        title="Your planner, 7: awkward jobs",
        judge=_judge(*_STEPS),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "Go through your formulas. Which of them assumes that all heads have keys of their own? Which one counts "
            "two tables, and which assumes that every node is full?",
            "Keys and values have `hidden * kv_heads / heads` channels, and `tp` divides `kv_heads`. On one stage, "
            "tied tables are one matrix. Count the ranks of a ring on each of its nodes: the fewest of them set its "
            "rate.",
            "`nodes = Counter(rank // node_size for rank in range(0, n * stride, stride))`: one key is within a node, "
            "else `min(nodes.values())` ports. `why_not` has an `if` for each size, and returns its sentence.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your planner is right with grouped heads, tied tables, nodes that are not full, and one GPU. It gives "
        "a reason where nothing fits.",
    ),
)
