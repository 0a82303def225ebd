"""Lesson 07's judges against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_07.right import as_room_allows

from course_lib import schedules
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]

DESIGN = """
F0 F1 F2 I0 W0 I1 F3 I2 W1 F4 W2 F5 I3 W3 I4 W4 I5 W5
F0 F1 F2 I0 I1 W0 I2 W1 F3 W2 F4 F5 I3 I4 W3 I5 W4 W5
F0 F1 I0 F2 I1 I2 W0 W1 W2 F3 F4 I3 F5 I4 I5 W3 W4 W5
F0 I0 F1 I1 F2 I2 W0 W1 W2 F3 I3 F4 I4 F5 I5 W3 W4 W5
"""


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- right, in another way --------------------------------------------------------------------------------------


def by_columns(p, m):
    """Right: asks of every cell what stands in it; short of the dots at the end of a row."""
    table = []
    for stage in range(p):
        row = ["."] * (2 * (m + p - 1))
        for i in range(m):
            row[stage + i], row[m + 2 * (p - 1) - stage + i] = f"F{i}", f"B{i}"
        table.append("  ".join(row).rstrip(" ."))
    return tuple(table)


def by_einsum(x, gradient, weight):
    def add(left, right):
        weight.grad.add_(torch.einsum("so,si->oi", left, right))

    return torch.einsum("so,oi->si", gradient, weight), partial(add, gradient, x)


def clears_first(x, gradient, weight):
    """Right in one batch, and loses what an earlier one has left."""
    weight.grad.zero_()
    return gradient @ weight, lambda: weight.grad.add_(gradient.T @ x)


def by_share(output, target, num_samples):
    return F.cross_entropy(output, target) * len(output) / num_samples


def by_logarithms(output, target, num_samples):
    return -output.log_softmax(dim=1)[torch.arange(len(target)), target].sum() / num_samples


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("07.gpipe", by_columns),
        ("07.halves", by_einsum),
        ("07.halves", lambda x, g, w: [g @ w, lambda: w.grad.add_(g.T @ x)]),
        ("07.design", schedules.from_text(DESIGN)),
        ("07.design", str(schedules.from_text(DESIGN).aligned())),
        ("07.design", DESIGN.lower()),
        ("07.design", DESIGN.replace("F2 I2 W0 W1 W2 F3 I3", "F2 I2 W0 W1 F3 I3 W2")),
        ("07.loss", by_share),
        ("07.loss", by_logarithms),
    ],
)
def test_another_right_answer_passes(name, answer):
    seen = verdict(name, answer)
    assert seen.passed, seen


# -- wrong, in another way --------------------------------------------------------------------------------------


def only_the_last_two(p, m):
    return by_columns(p, m)[-2:]


def newest_backward_first(p, m):
    """Runs, and its backwards go from the last micro-batch to the first."""
    dots = ["."]
    return [
        " ".join(dots * s + [f"F{i}" for i in range(m)] + dots * (2 * (p - 1 - s)))
        + " "
        + " ".join(f"B{i}" for i in reversed(range(m)))
        for s in range(p)
    ]


def all_warm_up(stage, p, m):
    """One forward more than the stage before needs, on the first stage alone."""
    return as_room_allows(stage - (stage == 0), p, m)


def average(parameter, group):
    dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)


def hook_on_the_first_weight(model, group, step):
    """Averaged once at the end, and one weight at every micro-batch as well."""
    first = next(iter(model.parameters()))
    hook = first.register_post_accumulate_grad_hook(lambda p: average(p, group))
    step()
    hook.remove()
    for parameter in model.parameters():
        average(parameter, group)


def by_rank_0(model, group, step):
    """Every rank has what its pipeline's first replica found: no mean."""
    step()
    for parameter in model.parameters():
        dist.broadcast(parameter.grad, group=group, group_src=0)


def by_classes(output, target, num_samples):
    return F.cross_entropy(output, target, reduction="sum") / output.numel()


def dots_one_short(p, m):
    """One idle column more than needed between forwards and backwards."""
    return [row.replace(f"F{m - 1}", f"F{m - 1} .") for row in by_columns(p, m)]


