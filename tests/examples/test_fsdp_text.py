"""The sharded program's text and settings: who sees which bytes, and the sentences for what cannot work."""

from __future__ import annotations

import re
import sys

import pytest
import torch

from course_lib.examples.train_fsdp.settings import SettingsError, learning_rate, parse_arguments
from course_lib.examples.train_fsdp.start import Rank
from course_lib.examples.train_fsdp.text import Batches, Text, load_text

# -- text ---------------------------------------------------------------------------------------------------------


def bytes_of(text: Text) -> bytes:
    return bytes(text.read(0, len(text)).tolist())


def test_the_files_of_a_folder_are_one_row_of_bytes_in_the_order_of_their_names(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.md").write_bytes(b"second ")
    (tmp_path / "a.txt").write_bytes(b"first ")
    (tmp_path / "deep" / "c.py").write_bytes("dreißig".encode())
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "image.png").write_bytes(b"no text")
    text = load_text(str(tmp_path))
    row = "first second dreißig".encode()
    assert bytes_of(text) == row
    for start in range(len(row)):
        for end in range(start + 1, len(row) + 1):
            assert bytes(text.read(start, end - start).tolist()) == row[start:end]


def test_one_file_of_any_name_and_what_python_ships(tmp_path):
    (tmp_path / "book").write_bytes(b"call me")
    assert bytes_of(load_text(str(tmp_path / "book"))) == b"call me"
    text = load_text("python")
    assert len(text) > 100_000
    assert b"Lambda expressions" in bytes_of(text)


def test_text_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(SettingsError, match=r"there is no such file or folder\. 'python' needs none"):
        load_text(str(tmp_path / "nothing"))
    (tmp_path / "image.png").write_bytes(b"no text")
    with pytest.raises(SettingsError, match=r"holds no file that ends in \.md, \.py, \.rst, \.text, \.txt"):
        load_text(str(tmp_path))
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(SettingsError, match=r"without the text of its help.*name a file with --data"):
        load_text("python")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "secret.txt"
    path.write_bytes(b"text")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(SettingsError, match=r"--data: .*secret\.txt cannot be read: Permission denied\."):
        load_text(str(path))


# -- who sees which window ------------------------------------------------------------------------------------------

ROW = torch.arange(163).to(torch.uint8)  # forty windows of four and one, and two bytes over


def batches_of(world_size: int, words: str) -> list[Batches]:
    args = parse_arguments(words.split())
    return [Batches(Rank(rank, world_size, torch.device("cpu")), args, Text([ROW])) for rank in range(world_size)]


@pytest.mark.parametrize(("world_size", "accumulate"), [(1, 1), (1, 4), (2, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("first_step", [0, 3, 7])
def test_a_step_sees_the_same_windows_on_any_number_of_ranks_also_after_a_resume(world_size, accumulate, first_step):
    ranks = batches_of(world_size, f"--context 4 --batch-size 8 --seed 5 --accumulate {accumulate}")
    for batches in ranks:
        batches.load_state_dict({"num_done": first_step * 8})
    orders = [torch.randperm(40, generator=torch.Generator().manual_seed(5 * 1_000_003 + e)) for e in range(3)]
    for step in range(first_step, 12):
        seen = []
        for batches in ranks:
            micro_batches = next(batches)
            assert len(micro_batches) == accumulate
            for tokens, targets in micro_batches:
                assert tokens.shape == (8 // world_size // accumulate, 4)
                assert torch.equal(targets, tokens + 1)  # in a row of 0, 1, 2 the next byte is one more
                seen += (tokens[:, 0] // 4).tolist()
        epoch, of_epoch = divmod(step, 5)
        assert seen == orders[epoch][of_epoch * 8 : of_epoch * 8 + 8].tolist()
    assert [batches.state_dict() for batches in ranks] == [{"num_done": 96}] * world_size


def test_an_epoch_leaves_out_a_last_batch_that_is_not_full():
    (batches,) = batches_of(1, "--context 4 --batch-size 12")
    first = torch.cat([next(batches)[0].tokens[:, 0] for _ in range(3)])
    assert len(set(first.tolist())) == 36
    second = torch.cat([next(batches)[0].tokens[:, 0] for _ in range(3)])
    assert len(set(second.tolist())) == 36
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "--batch-size 6",
            "--batch-size 6 does not give 4 ranks with --accumulate 1 equal parts.* does is 8",
        ),
        ("--batch-size 1", "The nearest that does is 4"),
        ("--batch-size 20 --accumulate 2", "with --accumulate 2 equal parts. The nearest that does is 16"),
        (
            "--batch-size 44",
            "The text has 163 bytes, and one step takes 177: --batch-size times --context, and one",
        ),
    ],
)
def test_batches_that_cannot_be_made(words, sentence):
    with pytest.raises(SettingsError, match=sentence):
        batches_of(4, f"--context 4 {words}")


def test_a_seed_of_any_size_works():
    (batches,) = batches_of(1, f"--context 4 --batch-size 8 --seed {10**30}")
    assert next(batches)[0].tokens.shape == (8, 4)


def test_the_smallest_text_that_works():
    args = parse_arguments(["--context", "4", "--batch-size", "2"])
    me = Rank(0, 1, torch.device("cpu"))
    assert next(Batches(me, args, Text([ROW[:9]])))[0].tokens.shape == (2, 4)
    for num_bytes in (0, 1, 8):
        with pytest.raises(SettingsError, match=f"The text has {num_bytes} bytes, and one step takes 9"):
            Batches(me, args, Text([ROW[:num_bytes]]))


# -- settings -------------------------------------------------------------------------------------------------------


def test_the_learning_rate_rises_in_a_line_and_falls_in_a_cosine_to_a_tenth():
    args = parse_arguments(["--lr", "0.1", "--warmup", "10", "--steps", "110"])
    rates = [learning_rate(args, step) for step in range(110)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[9] == rates[10] == pytest.approx(0.1)
    assert rates[60] == pytest.approx(0.055)
    assert rates[-1] == pytest.approx(0.01, rel=0.01)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert learning_rate(parse_arguments(["--warmup", "0", "--lr", "0.1", "--steps", "1"]), 0) == 0.1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--steps 0", "--steps: 0 does not work; the nearest that does is 1"),
        ("--steps many", "--steps: 'many' is no whole number; the least is 1"),
        ("--batch-size 0", "--batch-size: 0 does not work; the nearest that does is 1"),
        ("--lr 0", "--lr: '0' does not work: it is a number above 0"),
        ("--lr fast", "--lr: 'fast' does not work: it is a number above 0"),
        ("--clip-norm nan", "--clip-norm: 'nan' does not work"),
        ("--weight-decay -5", "--weight-decay: '-5' does not work: it is a number from 0 on"),
        ("--weight-decay inf", "--weight-decay: 'inf' does not work"),
        (
            "--width 30 --heads 4",
            "--width: 30 channels do not give 4 heads equal parts; the nearest that do is 32",
        ),
        ("--width 1 --heads 4", "the nearest that do is 4"),
        (
            "--steps 20 --warmup 20",
            "--warmup: 20 takes all of the run's 20 steps.*; the most that works is 19",
        ),
        ("--save-every 0", "--save-every: 0 does not work; the nearest that does is 1"),
        ("--device tpu", "choose from"),
    ],
)
def test_settings_that_cannot_work(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words.split())
    assert ended.value.code == 2
    assert re.search(sentence, capsys.readouterr().err)
