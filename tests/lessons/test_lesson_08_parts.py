"""Lesson 08's judges of heads, tables, positions and logits against answers that the catalogue does not have."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_08.along.wrong_answers import along, joined, own_rows, shared_out
from course_lib.learn.exercises.lesson_08.embedding.wrong_answers import split_embedding
from course_lib.learn.exercises.lesson_08.heads.wrong_answers import split_attention
from course_lib.parallel.tensor import (
    all_gather_reduce_scatter,
    all_gather_split,
    all_reduce_identity,
    identity_all_reduce,
    reduce_scatter_all_gather,
)

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def told(name, answer):
    """The verdict, and all that it says."""
    seen = judged(exercises.exercise(name), answer)
    return seen, f"{seen.evidence} {seen.message} {seen.details}"


# -- 08.heads ---------------------------------------------------------------------------------------------------------


def of_rank_zero(y, num_heads, n):
    """The first half of a rank's heads twice."""
    heads = y.unflatten(-1, (num_heads // n, -1)).transpose(1, 2)
    return heads[:, :1].expand_as(heads)


def queries_for_keys(me, x, w_q, w_k, w_v, w_out, num_heads):
    return split_attention()(me, x, w_k, w_q, w_v, w_out, num_heads)


def twice_causal(me, x, w_q, w_k, w_v, w_out, num_heads):
    """Positions see earlier ones, and not themselves but for the first."""
    count = num_heads // me.world_size
    h = identity_all_reduce(me, x)
    q, k, v = (F.linear(h, w).unflatten(-1, (count, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril(-1)
    mask[0, 0] = True
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return all_reduce_identity(me, F.linear(mixed.transpose(1, 2).flatten(2), w_out))


def for_two_ranks(me, x, w_q, w_k, w_v, w_out, num_heads):
    return split_attention(heads=lambda y, heads, n: y.unflatten(-1, (heads // 2, -1)).transpose(1, 2))(
        me, x, w_q, w_k, w_v, w_out, num_heads
    )


def gathers_the_weights(me, x, *given):
    """Right, and every rank does all the work."""
    *weights, num_heads = given
    w_q, w_k, w_v = (all_gather_split(me, w) for w in weights[:3])
    w_out = all_gather_split(me, weights[3], dim=1)
    q, k, v = (F.linear(x, w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.linear(mixed.transpose(1, 2).flatten(2), w_out)


def overwrites_x(me, x, *given):
    y = split_attention()(me, x.clone(), *given)
    x.data.zero_()
    return y


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (split_attention(heads=of_rank_zero), None, "the output"),
        (queries_for_keys, None, "the output"),
        (twice_causal, None, "the output"),
        (for_two_ranks, None, "of 3"),  # right on two ranks
        (gathers_the_weights, None, "called all_gather"),
        (overwrites_x, None, "`x` has changed"),
        (lambda me, x, *given: x, None, "the output"),
    ],
)
def test_wrong_attention_is_turned_away(answer, mistake, words):
    seen, said = told("08.heads", answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in said, seen


# -- 08.embedding -----------------------------------------------------------------------------------------------------


def shuffled(me, tokens, table):
    """Rows dealt out like cards: token t is on rank t % n."""
    place, is_here = tokens // me.world_size, tokens % me.world_size == me.rank
    vectors = F.embedding(place.clamp(max=len(table) - 1), table)
    return all_reduce_identity(me, torch.where(is_here[..., None], vectors, 0.0))


def for_two(me, tokens, table):
    return split_embedding(find=lambda me, tokens, size: (tokens % size, (tokens >= size) == (me.rank == 1)))(
        me, tokens, table
    )


def sorted_tokens(me, tokens, table):
    return split_embedding()(me, tokens.sort(dim=-1).values, table)


def sums_and_gathers(me, tokens, table):
    """Right, for twice the bytes."""
    vectors = split_embedding(leave=lambda me, y: y)(me, tokens, table)
    return all_reduce_identity(me, vectors) + 0 * all_reduce_identity(me, vectors.detach())


def keeps_the_table(me, tokens, table, seen=[]):  # noqa: B006 - the mistake itself
    seen.append(table)
    return split_embedding()(me, tokens, table)


def writes_tokens(me, tokens, table):
    y = split_embedding()(me, tokens.clone(), table)
    tokens.zero_()
    return y


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (shuffled, "the output"),
        (for_two, "of 3"),
        (sorted_tokens, "the output"),
        (sums_and_gathers, "all_reduce of"),
        (keeps_the_table, "holds on to tensors of every step"),
        (writes_tokens, "`tokens` has changed"),
    ],
)
def test_wrong_tables_are_turned_away(answer, words):
    seen, said = told("08.embedding", answer)
    assert (seen.status, seen.mistake) == ("not yet", None), seen
    assert words in said, seen


# -- 08.along ---------------------------------------------------------------------------------------------------------


def reversed_rows(part):
    return joined(part).flip(0)


def sums_all(summand):
    total = summand.clone()
    dist.all_reduce(total)
    return total


def twice_joined(part):
    joined(part)
    return joined(part)


def scaled(summand):
    return shared_out(summand) / 2


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (along(enter=(reversed_rows, shared_out)), None, "the output"),
        (along(leave=(sums_all, own_rows)), "backward-as-forward", "expected shape"),
        (along(enter=(twice_joined, shared_out)), None, "half of an all-reduce is enough"),
        (along(enter=(joined, scaled)), None, "the gradient of x"),  # on two ranks it is the mean
        (
            along(leave=(lambda x: shared_out(x.detach()), lambda grad: joined(0 * grad))),
            None,
            "gradient of x",
        ),
        (lambda x, is_entrance: x, None, "Give the class itself"),
        (along, None, "Give the class itself"),
        (3, None, ""),
    ],
)
def test_wrong_gates_along_positions_are_turned_away(answer, mistake, words):
    seen, said = told("08.along", answer)
    assert not seen.passed
    assert seen.mistake == mistake, seen
    assert words in said, seen


def test_an_error_on_the_way_back_names_no_line_of_the_check():
    _, said = told("08.along", along(enter=(joined, joined)))
    assert "invalid gradient" in said
    assert "loss_of" not in said
    assert " line " not in said


# -- 08.positions -----------------------------------------------------------------------------------------------------


def block(norm_weight_of=lambda me, w: w, residual=True, collect=all_gather_reduce_scatter):
    def answer(me, x, norm_weight, w_up, w_down):
        h = F.layer_norm(x, (x.size(-1),), norm_weight_of(me, norm_weight))
        y = reduce_scatter_all_gather(me, F.linear(F.gelu(F.linear(collect(me, h), w_up)), w_down))
        return x + y if residual else y

    return answer


def sum_of_the_first(me, weight):
    """The hook sums on rank 0 alone: the others keep theirs."""
    entered = weight.view_as(weight)

    def reduce(grad):
        total = grad.clone()
        dist.reduce(total, 0)
        return total if me.rank == 0 else grad

    entered.register_hook(reduce)
    return entered


def halves(me, weight):
    part = weight / 2
    return identity_all_reduce(me, part + (weight - part).detach())


def twice(me, weight):
    return identity_all_reduce(me, identity_all_reduce(me, weight))


def stream_too(me, x, norm_weight, w_up, w_down):
    """Right, and the whole stream is summed where the norm's weight would do."""
    y = block(identity_all_reduce)(me, x, norm_weight, w_up, w_down)
    dist.all_reduce(y.detach().clone())
    return y


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (block(sum_of_the_first), None, "gradient of norm_weight"),
        (block(halves), None, "gradient of norm_weight"),  # on two ranks it is the mean
        (block(twice), None, "gradient of norm_weight"),
        (block(identity_all_reduce, residual=False), None, "the output"),
        (block(identity_all_reduce, collect=lambda me, h: all_gather_split(me, h)), None, "gradient of x"),
        (stream_too, None, "all_reduce of"),
        (block(), "as-it-was", "a sum over ranks"),
    ],
)
def test_wrong_blocks_along_positions_are_turned_away(answer, mistake, words):
    seen, said = told("08.positions", answer)
    assert not seen.passed
    assert seen.mistake == mistake, seen
    assert words in said, seen


# -- 08.logits --------------------------------------------------------------------------------------------------------


def gathered(me, h, w_vocab):
    mine = F.linear(h, w_vocab)
    parts = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(parts, mine)
    return parts


@pytest.mark.parametrize(
    "answer",
    [
        lambda me, h, w: torch.cat(gathered(me, h, w), dim=1).T,
        lambda me, h, w: torch.cat(gathered(me, h, w)[:2], dim=1),  # right on two ranks
        lambda me, h, w: torch.cat([gathered(me, h, w)[0]] * me.world_size, dim=1),
        lambda me, h, w: torch.cat(gathered(me, h, w), dim=1).softmax(dim=1),
        lambda me, h, w: torch.cat(gathered(me, h, w), dim=1).flip(0),
        lambda me, h, w: (torch.cat(gathered(me, h, w), dim=1), F.linear(h, w))[me.rank > 0],
        lambda me, h, w: gathered(me, h, w),
    ],
)
def test_wrong_logits_are_turned_away(answer):
    seen, _ = told("08.logits", answer)
    assert (seen.status, seen.mistake) == ("not yet", None), seen
