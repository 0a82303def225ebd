"""The script's settings: what they mean, and the sentences for those that cannot work."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from course_lib.cluster import Rank
from course_lib.examples import set_up as setting_up
from course_lib.examples.settings import Images, learning_rate, load_images, parse_arguments
from course_lib.examples.train_ddp import make_loaders


def test_the_learning_rate_rises_in_a_line_and_falls_in_a_cosine():
    args = parse_arguments(["--lr", "0.1", "--batch-size", "512", "--lr-batch-size", "256", "--warmup", "10"])
    rates = [learning_rate(args, step, 110) for step in range(110)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[9] == rates[10] == pytest.approx(0.2)  # 0.1, for a batch twice as large
    assert rates[60] == pytest.approx(0.1)
    assert 0.0 < rates[-1] < 1e-4
    assert learning_rate(parse_arguments(["--warmup", "0"]), 0, 1) == 0.1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--epochs 0", "epochs=0 does not work"),
        ("--workers -1", "The nearest that works is 0"),
        ("--lr-batch-size 0", "lr_batch_size=0 does not work"),
        ("--lr 0", "lr=0.0 does not work: it is a number above 0"),
        ("--clip-norm nan", "clip_norm=nan does not work"),
        ("--checkpoint nowhere/run.pt", "There is no folder nowhere for --checkpoint"),
    ],
)
def test_settings_that_cannot_work(words, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_arguments(words.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "--batch-size 1",
            "does not give 4 ranks with --accumulate 1 equal parts .* The nearest that does is 8",
        ),
        ("--batch-size 4", "The nearest that does is 8"),
        ("--batch-size 30 --accumulate 2", "does not give 4 ranks with --accumulate 2 .* is 32"),
        ("--batch-size 48", "--batch-size 48: there are 44 training images"),
    ],
)
def test_batches_that_cannot_be_shared(words, sentence):
    numbers = TensorDataset(torch.arange(44))
    images = Images(numbers, numbers, 44, 44, num_classes=10, channels=1, size=8)
    with pytest.raises(ValueError, match=sentence):
        make_loaders(Rank(0, 4, torch.device("cpu"), "gloo"), parse_arguments(words.split()), images)


def test_image_folders(tmp_path):
    for name in ("train/cat/1.png", "train/dog/1.png", "val/cat/1.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        Image.new("RGB", (9, 7), "red").save(tmp_path / name)
    with pytest.raises(
        ValueError, match=r"train and val need the same class folders.*one of the two has dog"
    ):
        load_images(str(tmp_path), 8)
    (tmp_path / "val/cat").rename(tmp_path / "val/dog")
    (tmp_path / "train/cat").rename(tmp_path / "elsewhere")
    images = load_images(str(tmp_path), 8)
    assert images[2:] == (1, 1, 1, 3, 8)
    assert images.train[0][0].shape == (3, 8, 8)
    with pytest.raises(ValueError, match="There is no folder"):
        load_images(str(tmp_path / "train"), 8)
    assert load_images("digits", 224)[2:] == (1438, 359, 10, 1, 8)


def test_more_processes_than_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"GPUs on this machine: 1, processes: 2.*--device cpu"):
        setting_up.set_up("auto")


@pytest.mark.parametrize(
    ("restarts", "shared", "said"), [("3", "True", True), ("0", "True", False), ("3", "False", False)]
)
def test_restarts_that_may_fail_are_announced(monkeypatch, capsys, restarts, shared, said):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", restarts)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", shared)
    setting_up._advise_on_restarts()
    assert ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in capsys.readouterr().out) == said
