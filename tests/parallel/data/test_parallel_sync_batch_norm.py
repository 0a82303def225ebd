"""SyncBatchNorm: equal to BatchNorm on the whole batch, whoever holds how many of its items."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib import machine
from course_lib.cluster import Cluster, Rank, RankFailed
from course_lib.meter import expect, metered
from course_lib.models import SmallCNN
from course_lib.parallel.data import SyncBatchNorm

pytestmark = pytest.mark.xdist_group("parallel_sync_batch_norm")

LAYERS = {  # plain layer, shape of the whole batch, how it is made
    "1d": (nn.BatchNorm1d, (10, 5), {}),
    "1d, sequences": (nn.BatchNorm1d, (10, 5, 3), {"momentum": None}),
    "2d": (nn.BatchNorm2d, (10, 3, 4, 2), {"eps": 1e-2, "momentum": 0.3}),
    "2d, no weights": (nn.BatchNorm2d, (10, 3, 2, 2), {"affine": False}),
    "3d, no statistics": (nn.BatchNorm3d, (10, 2, 2, 3, 2), {"track_running_stats": False}),
}
SHARES = {1: [[10]], 2: [[5, 5], [1, 9], [10, 0]], 3: [[4, 3, 3], [0, 8, 2]], 4: [[3, 3, 2, 2], [1, 0, 2, 7]]}


def batches(shape: tuple[int, ...], num: int, dtype: torch.dtype = torch.float64) -> list[tuple]:
    """Inputs and gradients of outputs, the same on every rank; mean and size differ by channel and by item."""
    random = torch.Generator().manual_seed(3)
    scale = torch.arange(1.0, 1 + shape[1]).view(1, -1, *[1] * (len(shape) - 2))
    drawn = [[torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(2)] for _ in range(num)]
    by_item = torch.arange(shape[0]).view(-1, *[1] * (len(shape) - 1))
    return [(((x + by_item) * scale + 5).to(dtype), grad.to(dtype)) for x, grad in drawn]


def through(norm: nn.Module, given: list[tuple], mine: slice) -> dict[str, torch.Tensor]:
    """Three batches in training, then one in evaluation: all that can be seen from outside."""
    seen = {}
    for step, (x, grad_y) in enumerate(given):
        norm.train(step < len(given) - 1)
        x = x[mine].clone().requires_grad_()
        y = norm(x)
        y.backward(grad_y[mine])
        seen |= {f"y {step}": y.detach(), f"grad x {step}": x.grad}
    gradients = {f"grad {name}": parameter.grad for name, parameter in norm.named_parameters()}
    return seen | gradients | dict(norm.named_buffers())


def both(me: Rank, name: str, shares: list[int], dtype: torch.dtype = torch.float64) -> float:
    """The largest difference between this rank's results and its part of one process's on the whole batch, relative."""
    kind, shape, settings = LAYERS[name]
    torch.manual_seed(1)
    weights_dtype = torch.promote_types(dtype, torch.float32)  # bfloat16 inputs meet float32 weights, as in autocast
    plain = kind(shape[1], **settings).to(weights_dtype)
    for parameter in plain.parameters():
        nn.init.normal_(parameter)
    ours = SyncBatchNorm(me, shape[1], **settings).to(weights_dtype)
    ours.load_state_dict(plain.state_dict())
    given = batches(shape, 4, dtype)
    if not plain.track_running_stats:
        # Evaluation then means the own items, in both.
        given = [*given[:3], (given[3][0][:0], given[3][1][:0])]
    first = sum(shares[: me.rank])
    mine = slice(first, first + shares[me.rank])
    expected, got = through(plain, given, slice(None)), through(ours, given, mine)
    assert expected.keys() == got.keys()
    worst = 0.0
    for key, value in got.items():
        wanted = expected[key]
        if key.startswith(("y", "grad x")):
            wanted = wanted[mine]
        elif key.startswith("grad"):
            dist.all_reduce(value)  # each rank has its part of these sums
        assert value.dtype == wanted.dtype
        assert value.shape == wanted.shape
        if value.numel():
            error = (value - wanted).abs().max() / wanted.abs().max().clamp(min=1)
            worst = max(worst, error.nan_to_num(nan=torch.inf).item())
    return worst


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_equal_to_batch_norm_on_the_whole_batch(clusters, world_size, name):
    for shares in SHARES[world_size]:
        assert max(clusters(world_size).call(both, (name, shares))) < 1e-12, shares


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_in_lower_precision_too(clusters, dtype, error):
    assert max(clusters(2).call(both, ("2d", [7, 3], dtype))) < error


def far_from_zero(me: Rank) -> float:
    """The error in float32 where the mean is 10,000 times the deviation: sums of float32 squares give nonsense."""
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)) + torch.tensor([1e4, -1e4, 0])
    wanted = nn.BatchNorm1d(3).double()(x.double()).detach()
    mine = slice(me.rank * 100, 100 + me.rank * 100)
    return (SyncBatchNorm(me, 3)(x[mine]).detach() - wanted[mine]).abs().max().item()


def test_a_mean_far_from_zero_does_no_harm(clusters):
    assert max(clusters(4).call(far_from_zero)) < 2e-3


def same_running_statistics(me: Rank) -> list[torch.Tensor]:
    norm = SyncBatchNorm(me, 4)
    torch.manual_seed(me.rank)
    for _ in range(5):
        norm(torch.randn(3 + me.rank, 4, 5))
    return [norm.running_mean, norm.running_var]


def test_running_statistics_are_equal_to_the_bit_on_all_ranks(clusters):
    first, *others = clusters(3).call(same_running_statistics)
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def train(me: Rank, optimizer_name: str) -> float:
    """Five steps under torch's DDP, uneven shares, against one process: the largest difference of the weights."""
    torch.manual_seed(4)
    alone = SmallCNN(num_classes=4, width=4).double()
    nn.init.normal_(alone.head[-1].weight)
    parallel = SyncBatchNorm.convert(me, copy.deepcopy(alone))
    ddp = DistributedDataParallel(parallel, broadcast_buffers=False, bucket_cap_mb=0.001)
    make = {
        "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-4),
    }[optimizer_name]
    optimizers = make(alone), make(parallel)
    x, target = torch.randn(5, 9, 1, 8, 8, dtype=torch.float64), torch.randint(0, 4, (5, 9))
    mine = slice(0, 9 - 2 * (me.world_size - 1)) if me.rank == 0 else slice(9 - 2 * me.rank, 11 - 2 * me.rank)
    for step in range(5):
        nn.functional.cross_entropy(alone(x[step]), target[step]).backward()
        loss = nn.functional.cross_entropy(ddp(x[step, mine]), target[step, mine], reduction="sum")
        (loss / 9 * me.world_size).backward()  # DDP divides by the number of ranks
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    pairs = zip(alone.state_dict().values(), parallel.state_dict().values(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


@pytest.mark.parametrize(("world_size", "optimizer"), [(2, "sgd"), (3, "adamw"), (4, "sgd")])
def test_weights_after_five_steps(clusters, world_size, optimizer):
    assert max(clusters(world_size).call(train, (optimizer,))) < 1e-10


# -- cost -----------------------------------------------------------------------------------------------------


def one_call(me: Rank, channels: int, needs_grad: bool, training: bool) -> int:
    """Forward and backward; returns the bytes that were kept for backward."""
    norm = SyncBatchNorm(me, channels).train(training)
    x = torch.randn(6, channels, 8, 8, requires_grad=needs_grad)
    kept: dict[int, int] = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.update({t.data_ptr(): t.nbytes}) or t, lambda t: t):
        y = norm(x)
    y.sum().backward()
    return sum(kept.values()) - x.nbytes


def test_one_all_reduce_forward_and_one_backward(clusters):
    run = metered(clusters(2), one_call, 16, True, True)
    sizes = [call.size_bytes for call in run.communication.of(0).calls]
    assert sizes == [8 * (2 * 16 + 1), 4 * 2 * 16]
    assert expect(run.communication, only=["all_reduce"], sent_bytes=sum(sizes), num_messages=4) == []
    assert max(run) < 8 * 5 * 16, "kept: the input, and numbers by channel"


def test_what_needs_no_gradient_or_is_evaluated_sends_nothing(clusters):
    first_layer = metered(clusters(2), one_call, 16, False, True).communication
    assert [call.size_bytes for call in first_layer.of(0).calls] == [8 * (2 * 16 + 1)]
    assert metered(clusters(2), one_call, 16, True, False).communication.calls == ()


# -- convert --------------------------------------------------------------------------------------------------

ME = Rank(0, 1, torch.device("cpu"), "gloo")


def test_convert_keeps_parameters_buffers_names_and_settings():
    torch.manual_seed(0)
    plain = nn.ModuleDict({"net": SmallCNN(width=4), "odd": nn.BatchNorm1d(3, 0.5, None, affine=False)})
    plain["again"] = plain["odd"]  # one layer in two places
    plain["other"] = nn.InstanceNorm2d(3, affine=True)
    plain["net"](torch.randn(4, 1, 8, 8))
    plain["odd"].eval()
    plain["net"].stem[1].weight.requires_grad_(False)
    before = copy.deepcopy(plain)
    tensors = {name: id(tensor) for name, tensor in plain.state_dict(keep_vars=True).items()}
    new = SyncBatchNorm.convert(ME, plain)
    assert {name: id(tensor) for name, tensor in new.state_dict(keep_vars=True).items()} == tensors
    norms = [module for module in new.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert [type(norm) for norm in norms] == [SyncBatchNorm] * 4
    odd = new["odd"]
    assert odd is new["again"]
    assert (odd.eps, odd.momentum, odd.affine, odd.training) == (0.5, None, False, False)
    assert new["net"].stem[1].training
    assert not new["net"].stem[1].weight.requires_grad
    assert type(new["other"]) is nn.InstanceNorm2d
    assert before.load_state_dict(new.state_dict()) == new.load_state_dict(before.state_dict())
    assert "world_size=1" in repr(copy.deepcopy(odd))


def test_convert_returns_what_takes_the_place_of_a_single_layer():
    norm = nn.BatchNorm2d(3)
    new = SyncBatchNorm.convert(ME, norm)
    assert isinstance(new, SyncBatchNorm)
    assert new.weight is norm.weight
    assert isinstance(SyncBatchNorm.convert(ME, nn.Sequential(new))[0], SyncBatchNorm)


# -- bad input, and torch's own ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4,), r"an input of shape \(4,\) does not fit: SyncBatchNorm takes \(N, 3, ...\)"),
        ((4, 5), r"shape \(4, 5\) does not fit.*its 3 channels in dim 1"),
        ((0, 3), "the batch of all ranks has 0 values per channel.*at least 2"),
    ],
)
def test_bad_input_gets_a_sentence(clusters, shape, message):
    with pytest.raises(RankFailed, match=f"(?s)ValueError.*{message}"):
        clusters(2).call(lambda me: SyncBatchNorm(me, 3)(torch.ones(shape)))


