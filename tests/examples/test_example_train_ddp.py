"""The parts of the script that trains under torchrun: each alone, on warm ranks, held against one process."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from course_lib.cluster import Rank
from course_lib.examples.settings import Images, learning_rate, parse_arguments
from course_lib.examples.train_ddp import (
    ResumableSampler,
    Training,
    evaluate,
    make_loaders,
    make_model,
    resume,
    save,
    train_epoch,
)
from course_lib.meter import metered
from course_lib.models import SmallCNN
from course_lib.parallel.data.checkpoint import save_checkpoint

pytestmark = [
    pytest.mark.xdist_group("example_train_ddp"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NO_SIGNAL = SimpleNamespace(number=0)


def some_images(num_train: int = 44, num_val: int = 7, dtype: torch.dtype = torch.float32) -> Images:
    """Random images (N, 1, 8, 8) of ten classes."""
    chance = torch.Generator().manual_seed(7)

    def part(num: int) -> TensorDataset:
        pixels = torch.randn(num, 1, 8, 8, generator=chance, dtype=dtype)
        return TensorDataset(pixels, torch.randint(10, (num,), generator=chance))

    return Images(part(num_train), part(num_val), num_train, num_val, num_classes=10, channels=1, size=8)


def training_of(me: Rank, words: str, images: Images, model: nn.Module | None = None):
    """A ``Training`` on this rank as the script makes it, or with another model; and the loader to judge by."""
    args = parse_arguments(words.split())
    sampler, loader, val_loader = make_loaders(me, args, images)
    ddp = DistributedDataParallel(model) if model is not None else make_model(me, args, images)
    optimizer = torch.optim.SGD(ddp.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    return Training(args, loader, sampler, ddp, optimizer, images.num_train // args.batch_size), val_loader


# -- arithmetic -------------------------------------------------------------------------------------------------


def small_cnn() -> nn.Module:
    torch.manual_seed(3)
    return SmallCNN(width=4, batch_norm=False).double()


def weights_after_an_epoch(me: Rank, words: str) -> dict[str, torch.Tensor]:
    training, _ = training_of(me, words, some_images(dtype=torch.float64), small_cnn())
    train_epoch(me, training, NO_SIGNAL, 1, 0)  # type: ignore[arg-type]
    return training.model.module.state_dict()


EPOCH = "--epochs 2 --batch-size 8 --lr 0.05 --lr-batch-size 4 --warmup 7"


@pytest.mark.parametrize("more", ["", "--accumulate 2 --clip-norm 0.05"])
def test_an_epoch_on_two_ranks_equals_one_process_on_whole_batches(cluster2, more):
    args, images, model = parse_arguments([*EPOCH.split(), *more.split()]), some_images(), small_cnn()
    pixels, labels = some_images(dtype=torch.float64).train.tensors  # type: ignore[attr-defined]
    order = torch.randperm(images.num_train, generator=torch.Generator().manual_seed(1))  # seed 0 + epoch 1
    optimizer = torch.optim.SGD(model.parameters(), 0.0, momentum=0.9, weight_decay=1e-4)
    loss_sum = 0.0
    for step in range(5):  # the last 4 of 44 images make no full batch
        optimizer.param_groups[0]["lr"] = learning_rate(args, 5 + step, 10)
        batch = order[step * 8 : (step + 1) * 8]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pixels[batch]), labels[batch])
        loss.backward()
        loss_sum += loss.item()
        if more:
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()
    run = cluster2.run(weights_after_an_epoch, f"{EPOCH} {more}")
    assert f"epoch 2/2  step 5/5  loss {loss_sum / 5:.4f}" in run.text[0]
    assert not run.text[1]
    for weights in run:
        for name, tensor in model.state_dict().items():
            torch.testing.assert_close(weights[name], tensor, rtol=0.0, atol=1e-10, msg=name)


def test_gradients_travel_once_a_step_however_many_micro_batches(cluster2):
    counts = [
        metered(cluster2, weights_after_an_epoch, f"{EPOCH} --accumulate {n}").communication.by_operation()
        for n in (1, 2)
    ]
    assert counts[0] == counts[1]


def test_bfloat16_computes_and_keeps_weights_in_float32(cluster2):
    def types(me):
        training, _ = training_of(me, "--batch-size 8 --width 2 --bf16", some_images())
        seen = []
        training.model.module.head[-1].register_forward_hook(lambda *call: seen.append(call[-1].dtype))
        train_epoch(me, training, NO_SIGNAL, 0, 0)  # type: ignore[arg-type]
        return seen[0], {p.dtype for p in training.model.parameters()}

    assert list(cluster2.run(types)) == [(torch.bfloat16, {torch.float32})] * 2


def test_about_half_of_the_training_images_are_mirrored(cluster2):
    def as_seen(me):
        training, _ = training_of(me, "--batch-size 88 --width 2 --mirror", some_images(88))
        training.model.module.stem.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs[0]))
        seen: list[torch.Tensor] = []
        train_epoch(me, training, NO_SIGNAL, 0, 0)  # type: ignore[arg-type]
        return torch.stack(seen)

    pixels = some_images(88).train.tensors[0]  # type: ignore[attr-defined]
    seen = torch.cat(list(cluster2.run(as_seen)))  # (88, 1, 8, 8)
    as_they_are, mirrored = (
        sum(any(torch.equal(x, y) for y in ys) for x in seen) for ys in (pixels, pixels.flip(-1))
    )
    assert as_they_are + mirrored == 88
    assert 25 < mirrored < 63


# -- who sees which image -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("world_size", "accumulate"), [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("first_step", [0, 3])
def test_a_step_sees_the_same_images_on_any_number_of_ranks_also_after_a_resume(
    world_size, accumulate, first_step
):
    numbers = TensorDataset(torch.arange(44))
    args = parse_arguments(["--batch-size", "8", "--accumulate", str(accumulate), "--seed", "5"])
    images = Images(numbers, numbers, 44, 44, num_classes=10, channels=1, size=8)
    steps: list[list[int]] = [[] for _ in range(first_step, 5)]
    judged = []
    for rank in range(world_size):
        me = Rank(rank, world_size, torch.device("cpu"), "gloo")
        sampler, loader, val_loader = make_loaders(me, args, images)
        assert isinstance(sampler, ResumableSampler)
        sampler.begin(2, num_done=first_step * 8 // world_size)
        batches = iter(loader)
        for step in steps:
            for _ in range(accumulate):
                step += next(batches)[0].tolist()
        judged += [number for batch in val_loader for number in batch[0].tolist()]
    order = torch.randperm(44, generator=torch.Generator().manual_seed(5 + 2)).tolist()
    assert [sorted(step) for step in steps] == [
        sorted(order[step * 8 : (step + 1) * 8]) for step in range(first_step, 5)
    ]
    assert sorted(judged) == list(range(44))


@pytest.mark.parametrize("num_val", [7, 1])  # four and three images, one and none
def test_accuracy_counts_each_image_once_and_uses_the_averages_of_rank_0(cluster2, num_val):
    def judge(me, num_val):
        training, val_loader = training_of(me, "--batch-size 4 --width 2", some_images(num_val=num_val))
        if me.rank == 1:  # as after a step, only more so
            training.model.module.stem[1].running_mean.add_(5.0)
        return evaluate(me, training, val_loader), training.model.module

    (first, model), (second, other) = cluster2.run(judge, num_val)
    assert torch.equal(model.stem[1].running_mean, other.stem[1].running_mean)
    pixels, labels = some_images(num_val=num_val).val.tensors  # type: ignore[attr-defined]
    with torch.no_grad():
        guesses = model.eval()(pixels).argmax(dim=1)
    assert first == second == (guesses == labels).sum().item() / num_val


# -- stop and resume ----------------------------------------------------------------------------------------------


class SignalInThirdStep:
    """Stands for a ``StopSignal``: rank 1 alone hears SIGTERM, in its third step."""

    def __init__(self, me: Rank) -> None:
        self.me, self.reads = me, 0

    @property
    def number(self) -> int:
        self.reads += 1
        return 15 if self.me.rank == 1 and self.reads >= 3 else 0


STOPPED = "--batch-size 8 --width 2 --mirror --warmup 2 --epochs 1 --checkpoint"


def stop_in_third_step(me, path):
    training, _ = training_of(me, f"{STOPPED} {path}", some_images())
    return train_epoch(me, training, SignalInThirdStep(me), 0, resume(me, training)[1])  # type: ignore[arg-type]


def go_on(me, path):
    training, _ = training_of(me, f"{STOPPED} {path}", some_images())
    position = resume(me, training)
    loaded = {name: tensor.clone() for name, tensor in training.model.module.state_dict().items()}
    train_epoch(me, training, NO_SIGNAL, *position)  # type: ignore[arg-type]
    return position, loaded, training.model.module.state_dict()


def test_all_ranks_stop_after_the_step_in_which_one_heard_a_signal_and_go_on_as_if_nothing_was(
    cluster2, cluster4, tmp_path
):
    cluster2.run(go_on, tmp_path / "uninterrupted.pt")
    assert list(cluster2.run(stop_in_third_step, tmp_path / "run.pt")) == [15, 15]
    on_four = cluster4.run(go_on, _copy(tmp_path / "run.pt", tmp_path / "four.pt"))
    assert [position for position, *_ in on_four] == [(0, 3)] * 4
    on_two = cluster2.run(go_on, tmp_path / "run.pt")
    for (position, loaded, weights), (_, loaded_on_four, _) in zip(on_two, on_four, strict=False):
        assert position == (0, 3)
        for name in loaded:
            assert torch.equal(loaded[name], loaded_on_four[name]), name
        assert any(not torch.equal(loaded[name], weights[name]) for name in loaded)
    resumed, whole = (torch.load(tmp_path / name)["model"] for name in ("run.pt", "uninterrupted.pt"))
    for name, tensor in whole.items():
        assert torch.equal(resumed[name], tensor), name


def _copy(source, target):
    target.write_bytes(source.read_bytes())
    return target


def test_rank_1_need_not_see_the_file(cluster2, tmp_path):
    """As on machines without a common disk; and what rank 1 alone sees does not count."""

    def save_and_resume(me, path):
        training, _ = training_of(me, f"--batch-size 4 --width 2 --checkpoint {path}", some_images())
        save(me, training, 1, 2)
        positions = []
        for blind in (1, 0):
            training.args.checkpoint = path.with_name("not-here.pt") if me.rank == blind else path
            positions.append(resume(me, training))
        return positions

    assert list(cluster2.run(save_and_resume, tmp_path / "run.pt")) == [[(1, 2), (0, 0)]] * 2


# -- sentences ----------------------------------------------------------------------------------------------------


def failing_resume(me, words):
    try:
        resume(me, training_of(me, words, some_images())[0])
    except (ValueError, RuntimeError) as error:
        return str(error)
    return "resumed"


def test_checkpoints_of_other_runs(cluster2, tmp_path):
    path = tmp_path / "run.pt"

    def write(me):
        save(me, training_of(me, f"--batch-size 8 --width 2 --checkpoint {path}", some_images())[0], 1, 2)

    cluster2.run(write)
    for words, sentence in {
        "--batch-size 8 --width 2": "resumed",
        "--batch-size 8 --width 4": "run.pt has --width 2, this run 4. Give another --checkpoint.",
        "--batch-size 4 --width 2": "has --batch-size 8, this run 4",
        "--batch-size 8 --width 2 --layers 34": "has --layers 18, this run 34",
        "--batch-size 8 --width 2 --seed 1": "has --seed 0, this run 1",
        "--batch-size 8 --width 2 --epochs 1": "run.pt is in epoch 2, beyond the last: give more --epochs",
    }.items():
        for answer in cluster2.run(failing_resume, f"{words} --checkpoint {path}"):
            assert sentence in answer
    save_checkpoint(path, {"model": {}})
    (answer, _) = cluster2.run(failing_resume, f"--batch-size 8 --checkpoint {path}")
    assert "run.pt is a checkpoint of something else" in answer
    path.write_bytes(b"half a checkpoint")
    for answer in cluster2.run(failing_resume, f"--batch-size 8 --checkpoint {path}"):
        assert "run.pt is no checkpoint, or was cut off" in answer


def test_a_loss_that_is_no_number_ends_the_run_and_is_not_saved(cluster2, tmp_path):
    def train(me, path):
        images = some_images()
        images.train.tensors[0].fill_(math.nan)  # type: ignore[attr-defined]
        training, _ = training_of(me, f"--batch-size 8 --width 2 --every 1 --checkpoint {path}", images)
        try:
            train_epoch(me, training, NO_SIGNAL, 0, 0)  # type: ignore[arg-type]
        except FloatingPointError as error:
            return str(error)

    for answer in cluster2.run(train, tmp_path / "run.pt"):
        assert answer == "epoch 1/3  step 1/5: the loss is nan. Try a smaller --lr or --clip-norm."
    assert not (tmp_path / "run.pt").exists()
