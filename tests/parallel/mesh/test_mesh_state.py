"""What a rank of a mesh holds and sends, by the cost model and by a watched run: pieces, bytes and receivers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import mesh_cases
import pytest

from course_lib.cost import MeshStep, holders_of_parameter, mesh_state, model_state, pieces_of_rank
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.mesh_pieces import Piece
from course_lib.models import Transformer
from course_lib.parallel.mesh import watched_mesh_step

pytestmark = pytest.mark.xdist_group("mesh")

CONFIG = mesh_cases.CONFIG  # 13 tokens and 11 hidden units divide by nothing
TIED = replace(CONFIG, tied=True, bias=False, num_kv_heads=2)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("tp=2 dp_shard=2", CONFIG),
        ("pp=2 tp=2", TIED),
        ("dp_shard=4", TIED),
        pytest.param("dp_replicate=2 pp=2", CONFIG, marks=pytest.mark.long),
        pytest.param("dp_shard=2 dp_replicate=2", CONFIG, marks=pytest.mark.long),
        pytest.param("pp=4", CONFIG, marks=pytest.mark.long),
        pytest.param("pp=2 dp_shard=2", CONFIG, marks=pytest.mark.long),
    ],
)
def test_a_run_holds_and_sends_what_the_model_says(clusters, text, config):
    mesh = Mesh.parse(text)
    found = watched_mesh_step(clusters(4), mesh, config, num_rows=16)
    step = MeshStep(config=config, mesh=mesh, batch_size=16)
    for rank, watched in enumerate(found):
        pieces = dict(watched.pieces)
        if config.tied and "stem.tokens.weight" in pieces:
            pieces.pop("head.w_vocab.weight", None)  # the same matrix, under its second name
        elif config.tied:
            pieces["stem.tokens.weight"] = pieces.pop("head.w_vocab.weight", None)
        assert pieces_of_rank(config, mesh, rank) == {name: piece for name, piece in pieces.items() if piece}
        assert watched.held_bytes == mesh_state(config, mesh, rank).as_dict()
        sent = {axis: Counter() for axis in mesh.axes}
        for call in step.calls(rank):
            if call.axis != "loss":
                sent[call.axis] += Counter(call.sent_bytes(rank, "gloo"))
        assert {axis: Counter(receivers) for axis, receivers in watched.sent_bytes.items()} == sent


@pytest.mark.parametrize("config", [CONFIG, TIED], ids=["bias", "tied"])
def test_names_and_shapes_are_the_models(config):
    shapes = {name: tuple(parameter.shape) for name, parameter in Transformer(config).named_parameters()}
    pieces = pieces_of_rank(config, Mesh.of(tp=1), 0)
    assert {name: piece.sizes for name, piece in pieces.items()} == shapes
    numel = sum(piece.numel for piece in pieces.values())
    assert mesh_state(config, Mesh.of(tp=1), 0) == model_state(numel, num_tensors=len(shapes))


def test_together_the_ranks_hold_the_model_once():
    mesh = Mesh.of(pp=3, dp_shard=2, tp=2)
    for name, piece in pieces_of_rank(CONFIG, Mesh.of(tp=1), 0).items():
        held = [p for rank in range(12) for n, p in pieces_of_rank(CONFIG, mesh, rank).items() if n == name]
        holders = holders_of_parameter(CONFIG, mesh, name)
        assert sum(one.numel for one in holders) == piece.numel
        assert sorted(one for one in held if one.numel) == sorted(one for one, ranks in holders.items() for _ in ranks)


def test_a_tied_matrix_is_at_both_ends_of_a_pipeline_and_counts_once_where_these_meet():
    whole = Piece((0, 0), (13, 8))
    assert holders_of_parameter(TIED, Mesh.of(pp=3), "stem.tokens.weight") == {whole: (0, 2)}
    assert holders_of_parameter(TIED, Mesh.of(dp_replicate=3), "stem.tokens.weight") == {whole: (0, 1, 2)}
    both, apart = (mesh_state(config, Mesh.of(tp=1), 0) for config in (TIED, replace(TIED, tied=False)))
    assert apart.parameters - both.parameters == 4 * whole.numel


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        (
            Mesh.of(cp=2),
            "cp=2 is not counted here, only pp, dp_replicate, dp_shard, tp. The nearest that works is cp=1",
        ),
        (Mesh.of(tp=3), "tp=3 does not divide the 4 query heads .* The nearest that works is tp=2"),
        (Mesh.of(pp=5), "pp=5 is more stages than this model has pieces: stem, 2 blocks and head are 4"),
    ],
)
def test_a_mesh_that_cannot_hold_the_model_gets_a_sentence(mesh, said):
    for call in (
        lambda: mesh_state(CONFIG, mesh, 0),
        lambda: pieces_of_rank(CONFIG, mesh, 0),
        lambda: holders_of_parameter(CONFIG, mesh, "head.norm.weight"),
    ):
        with pytest.raises(ValueError, match=said):
            call()


def test_a_name_that_the_model_has_not_gets_a_sentence():
    with pytest.raises(ValueError, match=r"the model has no 'w_up'; .* as 'blocks\.0\.mlp\.w_up\.weight'"):
        holders_of_parameter(CONFIG, Mesh.of(tp=2), "w_up")
    with pytest.raises(ValueError, match="the 2 key/value heads"):
        mesh_state(replace(CONFIG, num_kv_heads=2), Mesh.of(tp=4), 0)


def test_a_mesh_of_another_number_of_ranks_is_refused_by_the_ranks(clusters):
    with pytest.raises(RuntimeError, match=r"has 2 ranks, and this job has 4"):
        watched_mesh_step(clusters(4), Mesh.of(tp=2), CONFIG, num_rows=4)
