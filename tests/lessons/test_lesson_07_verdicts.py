"""What reviews found in lesson 07's judges: right answers refused, wrong ones accepted, and untrue messages."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_07.right import as_room_allows, one_stage_less

from course_lib import schedules
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.checks.reference import source_with
from course_lib.parallel import pipeline

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def told(name, answer):
    """The whole of what a learner reads."""
    seen = verdict(name, answer)
    return f"{seen.message} {seen.evidence} {seen.details}"


# -- right answers ------------------------------------------------------------------------------------------------


def test_weight_grad_is_there_as_the_text_says():
    def adds(x, gradient, weight):
        def later():
            weight.grad += gradient.T @ x

        return gradient @ weight, later

    assert verdict("07.halves", adds).passed
    assert "`weight.grad` already" in source_with("07.halves").read_text(encoding="utf-8")


# -- wrong answers that were accepted -----------------------------------------------------------------------------


def one_backward_in_halves(stage, p, m):
    return [part for cell in as_room_allows(stage, p, m) for part in (["I3", "W3"] if cell == "B3" else [cell])]


def by_interleaving(stage, p, m):
    return [action.short for action in schedules.interleaved(p, m, 1).rows[stage]]


MAKERS = schedules.SCHEDULES


def from_the_menu(stage, p, m):
    return [action.short for action in MAKERS["1f1b"].make(p, m, 1).rows[stage]]


def gpipe_from_the_menu(p, m):
    rows = MAKERS["gpipe"].make(p, m, 1).aligned().actions
    return [" ".join("." if cell is None else cell.short for cell in row) for row in rows]


def gpipe_by_looping(p, m):
    rows = schedules.looped_bfs(p, m, 1).aligned().actions
    return [" ".join("." if cell is None else cell.short for cell in row) for row in rows]


def never_waits(model, group, step):
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group, async_op=True)


def halves_for_every_group(model, group, step):
    step()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= 2


def by_the_course(model, group, step):
    step()
    pipeline.average_gradients(model, group)


def by_joint_step(model, group, step):
    pipeline.joint_step(model, None, None, group)


def empties_the_gradient(x, gradient, weight):
    def later():
        weight.grad += gradient.T @ x
        gradient.zero_()

    return gradient @ weight, later


QUEUE = []


def one_queue_for_all(x, gradient, weight):
    def later():
        while QUEUE:
            held_x, held_gradient, held_weight = QUEUE.pop()
            held_weight.grad += held_gradient.T @ held_x

    QUEUE.append((x, gradient, weight))
    return gradient @ weight, later


def without_the_maximum(output, target, num_samples):
    shares = output.exp() / output.exp().sum(dim=1, keepdim=True)
    return -shares[torch.arange(len(target)), target].log().sum() / num_samples


@pytest.mark.first_cases(6)
@pytest.mark.parametrize(
    ("name", "answer", "status", "words"),
    [
        ("07.1f1b", one_backward_in_halves, "not yet", "backwards in halves"),
        ("07.1f1b", by_interleaving, "forbidden", "interleaved"),
        ("07.1f1b", from_the_menu, "forbidden", "SCHEDULES"),
        ("07.gpipe", gpipe_from_the_menu, "forbidden", "SCHEDULES"),
        ("07.gpipe", gpipe_by_looping, "forbidden", "looped_bfs"),
        ("07.sync", never_waits, "not yet", "nobody waited"),
        ("07.sync", halves_for_every_group, "not yet", "same number everywhere"),
        ("07.sync", by_the_course, "forbidden", "average_gradients"),
        ("07.sync", by_joint_step, "forbidden", "joint_step"),
        ("07.halves", empties_the_gradient, "not yet", "changes `gradient`"),
        ("07.halves", one_queue_for_all, "not yet", "leaves `weight.grad` as it was"),
        ("07.loss", without_the_maximum, "not yet", "inf or nan"),
    ],
)
def test_a_wrong_answer_that_was_accepted_is_refused(name, answer, status, words):
    seen = verdict(name, answer)
    assert seen.status == status, seen
    assert words in f"{seen.message} {seen.evidence}", seen


def test_the_page_does_not_print_the_solution_of_sync():
    before = source_with("07.sync").read_text(encoding="utf-8").split('check("07.sync"')[0]
    assert "average_gradients" not in before


# -- messages that said what was not so ---------------------------------------------------------------------------


def one_product_too_many(x, gradient, weight):
    gradient @ weight
    return gradient @ weight, lambda: weight.grad.add_(gradient.T @ x)


def broadcasts(model, group, step):
    step()
    for parameter in model.parameters():
        dist.broadcast(parameter.grad, group=group, group_src=0)


def changes_the_outputs(output, target, num_samples):
    output -= output.amax(dim=1, keepdim=True).detach()
    return F.cross_entropy(output, target, reduction="sum") / num_samples


def five_on_rank_0():
    """A table in which rank 0 has not four, as under 1F1B, but five in flight."""
    rows = [[action.short for action in row] for row in schedules.one_f_one_b(4, 6).rows]
    rows[0] = ["F0", "F1", "F2", "F3", "F4", "B0", "B1", "F5", "B2", "B3", "B4", "B5"]
    return "\n".join(" ".join(row) for row in rows)


def a_matrix_came(output, target, num_samples):
    return output / num_samples


def wrong_and_detached(output, target, num_samples):
    return F.cross_entropy(output.detach(), target)


def a_bug_of_its_own(x, gradient, weight):
    def later():
        raise RuntimeError("out of paper")

    return gradient @ weight, later


def a_copy_is_averaged(model, group, step):
    step()
    flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)


def asks_the_loss(model, group, step):
    loss = step()
    print(loss.item())


def some_idle_columns_and_halves(p, m):
    return [row.replace("B0", "I0 W0") for row in one_stage_less(p, m)]


@pytest.mark.first_cases(6)
@pytest.mark.parametrize(
    ("name", "answer", "said", "unsaid"),
    [
        (
            "07.halves",
            one_product_too_many,
            "the first half multiplies 120 numbers",
            "gradient of the weight",
        ),
        ("07.halves", a_bug_of_its_own, "out of paper", "sides exchanged"),
        ("07.sync", broadcasts, "the gradient of `0.weight`", "nothing travels"),
        ("07.sync", a_copy_is_averaged, "nobody wrote back", "You average the weights"),
        ("07.sync", asks_the_loss, "has no attribute 'item'", "Nobody took the step"),
        ("07.loss", changes_the_outputs, "`output` was changed in place", "SplitWithSizes"),
        ("07.loss", a_matrix_came, "a tensor with one number", "reduction="),
        ("07.loss", wrong_and_detached, "it has no graph", "The value is right"),
        ("07.design", five_on_rank_0(), "rank 0 has 5 micro-batches in flight", "Rank 0 has four"),
        ("07.design", "F0 B0", "1 rank, 1 stage and 1 micro-batch;", "1 ranks"),
        ("07.gpipe", some_idle_columns_and_halves, "a backward is one cell", "Everything is in order"),
        (
            "07.1f1b",
            lambda s, p, m: [f"{k}{i}" for i in range(m) for k in "FB"],
            "1 micro-batch in",
            "1 micro-batches",
        ),
    ],
)
def test_a_message_says_what_was_seen_and_no_more(name, answer, said, unsaid):
    text = told(name, answer)
    assert said in text
    assert unsaid not in text


def takes_an_argument(x, gradient, weight):
    return gradient @ weight, lambda again: None


def adds_something_else(x, gradient, weight):
    return gradient @ weight, partial(weight.grad.add_, torch.zeros(77))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("07.halves", takes_an_argument),
        ("07.halves", adds_something_else),
        ("07.sync", asks_the_loss),
        ("07.sync", lambda model, group: model),
        ("07.loss", lambda output: output.sum()),
    ],
)
def test_no_line_of_the_check_passes_for_the_learners(name, answer):
    text = told(name, answer)
    assert "_trial.py" not in text
    assert "later()`" not in text
    assert "answer(" not in text
