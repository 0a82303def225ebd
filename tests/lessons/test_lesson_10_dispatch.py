"""The judge of 10.dispatch: what it expects, and answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_10.wrong.dispatch import of_this_rank_alone, on_ranks, right

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_10.dispatch.cases import (
    KINDS,
    DispatchKind,
    made_by,
    own_experts,
    right_out,
    rows_computed,
    rows_to_send,
    tokens_of,
)
from course_lib.learn.exercises.lesson_10.dispatch.slips import (
    Slip,
    given_by,
    put_back,
    rows_of,
    served,
    sorted_by_expert,
    weighed,
)
from course_lib.learn.exercises.lesson_10.dispatch.wrong_answers import IN_BLOCKS

pytestmark = pytest.mark.xdist_group("exercises")
SIZES = (2, 3, 4)


# -- what is expected ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_ranks", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_expected_is_the_sum_over_choices(kind, num_ranks):
    for rank in range(num_ranks):
        given = tokens_of(kind, rank, num_ranks)
        want = torch.zeros_like(given.rows)
        for token, (chosen, weights) in enumerate(zip(given.chosen.tolist(), given.weights, strict=True)):
            assert len(set(chosen)) == len(chosen)
            for expert, weight in zip(chosen, weights, strict=True):
                want[token] += weight * made_by(expert, given.rows[token : token + 1])[0]
        torch.testing.assert_close(right_out(kind, rank, num_ranks), want)


@pytest.mark.parametrize("num_ranks", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_account_without_ranks_is_right_without_a_slip(kind, num_ranks):
    for rank, out in enumerate(given_by(Slip(), kind, num_ranks)):
        torch.testing.assert_close(out, right_out(kind, rank, num_ranks))


@pytest.mark.parametrize("num_ranks", SIZES)
def test_the_cases_are_what_they_are_called(num_ranks):
    ranks = range(num_ranks)
    assert len({len(tokens_of(DispatchKind.EVEN, rank, num_ranks).rows) for rank in ranks}) == 1
    assert len({len(tokens_of(DispatchKind.UNEVEN, rank, num_ranks).rows) for rank in ranks}) == num_ranks
    assert rows_computed(DispatchKind.UNEVEN, 0, num_ranks)[0] == 0
    assert all(rows_to_send(DispatchKind.HOME, rank, num_ranks) == 0 for rank in ranks)
    assert all(not any(rows_computed(DispatchKind.IDLE, rank, num_ranks).values()) for rank in ranks[1:])
    assert [len(tokens_of(DispatchKind.NONE, rank, num_ranks).rows) == 0 for rank in ranks] == [r == 1 for r in ranks]


def test_rows_to_send_are_rows_there_and_outputs_back():
    chosen = [tokens_of(DispatchKind.EVEN, rank, 2).chosen for rank in range(2)]
    there = [int((one // 2 != rank).sum()) for rank, one in enumerate(chosen)]
    assert [rows_to_send(DispatchKind.EVEN, rank, 2) for rank in range(2)] == [sum(there), sum(there)]
    assert list(own_experts(DispatchKind.EVEN, 1, 2)) == [2, 3]


# -- as they are written late in the evening ----------------------------------------------------------------------


def the_choice_and_not_the_token(back, order, weights):
    """Row i belongs to choice order[i]; here the other way round."""
    return weighed(back, order.argsort(), weights)


def the_token_modulo(tokens, weights, order):
    return tokens[order % len(tokens)] if len(tokens) else rows_of(tokens, weights, order)


def weighed_twice(back, order, weights):
    return weighed(put_back(back, order, weights).flatten(0, 1) * weights.reshape(-1, 1), order.sort()[0], weights)


def adds_the_token(back, order, weights):
    return weighed(back, order, weights) + put_back(back, order, weights).mean(1) * 0.01


def with_one_expert_for_all(rows, come, own, run):
    return run(own[0], rows)


def the_other_way(rows, come, own, run):
    return served(rows, come.flip(1), own, run)


def descending(chosen):
    return chosen.flatten().argsort(descending=True)


def sorted_by_token_count(me, tokens, chosen, weights, num_experts, run):
    """Numbers of experts that are modulo the ranks: expert e on rank e % n."""
    return right(me, tokens, chosen % me.world_size, weights, num_experts, run)


def equal_parts(me, tokens, chosen, weights, num_experts, run):
    """No sizes: the parts are equal, or whatever PyTorch makes of it."""
    going = tokens[sorted_by_expert(chosen) // chosen.size(1)]
    rows = torch.empty_like(going)
    dist.all_to_all_single(rows, going)
    own = range(me.rank * num_experts // me.world_size, (me.rank + 1) * num_experts // me.world_size)
    made = torch.cat([run(e, part) for e, part in zip(own, rows.chunk(len(own)), strict=False)])
    back = torch.empty_like(going)
    dist.all_to_all_single(back, made)
    return weighed(back, sorted_by_expert(chosen), weights)


def counts_of_experts_apart(me, tokens, chosen, weights, num_experts, run):
    """Every n-th count is added up, as if a rank's experts were not side by side."""
    counts = torch.bincount(chosen.flatten(), minlength=num_experts)
    come = torch.empty_like(counts)
    dist.all_to_all_single(come, counts)
    going, coming = (one.view(-1, me.world_size).sum(0).tolist() for one in (counts, come))
    rows = tokens.new_empty(sum(coming), tokens.size(1))
    dist.all_to_all_single(rows, tokens[sorted_by_expert(chosen) // chosen.size(1)], coming, going)
    return tokens


def counts_of_any_length(me, tokens, chosen, weights, num_experts, run):
    counts = torch.bincount(chosen.flatten())
    dist.all_to_all_single(torch.empty_like(counts), counts)
    return tokens


def stacks_row_by_row(rows, come, own, run):
    experts = torch.tensor(own).repeat(len(come)).repeat_interleave(come.flatten()).tolist()
    return torch.stack([run(expert, row[None])[0] for expert, row in zip(experts, rows, strict=True)])


def adds_over_all(me, tokens, chosen, weights, num_experts, run):
    out = of_this_rank_alone(me, tokens, chosen, weights, num_experts, run)
    padded = out.new_zeros(64, out.size(1))
    padded[: len(out)] = out
    dist.all_reduce(padded)
    return padded[: len(out)]


def keeps_the_first(me, tokens, chosen, weights, num_experts, run, seen=[]):  # noqa: B006 - the mistake itself
    seen.append(right(me, tokens, chosen, weights, num_experts, run))
    return seen[0]


def capped(me, tokens, chosen, weights, num_experts, run):
    """An expert takes four rows and turns away the others."""

    def some(expert, rows):
        made = run(expert, rows)
        made[4:] = 0
        return made

    return right(me, tokens, chosen, weights, num_experts, some)


def spoils_the_weights(me, tokens, chosen, weights, num_experts, run):
    out = right(me, tokens, chosen, weights, num_experts, run)
    weights /= 2
    return out


def padded_to_the_most(me, tokens, chosen, weights, num_experts, run):
    """Right, with rows of zeros that travel."""
    out = right(me, tokens, chosen, weights, num_experts, run)
    n = me.world_size
    dist.all_to_all_single(tokens.new_empty(16 * n, tokens.size(1)), tokens.new_zeros(16 * n, tokens.size(1)))
    return out


def as_a_list(me, tokens, chosen, weights, num_experts, run):
    return list(right(me, tokens, chosen, weights, num_experts, run))


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (on_ranks(Slip(combine=the_choice_and_not_the_token)), None, "the output: at"),
        (on_ranks(Slip(serve=the_other_way)), None, "the output: at"),
        (equal_parts, "sizes-not-agreed", "send the counts first"),
        (counts_of_experts_apart, "sizes-not-agreed", "(3) The rows for a rank"),
        (counts_of_any_length, "sizes-not-agreed", "`minlength=num_experts`"),
        (on_ranks(Slip(serve=stacks_row_by_row)), "joins-nothing", "`run` takes 0 rows"),
        (on_ranks(IN_BLOCKS), "as-if-sorted", "Rows come rank by rank"),
        (capped, None, "the output: at"),
        (spoils_the_weights, None, "`weights` has changed"),
        (padded_to_the_most, "sends-too-much", "more than its rows"),
        pytest.param(on_ranks(Slip(rows=the_token_modulo)), None, "the output", marks=pytest.mark.long),
        pytest.param(on_ranks(Slip(combine=weighed_twice)), None, "the output", marks=pytest.mark.long),
        pytest.param(on_ranks(Slip(combine=adds_the_token)), None, "the output", marks=pytest.mark.long),
        pytest.param(on_ranks(Slip(serve=with_one_expert_for_all)), None, "the output", marks=pytest.mark.long),
        pytest.param(on_ranks(Slip(order=descending)), None, "the output", marks=pytest.mark.long),
        pytest.param(sorted_by_token_count, None, "the output", marks=pytest.mark.long),
        pytest.param(adds_over_all, None, "the output", marks=pytest.mark.long),
        pytest.param(keeps_the_first, None, "the output", marks=pytest.mark.long),
        pytest.param(as_a_list, None, "the output", marks=pytest.mark.long),
    ],
)
def test_wrong_journeys_are_turned_away(answer, mistake, words):
    seen = judged(exercises.exercise("10.dispatch"), answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in f"{seen.message} {seen.evidence}", seen
