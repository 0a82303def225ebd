"""The script's settings: what they mean, and the sentences for those that cannot work."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from course_lib.examples.train_ddp import start
from course_lib.examples.train_ddp.images import Images
from course_lib.examples.train_ddp.loading import make_loaders
from course_lib.examples.train_ddp.settings import SettingsError, learning_rate, parse_arguments
from course_lib.examples.train_ddp.start import Rank
from course_lib.examples.train_ddp.train import make_model, train


def test_the_learning_rate_rises_in_a_line_and_falls_in_a_cosine():
    args = parse_arguments(["--lr", "0.1", "--batch-size", "512", "--lr-batch-size", "256", "--warmup", "10"])
    rates = [learning_rate(args, step, 110) for step in range(110)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[9] == rates[10] == pytest.approx(0.2)  # 0.1, for a batch twice as large
    assert rates[60] == pytest.approx(0.1)
    assert 0.0 < rates[-1] < 1e-4
    assert learning_rate(parse_arguments(["--warmup", "0", "--lr", "0.1"]), 0, 1) == 0.1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--epochs 0", "--epochs: 0 does not work; the nearest that does is 1"),
        ("--epochs many", "--epochs: 'many' is no whole number; the least is 1"),
        ("--workers -1", "--workers: -1 does not work; the nearest that does is 0"),
        ("--workers 100000", "--workers: 100000 processes for each of 1 ranks are too many for"),
        ("--lr-batch-size 0", "--lr-batch-size: 0 does not work; the nearest that does is 1"),
        ("--lr 0", "--lr: '0' does not work: it is a number above 0"),
        ("--lr fast", "--lr: 'fast' does not work: it is a number above 0"),
        ("--clip-norm nan", "--clip-norm: 'nan' does not work"),
        ("--weight-decay nan", "--weight-decay: 'nan' does not work: it is a number from 0 on"),
        ("--weight-decay -5", "--weight-decay: '-5' does not work: it is a number from 0 on"),
        ("--weight-decay inf", "--weight-decay: 'inf' does not work"),
        ("--width 0", "--width: 0 does not work; the nearest that does is 1"),
        ("--layers 19", "--layers: 19 is none of 18, 34, 50, 101, 152; the nearest is 18"),
        ("--image-size -3", "--image-size: -3 does not work; the nearest that does is 8"),
        ("--log-every 0", "--log-every: 0 does not work; the nearest that does is 1"),
        ("--augment much", "choose from"),
    ],
)
def test_settings_that_cannot_work(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words.split())
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_most_workers_are_accepted(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert parse_arguments(["--workers", "4"]).workers == 4
    with pytest.raises(SystemExit):
        parse_arguments(["--workers", "5"])


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
    images = Images(numbers, numbers, 44, 44, num_classes=10, size=8)
    with pytest.raises(SettingsError, match=sentence):
        make_loaders(Rank(0, 4, torch.device("cpu")), parse_arguments(words.split()), images)


ALONE = Rank(0, 1, torch.device("cpu"))


def test_a_warmup_as_long_as_the_run():
    with pytest.raises(SettingsError, match=r"--warmup 100000 takes all of the run's 45 steps.* that works is 44\."):
        train(ALONE, parse_arguments(["--warmup", "100000", "--epochs", "1"]))


def test_sync_batch_norm_without_gpus():
    numbers = TensorDataset(torch.arange(44))
    with pytest.raises(SettingsError, match="--sync-bn needs GPUs"):
        make_model(ALONE, parse_arguments(["--sync-bn"]), Images(numbers, numbers, 44, 44, num_classes=10, size=8))


def test_narrow_layers_in_channels_last_on_a_cpu():
    numbers = TensorDataset(torch.arange(44))
    with pytest.raises(SettingsError, match=r"--channels-last on a CPU needs --width 16 or more, and it is 8"):
        make_model(
            ALONE, parse_arguments(["--channels-last"]), Images(numbers, numbers, 44, 44, num_classes=10, size=8)
        )


def test_more_processes_than_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(SettingsError, match=r"GPUs on this machine: 1, processes: 2.*--device cpu"):
        start.set_up("auto")


@pytest.mark.parametrize(
    ("restarts", "shared", "said"), [("3", "True", True), ("0", "True", False), ("3", "False", False)]
)
def test_restarts_that_may_fail_are_announced(monkeypatch, capsys, restarts, shared, said):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", restarts)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", shared)
    start._advise_on_restarts()
    assert ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in capsys.readouterr().out) == said