def test_a_single_value_on_all_ranks_is_refused_as_batch_norm_does(clusters):
    with pytest.raises(RankFailed, match="1 values per channel"):
        clusters(2).call(lambda me: SyncBatchNorm(me, 3)(torch.ones(me.rank, 3)))
    assert clusters(2).call(lambda me: SyncBatchNorm(me, 3)(torch.ones(1, 3)).shape)[0] == (1, 3)


def test_torchs_own_refuses_the_cpu(clusters):
    with pytest.raises(RankFailed, match=r"SyncBatchNorm expected input tensor to be on"):
        clusters(2).call(lambda me: nn.SyncBatchNorm(3)(torch.ones(4, 3)).shape)


def beside_torchs_own(me: Rank) -> float:
    torch.manual_seed(me.rank)
    x = torch.randn(3 + me.rank, 4, 5, 5, device=me.device)
    results = []
    for norm in (SyncBatchNorm(me, 4), nn.SyncBatchNorm(4)):
        mine = x.clone().requires_grad_()
        y = norm.to(me.device)(mine)
        y.square().sum().backward()
        results.append([y, mine.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var])
    return max((a - b).abs().max().item() for a, b in zip(*results, strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
@pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")
def test_equal_to_torchs_own_on_one_gpu():
    with Cluster(2, backend="gloo") as cluster:
        assert max(cluster.call(beside_torchs_own)) < 1e-3


@pytest.mark.multigpu
@pytest.mark.skipif(len(machine().devices) < 2, reason="needs two GPUs")
def test_equal_to_torchs_own_on_many_gpus():
    with Cluster(2) as cluster:
        assert max(cluster.call(beside_torchs_own)) < 1e-3
