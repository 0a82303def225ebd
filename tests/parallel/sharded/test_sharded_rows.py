"""Which rows a rank keeps, and how they lie in a message."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import Shard

from course_lib.parallel.sharded import Packing, Rows

SHAPES = [(0, 3), (1,), (2, 3), (3, 1, 2), (4,), (7, 5), (9,), (5, 0)]


class MeshOf:
    """As much of a device mesh as ``compute_local_shape_and_global_offset`` asks for."""

    ndim = 1

    def __init__(self, size: int, place: int) -> None:
        self.shape, self.place = (size,), place

    def size(self, dim: int = 0) -> int:
        return self.shape[0]

    def get_coordinate(self) -> list[int]:
        return [self.place]

    def _is_current_rank_part_of_mesh(self) -> bool:
        return True

    def _sym_get_coordinate(self, dim: int) -> int:
        return self.place


@pytest.mark.parametrize("num_parts", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_row_belongs_to_one_rank_as_torch_chunk_deals_them(shape, num_parts):
    rows, whole = Rows(shape, num_parts), torch.arange(torch.Size(shape).numel()).reshape(shape)
    shards = [rows.cut(whole, part) for part in range(num_parts)]
    assert torch.equal(torch.cat(shards), whole)
    chunks = torch.chunk(whole, num_parts)
    for part, shard in enumerate(shards):
        assert torch.equal(shard, chunks[part] if part < len(chunks) else whole[:0])
        assert len(shard) <= rows.per_part
        mesh_shape, offset = compute_local_shape_and_global_offset(shape, MeshOf(num_parts, part), [Shard(0)])
        assert tuple(shard.shape) == tuple(mesh_shape)
        if len(shard):
            assert rows.range_of(part)[0] == offset[0]


@pytest.mark.parametrize("num_parts", [1, 2, 3, 5])
def test_what_is_packed_comes_out_again(num_parts):
    chance = torch.Generator().manual_seed(0)
    wholes = [torch.randn(shape, generator=chance, dtype=torch.float64) for shape in SHAPES]
    packing = Packing([Rows(shape, num_parts) for shape in SHAPES])
    assert packing.part_numel == sum(-(-shape[0] // num_parts) * torch.Size(shape[1:]).numel() for shape in SHAPES)

    flat = packing.pack_full(wholes, wholes[0], torch.float64)
    assert flat.shape == (num_parts, packing.part_numel)
    assert flat.sum().item() == pytest.approx(sum(whole.sum().item() for whole in wholes))  # padding is zeros
    parts = [
        packing.pack_part([rows.cut(w, part) for rows, w in zip(packing.tensors, wholes, strict=True)], torch.float64)
        for part in range(num_parts)
    ]
    assert torch.equal(torch.stack(parts), flat)

    out = [torch.full_like(whole, 7.0) for whole in wholes]
    packing.unpack_full(flat, out)
    assert all(torch.equal(a, b) for a, b in zip(out, wholes, strict=True))
    for part in range(num_parts):
        for rows, whole, shard in zip(packing.tensors, wholes, packing.unpack_part(flat[part], part), strict=True):
            assert torch.equal(shard, rows.cut(whole, part))


def test_none_is_zeros_and_other_layouts_and_dtypes_are_taken():
    packing = Packing([Rows((3, 2), 2), Rows((3, 4), 2)])
    whole = torch.arange(12.0).reshape(4, 3).T  # not contiguous
    flat = packing.pack_full([None, whole], whole, torch.float64)
    out = [torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 4, dtype=torch.float64)]
    packing.unpack_full(flat, out)
    assert torch.equal(out[0], torch.zeros(3, 2, dtype=torch.float64))
    assert torch.equal(out[1], whole.double())


def test_a_number_has_no_rows():
    with pytest.raises(ValueError, match=r"shape \(\) has no rows to deal out; the nearest that works is shape \(1,\)"):
        Rows((), 2)
    with pytest.raises(ValueError, match="num_parts=0"):
        Rows((3,), 0)
