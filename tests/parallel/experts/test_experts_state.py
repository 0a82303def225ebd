"""What surrounds experts on ranks: saving and loading, copies, checkpointing, the near mistakes, what cannot work."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from expert_cases import WIDTH, layer_of, tokens_of
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib.layouts.mesh import Mesh
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.experts import ExpertParallel, MixtureOfExperts, average_gradients, exchange_rows
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.tensor import gather_state, load_unsplit

pytestmark = [
    pytest.mark.xdist_group("experts"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

# -- saving, copies, frozen parts ----------------------------------------------------------------------------------


def saved_and_loaded(me):
    whole = layer_of(num_experts=5)
    whole.experts.w_up.requires_grad_(False)
    split = ExpertParallel(me, whole)
    other = ExpertParallel(me, MixtureOfExperts(WIDTH, hidden=6, num_experts=5).double())
    state = gather_state(me, split)
    load_unsplit(me, other, state)
    x = tokens_of(4, seed=me.rank)
    y = split(x)
    y.sum().backward()
    same = all(torch.equal(state[name], value) for name, value in whole.state_dict().items())
    again = copy.deepcopy(split)
    return same, torch.equal(other(x), y), torch.equal(again(x), y), split.experts.w_up.grad is None


def test_its_state_is_that_of_the_unsplit_layer_and_what_is_frozen_stays_so(clusters):
    assert list(clusters(2).call(saved_and_loaded)) == [(True,) * 4] * 2


def loaded(me, state):
    split = ExpertParallel(me, MixtureOfExperts(WIDTH, hidden=6, num_experts=5).double())
    load_unsplit(me, split, state)
    return split(tokens_of(4, seed=me.rank))


def test_what_two_ranks_have_saved_three_can_load(clusters):
    saved = clusters(2).call(lambda me: gather_state(me, ExpertParallel(me, layer_of(num_experts=5))))[0]
    for rank, y in enumerate(clusters(3).call(loaded, (saved,))):
        assert torch.allclose(y, layer_of(num_experts=5)(tokens_of(4, seed=rank)), atol=1e-12)


def with_and_without_checkpointing(me):
    split, found = ExpertParallel(me, layer_of(num_experts=5)), []
    for run in (split, lambda x: checkpoint(split, x, use_reentrant=False)):
        split.zero_grad()
        x = tokens_of(2 + 3 * me.rank, seed=me.rank).requires_grad_()
        run(x).square().sum().backward()
        found.append([x.grad, *(p.grad.clone() for p in split.parameters())])
    return found


def test_a_forward_that_is_done_again_in_backward_has_the_same_gradients(clusters):
    for plain, again in clusters(2).call(with_and_without_checkpointing):
        assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))


def one_rank_trains(me):
    """Fine-tuning of some experts: rank 1 has none of them, and the batch comes from a loader."""
    split = ExpertParallel(me, layer_of(num_experts=4)).requires_grad_(False)
    if me.rank == 0:
        split.experts.requires_grad_(True)
    split(tokens_of(4, seed=me.rank)).square().sum().backward()
    with torch.no_grad():
        assert not split(tokens_of(4, seed=me.rank)).requires_grad
    return split.experts.w_up.grad, split.experts.w_down.grad


def test_experts_of_one_rank_alone_learn(clusters):
    whole = layer_of(num_experts=4)
    for rank in range(2):
        whole(tokens_of(4, seed=rank)).square().sum().backward()
    (w_up, w_down), frozen = clusters(2).call(one_rank_trains)
    assert torch.allclose(w_up, whole.experts.w_up.grad[:2], atol=1e-12)
    assert torch.allclose(w_down, whole.experts.w_down.grad[:2], atol=1e-12)
    assert frozen == (None, None)


# -- what goes wrong -----------------------------------------------------------------------------------------------


def naive_gradients(me, way):
    groups = MeshGroups(me, Mesh.of(dp_replicate=1, ep=2), together=[("dp_replicate", "ep")])
    split = ExpertParallel(me, layer_of(num_experts=4), group=groups.group("ep"))
    x = tokens_of(6, seed=me.rank)
    (split(x).square().sum() / len(x)).backward()
    if way == "as a wrapper does":
        for parameter in split.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    if way == "right":
        average_gradients(split, groups)
    return split.experts.w_up.grad


def test_the_two_mistakes_that_are_near_show(clusters):
    whole = layer_of(num_experts=4)
    x = torch.cat([tokens_of(6, seed=rank) for rank in range(2)])
    (whole(x).square().sum() / len(x)).backward()
    wanted = whole.experts.w_up.grad
    right, mixed, too_large = (
        torch.cat(list(clusters(2).call(naive_gradients, (way,))))
        for way in ("right", "as a wrapper does", "left alone")
    )
    assert torch.allclose(right, wanted)
    assert torch.allclose(too_large, 2 * wanted)
    assert not torch.allclose(mixed, wanted, rtol=0.1)
    assert torch.equal(mixed[:2], mixed[2:]), "two different experts have one gradient"


def said_on_a_rank(me, what):
    try:
        if what == "few":
            ExpertParallel(me, layer_of(num_experts=1, top_k=1))
        elif what == "send":
            exchange_rows(Members.of(me, None), torch.zeros(3, 2), [1, 1], [1, 1])
        elif what == "recv":
            exchange_rows(Members.of(me, None), torch.zeros(2, 2), [1, 1], [1])
        elif what == "groups":
            groups = MeshGroups(me, Mesh.of(dp_replicate=1, ep=2))
            try:
                average_gradients(nn.Linear(2, 2), groups)
            finally:
                groups.close()
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("few", "1 experts cannot be shared out among 2 ranks"),
        ("send", "which add up to the 3 rows"),
        ("recv", "recv_rows=[1] has 1 sizes; 2 ranks send"),
        ("groups", "there is no group along dp_replicate and ep"),
    ],
)
def test_what_cannot_work_is_told(cluster2, what, said):
    assert all(said in answer for answer in cluster2.call(said_on_a_rank, (what,)))
