"""The parts of the script that trains under torchrun: each alone, on warm ranks, held against one process."""

from __future__ import annotations

import json
import math
import shutil
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from course_lib.examples.train_ddp import train as train_module
from course_lib.examples.train_ddp.images import Images
from course_lib.examples.train_ddp.keeping import RunFolder
from course_lib.examples.train_ddp.loading import ResumableSampler, make_loaders
from course_lib.examples.train_ddp.settings import learning_rate, parse_arguments
from course_lib.examples.train_ddp.start import Rank
from course_lib.examples.train_ddp.train import (
    Training,
    evaluate,
    make_model,
    resume,
    save,
    train,
    train_epoch,
)
from course_lib.meter import metered
from course_lib.models import SmallCNN

pytestmark = [
    pytest.mark.xdist_group("example_train_ddp"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NO_SIGNAL = SimpleNamespace(number=0)


class ByItem(Dataset):
    """A data set that is asked for by (epoch, number), as training images are, or by number."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, item):
        number = item if isinstance(item, int) else item[1]
        return tuple(tensor[number] for tensor in self.tensors)


def some_images(num_train: int = 44, num_val: int = 7, dtype: torch.dtype = torch.float32) -> Images:
    """Random images (N, 3, 8, 8) of ten classes."""
    chance = torch.Generator().manual_seed(7)

    def part(num: int) -> ByItem:
        pixels = torch.randn(num, 3, 8, 8, generator=chance, dtype=dtype)
        return ByItem(pixels, torch.randint(10, (num,), generator=chance))

    return Images(part(num_train), part(num_val), num_train, num_val, num_classes=10, size=8)


def training_of(me: Rank, words: str, images: Images, model: nn.Module | None = None):
    """A ``Training`` on this rank as the program makes it, or with another model; and the loader to judge by."""
    args = parse_arguments(words.split())
    sampler, loader, val_loader = make_loaders(me, args, images)
    ddp = DistributedDataParallel(model) if model is not None else make_model(me, args, images)
    optimizer = torch.optim.SGD(ddp.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    num_steps = images.num_train // args.batch_size
    return Training(args, RunFolder(me, args.out), sampler, loader, ddp, optimizer, num_steps), val_loader


# -- arithmetic -------------------------------------------------------------------------------------------------


def small_cnn() -> nn.Module:
    torch.manual_seed(3)
    return SmallCNN(channels=3, width=4, batch_norm=False).double()


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
        training.model.module.fc.register_forward_hook(lambda *call: seen.append(call[-1].dtype))
        train_epoch(me, training, NO_SIGNAL, 0, 0)  # type: ignore[arg-type]
        return seen[0], {p.dtype for p in training.model.parameters()}

    assert list(cluster2.run(types)) == [(torch.bfloat16, {torch.float32})] * 2


def test_channels_last_lays_images_and_weights_out_and_changes_no_value(cluster2):
    def weights(me, words):
        training, _ = training_of(me, f"--batch-size 8 --width 16 {words}", some_images(8))
        seen = []
        training.model.module.conv1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        train_epoch(me, training, NO_SIGNAL, 0, 0)  # type: ignore[arg-type]
        model = training.model.module
        tensors = (seen[0], model.layer1[0].conv1.weight)
        return model.state_dict(), [t.is_contiguous(memory_format=torch.channels_last) for t in tensors]

    plain, laid_out = (cluster2.run(weights, words)[0] for words in ("", "--channels-last"))
    assert laid_out[1] == [True, True]
    assert plain[1] == [False, False]
    for name, tensor in plain[0].items():
        torch.testing.assert_close(laid_out[0][name], tensor, rtol=1e-3, atol=1e-4, msg=name)


def test_gradients_are_views_of_their_bucket(cluster2):
    def shares_memory(me):
        training, _ = training_of(me, "--batch-size 8 --width 2", some_images())
        training.model(torch.randn(2, 3, 8, 8)).sum().backward()
        storages = {p.grad.untyped_storage().data_ptr() for p in training.model.parameters()}
        return len(storages) < len(list(training.model.parameters()))

    assert list(cluster2.run(shares_memory)) == [True, True]


# -- who sees which image -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("world_size", "accumulate"), [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("first_step", [0, 3])
def test_a_step_sees_the_same_images_on_any_number_of_ranks_also_after_a_resume(world_size, accumulate, first_step):
    numbers = ByItem(torch.arange(44))
    args = parse_arguments(["--batch-size", "8", "--accumulate", str(accumulate), "--seed", "5"])
    images = Images(numbers, numbers, 44, 44, num_classes=10, size=8)
    steps: list[list[int]] = [[] for _ in range(first_step, 5)]
    judged = []
    for rank in range(world_size):
        me = Rank(rank, world_size, torch.device("cpu"))
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
            training.model.module.bn1.running_mean.add_(5.0)
        return evaluate(me, training, val_loader), training.model.module

    (first, model), (second, other) = cluster2.run(judge, num_val)
    assert torch.equal(model.bn1.running_mean, other.bn1.running_mean)
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


STOPPED = "--batch-size 8 --width 2 --warmup 2 --epochs 1 --out"


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
    whole = [weights for *_, weights in cluster2.run(go_on, tmp_path / "uninterrupted")]
    assert list(cluster2.run(stop_in_third_step, tmp_path / "run")) == [15, 15]
    shutil.copytree(tmp_path / "run", tmp_path / "four")
    on_four = cluster4.run(go_on, tmp_path / "four")
    assert [position for position, *_ in on_four] == [(0, 3)] * 4
    on_two = cluster2.run(go_on, tmp_path / "run")
    for (position, loaded, weights), (_, loaded_on_four, _), expected in zip(on_two, on_four, whole, strict=False):
        assert position == (0, 3)
        for name in loaded:
            assert torch.equal(loaded[name], loaded_on_four[name]), name
            assert torch.equal(weights[name], expected[name]), name
        assert any(not torch.equal(loaded[name], weights[name]) for name in loaded)


def test_rank_1_need_not_see_the_folder(cluster2, tmp_path):
    """As on machines without a common disk; and what rank 1 alone sees does not count."""

    def save_and_resume(me, path):
        training, _ = training_of(me, f"--batch-size 4 --width 2 --out {path}", some_images())
        save(training, 1, 2)
        positions = []
        for blind in (1, 0):
            training.folder.folder = path / "not-here" if me.rank == blind else path
            positions.append(resume(me, training))
        return positions

    assert list(cluster2.run(save_and_resume, tmp_path / "run")) == [[(1, 2), (0, 0)]] * 2


def test_a_whole_run_keeps_the_last_and_the_best_and_its_numbers(cluster2, tmp_path):
    words = f"--batch-size 288 --width 1 --epochs 2 --warmup 2 --log-every 2 --image-size 8 --out {tmp_path}"

    def run(me):
        """The second epoch is told to be the worse one."""
        told, less = train_module.evaluate, iter((0, 1))
        with mock.patch.object(train_module, "evaluate", lambda *given: told(*given) - next(less)):
            return train(me, parse_arguments(words.split()))

    run_of_both = cluster2.run(run)
    assert list(run_of_both) == [0, 0]
    last, best = (torch.load(tmp_path / name) for name in ("last.pt", "best.pt"))
    notes = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    accuracies = [note["accuracy"] for note in notes if "accuracy" in note]
    assert len(accuracies) == 2
    assert last["best_accuracy"] == best["best_accuracy"] == max(accuracies)
    assert (best["epoch"], accuracies.index(max(accuracies))) == (1, 0)
    assert (last["epoch"], last["step"]) == (2, 0)
    assert [note["step"] for note in notes if "step" in note] == [2, 4, 5, 2, 4, 5]
    again = cluster2.run(run)  # all is done: it says where it stands, and trains no more
    assert "Resumed from" in again.text[0]
    assert "loss" not in again.text[0]


# -- sentences ----------------------------------------------------------------------------------------------------


def failing_resume(me, words):
    try:
        resume(me, training_of(me, words, some_images())[0])
    except (ValueError, RuntimeError) as error:
        return str(error)
    return "resumed"


def test_checkpoints_of_other_runs(cluster2, tmp_path):
    path = tmp_path / "last.pt"

    def write(me):
        save(training_of(me, f"--batch-size 8 --width 2 --out {tmp_path}", some_images())[0], 1, 2)

    cluster2.run(write)
    for words, sentence in {
        "--batch-size 8 --width 2": "resumed",
        "--batch-size 8 --width 2 --weight-decay 0.5": "last.pt has --weight-decay 0.0001, this run 0.5. Give another",
        "--batch-size 8 --width 4": "last.pt has --width 2, this run 4. Give another --out; --weights ",
        "--batch-size 4 --width 2": "has --batch-size 8, this run 4",
        "--batch-size 8 --width 2 --layers 34": "has --layers 18, this run 34",
        "--batch-size 8 --width 2 --seed 1": "has --seed 0, this run 1",
        "--batch-size 8 --width 2 --epochs 90": "last.pt has --epochs 5, this run 90",
    }.items():
        for answer in cluster2.run(failing_resume, f"{words} --out {tmp_path}"):
            assert sentence in answer
    torch.save({"model": {}}, path)
    (answer, _) = cluster2.run(failing_resume, f"--batch-size 8 --out {tmp_path}")
    assert "last.pt is a checkpoint of something else" in answer
    path.write_bytes(b"half a checkpoint")
    for answer in cluster2.run(failing_resume, f"--batch-size 8 --out {tmp_path}"):
        assert "last.pt is no checkpoint, or was cut off" in answer


def test_a_loss_or_a_gradient_that_is_no_number_ends_the_run_and_is_not_saved(cluster2, tmp_path):
    def train_on(me, path, spoil):
        images = some_images()
        if spoil == "loss":
            images.train.tensors[0].fill_(math.nan)  # type: ignore[attr-defined]
        training, _ = training_of(me, f"--batch-size 8 --width 2 --save-every 1 --out {path}", images)
        if spoil == "gradient":  # with a loss that is still right
            training.model.module.fc.bias.register_hook(lambda gradient: gradient * math.inf)
        try:
            train_epoch(me, training, NO_SIGNAL, 0, 0)  # type: ignore[arg-type]
        except FloatingPointError as error:
            return str(error)

    for answer in cluster2.run(train_on, tmp_path, "loss"):
        assert answer == "epoch 1/5  step 1/5: the loss is nan. Try a smaller --lr or --clip-norm."
    for answer in cluster2.run(train_on, tmp_path, "gradient"):
        assert answer.startswith("epoch 1/5  step 1/5: the gradient's norm is ")
    assert not (tmp_path / "last.pt").exists()
