"""The judge of 10.join: what it expects, what it refuses in the words of which mistake, and what it says besides."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from answers.lesson_10.right.join import ANSWERS, by_softmax
from answers.lesson_10.wrong import join as wrong_join

from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_10.join import JOIN, wrong_answers
from course_lib.learn.exercises.lesson_10.join.cases import CASES, found
from course_lib.learn.exercises.lesson_10.join.labels import Label

LABELS = [value for name, value in vars(Label).items() if name.isupper() and isinstance(value, str)]
NONE = -math.inf


def test_every_case_has_its_label_and_the_recognisers_know_them():
    assert [case.label for case in CASES] == LABELS
    assert set(Label.EMPTY) | set(Label.USUAL) <= set(LABELS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_what_is_expected_is_attention_to_all_keys(case):
    """By PyTorch's own where every query saw a key: the first keys' values and the others' make the output."""
    (out1, lse1), (out2, lse2) = case.args
    out, lse = case.expected
    assert out.dtype == lse.dtype == torch.float64
    assert torch.isfinite(out).all()
    shares = torch.stack([lse1, lse2]).softmax(0).nan_to_num(nan=0.0)
    torch.testing.assert_close(out, shares[0, ..., None] * out1 + shares[1, ..., None] * out2, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(lse, torch.logaddexp(lse1, lse2))


def test_a_side_is_softmax_over_its_keys():
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 4, generator=random, dtype=torch.float64) for n in (3, 5, 5))
    out, lse = found(q @ k.mT / 2, v)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v))
    torch.testing.assert_close(lse.exp(), (q @ k.mT / 2).exp().sum(-1))
    nothing, none = found(torch.full((1, 1, 1, 2), NONE), torch.ones(1, 1, 2, 3))
    assert (nothing == 0).all()
    assert (none == NONE).all()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_right_answers_do_not_care_which_side_is_first(answer):
    first, second = CASES[1].args
    for one, other in zip(answer(first, second), answer(second, first), strict=True):
        torch.testing.assert_close(one, other)


# -- other forms of the same mistakes, as they are written late in the evening ---------------------------------


def mean_and_larger(first, second):
    return (first[0] + second[0]) / 2, torch.maximum(first[1], second[1])


def winner_with_the_right_lse(first, second):
    return wrong_answers.takes_the_winner(first, second)[0], torch.logaddexp(first[1], second[1])


def big_logs(first, second):
    """lse by exp and log, shares by lse."""
    both = (first[1].exp() + second[1].exp()).log()
    mine, theirs = ((side[1] - both).exp().unsqueeze(-1) for side in (first, second))
    return mine * first[0] + theirs * second[0], both


def softmax_of_nothing(first, second):
    lse = torch.stack([first[1], second[1]])
    shares = lse.softmax(0).unsqueeze(-1)
    return (shares * torch.stack([first[0], second[0]])).sum(0), lse.logsumexp(0)


def by_the_second(first, second):
    return wrong_join.shifts_by_the_first(second, first)


def by_a_quotient(first, second):
    """1 / (1 + exp(difference)) is fine; the lse overflows."""
    difference = (second[1] - first[1]).exp()
    share = (1 / (1 + difference)).nan_to_num(nan=0.0).unsqueeze(-1)
    return share * first[0] + (1 - share) * second[0], first[1] + torch.log1p(difference)


def zeros_for_infinity(first, second):
    """exp of both is 0 where nothing was seen, and its logarithm was mended."""
    out, lse = by_softmax(first, second)
    return out, lse.nan_to_num(neginf=-1e30)


def adds_in_place(first, second):
    out, lse = by_softmax(first, second)
    second[1].copy_(lse)
    return out, second[1]


def one_top_and_mended(first, second):
    top = max(first[1].max().item(), second[1].max().item())
    top = 0.0 if top == NONE else top
    mine, theirs = (first[1] - top).exp(), (second[1] - top).exp()
    total = mine + theirs
    out = (mine.unsqueeze(-1) * first[0] + theirs.unsqueeze(-1) * second[0]) / total.clamp(min=1e-300).unsqueeze(-1)
    return out, top + total.log()


def stacked(first, second):
    return torch.cat([wrong_join.gives_out_alone(first, second), first[1].unsqueeze(-1)], -1)


def no_dim_and_square(first, second):
    mine, theirs = torch.stack([first[1], second[1]]).softmax(0)
    return mine * first[0] + theirs * second[0], torch.logaddexp(first[1], second[1])


def sums_over_the_wrong_dim(first, second):
    """Shapes do not fit either, but the shares have their last dim."""
    both = torch.stack([first[1], second[1]]).logsumexp(-1)
    mine, theirs = ((side[1] - both).exp().unsqueeze(-1) for side in (first, second))
    return mine * first[0] + theirs * second[0], both


def zero_for_nothing(first, second):
    out, lse = by_softmax(first, second)
    return out, lse.nan_to_num(neginf=0.0)


def lse_by_bits(first, second):
    out, lse = by_softmax(first, second)
    return out, lse / math.log(2)


def single_precision(first, second):
    out, lse = by_softmax(*((o.float(), x.float()) for o, x in (first, second)))
    return out.double(), lse.double()


def by_epsilon(first, second):
    out, lse = by_softmax(first, second)
    total = torch.stack([first[1], second[1]]).sub(lse).exp().nan_to_num(nan=0.0).sum(0)
    return out * (total / (total + 1e-7)).unsqueeze(-1), lse


def first_alone(first, second):
    return first


def detached_nan(first, second):
    out, lse = by_softmax(first, second)
    return out.masked_fill(lse.unsqueeze(-1) == NONE, math.nan), lse


TIRED = {
    mean_and_larger: "averages",
    winner_with_the_right_lse: "takes-the-winner",
    big_logs: "overflows",
    softmax_of_nothing: "nan-of-nothing",
    by_the_second: "shifts-by-one-side",
    by_a_quotient: "shifts-by-one-side",
    zeros_for_infinity: "finite-nothing",
    adds_in_place: "in-place",
    one_top_and_mended: "one-top-for-all",
    stacked: "gives-out-alone",
    no_dim_and_square: "no-last-dim",
    sums_over_the_wrong_dim: None,
    zero_for_nothing: "finite-nothing",
    lse_by_bits: None,
    single_precision: "rounded",
    by_epsilon: "rounded",
    first_alone: None,
    detached_nan: "nan-of-nothing",
}


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_of_another_form_is_told_what_is_so(answer):
    verdict = judged(JOIN, answer)
    assert not verdict.passed
    assert verdict.mistake == TIRED[answer]


SAID = [
    (lambda first, second: None, "nothing came back (`None`)"),
    (lambda first, second: (*first, 1), "expected a pair, (out, lse), got"),
    (lambda first, second: (1.0, first[1]), "out: expected the shape (2, 3, 4, 5), got ()"),
    (lambda first: first, "TypeError"),
]


@pytest.mark.parametrize(("answer", "said"), SAID)
def test_what_is_no_pair_is_said(answer, said):
    verdict = judged(JOIN, answer)
    assert not verdict.passed
    assert said in f"{verdict.message} {verdict.evidence}"
