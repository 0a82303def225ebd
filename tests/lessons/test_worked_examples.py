"""The worked examples that stand folded on a page, before an exercise: they run, and do what the page says."""

from __future__ import annotations

import re

import torch
import torch.distributed as dist
from torch import nn

from course_lib.base.paths import project_root
from course_lib.cluster import Cluster

SOURCES = project_root() / "notebooks" / "src"
_FOLDED = re.compile(r"^# <details>\n(.*?)^# </details>", re.M | re.S)
_CODE = re.compile(r"^# ```python\n(.*?)^# ```", re.M | re.S)


def folded_code(page: str) -> list[str]:
    text = next(SOURCES.glob(f"{page}_*.py")).read_text(encoding="utf-8")
    blocks = [code for folded in _FOLDED.findall(text) for code in _CODE.findall(folded)]
    return ["\n".join(line.removeprefix("#").removeprefix(" ") for line in block.splitlines()) for block in blocks]


def bound_by(code: str) -> dict:
    names = {"torch": torch, "dist": dist, "nn": nn}
    exec(compile(code, "<worked example>", "exec"), names)
    return names


def broadcast_two(me, code):
    a, b = torch.full((2, 2), me.rank + 1.0), torch.full((3,), 10.0 * (me.rank + 1))
    bound_by(code)["from_rank_1"](a.t(), b)  # in place, also where a tensor is not contiguous
    return a, b


def test_two_tensors_come_in_one_message():
    (code,) = folded_code("04a")
    with Cluster(2) as two:
        for a, b in two.run(broadcast_two, code):
            assert torch.equal(a, torch.full((2, 2), 2.0))
            assert torch.equal(b, torch.full((3,), 20.0))


def gradients_of_bias(me, code):
    draw = torch.Generator().manual_seed(0)
    rows, bias = torch.randn(me.world_size, 3, 4, generator=draw), torch.randn(4, generator=draw)
    x = rows[me.rank].clone().requires_grad_()
    part = bias.chunk(me.world_size)[me.rank].clone().requires_grad_()
    y = bound_by(code)["ShardedBias"].apply(x, part)
    y.square().mean().backward()
    return y.detach(), x.grad, part.grad


def test_a_borrowed_bias_has_the_gradients_of_one_process():
    (code,) = folded_code("05b")
    draw = torch.Generator().manual_seed(0)
    rows, bias = torch.randn(2, 3, 4, generator=draw), torch.randn(4, generator=draw).requires_grad_()
    (sum((one + bias).square().mean() for one in rows) / 2).backward()
    with Cluster(2) as two:
        found = list(two.run(gradients_of_bias, code))
    for rank, (y, grad_x, _) in enumerate(found):
        torch.testing.assert_close(y, rows[rank] + bias.detach())
        torch.testing.assert_close(grad_x, 2 * (rows[rank] + bias.detach()) / y.numel())
    torch.testing.assert_close(torch.cat([part for _, _, part in found]), bias.grad)
