"""Lesson 01's judges against answers that are neither the reference nor a catalogued example."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = pytest.mark.long


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def by_sums(model, optimizer, pieces):
    """Right, by another way: sums over examples, divided at the end."""
    optimizer.zero_grad()
    for x, y in pieces:
        F.cross_entropy(model(x), y, reduction="sum").backward()
    for parameter in (p for p in model.parameters() if p.grad is not None):
        parameter.grad /= sum(len(x) for x, _ in pieces)
    optimizer.step()


def one_large_batch(model, optimizer, pieces):
    x, y = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def steps_and_clears_inside(model, optimizer, pieces):
    for x, y in pieces:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def clears_inside_without_weights(model, optimizer, pieces):
    for x, y in pieces:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
    optimizer.step()


def test_another_right_way_to_accumulate_passes():
    assert verdict("01.accumulate", by_sums).passed


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (one_large_batch, "all-at-once"),
        (steps_and_clears_inside, "steps-inside"),
        (clears_inside_without_weights, "cleared-inside"),
    ],
)
def test_other_forms_of_a_mistake_are_recognised(answer, mistake):
    found = verdict("01.accumulate", answer)
    assert found.status == "not yet"
    assert found.mistake == mistake


def by_grad(block, x, grad_y, rng_state):
    """Right, by another way: torch.autograd.grad for all, added by hand."""
    now = torch.get_rng_state()
    torch.set_rng_state(rng_state)
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = block(x)
    torch.set_rng_state(now)
    learning = [parameter for parameter in block.parameters() if parameter.requires_grad]
    grad_x, *others = torch.autograd.grad(y, [x, *learning], grad_y, allow_unused=True)
    for parameter, grad in zip(learning, others, strict=True):
        if grad is not None:
            parameter.grad = grad if parameter.grad is None else parameter.grad + grad
    return grad_x


def overwrites(block, x, grad_y, rng_state):
    for parameter in block.parameters():
        parameter.grad = None
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        x = x.detach().requires_grad_()
        torch.autograd.backward(block(x), grad_y)
    return x.grad


def test_another_right_way_to_recompute_passes():
    assert verdict("01.recompute", by_grad).passed


def test_gradients_that_were_there_must_stay():
    found = verdict("01.recompute", overwrites)
    assert found.status == "not yet"
    assert found.mistake == "gradients-replaced"
    assert ".grad of the block's parameters" in found.evidence


@torch.inference_mode()
def in_inference_mode(model, batches):
    model.eval()
    total = sum(F.cross_entropy(model(x), y, reduction="sum") for x, y in batches)
    return total / sum(len(x) for x, _ in batches)


def as_sent(model, batches):
    model.eval()
    total, count = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x), y) * len(x)
        count += len(x)
    return total / count


def with_item(model, batches):
    model.eval()
    total = 0.0
    for x, y in batches:
        total += F.cross_entropy(model(x), y).item() * len(x)
    return total / sum(len(x) for x, _ in batches)


def test_evaluations():
    assert verdict("01.evaluate", in_inference_mode).passed
    assert verdict("01.evaluate", as_sent).mistake == "every-graph-kept"
    assert verdict("01.evaluate", with_item).mistake == "one-graph-kept"


def test_a_count_with_two_mistakes_gets_numbers():
    found = verdict("01.ledger", lambda parameters: {"parameter": 1, "gradient": 2, "optimizer state": 3})
    assert found.status == "not yet"
    assert "expected 88" in found.message


def test_the_quiz_agrees_with_the_lesson():
    answers = {question.name: question.show(question.answer()) for question in exercises.quiz_of("01")}
    assert answers == {
        "state": "16 MB",
        "autocast": "16 MB",
        "ragged": "1/9",
        "recompute": "to 4/3 of what it was",
        "batch": "activations",
    }


def gradients_assigned(block, x, grad_y, rng_state):
    """Right but for `.grad`, which is replaced; and autograd.grad refuses frozen weights."""
    x, before = x.detach().requires_grad_(), torch.get_rng_state()
    torch.set_rng_state(rng_state)
    with torch.enable_grad():
        y = block(x)
    torch.set_rng_state(before)
    parameters = list(block.parameters())
    grad_x, *grads = torch.autograd.grad(y, [x, *parameters], grad_y)
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad
    return grad_x


def gradients_cleared(block, x, grad_y, rng_state):
    x = x.detach().requires_grad_()
    block.zero_grad(set_to_none=False)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        y = block(x)
    y.backward(grad_y)
    return x.grad


@pytest.mark.parametrize("answer", [gradients_assigned, gradients_cleared])
def test_lost_gradients_are_not_taken_for_a_pass_that_was_not_recorded(answer):
    found = verdict("01.recompute", answer)
    assert found.mistake == "gradients-replaced"
    assert "recording was off" not in found.message


def test_a_gradient_for_x_that_is_wrong_is_not_called_a_lost_one():
    assert verdict("01.recompute", lambda *given: (gradients_cleared(*given), given[2])[1]).mistake is None


def test_the_formula_names_one_copy_of_what_one_product_reads():
    from course_lib import cost
    from course_lib.models import TransformerConfig

    kept = cost.transformer_activations(TransformerConfig(), batch_size=1, autocast=True)
    names = {item.name.partition(": ")[2] for item in kept if item.name.startswith("blocks.0:")}
    assert {
        "input of q, k, v, a bfloat16 copy each",
        "input of w_up, a bfloat16 copy",
        "GELU: output",
    } <= names


@torch.no_grad()
def returns_in_the_loop(model, batches):
    model.eval()
    total = count = 0
    for x, y in batches:
        total, count = total + F.cross_entropy(model(x), y).item() * len(x), count + len(x)
        return total / count


@torch.no_grad()
def weighs_and_divides_by_batches(model, batches):
    model.eval()
    return sum(F.cross_entropy(model(x), y).item() * len(x) for x, y in batches) / len(batches)


def test_an_evaluation_that_ends_after_a_batch_is_told_how_many_it_saw():
    message = verdict("01.evaluate", returns_in_the_loop).message
    assert "ran on 1 of 4 batches" in message
    assert "`return`" in message


def test_a_sum_over_examples_that_is_divided_by_the_batches_is_told_so():
    assert verdict("01.evaluate", weighs_and_divides_by_batches).mistake == "divided-by-batches"
