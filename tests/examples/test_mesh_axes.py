"""Which meshes a job can have, and the sentences for those that it cannot."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from course_lib.examples.train_mesh.axes import Axes, _meshes, axes_of, num_micro_batches
from course_lib.examples.train_mesh.mesh import Place
from course_lib.examples.train_mesh.settings import SettingsError, learning_rate, parse_arguments
from course_lib.examples.train_mesh.text import Batches, Text


def asked(words: str, num_ranks: int) -> Axes:
    return axes_of(parse_arguments(words.split()), num_ranks)


@pytest.mark.parametrize(
    ("words", "num_ranks", "axes"),
    [
        ("", 1, Axes(pp=1, dp=1, shard=1, tp=1)),
        ("", 8, Axes(pp=1, dp=1, shard=8, tp=1)),
        ("--pp 2 --tp 2", 8, Axes(pp=2, dp=1, shard=2, tp=2)),
        ("--dp 8", 8, Axes(pp=1, dp=8, shard=1, tp=1)),
        ("--dp 2 --shard 2 --pp 2 --tp 2", 16, Axes(2, 2, 2, 2)),
        ("--pp 4 --layers 4", 4, Axes(pp=4, dp=1, shard=1, tp=1)),
    ],
)
def test_the_axis_that_is_not_named_takes_what_the_others_leave(words, num_ranks, axes):
    assert asked(words, num_ranks) == axes


@pytest.mark.parametrize(
    ("words", "num_ranks", "sentences"),
    [
        (
            "--dp 2 --shard 2 --tp 2",
            4,
            "The mesh --dp 2 --shard 2 --pp 1 --tp 2 has 8 places, and there are 4 processes. "
            "The nearest mesh that works is one of --dp 1 --shard 2 --pp 1 --tp 2.",
        ),
        (
            "--pp 3",
            4,
            "has 3 places, and there are 4 processes. The nearest mesh that works is one of "
            "--dp 1 --shard 1 --pp 4 --tp 1.",
        ),
        (
            "--tp 3 --batch-size 12",
            3,
            "--tp 3 cannot share out --heads 4 equally. The nearest mesh that works is one of "
            "--dp 1 --shard 3 --pp 1 --tp 1.",
        ),
        (
            "--tp 3 --shard 1",
            3,
            "--tp 3 cannot share out --heads 4 equally. The nearest mesh that works is one of 2 processes of "
            "--dp 1 --shard 1 --pp 1 --tp 2.",  # three stages would have three micro-batches, of 16 sequences
        ),
        ("--tp 4 --context 6", 4, "--tp 4 cannot share out --context 6 equally: it cuts the sequence, too."),
        (
            "--pp 8",
            8,
            "--pp 8 stages need a block each, and there are --layers 4. The nearest mesh that works",
        ),
        (
            "--pp 4 --accumulate 2",
            4,
            "--pp 4 stages need as many micro-batches, to work at the same time; --accumulate 2 makes fewer. "
            "Give --accumulate 4, or another mesh. The nearest mesh that works is one of "
            "--dp 1 --shard 1 --pp 2 --tp 2.",
        ),
        (
            "--tp 7",
            7,
            "--tp 7 cannot share out --heads 4 equally. The nearest mesh that works is one of 4 processes of "
            "--dp 1 --shard 1 --pp 1 --tp 4.",
        ),
        (
            "--dp 2 --batch-size 6 --accumulate 4",
            1,
            "Give a --batch-size that is a multiple of --accumulate.",
        ),
    ],
)
def test_meshes_that_cannot_be(words, num_ranks, sentences):
    with pytest.raises(SettingsError) as refused:
        asked(words, num_ranks)
    assert sentences in str(refused.value)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("num_ranks", range(1, 17))
def test_the_mesh_that_is_offered_is_accepted(num_ranks):
    refusals = 0
    for axes in _meshes(16):
        words = f"{axes} --batch-size 16 --accumulate 4 --layers 3 --context 12"
        try:
            assert math.prod(asked(words, num_ranks)) == num_ranks
        except SettingsError as refused:
            refusals += 1
            offer = str(refused).partition("works is one of ")[2].rstrip(".")
            count, _, mesh = offer.rpartition("processes of ")
            offered = asked(f"{words} {mesh or offer}", int(count or num_ranks))
            Batches(SimpleNamespace(axes=offered), parse_arguments(words.split()), TEXT)  # can be dealt out
    assert refusals


def test_without_a_number_of_micro_batches_there_are_as_many_as_stages():
    axes = Axes(pp=4, dp=1, shard=1, tp=1)
    assert num_micro_batches(parse_arguments([]), axes) == 4
    assert num_micro_batches(parse_arguments(["--accumulate", "6"]), axes) == 6


def test_all_meshes_of_so_many_ranks_are_tried():
    assert len(list(_meshes(8))) == len(set(_meshes(8))) == 20  # three factors 2, each on one of four axes
    assert all(math.prod(axes) == 8 for axes in _meshes(8))


TEXT = Text([torch.arange(700, dtype=torch.uint8)])


def test_batches_and_texts_that_cannot_be_dealt():
    place = SimpleNamespace(axes=Axes(pp=2, dp=2, shard=2, tp=1))
    for words, sentence in {
        "--accumulate 2 --batch-size 12": "--batch-size 12 does not give 4 shares (--dp times --shard) with "
        "--accumulate 2 equal parts. The nearest that does is 16.",
        "--batch-size 2 --accumulate 1": "The nearest that does is 4.",
        "--context 64 --accumulate 1": "The text has 700 bytes, and one step takes 1025",
    }.items():
        with pytest.raises(SettingsError) as refused:
            Batches(place, parse_arguments(words.split()), TEXT)
        assert sentence in str(refused.value)


@pytest.mark.parametrize("num_layers", range(2, 9))
def test_blocks_are_shared_out_in_order_and_evenly(num_layers):
    for num_stages in range(1, num_layers + 1):
        axes = Axes(num_stages, 1, 1, 1)
        stages = [
            Place(None, axes, SimpleNamespace(get_local_rank=lambda axis, n=n: n)).blocks(num_layers)
            for n in range(num_stages)
        ]
        assert [block for stage in stages for block in stage] == list(range(num_layers))
        assert max(map(len, stages)) - min(map(len, stages)) <= 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--pp 0", "--pp: 0 does not work; the nearest that does is 1"),
        ("--tp two", "--tp: 'two' is no whole number; the least is 1"),
        ("--shard -1", "--shard: -1 does not work; the nearest that does is 1"),
        ("--accumulate 0", "--accumulate: 0 does not work; the nearest that does is 1"),
        ("--width 30 --heads 4", "the nearest that do is 32"),
        ("--warmup 300", "the most that works is 299"),
        ("--precision half", "choose from"),
        ("--peak-tflops 0", "--peak-tflops: '0' does not work: it is a number above 0"),
    ],
)
def test_settings_that_cannot_work(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words.split())
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_learning_rate_rises_in_a_line_and_falls_to_a_tenth():
    args = parse_arguments(["--steps", "110", "--warmup", "10", "--lr", "0.1"])
    rates = [learning_rate(args, step) for step in range(111)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[9] == rates[10] == pytest.approx(0.1)
    assert rates[110] == pytest.approx(0.01)
