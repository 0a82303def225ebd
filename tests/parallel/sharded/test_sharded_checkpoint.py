"""Checkpoints of shards: saved on n ranks, loaded on m, in PyTorch's own format; an unfinished one does no harm."""

from __future__ import annotations

import shutil

import pytest
import sharded_cases
import torch
import torch.distributed.checkpoint as dcp
from sharded_cases import odd, transformer

from course_lib.parallel.sharded import (
    FullySharded,
    load_sharded,
    newest_checkpoint,
    save_sharded,
    start_save_sharded,
)
from course_lib.parallel.sharded.tools.checkpoint import placed_state

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

MAKERS = {"odd": odd, "tied": lambda: transformer(tied=True)}


def begun(me, make):
    model = FullySharded(me, make())
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def steps(me, model, optimizer, make, num_steps):
    """Steps over a batch of 12 rows, which 1, 2, 3 and 4 ranks can share."""
    x, y = (t[me.rank :: me.world_size] for t in sharded_cases.batch_for(odd if make is odd else transformer, 6))
    for _ in range(num_steps):
        optimizer.zero_grad()
        sharded_cases.loss_of(model, x, y).backward()
        optimizer.step()


def train_and_save(me, name, folder, in_background):
    make = MAKERS[name]
    model, optimizer = begun(me, make)
    steps(me, model, optimizer, make, 2)
    if in_background:
        wait = start_save_sharded(folder, model, optimizer)
        steps(me, model, optimizer, make, 1)  # what is saved is what was there when the save began
        wait()
        return None
    save_sharded(folder, model, optimizer)
    steps(me, model, optimizer, make, 2)
    return model.full_state_dict()


def load_and_train(me, name, folder, num_steps):
    make = MAKERS[name]
    model, optimizer = begun(me, lambda: make())
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    load_sharded(folder, model, optimizer)
    steps(me, model, optimizer, make, num_steps)
    return model.full_state_dict()


