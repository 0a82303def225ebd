"""A transformer on a mesh against one process: losses, gradient norms and all weights of five clipped steps."""

from __future__ import annotations

import itertools

import mesh_cases
import pytest
import torch

from course_lib.layouts.mesh import Mesh
from course_lib.schedules import get_schedule

pytestmark = [
    pytest.mark.xdist_group("mesh"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

AXES = ("pp", "dp_replicate", "dp_shard", "tp")
NUM_STEPS, NUM_ROWS = 5, 9  # 9 rows: ranks have 5 and 4, or 3, 2, 2 and 2, of them
_ALONE: dict = {}


def alone(name, num_rows=NUM_ROWS):
    if (name, num_rows) not in _ALONE:
        _ALONE[name, num_rows] = mesh_cases.alone(name, NUM_STEPS, num_rows)
    return _ALONE[name, num_rows]


def assert_equals_one_process(cluster, mesh, name, num_rows=NUM_ROWS, **options):
    want = alone(name, num_rows)
    assert max(want["norms"]) > 2 * mesh_cases.MAX_NORM  # some step is clipped
    ranks = list(cluster.call(mesh_cases.on_mesh, (mesh, name, NUM_STEPS, num_rows), options, show=False))
    for rank in ranks:
        assert rank["losses"] == pytest.approx(want["losses"], rel=0, abs=1e-10)
        assert rank["norms"] == pytest.approx(want["norms"], rel=0, abs=1e-10)
    mesh_cases.assert_same(want["state"], ranks)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("mesh", "name"),
    [
        ("dp_replicate=2 tp=2", "plain"),
        ("dp_shard=2 tp=2", "tied"),
        ("dp_replicate=2 dp_shard=2", "plain"),
        ("pp=2 tp=2", "tied"),
        ("pp=2 dp_replicate=2", "tied"),
        ("pp=2 dp_shard=2", "tied"),
        pytest.param("tp=2 pp=2", "plain", marks=pytest.mark.long),
        ("dp_shard=3", "plain"),
        pytest.param("pp=1 dp_shard=1 tp=2", "plain", marks=pytest.mark.long),
        ("tp=1", "tied"),
    ],
)
def test_training_on_a_mesh_equals_one_process(clusters, mesh, name):
    mesh = Mesh.parse(mesh)
    assert_equals_one_process(clusters(mesh.num_ranks), mesh, name)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("mesh", "name", "kind", "options"),
    [
        ("dp_shard=2 tp=2", "tied", None, {"sequence_parallel": True}),
        ("pp=2 tp=2", "plain", "zb_h1", {"sequence_parallel": True}),
        ("pp=2 tp=2", "uneven", "interleaved", {}),
        pytest.param("pp=2 dp_shard=2", "plain", "interleaved", {}, marks=pytest.mark.long),
        ("pp=2 dp_shard=2", "tied", "gpipe", {}),
        ("pp=2 dp_replicate=2", "tied", "zb_v", {}),  # the first rank has both ends
        ("pp=2 tp=2", "tied", None, {"cuts": [range(0, 1), range(1, 4)]}),
        pytest.param("pp=2 dp_shard=2", "plain", None, {"cuts": [range(0, 3), range(3, 4)]}, marks=pytest.mark.long),
    ],
)
def test_with_other_schedules_and_sequence_parallelism(clusters, mesh, name, kind, options):
    if kind:
        options = options | {"schedule": get_schedule(kind, 2, 4)}
    assert_equals_one_process(clusters(4), Mesh.parse(mesh), name, **options)


def meshes_of(num_ranks):
    """All whose ``tp`` divides the heads and whose ``pp`` is no more than the pieces: 4 each."""
    for sizes in itertools.product((1, 2, 4, 8), repeat=4):
        mesh = Mesh.of(**dict(zip(AXES, sizes, strict=True)))
        if mesh.num_ranks == num_ranks and max(mesh.size("pp"), mesh.size("tp")) <= 4:
            yield mesh


@pytest.mark.long
@pytest.mark.parametrize("mesh", [*meshes_of(4), *meshes_of(8)], ids=str)
def test_every_mesh_of_four_and_eight_ranks(clusters, mesh):
    name = "tied" if mesh.size("pp") > 1 else "plain"
    assert_equals_one_process(clusters(mesh.num_ranks), mesh, name, num_rows=19)


