"""backward_per_token: the gradients of one process, whatever counts and wherever; what it sends; what it refuses."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from course_lib.cluster import Rank, RankFailed
from course_lib.meter import metered
from course_lib.parallel.data import IGNORED, DistributedDataParallel, backward_per_token

pytestmark = pytest.mark.xdist_group("loss_per_token")

VOCAB = 9
WRAPPERS = {
    "PyTorch's": lambda me, model: TorchDDP(model),
    "the course's": lambda me, model: DistributedDataParallel(me, model),
}
# Valid tokens of each micro-batch, by rank.
COUNTS = {
    "equal": [[6], [6], [6], [6]],
    "uneven": [[1, 12], [5, 3], [0, 7], [12, 12]],
    "ragged": [[4], [2, 9, 1], [8, 0], [3]],
    "a rank without": [[0, 0], [3, 4], [7, 1], [2, 2]],
    "none anywhere": [[0], [0], [0], [0]],
}


def make_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Embedding(VOCAB, 4), nn.Tanh(), nn.Linear(4, VOCAB)).double()


def part(name: str, rank: int) -> list[tuple[Tensor, Tensor]]:
    draw, found = torch.Generator().manual_seed(rank), []
    for count in COUNTS[name][rank]:
        tokens, targets = torch.randint(0, VOCAB, (2, 3, 4 + count % 2), generator=draw).unbind()
        order = torch.randperm(targets.numel(), generator=draw)
        targets.view(-1)[order[count:]] = IGNORED
        found.append((tokens, targets))
    return found


def alone(name: str, num_ranks: int) -> tuple[list[Tensor], float]:
    """By PyTorch's own sum over all valid tokens, in one process."""
    model, pairs = make_model(), [pair for rank in range(num_ranks) for pair in part(name, rank)]
    scores = torch.cat([model(tokens).flatten(0, 1) for tokens, _ in pairs])
    targets = torch.cat([targets.flatten() for _, targets in pairs])
    loss = F.cross_entropy(scores, targets) if (targets != IGNORED).any() else 0 * scores.sum()
    loss.backward()
    return [p.grad for p in model.parameters()], loss.item()


def step(me: Rank, name: str, wrapper: str) -> tuple[list[Tensor], float]:
    ddp = WRAPPERS[wrapper](me, make_model())
    found = backward_per_token(me, ddp, part(name, me.rank))
    assert not found.requires_grad
    assert found.shape == ()
    dist.all_reduce(found)
    return [p.grad for p in ddp.parameters()], found.item()


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", COUNTS)
def test_gradients_and_loss_are_those_of_one_process(clusters, name, wrapper):
    for num_ranks in (1, 2, 4):
        want, loss = alone(name, num_ranks)
        for gradients, found in clusters(num_ranks).call(step, (name, wrapper)):
            torch.testing.assert_close(gradients, want, rtol=1e-9, atol=1e-12)
            assert found == pytest.approx(loss, rel=1e-9)


def only_the_step(me: Rank, name: str) -> None:
    backward_per_token(me, DistributedDataParallel(me, make_model()), part(name, me.rank))


@pytest.mark.parametrize("name", ["equal", "ragged"])
def test_a_step_sends_a_count_and_the_gradients_once(clusters, name):
    calls = metered(clusters(4), only_the_step, name).communication.of(1, operation="all_reduce").calls
    model_bytes = sum(parameter.nbytes for parameter in make_model().parameters())
    sizes = [call.size_bytes for call in calls]
    assert sizes[0] == 8
    assert sum(sizes[1:]) == model_bytes


class HalfScores(nn.Module):
    """Scores of 16 bits whose sum no number of 16 bits can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, VOCAB, dtype=torch.bfloat16)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens)


def in_16_bits(me: Rank) -> float:
    model = HalfScores()
    nn.init.zeros_(model.table.weight)
    targets = torch.zeros(1, 1001, dtype=torch.long)
    return backward_per_token(me, TorchDDP(model), [(copy.copy(targets), targets)]).item()


def test_losses_of_16_bits_are_added_up_in_32(clusters):
    assert clusters(1).call(in_16_bits)[0] == pytest.approx(torch.tensor(VOCAB).log().item(), rel=1e-5)


def without_any(me: Rank) -> None:
    backward_per_token(me, TorchDDP(make_model()), [])


def of_another_shape(me: Rank) -> None:
    tokens = torch.zeros(2, 3, dtype=torch.long)
    backward_per_token(me, TorchDDP(make_model()), [(tokens, tokens[:, 1:])])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (without_any, "no micro-batches on rank 0.*Give at least one; all its targets may be -100"),
        (of_another_shape, r"scores of shape \(2, 3, 9\) for targets of shape \(2, 2\).*\(2, 2, 9\)"),
    ],
)
def test_what_is_refused_gets_a_sentence(clusters, function, words):
    with pytest.raises(RankFailed, match=words):
        clusters(1).call(function)
