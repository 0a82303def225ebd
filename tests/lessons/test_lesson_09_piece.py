"""The judge of 09.piece: what it calls right is what ranks hold, and what it says of a wrong list is true."""

from __future__ import annotations

import random

import pytest
import torch
from answers.lesson_09.right.pieces import ALL, by_a_table
from mesh_cases import CONFIG

from course_lib.layouts.mesh import Mesh
from course_lib.learn import exercises
from course_lib.learn.exercises.lesson_09.piece import PIECE, fault_in, right_holders
from course_lib.models import Transformer
from course_lib.parallel.mesh import OnMesh, boxes_of

CASES = exercises.exercise("09.piece").judge.cases


def random_case(number: int) -> tuple:
    draw = random.Random(number)
    axes = draw.sample(["pp", "dp_replicate", "dp_shard", "cp", "tp"], draw.randint(1, 4))
    mesh = Mesh.of(**{axis: draw.randint(1, 3) for axis in axes})
    layers = draw.sample(range(6), 6)
    stages = [layers[stage :: mesh.size("pp")] for stage in range(mesh.size("pp"))]
    shape = (draw.randint(1, 9), draw.randint(1, 9))
    place = (draw.randrange(shape[0]), draw.randrange(shape[1]))
    return mesh, stages, draw.randrange(6), shape, draw.choice([0, 1, None]), *place


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.__name__)
def test_right_answers_are_right_at_sizes_that_the_check_does_not_try(answer):
    for number in range(60):
        case = random_case(number)
        found = answer(*case)
        found = found.tolist() if isinstance(found, torch.Tensor) else sorted(found)
        assert found == right_holders(*case), case


def test_every_number_is_held_once_for_each_copy():
    for number in range(20):
        mesh, stages, layer, shape, tp_dim, *_ = random_case(number)
        copies = mesh.size("dp_replicate", "cp", *([] if tp_dim is not None else ["tp"]))
        for row in range(shape[0]):
            for column in range(shape[1]):
                assert len(right_holders(mesh, stages, layer, shape, tp_dim, row, column)) == copies


def boxes_on(me, mesh):
    model = OnMesh(me, mesh, Transformer(CONFIG))
    boxes = {box.name: (box.offsets, box.sizes) for box in boxes_of(model)}
    model.close()
    return boxes


TP_DIM = {"w_up": 0, "w_down": 1, "w_q": 0, "w_out": 1, "norm1": None}


@pytest.mark.parametrize("mesh", [Mesh.of(dp_shard=2, tp=2), Mesh.of(tp=2, pp=2)], ids=str)
def test_the_oracle_says_what_ranks_hold(cluster4, mesh):
    boxes_by_rank = list(cluster4.run(boxes_on, mesh))
    shapes = {name: tuple(p.shape) for name, p in Transformer(CONFIG).named_parameters() if "blocks" in name}
    blocks_of = [{int(n.split(".")[1]) for n in boxes if "blocks" in n} for boxes in boxes_by_rank]
    stages = [sorted(blocks_of[mesh.rank_at(pp=stage)]) for stage in range(mesh.size("pp"))]
    for name, shape in shapes.items():
        kind = name.split(".")[-2]
        if kind not in TP_DIM or name.endswith("bias"):
            continue
        matrix = (*shape, 1)[:2]
        for row in range(matrix[0]):
            for column in range(matrix[1]):
                place = (row, column)[: len(shape)]
                held = [
                    rank
                    for rank, boxes in enumerate(boxes_by_rank)
                    if name in boxes
                    and all(0 <= at - b < size for at, b, size in zip(place, *boxes[name], strict=True))
                ]
                assert held == right_holders(mesh, stages, int(name.split(".")[1]), matrix, TP_DIM[kind], row, column)


FAULTS = [
    ([2, 6], [2, 6], ""),
    ([2, 6], [6, 2], "the right ranks, but not in rising order: [6, 2]"),
    ([2, 6], [2], "expected [2, 6], got [2]: rank 6 is missing"),
    ([2, 6], [1, 2, 3, 6], "expected [2, 6], got [1, 2, 3, 6]: ranks 1, 3 are too many"),
    ([2, 6], [1, 5], "expected [2, 6], got [1, 5]: ranks 2, 6 are missing, ranks 1, 5 are too many"),
    ([2], [2, 2], "expected [2], got [2, 2]: a rank is there twice"),
    ([2], 2, "expected a list of ranks such as [0, 1], got 2"),
    ([2], [2.0], "expected a list of ranks such as [0, 1], got [2.0]"),
    ([1], [True], "expected a list of ranks such as [0, 1], got [True]"),
    ([2], None, "nothing came back (`None`); a function gives its result with `return`"),
]


@pytest.mark.parametrize(("expected", "got", "said"), FAULTS)
def test_what_is_wrong_is_said(expected, got, said):
    assert fault_in(expected, got) == said


def behaviour(answer) -> tuple[str, ...]:
    """What an answer gives in every case of the judge, or what it raises."""
    found = []
    for case in CASES:
        try:
            found.append(str(list(answer(*case.args()))))
        except ZeroDivisionError as error:
            found.append(repr(error))
    return tuple(found)


def test_the_cases_tell_all_mistakes_apart():
    """No two examples behave alike, and none is right."""
    found = {mistake.name: behaviour(mistake.example) for mistake in PIECE.mistakes}
    assert len(set(found.values())) == len(found)
    assert behaviour(by_a_table) not in found.values()
