"""``course bench mesh``: the two ways of a step train alike, and its lines say what was measured. No time is judged."""

from __future__ import annotations

import pytest
import torch

from course_lib.authoring.bench.strategies import mesh as mesh_module
from course_lib.authoring.bench.strategies.mesh_rivals import batch_of, course_step, torch_step
from course_lib.authoring.bench.table import Table
from course_lib.layouts.mesh import Mesh
from course_lib.models import TransformerConfig

CONFIG = TransformerConfig(vocab_size=64, context_length=16, num_layers=2, width=32)


def losses(me, text):
    """Of three training steps by PyTorch's parts, and by the course."""
    mesh, batch = Mesh.parse(text), batch_of(CONFIG, 8, 16)
    theirs = torch_step(me, mesh, CONFIG, batch)
    ours, close = course_step(me, mesh, CONFIG, batch)
    found = [[step().item() for _ in range(3)] for step in (theirs, ours)]
    close()
    return found


@pytest.mark.long  # in imports and traces of PyTorch's parts
@pytest.mark.parametrize("text", mesh_module.PAIRED)
def test_a_step_of_pytorchs_parts_is_the_same_step(clusters, text):
    for theirs, ours in clusters(4).call(losses, (text,), show=False):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-5, atol=0)
        assert ours[0] > ours[1] > ours[2]


class Rehearsed:
    """A cluster that has measured already: every step took two seconds on one rank and one on the others."""

    def __init__(self, world_size, **_options):
        self.world_size = world_size

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def call(self, _function, arguments, **_options):
        texts, rounds = arguments
        return [[[1.0 + (rank == 3)] * rounds for _ in texts] for rank in range(self.world_size)]


def test_every_order_has_its_lines_and_the_errors_are_against_the_slowest_rank(monkeypatch, capsys):
    monkeypatch.setattr(mesh_module, "Cluster", Rehearsed)
    table = Table("course bench mesh")
    mesh_module.add_orders(table, Mesh.of(pp=2, dp_shard=2, tp=2, ranks_per_node=4), 2)
    rows = {row.what: row for row in table.rows}
    assert len(rows) == 6 * 3 + 1
    errors = table.rows[-1]
    assert (errors.unit, errors.target, len(errors.samples)) == ("%", 15.0, 6)
    first = "pp=2 dp_shard=2 tp=2, 4 ranks a node: a step"
    assert rows[first].samples == (2.0, 2.0)
    predicted_s = rows[f"{first}, predicted"].median
    assert errors.samples[0] == pytest.approx(100 * abs(predicted_s / 2.0 - 1))
    assert "a step, predicted" in capsys.readouterr().out


def test_the_meter_of_the_bench_names_each_axis(clusters):
    mesh = Mesh.of(pp=2, tp=2)
    table = Table("course bench mesh")
    mesh_module.add_bytes(table, clusters(4), mesh)
    assert [row.what for row in table.rows] == [
        "pp=2 tp=2: sent by rank 0 along pp",
        "pp=2 tp=2: sent by rank 0 along tp",
        "pp=2 tp=2: off, any rank and axis",
    ]
    assert table.rows[-1].meets_target
    assert all(row.median > 0 for row in table.rows[:2])
