"""Checkpoints of the sharded program, on warm ranks: resumed on any number of ranks, whole or not there at all."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import threading

import pytest
import torch
from fsdp_runs import WORDS, SignalAfter, differing, everything, go_on, names_in, prepared
from torch.distributed.checkpoint import _async_thread_executor
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from course_lib.examples.train_fsdp import saving
from course_lib.examples.train_fsdp import train as train_module
from course_lib.examples.train_fsdp.settings import parse_arguments
from course_lib.examples.train_fsdp.train import train, train_step, train_steps

pytest_plugins = ("fsdp_fixtures",)
pytestmark = [
    pytest.mark.xdist_group("example_train_fsdp"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

# -- going on -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_same_number_of_ranks_goes_on_bit_for_bit(clusters, stopped_fsdp_run, tmp_path):
    folder, had, uninterrupted = stopped_fsdp_run
    shutil.copytree(folder, tmp_path / "run")
    run = clusters(2).run(go_on, f"--out {tmp_path / 'run'}")
    assert f"Resumed from {tmp_path / 'run'}/step-00000003: 3 of 6 steps are done" in run.text[0]
    for first, loaded, end, number in run:
        assert (first, number) == (3, 0)
        assert not differing(loaded, had)
        assert not differing(end, uninterrupted)
        assert "place" in differing(loaded, end)
        assert "embedding.weight" in differing(loaded, end)
    notes = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [note["step"] for note in notes] == [2, 3, 6]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("world_size", [1, 4])
def test_another_number_of_ranks_loads_the_same_bits_and_goes_on_to_1e_5(
    clusters, stopped_fsdp_run, tmp_path, world_size
):
    folder, had, uninterrupted = stopped_fsdp_run
    shutil.copytree(folder, tmp_path / "run")
    for first, loaded, end, _ in clusters(world_size).run(go_on, f"--out {tmp_path / 'run'}"):
        assert first == 3
        assert not differing(loaded, had)
        assert not differing(end, uninterrupted, atol=1e-5)


def test_three_ranks_whose_parts_are_of_different_sizes_load_the_same_bits(clusters, stopped_fsdp_run):
    def load(me, path):
        training = prepared(me, "--batch-size 6")  # eight cannot be shared by three
        training.state.load(path)
        return everything(training)

    folder, had, _ = stopped_fsdp_run
    for loaded in clusters(3).run(load, folder / "step-00000003"):
        assert not differing(loaded, had)


def test_a_checkpoint_holds_what_was_when_it_began_and_not_what_the_next_steps_made_of_it(clusters, tmp_path):
    def save_late(me, words):
        """The thread that writes begins when two more steps are done."""
        save, begin = _async_thread_executor.save_wrapper, threading.Event()

        def late(*args, **options):
            assert begin.wait(60.0)
            return save(*args, **options)

        _async_thread_executor.save_wrapper = late
        try:
            training = prepared(me, words)
            train_step(training, next(training.batches))
            had = everything(training)
            training.saver.save(training.state, 1, {"must_match": {}})
            for _ in range(2):
                train_step(training, next(training.batches))
                training.saver.poll()
            under_way, names = training.saver.future is not None, names_in(training.args.out)
            begin.set()
            training.saver.close()
        finally:
            _async_thread_executor.save_wrapper = save
        training.state.load(training.folder.checkpoints()[-1])
        return had, everything(training), under_way, names

    for had, loaded, under_way, names in clusters(2).run(save_late, f"--out {tmp_path}"):
        assert under_way
        assert not differing(had, loaded)
        assert [name for name in names if name.startswith("step-") and not name.endswith(".draft")] == []
    assert names_in(tmp_path) == ["lock", "step-00000001"]


def test_a_checkpoint_gets_its_name_in_the_step_that_finds_it_whole(clusters, tmp_path):
    def steps(me, words):
        in_background = saving.dcp.async_save

        def soon_done(*args, **options):
            future = in_background(*args, **options)
            future.result()
            return future

        saving.dcp.async_save = soon_done
        try:
            return train_steps(me, prepared(me, words), SignalAfter(me, 0), 0)
        finally:
            saving.dcp.async_save = in_background

    run = clusters(2).run(steps, f"--out {tmp_path} --save-every 3 --log-every 1")
    said = [" ".join(line.split()[:2]) for line in run.text[0].splitlines()]
    saved = [f"Saved {tmp_path}/step-0000000{step}" for step in (3, 6)]
    assert said == [
        "step 1/6",
        "step 2/6",
        "step 3/6",
        saved[0],
        "step 4/6",
        "step 5/6",
        "step 6/6",
        saved[1],
    ]


def test_one_file_of_it_can_be_had(stopped_fsdp_run, tmp_path):
    folder, had, _ = stopped_fsdp_run
    dcp_to_torch_save(folder / "step-00000003", tmp_path / "whole.pt")
    state = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert not differing(state["model"], {name: had[name] for name in state["model"]})
    assert len(state["model"]) == 9


def test_a_run_that_is_done_says_where_it_stands_and_trains_no_more(clusters, stopped_fsdp_run, tmp_path):
    shutil.copytree(stopped_fsdp_run[0], tmp_path / "run")

    def whole_run(me, words):
        return train(me, parse_arguments(f"{WORDS} {words}".split()))

    first = clusters(2).run(whole_run, f"--out {tmp_path / 'run'}")
    again = clusters(2).run(whole_run, f"--out {tmp_path / 'run'}")
    assert list(first) == list(again) == [0, 0]
    assert "loss" in first.text[0]
    assert "6 of 6 steps are done" in again.text[0]
    assert "loss" not in again.text[0]


# -- killed, full, damaged ------------------------------------------------------------------------------------------


def test_what_a_kill_left_half_written_does_not_count_and_goes_away(clusters, stopped_fsdp_run, tmp_path):
    folder, had, _ = stopped_fsdp_run
    shutil.copytree(folder, tmp_path / "run")
    later = tmp_path / "run" / "step-00000005.0123abcd.draft"
    shutil.copytree(folder / "step-00000003", later)
    (later / ".metadata").unlink()
    ours = tmp_path / "run" / "step-5-of-mine.draft"
    ours.mkdir()
    for first, loaded, *_ in clusters(2).run(go_on, f"--out {tmp_path / 'run'} --save-every 100"):
        assert first == 3
        assert not differing(loaded, had)
    assert names_in(tmp_path / "run") == ["lock", "log.jsonl", "step-00000003", "step-00000006", ours.name]


FULL = OSError(28, "No space left on device")


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("broken", "rank"), [("fsync", 1), ("fsync", 0), ("replace", 0)])
def test_a_save_that_fails_leaves_the_last_one_and_the_next_tries_again(clusters, tmp_path, broken, rank):
    """A rank cannot write its part; rank 0 cannot write about.json; rank 0 cannot rename."""

    def steps(me, words):
        training = prepared(me, words)
        save, works, saves = training.saver.save, getattr(os, broken), []

        def counted(*args):
            saves.append(args)
            save(*args)

        def fails_in_the_second(*args):
            if len(saves) == 2:
                raise FULL
            return works(*args)

        training.saver.save = counted
        if me.rank == rank:
            setattr(os, broken, fails_in_the_second)
        try:
            return train_steps(me, training, SignalAfter(me, 0), 0)
        finally:
            setattr(os, broken, works)

    run = clusters(2).run(steps, f"--out {tmp_path} --save-every 2 --blocking-save")
    assert list(run) == [0, 0]
    assert f"{tmp_path}/step-00000004 could not be saved: " in run.text[0]
    assert "No space left on device. What was saved before is untouched. The next save, if" in run.text[0]
    assert ("rank 1: No space" in run.text[0]) == (rank == 1)
    assert not run.text[1]
    assert names_in(tmp_path) == ["lock", "log.jsonl", "step-00000002", "step-00000006"]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("how", ["", "--blocking-save"])
def test_the_last_save_must_not_fail(clusters, tmp_path, how):
    def steps(me, words):
        def full(descriptor):
            raise FULL

        training, fsync = prepared(me, words), os.fsync
        if me.rank == 1:
            os.fsync = full
        try:
            train_steps(me, training, SignalAfter(me, 0), 0)
        except RuntimeError as error:
            return str(error)
        finally:
            os.fsync = fsync

    for answer in clusters(2).run(steps, f"--out {tmp_path} --save-every 100 {how}"):
        assert answer == (
            f"{tmp_path}/step-00000006 could not be saved: rank 1: No space left on device. "
            "What was saved before is untouched."
        )
    assert names_in(tmp_path) == ["lock", "log.jsonl"]


def test_a_rank_that_cannot_copy_its_parts_saves_while_training_waits(clusters, tmp_path):
    def steps(me, words):
        in_background = saving.dcp.async_save

        def no_memory(*args, **options):
            raise MemoryError("no room for a copy")

        if me.rank == 1:
            saving.dcp.async_save = no_memory
        try:
            return go_on(me, words)[2]
        finally:
            saving.dcp.async_save = in_background

    run = clusters(2).run(steps, f"--out {tmp_path} --save-every 3")
    assert run.text[1].count("Rank 1 cannot save in the background (no room for a copy). It saves while") == 2
    assert "background" not in run.text[0]
    assert names_in(tmp_path) == ["lock", "log.jsonl", "step-00000003", "step-00000006"]
    for first, loaded, *_ in clusters(2).run(go_on, f"--out {tmp_path}"):
        assert first == 6
        assert not differing(loaded, run[0])


def test_a_save_that_is_under_way_when_training_fails_still_counts(clusters, tmp_path):
    def fails_later(me, words):
        save = saving.Saver.save

        def save_then_fail(self, *args):
            save(self, *args)
            raise FloatingPointError("the step after")

        saving.Saver.save = save_then_fail
        try:
            train(me, parse_arguments(f"{WORDS} {words}".split()))
        except FloatingPointError as error:
            return str(error)
        finally:
            saving.Saver.save = save

    assert list(clusters(2).run(fails_later, f"--out {tmp_path} --save-every 2")) == ["the step after"] * 2
    assert names_in(tmp_path) == ["lock", "log.jsonl", "step-00000002"]


def test_weights_that_an_infinite_gradient_spoilt_are_not_saved(clusters, tmp_path):
    """The loss of the step that spoils them is a number still."""

    def steps(me, words):
        training, clip, calls = prepared(me, words), train_module.clip, []

        def spoilt(model, most):
            calls.append(most)
            if me.rank == 1 and len(calls) == 4:
                model.norm.weight.grad.to_local().fill_(math.inf)
            return clip(model, most)

        train_module.clip = spoilt
        try:
            train_steps(me, training, SignalAfter(me, 0), 0)
        except FloatingPointError as error:
            return str(error)
        finally:
            train_module.clip = clip
            training.saver.wait()

    for answer in clusters(2).run(steps, f"--out {tmp_path} --save-every 2"):
        assert re.match(r"step 4/6: the loss is 5\.\d+, the gradient's norm inf\. Try a smaller", answer)
    assert names_in(tmp_path) == ["lock", "log.jsonl", "step-00000002"]
