"""Checkpoints of the program for any mesh, on warm ranks: what one mesh has saved, another loads and goes on from."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from mesh_runs import SignalAfter, everything, go_on, of_all_stages, prepared, sentence_of_start, train_steps
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from course_lib.examples.train_mesh.transformer import Transformer

pytestmark = [
    pytest.mark.xdist_group("example_train_mesh"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module"),
]


def differing(tensors, others, atol=0.0):
    assert tensors.keys() == others.keys()
    return [name for name, t in tensors.items() if (t.double() - others[name].double()).abs().max() > atol]


@pytest.fixture(scope="module")
def stopped(clusters, tmp_path_factory):
    """The folder of a run of two stages of two ranks that a signal ended after two of four steps, and what it had."""
    folder = tmp_path_factory.mktemp("mesh") / "run"
    run = clusters(4).run(go_on, f"--pp 2 --tp 2 --out {folder}", 2)
    assert [number for *_, number in run] == [15] * 4  # the signal reached the last rank alone
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "log.jsonl", "step-00000002"]
    return folder, of_all_stages([had for _, _, had, _ in run])


@pytest.fixture(scope="module")
def uninterrupted(clusters):
    """Where the four steps would have led one process."""
    return clusters(1).run(go_on, "")[0][2]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("num_ranks", "mesh"),
    [
        pytest.param(4, "--dp 2 --tp 2", marks=pytest.mark.long),
        (1, ""),
        pytest.param(4, "--pp 2 --tp 2", marks=pytest.mark.long),
        pytest.param(4, "--pp 2 --shard 2", marks=pytest.mark.long),
        pytest.param(2, "--shard 2", marks=pytest.mark.long),
        pytest.param(3, "--pp 3 --accumulate 4", marks=pytest.mark.long),
    ],
)
def test_another_mesh_loads_the_same_bits_and_goes_on(clusters, stopped, uninterrupted, tmp_path, num_ranks, mesh):
    folder, had = stopped
    shutil.copytree(folder, tmp_path / "run")
    run = clusters(num_ranks).run(go_on, f"{mesh} --out {tmp_path / 'run'}")
    assert [(first, number) for first, *_, number in run] == [(2, 0)] * num_ranks
    assert not differing(of_all_stages([loaded for _, loaded, _, _ in run]), had)
    assert not differing(of_all_stages([end for _, _, end, _ in run]), uninterrupted, atol=1e-12)
    assert "place" in differing(had, uninterrupted)
    assert "embedding.weight" in differing(had, uninterrupted, atol=1e-5)


@pytest.mark.long
def test_the_same_mesh_goes_on_bit_for_bit(clusters, tmp_path):
    mesh = "--pp 2 --tp 2"
    whole = clusters(4).run(go_on, mesh)
    clusters(4).run(go_on, f"{mesh} --out {tmp_path / 'run'}", 2)
    again = clusters(4).run(go_on, f"{mesh} --out {tmp_path / 'run'}")
    for (_, _, end, _), (first, _, end_again, _) in zip(whole, again, strict=True):
        assert first == 2
        assert not differing(end, end_again)


def test_one_file_of_it_fits_the_plain_model(stopped, tmp_path):
    folder, had = stopped
    dcp_to_torch_save(folder / "step-00000002", tmp_path / "whole.pt")
    state = torch.load(tmp_path / "whole.pt", weights_only=False)  # our own
    plain = Transformer(3, 6, 2, 8).double()
    plain.load_state_dict(state["model"])  # strict
    assert all(torch.equal(p, had[name]) for name, p in plain.named_parameters())
    for name, parameter in plain.named_parameters():  # the optimizer, too: all under the parameter's name
        assert torch.equal(state["optimizer"][f"state.{name}.exp_avg"], had[f"state.{name}.exp_avg"])
        assert state["optimizer"][f"param_groups.{name}.weight_decay"] == (0.1 if parameter.ndim > 1 else 0.0)


def test_a_checkpoint_of_another_folder_is_read_and_not_written(clusters, stopped, uninterrupted, tmp_path):
    folder, had = stopped
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    words = f"--resume {folder / 'step-00000002'} --out {tmp_path / 'new'}"
    ((first, loaded, end, _),) = clusters(1).run(go_on, words)
    assert first == 2
    assert not differing(loaded, had)
    assert not differing(end, uninterrupted, atol=1e-12)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    ((first, *_),) = clusters(1).run(go_on, words)
    assert first == 4  # its own checkpoint comes before that of --resume


def test_checkpoints_that_do_not_fit(clusters, stopped, tmp_path):
    checkpoint = stopped[0] / "step-00000002"
    for words, sentence in {
        "--layers 2": "step-00000002 has --layers 3, this run 2. Give another --out or --resume.",
        "--weight-decay 0.2": "has --weight-decay 0.1, this run 0.2",
        "--precision float32": "has weights in torch.float64, this run torch.float32",
        "--accumulate 4 --recompute": "started",
    }.items():
        (answer,) = clusters(1).run(sentence_of_start, f"{words} --resume {checkpoint}")
        assert sentence in answer
    (answer,) = clusters(1).run(sentence_of_start, f"--resume {tmp_path / 'nothing'}")
    assert answer.startswith(f"SettingsError: {tmp_path / 'nothing'} is no checkpoint")
    shutil.copytree(checkpoint, tmp_path / "step-00000002")
    (tmp_path / "step-00000002" / "__3_0.distcp").unlink()
    (answer,) = clusters(1).run(sentence_of_start, f"--resume {tmp_path / 'step-00000002'}")
    assert "is damaged (__3_0.distcp is missing)" in answer


FULL = OSError(28, "No space left on device")


def test_a_save_that_fails_on_one_rank_leaves_the_last_one_and_no_half(clusters, tmp_path):
    def run_with_a_full_disk(me, words):
        training = prepared(me, words)
        fsync, saves, save = os.fsync, [], training.saver.save

        def counted(*args):
            saves.append(args)
            save(*args)

        def full_in_the_second(*args):
            if len(saves) == 2:
                raise FULL
            return fsync(*args)

        training.saver.save = counted
        if me.rank == 3:
            os.fsync = full_in_the_second
        try:
            train_steps(me, training, SignalAfter(me, 0), 0)
        except RuntimeError as error:
            return str(error)
        finally:
            os.fsync = fsync

    run = clusters(4).run(run_with_a_full_disk, f"--pp 2 --tp 2 --out {tmp_path} --save-every 2 --blocking-save")
    for answer in run:
        assert "step-00000004 could not be saved: rank 3: No space left on device" in answer
        assert "What was saved before is untouched" in answer
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "log.jsonl", "step-00000002"]

    def load(me, words):
        training = prepared(me, words)
        training.state.load(tmp_path / "step-00000002")
        return everything(training)["place"].item()

    assert list(clusters(1).run(load, "")) == [16]
