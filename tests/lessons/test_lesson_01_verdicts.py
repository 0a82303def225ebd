"""Lesson 01's judges against the answers by which reviews fooled them, or were wronged by them."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]

HELD = []  # what a careless answer keeps for good


@pytest.fixture(autouse=True)
def _let_go():
    yield
    HELD.clear()


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def refused(name, answer, words, mistake=None):
    seen = verdict(name, answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in seen.message, seen


# -- 01.ledger ---------------------------------------------------------------------------------------------------------


def right_bytes(parameters):
    unique = {id(p): p for p in parameters}.values()
    learning = [p for p in unique if p.requires_grad]
    gradients = sum(p.nbytes for p in learning)
    return {
        "parameter": sum(p.nbytes for p in unique),
        "gradient": gradients,
        "optimizer state": 2 * gradients + 4 * len(learning),
    }


def by_shape_and_type(parameters):
    return right_bytes({(p.shape, p.dtype): p for p in parameters}.values())


def freezes_them(parameters):
    counted = right_bytes(parameters)
    for parameter in parameters:
        parameter.requires_grad_(False)
    return counted


def in_floats(parameters):
    return {name: float(size) for name, size in right_bytes(parameters).items()}


def nearly(parameters):
    return {name: size + (size > 1_000_000) for name, size in right_bytes(parameters).items()}


def shortens_the_list(parameters):
    counted = right_bytes(parameters)
    parameters.clear()
    return counted


def step_count_of_their_type(parameters):
    counted = right_bytes(parameters)
    learning = [p for p in {id(p): p for p in parameters}.values() if p.requires_grad]
    return {**counted, "optimizer state": sum(2 * p.nbytes + p.element_size() for p in learning)}


@pytest.mark.parametrize(
    ("answer", "words", "mistake"),
    [
        (by_shape_and_type, "memory of its own", "same-shape-for-same"),
        (in_floats, "whole", "fractions-of-bytes"),
        (freezes_them, "was left with requires_grad=False", None),
        (nearly, "expected", None),
        (shortens_the_list, "`parameters` had 2 items and has 0 now", None),
        (step_count_of_their_type, "expected", None),
    ],
)
def test_bytes_that_are_right_by_luck_or_at_a_price_are_refused(answer, words, mistake):
    refused("01.ledger", answer, words, mistake)


def test_counting_by_letting_adamw_make_it_all_is_refused_by_name():
    def by_making_it(parameters):
        mine = [p for p in {id(p): p for p in copy.deepcopy(parameters)}.values() if p.requires_grad]
        torch.optim.AdamW(mine)
        return right_bytes(parameters)

    seen = verdict("01.ledger", by_making_it)
    assert seen.status == "forbidden"
    assert "`torch.optim.AdamW`" in seen.message


def test_bytes_of_one_tensor_are_not_called_numbers():
    seen = verdict("01.ledger", lambda parameters: right_bytes(parameters[-1:]))
    assert seen.mistake is None


# -- 01.accumulate -----------------------------------------------------------------------------------------------------


def step(model, optimizer, pieces, run=None, after=lambda loss, out: None):
    total = sum(len(x) for x, _ in pieces)
    optimizer.zero_grad()
    for x, y in pieces:
        out = (run or model)(x)
        loss = F.cross_entropy(out, y) * len(x) / total
        loss.backward()
        after(loss.detach(), out)
    optimizer.step()


def left_in_eval(model, optimizer, pieces):
    step(model, optimizer, pieces)
    model.eval()


def run_in_eval(model, optimizer, pieces):
    model.eval()
    step(model, optimizer, pieces)
    model.train()


def wakes_everything(model, optimizer, pieces):
    model.train()
    step(model, optimizer, pieces)


def twice_a_piece(model, optimizer, pieces):
    def run(x):
        with torch.no_grad():
            model(x)
        return model(x)

    step(model, optimizer, pieces, run)


def one_example_at_a_time(model, optimizer, pieces):
    step(model, optimizer, [pair for x, y in pieces for pair in zip(x.split(1), y.split(1), strict=True)])


def clears_its_pieces(model, optimizer, pieces):
    step(model, optimizer, pieces)
    for x, _ in pieces:
        x.zero_()


def empties_the_list(model, optimizer, pieces):
    step(model, optimizer, pieces)
    pieces.clear()


def thaws(model, optimizer, pieces):
    step(model, optimizer, pieces)
    model.requires_grad_(True)


def with_an_optimizer_of_its_own(model, optimizer, pieces):
    own = torch.optim.SGD(optimizer.param_groups[0]["params"], lr=0.1, momentum=0.9, weight_decay=0.01)
    step(model, own, pieces)


def by_another_learning_rate(model, optimizer, pieces):
    step(model, optimizer, pieces)
    optimizer.param_groups[0]["lr"] *= 0.5


def holds_graphs(model, optimizer, pieces):
    total = sum(len(x) for x, _ in pieces)
    optimizer.zero_grad()
    for x, y in pieces:
        loss = F.cross_entropy(model(x), y) * len(x) / total
        loss.backward(retain_graph=True)
        HELD.append(loss)
    optimizer.step()


def holds_outputs(model, optimizer, pieces):
    step(model, optimizer, pieces, after=lambda loss, out: HELD.append(out))


def empty_step_more(model, optimizer, pieces):
    step(model, optimizer, pieces)
    optimizer.zero_grad()
    optimizer.step()


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (left_in_eval, "was left in eval mode"),
        (run_in_eval, "ran in evaluation mode"),
        (wakes_everything, "`norm` of the model ran in training mode"),
        (twice_a_piece, "the model ran 4 times, on 4, 4, 4 and 4 examples; the pieces have 4 and 4"),
        (one_example_at_a_time, "the model ran 8 times"),
        (clears_its_pieces, "`pieces`[0][0] has changed"),
        (empties_the_list, "`pieces` had 2 items and has 0 now"),
        (thaws, "requires_grad=True"),
        (by_another_learning_rate, "the settings of the optimizer"),
        (with_an_optimizer_of_its_own, "`optimizer.step()` was called 0 times"),
        (empty_step_more, "`optimizer.step()` was called 2 times"),
        (holds_graphs, "activations still wait for a backward pass"),
        (holds_outputs, "2 of the model's outputs are still held"),
    ],
)
def test_a_step_that_leaves_something_or_costs_too_much_is_refused(answer, words):
    refused("01.accumulate", answer, words)


def clips(model, optimizer, pieces):
    optimizer.zero_grad()
    total = sum(len(x) for x, _ in pieces)
    for x, y in pieces:
        (F.cross_entropy(model(x), y) * len(x) / total).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def weighs_twice(model, optimizer, pieces):
    optimizer.zero_grad()
    total = sum(len(x) for x, _ in pieces)
    for x, y in pieces:
        (F.cross_entropy(model(x), y) * len(x) / total / 2).backward()
    optimizer.step()


def forgets_the_last_piece(model, optimizer, pieces):
    step(model, optimizer, pieces[:-1])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (clips, "at the step the gradient is 0."),
        (weighs_twice, "at the step the gradient is 0.5 times that of the mean over all examples"),
        (forgets_the_last_piece, "the model ran once, on 4 examples; the pieces have 4 and 4"),
    ],
)
def test_a_wrong_gradient_is_told_as_a_length(answer, words):
    refused("01.accumulate", answer, words)


def on_a_copy(model, optimizer, pieces):
    step(copy.deepcopy(model), optimizer, pieces)


def test_a_step_on_nothing_is_not_called_no_step():
    seen = verdict("01.accumulate", on_a_copy)
    assert seen.mistake == "step-without-gradients"
    assert "`optimizer.step()` was called" in seen.message


# -- 01.evaluate -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def mean_of(model, batches):
    return sum(F.cross_entropy(model(x), y).item() * len(x) for x, y in batches) / sum(len(x) for x, _ in batches)


def wakes_the_model(model, batches):
    model.train()
    return mean_of(model, batches)


def never_calls_eval(model, batches):
    return mean_of(model, batches)


def leaves_it_training(model, batches):
    model.eval()
    mean = mean_of(model, batches)
    model.train()
    return mean


def freezes_the_model(model, batches):
    model.eval().requires_grad_(False)
    return mean_of(model, batches)


def leaves_the_switch_off(model, batches):
    model.eval()
    torch.set_grad_enabled(False)
    return mean_of(model, batches)


def all_in_one(model, batches):
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    return mean_of(model.eval(), [(x, y)])


@torch.no_grad()
def collects_the_outputs(model, batches):
    model.eval()
    outputs = [model(x) for x, _ in batches]
    return F.cross_entropy(torch.cat(outputs), torch.cat([y for _, y in batches]))


@torch.no_grad()
def holds_the_outputs(model, batches):
    model.eval()
    for x, _ in batches:
        HELD.append(model(x))
    return mean_of(model, batches)


@torch.no_grad()
def holds_the_last(model, batches):
    model.eval()
    total = 0.0
    for x, y in batches:
        HELD[:] = [model(x)]
        total += F.cross_entropy(HELD[0], y).item() * len(x)
    return total / sum(len(x) for x, _ in batches)


def clears_gradients(model, batches):
    model.eval()
    model.zero_grad()
    return mean_of(model, batches)


def twice_over(model, batches):
    model.eval()
    mean_of(model, batches)
    return mean_of(model, batches)


@pytest.mark.first_cases(5)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (wakes_the_model, "ran in training mode"),
        (never_calls_eval, "`norm` and `dropout` of the model ran in training mode"),
        (leaves_it_training, "left in training mode; it came in evaluation mode"),
        (freezes_the_model, "requires_grad=False"),
        (leaves_the_switch_off, "gradients are left switched off"),
        (all_in_one, "batches of 16 examples, where the batches have 4, 4, 4 and 4"),
        (collects_the_outputs, "memory climbs"),
        (holds_the_last, "1 of the model's outputs are still held"),
        (clears_gradients, "has lost its .grad"),
        (twice_over, "the batches have 4, 4, 4 and 4"),
        (holds_the_outputs, "the batches have"),
    ],
)
def test_an_evaluation_that_changes_or_keeps_something_is_refused(answer, words):
    refused("01.evaluate", answer, words)


# -- 01.recompute ------------------------------------------------------------------------------------------------------


def again(block, x, grad_y, rng_state, *, go=None):
    leaf = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        y = block(leaf)
    (go or (lambda y: torch.autograd.backward(y, grad_y)))(y)
    return leaf.grad


def keeps_the_graph(block, x, grad_y, rng_state):
    def go(y):
        y.backward(grad_y, retain_graph=True)
        HELD.append(y)

    return again(block, x, grad_y, rng_state, go=go)


def graph_of_gradients(block, x, grad_y, rng_state):
    return again(block, x, grad_y, rng_state, go=lambda y: y.backward(grad_y, create_graph=True))


def in_training_mode(block, x, grad_y, rng_state):
    block.train()
    return again(block, x, grad_y, rng_state)


def scales_grad_y(block, x, grad_y, rng_state):
    grad_x = again(block, x, grad_y, rng_state)
    grad_y.mul_(2)
    return grad_x


def cuts_x_itself(block, x, grad_y, rng_state):
    x.detach_().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        torch.autograd.backward(block(x), grad_y)
    return x.grad


def learns_what_is_frozen(block, x, grad_y, rng_state):
    block.requires_grad_(True)
    return again(block, x, grad_y, rng_state)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (keeps_the_graph, "the graph of the second run is still held"),
        (graph_of_gradients, "a graph of its own"),
        (in_training_mode, "train mode"),
        (scales_grad_y, "`grad_y` has changed"),
        (cuts_x_itself, "`x` itself was cut off"),
        (learns_what_is_frozen, "requires_grad=True"),
    ],
)
def test_a_second_run_that_leaves_something_behind_is_refused(answer, words):
    refused("01.recompute", answer, words)


def in_evaluation_mode(block, x, grad_y, rng_state):
    block.eval()
    return again(block, x, grad_y, rng_state)


def test_a_block_put_to_rest_is_not_said_to_have_drawn_other_numbers():
    refused("01.recompute", in_evaluation_mode, "`block` was left in eval mode")


def switched_on(block, x, grad_y, rng_state):
    torch.set_grad_enabled(True)
    return again(block, x, grad_y, rng_state)


def backward_from_a_sum(block, x, grad_y, rng_state):
    return again(block, x, grad_y, rng_state, go=lambda y: y.sum().backward())


def backward_from_a_weighed_sum(block, x, grad_y, rng_state):
    return again(block, x, grad_y, rng_state, go=lambda y: (y * grad_y).sum().backward())


def never_recorded(block, x, grad_y, rng_state):
    y = block(x.detach().requires_grad_())
    y.backward(grad_y)


@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (switched_on, "recording-left-on", "left switched on"),
        (backward_from_a_sum, "recorded-too-little", "The block ran recorded"),
        (backward_from_a_weighed_sum, "recorded-too-little", "The block ran recorded"),
        (never_recorded, "not-recorded", "The second run of the block was not recorded"),
    ],
)
def test_what_was_recorded_is_told_as_it_was(answer, mistake, words):
    refused("01.recompute", answer, words, mistake)
