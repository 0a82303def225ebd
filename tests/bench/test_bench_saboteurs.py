"""Saboteurs: each makes a wrong answer of a right one, says whether it did, and leaves the right one as it was."""

from __future__ import annotations

import inspect
import pickle
from types import SimpleNamespace

import cloudpickle
import pytest
import torch

from course_lib.authoring.bench.judging import kept_answers
from course_lib.authoring.bench.judging.saboteurs import SABOTEURS, sabotaged
from course_lib.learn import exercises

ONE = SimpleNamespace(rank=0, world_size=1)
TWO = SimpleNamespace(rank=0, world_size=2)


def doubled(x):
    return x * 2


def spoilt(name, answer, tmp_path):
    noted = tmp_path / "noted"
    return sabotaged(SABOTEURS[name], answer, noted), noted


def test_there_is_one_for_each_kind_and_each_says_in_a_line_what_is_wrong():
    assert len(SABOTEURS) >= 30
    assert all(saboteur.what and "\n" not in saboteur.what for saboteur in SABOTEURS.values())


def test_a_saboteur_with_nothing_to_spoil_says_so(tmp_path):
    answer, noted = spoilt("changes-a-list", doubled, tmp_path)
    assert answer(3) == 6
    assert not noted.exists()


def test_it_keeps_the_name_and_the_signature_of_the_answer(tmp_path):
    answer, _ = spoilt("kept-by-shape", doubled, tmp_path)
    assert (answer.__name__, str(inspect.signature(answer))) == ("doubled", "(x)")


def test_it_travels_to_a_rank_by_value_and_keeps_nothing_of_another(tmp_path):
    answer, _ = spoilt("kept-by-shape", doubled, tmp_path)
    assert answer(torch.ones(2)).tolist() == [2, 2]
    other, _ = spoilt("kept-by-shape", doubled, tmp_path)
    assert other(torch.zeros(2)).tolist() == [0, 0]
    assert pickle.loads(cloudpickle.dumps(other))(torch.ones(3)).tolist() == [2, 2, 2]


class TestKeeps:
    def test_the_first_result_of_a_shape_comes_for_ever(self, tmp_path):
        answer, noted = spoilt("kept-by-shape", doubled, tmp_path)
        assert answer(torch.ones(2)).tolist() == answer(torch.zeros(2)).tolist() == [2, 2]
        assert answer(torch.ones(3)).tolist() == [2, 2, 2]
        assert noted.exists()

    def test_equal_arguments_give_the_very_same_tensor(self, tmp_path):
        answer, _ = spoilt("kept-by-arguments", doubled, tmp_path)
        assert answer(torch.ones(2)) is answer(torch.ones(2))
        assert answer(torch.zeros(2)).tolist() == [0, 0]

    def test_a_second_object_has_what_the_first_one_has(self, tmp_path):
        class Total:
            def __init__(self, start):
                self.total = start

        kept, noted = spoilt("kept-for-the-life-of-the-class", Total, tmp_path)
        first, second = kept([1]), kept([1])
        first.total = 7
        assert second.total == 7
        assert noted.exists()
        assert spoilt("kept-for-the-life-of-the-class", doubled, tmp_path)[0] is None

    def test_a_second_result_overwrites_the_first(self, tmp_path):
        answer, _ = spoilt("one-buffer-for-all-results", doubled, tmp_path)
        first = answer(torch.ones(2))
        assert answer(torch.full((2,), 3.0)).tolist() == first.tolist() == [6, 6]

    def test_it_works_once(self, tmp_path):
        answer, _ = spoilt("right-at-the-first-call-alone", doubled, tmp_path)
        assert (answer(1), answer(1)) == (2, None)


@pytest.mark.parametrize(
    ("name", "fine", "refused"),
    [
        ("only-float64", torch.ones(2, dtype=torch.float64), torch.ones(2)),
        ("only-float32", torch.ones(2), torch.ones(2, dtype=torch.float64)),
        ("only-contiguous", torch.ones(2, 3), torch.ones(2, 3).T),
        ("only-without-requires-grad", torch.ones(2), torch.ones(2, requires_grad=True)),
        ("fails-where-nothing-is-to-do", torch.ones(2), torch.ones(0)),
    ],
)
def test_what_is_narrow_fails_for_the_rest(name, fine, refused, tmp_path):
    answer, noted = spoilt(name, doubled, tmp_path)
    assert torch.equal(answer(fine), fine * 2)
    assert noted.exists()  # it could have failed, had it been tried
    with pytest.raises(RuntimeError, match="alone"):
        answer(refused)