def accumulated(me, mesh, options):
    """Gradients of two batches that are added up, as they lie on this rank, and the norm of all."""
    model = mesh_cases.OnMesh(me, mesh, mesh_cases.whole("tied"), **options)
    for _ in range(2):  # what the first pair leaves is zeroed in place, and the second adds to zeros
        for x, y in mesh_cases.batches(2, NUM_ROWS):
            model.step(*model.data.deal(x, y))
        found = [(box.name, box.offsets, box.parameter.grad) for box in mesh_cases.boxes_of(model)]
        found = [(name, offsets, grad.clone()) for name, offsets, grad in found if grad is not None]
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
    model.close()
    return found


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("mesh", "kind"),
    [("pp=2", "1f1b"), ("pp=2 dp_shard=2", "1f1b"), ("pp=2 dp_replicate=2", "1f1b"), ("pp=2 tp=2", "zb_h1")],
)
def test_two_steps_without_clearing_add_up(clusters, mesh, kind):
    """An embedding tied over stages too, whose gradients are the same on both after the first step."""
    model, mesh = mesh_cases.whole("tied"), Mesh.parse(mesh)
    for x, y in mesh_cases.batches(2, NUM_ROWS):
        mesh_cases.next_token_loss(model(x), y).backward()
    wanted = {name: p.grad for name, p in model.named_parameters(remove_duplicate=False)}
    options = {"schedule": get_schedule(kind, 2, 4)}
    for found in clusters(mesh.num_ranks).call(accumulated, (mesh, options), show=False):
        assert len(found) > 5
        for name, offsets, gradient in found:
            place = tuple(slice(o, o + size) for o, size in zip(offsets, gradient.shape, strict=True))
            assert (gradient - wanted[name][place]).abs().max() < 1e-10, name


# -- bad input --------------------------------------------------------------------------------------------------------


def said(me, mesh, options):
    try:
        mesh_cases.OnMesh(me, Mesh.parse(mesh), mesh_cases.whole("tied"), **options)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("mesh", "kind", "words"),
    [
        (
            "dp_shard=2 cp=2",
            None,
            "cp=2 is not combined here, only pp, dp_replicate, dp_shard, tp. The nearest",
        ),
        ("dp_shard=2", None, "the mesh dp_shard=2 has 2 ranks, and this job has 4"),
        ("dp_shard=4", "1f1b", "the schedule '1F1B' has 2 ranks, and this mesh pp=1"),
        (
            "pp=2 dp_shard=2",
            "zb_h1",
            "wrap= needs whole backwards, one at a time, and 'ZB-H1' cuts them in two",
        ),
        ("pp=2 dp_shard=2", "zb_v", "wrap= needs whole backwards"),
    ],
)
def test_bad_input_gets_a_sentence(clusters, mesh, kind, words):
    options = {"schedule": get_schedule(kind, 2, 4)} if kind else {}
    for sentence in clusters(4).call(said, (mesh, options)):
        assert sentence.startswith(words)


def not_to_be_used(me):
    def message_of(do):
        try:
            do()
        except (RuntimeError, ValueError) as error:
            return str(error)
        return "nothing was raised"

    mesh = Mesh.of(pp=2, tp=1)
    said = {
        "another model": message_of(lambda: mesh_cases.OnMesh(me, mesh, torch.nn.Linear(3, 3))),
        "no mesh": message_of(lambda: mesh_cases.OnMesh(me, mesh_cases.whole("tied"), mesh)),
    }
    model = mesh_cases.OnMesh(me, mesh, mesh_cases.whole("tied"))
    x, y = mesh_cases.batches(1, NUM_ROWS)[0]
    model.step(x, y)
    model.close()
    said["closed"] = message_of(lambda: model.step(x, y))
    said["closed groups"] = message_of(lambda: model.groups.group("pp"))
    said["closed twice"] = message_of(model.close)
    return said


def test_what_cannot_be_used_is_told(clusters):
    for said in clusters(2).call(not_to_be_used):
        assert "a Transformer of course_lib.models" in said["another model"]
        assert "you gave Mesh and Linear" in said["another model"]
        assert "you gave Transformer and Mesh" in said["no mesh"]
        assert "this model is closed" in said["closed"]
        assert "these groups are closed" in said["closed groups"]
        assert said["closed twice"] == "nothing was raised"


@pytest.mark.parametrize(
    ("mesh", "cuts", "words"),
    [
        ("dp_shard=4", [range(0, 4)], "cuts=[range(0, 4)] were given, and dp_shard=4 has no stages"),
        ("pp=4", [range(0, 2), range(2, 4)], "2 stages"),
        ("pp=2 tp=2", [range(0, 2), range(3, 4)], "do not cut the 4 pieces"),
    ],
)
def test_a_wrong_cut_gets_a_sentence(clusters, mesh, cuts, words):
    for sentence in clusters(4).call(said, (mesh, {"cuts": cuts})):
        assert words in sentence