def turns_of_one_number(stage, p, m):
    """Each turn takes back what it has just sent."""
    begin = [f"F{i}" for i in range(min(p - 1 - stage, m))]
    turns = [cell for i in range(len(begin), m) for cell in (f"F{i}", f"B{i}")]
    return begin + turns + [cell.replace("F", "B") for cell in begin]


def warm_up_past_the_end(stage, p, m):
    """As many forwards as there are micro-batches, and turns counted as if there were more."""
    first = p - stage - 1
    begin = [f"F{i}" for i in range(min(first, m))]
    turns = [cell for i in range(first, m) for cell in (f"F{i}", f"B{i - first}")]
    return begin + turns + [f"B{i}" for i in range(m - first, m)]


def half_of_the_mean(model, group, step):
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= 4


def step_without_brackets(model, group, step):
    step  # noqa: B018
    for parameter in model.parameters():
        average(parameter, group)


def averages_the_model(model, group, step):
    step()
    dist.all_reduce(model.grad, group=group)


def both_products_now(x, gradient, weight):
    made = gradient.T @ x
    return gradient @ weight, lambda: weight.grad.add_(made)


@pytest.mark.first_cases(10)
@pytest.mark.parametrize(
    ("name", "answer", "mistake", "words"),
    [
        ("07.gpipe", lambda p, m: "\n".join(by_columns(p, m)), None, "a list of"),
        ("07.gpipe", only_the_last_two, None, "rows, one for each stage"),
        ("07.gpipe", lambda p, m: ["F0 X1"] * p, None, "X1"),
        ("07.gpipe", dots_one_short, "waits-for-nothing", "9 columns; 8 are enough"),
        ("07.1f1b", turns_of_one_number, "same-number-in-a-turn", "counts from 0"),
        ("07.1f1b", all_warm_up, "holds-another-number", "at a time"),
        ("07.1f1b", warm_up_past_the_end, "few-micro-batches", "min(..., num_micro_batches)"),
        ("07.1f1b", lambda s, p, m: " ".join(as_room_allows(s, p, m)), None, "expected a list"),
        ("07.1f1b", lambda s, p, m: as_room_allows(s, p, m)[:-1], None, ""),
        ("07.halves", both_products_now, "computed-too-early", "later"),
        ("07.halves", lambda x, g, w: g @ w, "no-function", "a tensor and a function"),
        ("07.halves", clears_first, None, "before anybody called"),
        ("07.halves", lambda x, g, w: (g @ w, lambda: g.T @ x), "kept-by-nobody", "thrown away"),
        ("07.halves", lambda x, g, w: (g @ w.T, None), "product-does-not-fit", "g @ w.T"),
        ("07.design", "F0 nonsense", "cannot-run", "nonsense"),
        ("07.design", 17, None, "as a text"),
        ("07.design", str(schedules.one_f_one_b(2, 6)), "another-size", "4 ranks"),
        ("07.design", DESIGN.replace("F2 I0 W0 I1", "F2 F3 I0 W0 I1"), "cannot-run", "F3"),
        ("07.sync", hook_on_the_first_weight, None, "one all-reduce of them sends 1.0"),
        ("07.sync", half_of_the_mean, "divided-by-a-number", "same number"),
        ("07.sync", step_without_brackets, "no-step", "brackets"),
        ("07.sync", by_rank_0, None, "the gradient of `0.weight`"),
        ("07.loss", by_classes, None, "sum of the contributions"),
        ("07.loss", lambda output, target, n: float("nan"), "no-tensor", "past"),
        ("07.loss", lambda output, target, n: print(end=""), None, "with one number, got None"),
    ],
)
def test_a_wrong_answer_is_told_what_was_seen(name, answer, mistake, words):
    seen = verdict(name, answer)
    assert seen.status == "not yet", seen
    assert mistake is None or seen.mistake == mistake, seen
    assert words in f"{seen.evidence} {seen.message}", seen


def test_an_error_of_the_learners_own_is_told_as_it_is():
    seen = verdict("07.sync", averages_the_model)
    assert (seen.status, seen.mistake) == ("raised", None)
    assert "no attribute 'grad'" in seen.message


def test_gpipe_takes_backwards_in_any_order_that_loses_no_time():
    seen = verdict("07.gpipe", newest_backward_first)
    assert seen.passed, seen  # the last stage begins with the newest, the others follow