@pytest.mark.parametrize(("name", "bad"), [("fails-on-one-rank", ONE), ("fails-on-two-ranks", TWO)])
def test_a_number_of_ranks_fails(name, bad, tmp_path):
    answer, _ = spoilt(name, lambda me, x: x, tmp_path)
    assert answer({1: TWO, 2: ONE}[bad.world_size], 5) == 5
    with pytest.raises(RuntimeError, match="ranks"):
        answer(bad, 5)


def test_results_have_one_dtype(tmp_path):
    assert spoilt("gives-float32-always", doubled, tmp_path)[0](torch.ones(1).double()).dtype == torch.float32
    assert spoilt("gives-float64-always", doubled, tmp_path)[0](torch.ones(1)).dtype == torch.float64


def test_float64_inside_gives_the_dtype_back_and_fills_what_was_to_be_filled(tmp_path):
    seen = []

    def fills(x):
        seen.append(x.dtype)
        return x.mul_(2)

    answer, noted = spoilt("float64-inside", fills, tmp_path)
    x = torch.ones(2)
    assert answer(x) is x
    assert x.tolist() == [2, 2]
    assert seen == [torch.float64]
    assert noted.exists()


class TestSpoils:
    def test_an_input_is_another_one_after_the_call(self, tmp_path):
        answer, _ = spoilt("changes-an-input", doubled, tmp_path)
        x = torch.ones(2)
        assert answer(x).tolist() == x.tolist() == [2, 2]

    def test_a_list_and_a_dictionary_lose_an_item(self, tmp_path):
        items, names = [1, 2], {"a": 1}
        spoilt("changes-a-list", len, tmp_path)[0](items)
        spoilt("changes-a-dictionary", len, tmp_path)[0](names)
        assert (items, names) == ([1], {})

    def test_a_gradient_is_another_tensor_and_the_old_one_is_old(self, tmp_path):
        model = torch.nn.Linear(1, 1)
        model.weight.grad = old = torch.ones(1, 1)
        spoilt("replaces-a-grad", lambda model: None, tmp_path)[0](model)
        assert (model.weight.grad.item(), old.item(), model.bias.grad) == (1, 2, None)
        spoilt("makes-a-grad", lambda model: None, tmp_path)[0](model)
        assert model.bias.grad.tolist() == [0]

    def test_a_hook_and_a_seed_stay(self, tmp_path):
        model = torch.nn.Linear(1, 1)
        spoilt("leaves-a-hook", lambda model: None, tmp_path)[0](model)
        assert len(model._forward_hooks) == 1
        torch.manual_seed(5)
        spoilt("leaves-a-seed", doubled, tmp_path)[0](1)
        assert torch.initial_seed() == 0


def fails(x):
    raise ValueError(f"no {x}")


def test_errors_are_lost(tmp_path):
    assert spoilt("swallows-errors", fails, tmp_path)[0](1) is None
    with pytest.raises(LookupError) as caught:
        spoilt("loses-the-text-of-errors", fails, tmp_path)[0](1)
    assert "no 1" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_equal_result_is_the_input(tmp_path):
    answer, noted = spoilt("gives-an-input-where-it-is-equal", lambda x: x[:1].clone(), tmp_path)
    x = torch.ones(2)
    assert answer(x).data_ptr() == x.data_ptr()
    assert noted.exists()


def test_each_method_of_a_class_is_spoilt_and_the_class_itself_stays(tmp_path):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    spoiled, _ = spoilt("gives-float64-always", Square, tmp_path)
    assert spoiled.apply(torch.ones(1)).dtype == torch.float64
    assert Square.apply(torch.ones(1)).dtype == torch.float32


def test_what_means_nothing_is_said_of_saboteurs_that_there_are_with_a_reason():
    for lesson in exercises.lesson_numbers():
        for exercise in exercises.exercises_of(lesson):
            for name, reason in kept_answers.means_nothing(exercise.name).items():
                assert name in SABOTEURS, (exercise.name, name)
                assert len(reason.split()) >= 4, (exercise.name, name)
