"""Checkpoints of a mesh: saved on one, loaded on another and by a plain model, and training goes on as before."""

from __future__ import annotations

import mesh_cases
import pytest
import torch
import torch.distributed.checkpoint as dcp

from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import OnMesh, load_on_mesh, save_on_mesh

pytestmark = [
    pytest.mark.xdist_group("mesh"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

BEFORE, AFTER, NUM_ROWS = 2, 3, 19


def begun(me, mesh, seed=0):
    model = OnMesh(me, mesh, mesh_cases.whole("tied", seed))
    return model, mesh_cases.optimizer_for(model.parameters())


def train_and_save(me, mesh, folder):
    model, optimizer = begun(me, mesh)
    mesh_cases.train(model, optimizer, BEFORE, NUM_ROWS)
    save_on_mesh(folder, model, optimizer)
    model.close()


def load_and_train(me, mesh, folder):
    model, optimizer = begun(me, mesh, seed=5)
    load_on_mesh(folder, model, optimizer)
    at_once = mesh_cases.held(model)
    seen = mesh_cases.train(model, optimizer, AFTER, NUM_ROWS, first=BEFORE)
    model.close()
    return {"at once": {"held": at_once}, **seen}


def assert_goes_on(clusters, folder, save_on, load_on):
    save_on, load_on = map(Mesh.parse, (save_on, load_on))
    clusters(save_on.num_ranks).call(train_and_save, (save_on, folder), show=False)
    then = mesh_cases.alone("tied", BEFORE, NUM_ROWS)["state"]
    want = mesh_cases.alone("tied", BEFORE + AFTER, NUM_ROWS)

    plain = mesh_cases.whole("tied", seed=7)
    state = {"model": plain.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(value, then[name], rtol=0, atol=1e-10)

    for mesh in (load_on, Mesh.of(tp=1)):
        ranks = list(clusters(mesh.num_ranks).call(load_and_train, (mesh, folder), show=False))
        mesh_cases.assert_same(then, [rank["at once"] for rank in ranks])
        mesh_cases.assert_same(want["state"], ranks)
        for rank in ranks:
            assert rank["losses"] == pytest.approx(want["losses"][BEFORE:], rel=0, abs=1e-10)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("save_on", "load_on"), [("pp=2 tp=2", "dp_shard=2 tp=2"), ("dp_shard=3", "pp=2 dp_replicate=2")]
)
def test_saved_on_one_mesh_and_loaded_on_another_and_on_one_rank(clusters, tmp_path, save_on, load_on):
    assert_goes_on(clusters, tmp_path / "at", save_on, load_on)


@pytest.mark.long
def test_saved_on_two_by_two_by_two_and_loaded_on_four_by_two(clusters, tmp_path):
    assert_goes_on(clusters, tmp_path / "at", "pp=2 dp_shard=2 tp=2", "pp=4 dp_shard=1 tp=2")


def sizes(me, mesh, folder):
    """The bytes that this rank is to write, and those of the model."""
    model, _ = begun(me, mesh)
    save_on_mesh(folder, model)
    model.close()


def test_every_number_is_written_once(clusters, tmp_path):
    mesh = Mesh.of(dp_replicate=2, tp=2)
    clusters(4).call(sizes, (mesh, tmp_path / "at"), show=False)
    about = dcp.FileSystemReader(tmp_path / "at").read_metadata()
    plain = mesh_cases.whole("tied").state_dict()
    written = dict.fromkeys(plain, 0)
    for index, kept in about.storage_data.items():
        written[index.fqn.removeprefix("model.")] += kept.length
    for name, chunks in about.state_dict_metadata.items():
        name = name.removeprefix("model.")
        assert sum(chunk.sizes.numel() for chunk in chunks.chunks) == plain[name].numel()
    assert written.keys() == plain.keys()
    assert all(written.values())


def goes_on_fused(me, mesh, folder):
    """Saved with steps in float64, which a fused kernel would misread; the loaded steps."""
    model, optimizer = begun(me, mesh)
    mesh_cases.train(model, optimizer, BEFORE, NUM_ROWS)
    for state in optimizer.state.values():
        state["step"] = state["step"].double()
    save_on_mesh(folder, model, optimizer)
    fused = torch.optim.AdamW(model.parameters(), fused=True)
    load_on_mesh(folder, model, fused)
    mesh_cases.train(model, fused, 1, NUM_ROWS, first=BEFORE)
    model.close()
    return {(state["step"].dtype, state["step"].item()) for state in fused.state.values()}


def test_a_fused_optimizer_gets_steps_that_its_kernel_reads(clusters, tmp_path):
    for steps in clusters(2).call(goes_on_fused, (Mesh.of(tp=2), tmp_path / "at"), show=False):
        assert steps == {(torch.float32, BEFORE + 1.0)}


# -- bad input --------------------------------------------------------------------------------------------------------


def said(me, mesh, folder, what):
    model, _optimizer = begun(me, mesh)
    if what == "another model":
        config = mesh_cases.replace(mesh_cases.CONFIG, context_length=7, tied=True)  # the first stage's alone
        model = OnMesh(me, mesh, mesh_cases.Transformer(config).double())
    before = [values for _, _, values, _ in mesh_cases.held(model)]
    try:
        if what == "save twice":
            save_on_mesh(folder, model)
        else:
            load_on_mesh(folder / "none" if what == "nothing there" else folder, model)
    except ValueError as error:
        after = [values for _, _, values, _ in mesh_cases.held(model)]
        return str(error), all(map(torch.equal, before, after))
    return None


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("save twice", "holds a complete checkpoint. Save into a new folder, such as"),
        ("nothing there", "holds no complete checkpoint: it has no file .metadata"),
        (
            "another model",
            "is a checkpoint of another model: stem.positions.weight has shape (7, 8) here, and has shape (6, 8)",
        ),
    ],
)
def test_bad_input_gets_a_sentence(clusters, tmp_path, what, words):
    mesh = Mesh.of(pp=2)
    clusters(2).call(sizes, (mesh, tmp_path / "at"), show=False)
    for sentence, unchanged in clusters(2).call(said, (mesh, tmp_path / "at", what), show=False):
        assert words in sentence
        assert unchanged
