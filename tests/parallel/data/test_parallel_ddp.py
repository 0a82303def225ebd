"""DDP from scratch trains as one process does on the whole batch, and as PyTorch's own does."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from course_lib.cluster import RankFailed
from course_lib.models import ResNet, SmallCNN, Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.data import (
    DistributedDataParallel,
    all_reduce_buckets,
    all_reduce_gradients,
    assign_buckets,
    broadcast_parameters,
    global_mean,
)

pytestmark = [
    pytest.mark.xdist_group("parallel_ddp"),  # one process: its clusters are warm after the first
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

BATCHES = (8, 8, 7, 5, 2)  # samples of each step: the last ones do not divide, and leave ranks with nothing
SMALL = {"bucket_size_bytes": 2000, "first_bucket_size_bytes": 300}  # several buckets in a small model


class Patchwork(nn.Module):
    """Frozen, tied and never used parameters in one small model: (B, 64) -> (B, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(64, 16).requires_grad_(False)
        self.tied = nn.Linear(16, 16)
        self.again = nn.Linear(16, 16)
        self.again.weight = self.tied.weight
        self.unused = nn.Linear(16, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.again(torch.tanh(self.tied(torch.tanh(self.frozen(x.flatten(1)))))))


def model_of(name: str) -> nn.Module:
    if name == "cnn":
        return SmallCNN(width=3, batch_norm=False).double()
    if name == "transformer":
        config = TransformerConfig(vocab_size=11, context_length=6, num_layers=1, width=8, num_heads=2, tied=True)
        return Transformer(config).double()
    return Patchwork().double()


def batch_of(name: str, step: int, size: int):
    draw = torch.Generator().manual_seed(step)
    if name == "transformer":
        return torch.randint(11, (size, 6), generator=draw), torch.randint(11, (size, 6), generator=draw)
    x = torch.randn(size, 1, 8, 8, generator=draw, dtype=torch.float64)
    return x, torch.randint(10, (size,), generator=draw)


def optimizer_of(name: str, model: nn.Module):
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def trained(name: str, optimizer_name: str, model: nn.Module, backward) -> list[torch.Tensor]:
    """The parameters after a step on each batch; ``backward(x, y)`` computes the gradients."""
    optimizer = optimizer_of(optimizer_name, model)
    for step, size in enumerate(BATCHES):
        optimizer.zero_grad()
        backward(*batch_of(name, step, size))
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def farthest(some, others) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(some, others, strict=True))


def distances(me, name: str, optimizer_name: str) -> dict[str, float]:
    """How far the weights of each way to train on ranks are from those of one process on the whole batch."""
    lossy = next_token_loss if name == "transformer" else F.cross_entropy

    def on_ranks(wrapped, after_backward=lambda: None):
        def backward(x, y):
            x, y = (part.tensor_split(me.world_size)[me.rank] for part in (x, y))
            global_mean(me, lossy(wrapped(x), y, reduction="sum"), y.numel()).backward()
            after_backward()

        return backward

    def start(seed=0):
        torch.manual_seed(seed)
        return model_of(name)

    def alone(x, y):
        lossy(model(x), y).backward()

    model = start()
    whole = trained(name, optimizer_name, model, alone)
    result = {}
    if name != "patchwork":  # steps (a) and (b) give what is never used a gradient of zero
        model = start(me.rank)
        broadcast_parameters(me, model)
        by_gradient = on_ranks(model, lambda: all_reduce_gradients(me, model))
        result["a"] = farthest(whole, trained(name, optimizer_name, model, by_gradient))
        model = start(me.rank)
        broadcast_parameters(me, model)
        buckets = assign_buckets(model.parameters(), **SMALL)
        by_bucket = on_ranks(model, lambda: all_reduce_buckets(me, buckets))
        result["b"] = farthest(whole, trained(name, optimizer_name, model, by_bucket))
    unused = {"find_unused_parameters": name == "patchwork"}
    for overlap in (True, False):
        model = start(me.rank)
        ours = DistributedDataParallel(me, model, overlap=overlap, **SMALL, **unused)
        result[f"overlap={overlap}"] = farthest(whole, trained(name, optimizer_name, model, on_ranks(ours)))
    model = start(me.rank)
    result["torch"] = farthest(whole, trained(name, optimizer_name, model, on_ranks(TorchDDP(model, **unused))))
    return result


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("optimizer_name", ["sgd", "adamw"])
@pytest.mark.parametrize("name", ["cnn", "transformer", "patchwork"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_weights_after_5_steps_are_those_of_one_process(clusters, world_size, name, optimizer_name):
    for by_way in clusters(world_size).call(distances, (name, optimizer_name)):
        assert len(by_way) == (3 if name == "patchwork" else 5)
        assert max(by_way.values()) < 1e-10, by_way


def beside_torch(me) -> list[float]:
    """Models with BatchNorm, whose statistics differ from rank to rank: parameters, buffers, eval mode."""
    found = []
    for make in (
        lambda: SmallCNN(width=4),
        lambda: ResNet((1, 1), width=4, channels=1, num_classes=10, bottleneck=False, small_images=True),
    ):
        torch.manual_seed(me.rank)
        first = make().double()
        second = copy.deepcopy(first)
        for wrapped in (DistributedDataParallel(me, first, **SMALL), TorchDDP(second)):
            optimizer = optimizer_of("adamw", wrapped)
            for step in range(5):
                x, y = batch_of("cnn", 10 * me.rank + step, 4)
                optimizer.zero_grad()
                F.cross_entropy(wrapped(x), y).backward()
                optimizer.step()
        found.append(farthest(first.state_dict().values(), second.state_dict().values()))
    return found


def test_batch_norm_trains_as_under_torch(clusters):
    for errors in clusters(2).call(beside_torch):
        assert max(errors) < 1e-10


def broadcast_from(me, src: int) -> list[float]:
    torch.manual_seed(me.rank)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[1].running_mean += me.rank
    broadcast_parameters(me, model, src)
    torch.manual_seed(src)
    return [
        model[1].running_mean[0].item() - src,
        farthest(model[0].parameters(), nn.Linear(2, 2).parameters()),
    ]


def test_broadcast_gives_parameters_and_buffers_of_any_rank(clusters):
    assert list(clusters(3).call(broadcast_from, (1,))) == [[0.0, 0.0]] * 3
    with pytest.raises(RankFailed, match="src=5 is none of the ranks 0 to 1; the nearest is 1"):
        clusters(2).call(broadcast_from, (5,), show=False)


def saved(me) -> tuple[list[str], bool]:
    model = SmallCNN(width=2)
    ddp = DistributedDataParallel(me, model)
    state = {name: torch.ones_like(value) for name, value in ddp.state_dict().items()}
    ddp.load_state_dict(state)
    return list(state) == list(model.state_dict()), all(bool((p == 1).all()) for p in model.parameters())


def test_a_checkpoint_has_the_names_of_the_bare_model(clusters):
    assert list(clusters(2).call(saved)) == [(True, True)] * 2


def test_mean_of_a_batch_of_which_a_rank_has_nothing(clusters):
    def means(me):
        losses = torch.tensor([1.0, 2.0, 6.0]) if me.rank == 0 else torch.tensor([])
        count = torch.tensor(len(losses)) if me.rank else len(losses)
        return global_mean(me, losses.sum(), count).item()

    assert list(clusters(2).call(means)) == [6.0, 0.0]  # their mean over ranks is 3