def assert_same(state, expected, rtol=1e-9):
    assert list(state) == list(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(state[name], tensor, rtol=rtol, atol=rtol, msg=name)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", MAKERS)
def test_saved_on_three_or_four_ranks_and_loaded_on_any_number(clusters, tmp_path, name):
    expected = clusters(4).call(train_and_save, (name, tmp_path / "at", False), show=False)[0]
    assert_same(clusters(4).call(load_and_train, (name, tmp_path / "at", 2), show=False)[0], expected, rtol=0.0)
    for num_ranks in (1, 2, 3):
        assert_same(clusters(num_ranks).call(load_and_train, (name, tmp_path / "at", 2), show=False)[0], expected)


def test_a_plain_model_loads_the_same_folder_without_the_course(clusters, tmp_path):
    clusters(3).call(train_and_save, ("odd", tmp_path / "at", False), show=False)
    expected = clusters(2).call(load_and_train, ("odd", tmp_path / "at", 0), show=False)[0]
    plain = odd(seed=9)
    state = {"model": plain.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "at", no_dist=True)
    plain.load_state_dict(state["model"])
    assert_same(plain.state_dict(), expected, rtol=0.0)


def test_a_save_in_the_background_holds_what_was_there_when_it_began(clusters, tmp_path):
    clusters(2).call(train_and_save, ("odd", tmp_path / "before", False), show=False)
    clusters(2).call(train_and_save, ("odd", tmp_path / "beside", True), show=False)
    before, beside = (
        clusters(2).call(load_and_train, ("odd", tmp_path / name, 0), show=False)[0] for name in ("before", "beside")
    )
    assert_same(beside, before, rtol=0.0)


def test_a_save_that_a_kill_interrupted_leaves_the_last_good_one(clusters, tmp_path):
    clusters(2).call(train_and_save, ("odd", tmp_path / "step-1", False), show=False)
    shutil.copytree(tmp_path / "step-1", tmp_path / "step-2")
    (tmp_path / "step-2/.metadata").unlink()  # it is written last
    next((tmp_path / "step-2").glob("*.distcp")).write_bytes(b"half of it")
    assert newest_checkpoint(tmp_path) == tmp_path / "step-1"
    assert newest_checkpoint(tmp_path / "step-1") is None

    def load(me):
        model, optimizer = begun(me, odd)
        try:
            load_sharded(tmp_path / "step-2", model, optimizer)
        except ValueError as error:
            message = str(error)
        save_sharded(tmp_path / "step-2", model, optimizer)  # an unfinished one may be written anew
        return message

    for message in clusters(2).call(load, show=False):
        assert (
            "step-2 holds no complete checkpoint: it has no file .metadata. The newest one beside it is step-1"
            in message
        )
    assert newest_checkpoint(tmp_path) == tmp_path / "step-2"


def test_what_cannot_be_saved_or_loaded(clusters, tmp_path):
    clusters(2).call(train_and_save, ("odd", tmp_path / "at", False), show=False)

    def messages(me):
        told = []
        for do in (
            lambda: save_sharded(tmp_path / "at", FullySharded(me, odd())),
            lambda: load_sharded(tmp_path / "at", FullySharded(me, transformer())),
            lambda: load_sharded(tmp_path / "at", FullySharded(me, odd(unused=True), find_unused_parameters=True)),
            lambda: load_sharded(tmp_path / "nowhere" / "at", FullySharded(me, odd())),
        ):
            try:
                do()
            except ValueError as error:
                told.append(str(error))
        return told

    for again, other, larger, nowhere in clusters(2).call(messages, show=False):
        assert "at holds a complete checkpoint. Save into a new folder" in again
        assert "is a checkpoint of another model" in other
        assert "extra.weight has shape (11, 3) here, and is missing in it" in larger
        assert "holds no complete checkpoint" in nowhere


# -- where a loaded state lies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "step_on"),
    [({}, "cpu"), ({"foreach": True}, "cpu"), ({"capturable": True}, "meta"), ({"fused": True}, "meta")],
)
def test_a_step_lies_where_its_group_counts(kind, step_on):
    """As in PyTorch's own ``load_state_dict``, with which it is compared. Parameters lie on "meta"."""
    other, parameter = (torch.nn.Parameter(torch.zeros(2, 3, device="meta")) for _ in range(2))
    optimizer = torch.optim.AdamW([{"params": [other]}, {"params": [parameter]}])
    optimizer.param_groups[1].update(kind)
    loaded = {"step": torch.tensor(3.0), "exp_avg": torch.zeros(2, 3), "row_mean": torch.zeros(2), "of": "us"}
    placed = placed_state(optimizer, parameter, loaded)
    assert {name: value.device.type for name, value in placed.items() if name != "of"} == {
        "step": step_on,
        "exp_avg": "meta",
        "row_mean": "meta",
    }
    assert placed["of"] == "us"
    assert placed["step"].dtype == torch.float32

    optimizer.load_state_dict({**optimizer.state_dict(), "state": {1: loaded}})
    theirs = optimizer.state[parameter]
    for name in ("step", "exp_avg", "row_mean"):
        assert (placed[name].device, placed[name].dtype) == (theirs[name].device, theirs[name].dtype)


def goes_on_fused(me, folder):
    """Saved with steps in float64, which a fused kernel would misread; the dtypes of the loaded states."""
    model, optimizer = begun(me, odd)
    steps(me, model, optimizer, odd, 2)
    for state in optimizer.state.values():
        state["step"] = state["step"].double()
    save_sharded(folder, model, optimizer)
    plain, fused = (torch.optim.AdamW(model.parameters(), lr=0.01, fused=fused) for fused in (False, True))
    found = []
    for optimizer in (plain, fused):
        load_sharded(folder, model, optimizer)
        found.append({(state["step"].dtype, state["step"].item()) for state in optimizer.state.values()})
    steps(me, model, fused, odd, 1)
    return found


def test_a_fused_optimizer_gets_steps_that_its_kernel_reads(clusters, tmp_path):
    for plain, fused in clusters(2).call(goes_on_fused, (tmp_path / "at",), show=False):
        assert plain == {(torch.float64, 2.0)}
        assert fused == {(torch.float32, 2.0)}
