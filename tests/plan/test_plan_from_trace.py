"""``course plan --from FILE``: the reader's own machine, from made-up traces whose answers are known."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from trace_files import host, kernel, write

from course_lib import cli
from course_lib.plan import Constants, cluster_of
from course_lib.plan_command.from_trace import constants_from
from course_lib.plan_command.trace_rates import rates_of_events, read_rates
from course_lib.traces import TraceFileError

NODES = cluster_of("8xh100", nodes=2)
BF16 = "c10::BFloat16"
LINE = ["plan", "--model", "gpt-2", "--batch", "8", "--seq", "256", "--gpus", "8", "--brief", "--top", "1"]


def product(number: int, *dims: list[int], name: str = "aten::mm", dtype: str = BF16):
    return host(
        "cpu_op", name, 0, 5, **{"External id": number, "Input Dims": list(dims), "Input type": [dtype] * len(dims)}
    )


def of(number: int, microseconds: float):
    return kernel(0, microseconds, **{"External id": number})


def call(microseconds: float, numbers: int, size: int, ranks: str, operation: str = "allreduce", dtype: str = "Float"):
    told = {"Collective name": operation, "In msg nelems": numbers, "Group size": size, "dtype": dtype}
    return kernel(0, microseconds, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", **told,
                  **{"Process Group Ranks": ranks})  # fmt: skip


PRODUCT = (product(1, [8192, 4096], [4096, 4096]), of(1, 400), of(1, 50))
INSIDE = call(1100, 1 << 26, 8, "[0, 1, 2, 3, 4, 5, 6, 7]")
OUTSIDE = call(20_000, 1 << 26, 16, str(list(range(16))))


def test_products_reach_a_share_of_the_peak_beside_their_bytes(tmp_path: Path) -> None:
    flops = 2 * 8192 * 4096 * 4096
    moved_s = 2 * (2 * 8192 * 4096 + 4096 * 4096) / (3.35e12 * Constants().memory_share)
    found, told = constants_from(write(tmp_path / "t.json", *PRODUCT), NODES, Constants())
    assert found.matmul_share == pytest.approx(flops / (450e-6 - moved_s) / NODES.peak_flops_per_s)
    assert {name for name, value in vars(found).items() if value != getattr(Constants(), name)} == {"matmul_share"}
    assert "1 of 8,192 x 4,096 x 4,096 at 611 TFLOP/s" in " ".join(told)
    assert "does not hold these shares and amounts" in told[-1]
    assert "NVLink bandwidth" in told[-1]


def test_the_shortest_call_of_a_size_tells_a_link(tmp_path: Path) -> None:
    late = call(9000, 1 << 26, 8, "[0, 1, 2, 3, 4, 5, 6, 7]")
    small = call(20, 1 << 10, 8, "[0, 1, 2, 3, 4, 5, 6, 7]")
    silent = kernel(0, 5, name="ncclDevKernel_SendRecv")
    file = write(tmp_path / "t.json", small, late, INSIDE, OUTSIDE, silent)
    found, told = constants_from(file, NODES, Constants())
    assert found.inside_share == pytest.approx(2 * 7 / 8 * (1 << 28) / 1.1e-3 / 450e9)
    assert found.outside_share == pytest.approx(2 * 15 / 16 * (1 << 28) / 20e-3 / NODES.node_bandwidth_bytes_per_s)
    assert "2 calls of all_reduce among 8, 268 MB, the shortest 1.1 ms: 427 GB/s a rank" in " ".join(told)
    assert "1 calls of NCCL do not name" in " ".join(told)


def test_an_all_gather_counts_what_all_ranks_give_once(tmp_path: Path) -> None:
    """Each gives an eighth of the buffer, and sends seven eighths of it."""
    gather = call(1000, 1 << 24, 8, "[0, 1, 2, 3, 4, 5, 6, 7]", "allgather", "BFloat16")
    found, _ = constants_from(write(tmp_path / "t.json", gather), NODES, Constants())
    assert found.inside_share == pytest.approx(7 / 8 * 8 * 2 * (1 << 24) / 1e-3 / 450e9)


def test_a_group_across_nodes_has_the_ports_of_its_own_ranks_alone(tmp_path: Path) -> None:
    two = call(20_000, 1 << 26, 2, "[0, 8]")
    found, _ = constants_from(write(tmp_path / "t.json", two), NODES, Constants())
    assert found.outside_share == pytest.approx((1 << 28) / 20e-3 / (NODES.node_bandwidth_bytes_per_s / 8))


def test_what_beats_the_data_sheet_is_kept_within_bounds_and_said(tmp_path: Path) -> None:
    fast = (product(1, [8192, 8192], [8192, 8192]), of(1, 900))
    found, told = constants_from(write(tmp_path / "t.json", *fast), NODES, Constants())
    assert found.matmul_share == 0.95
    assert "taken as 95%: is it 8x H100?" in told[0]


@pytest.mark.parametrize(
    "events",
    [
        (product(1, [8, 16], [16, 8]), of(1, 400)),  # too small
        (product(1, [8192, 4096], [4096, 4096], dtype="float"), of(1, 400)),
        (product(1, [8192, 4096], [4095, 4096]), of(1, 400)),
        (product(1, [8192, "4096"], [4096, 4096]), of(1, 400)),
        (product(1, [8192, 4096], [4096, 4096]), of(2, 400)),  # kernels of another operator
        (call(1000, 1 << 10, 8, "[0]"),),
        (call(1000, -5, 8, "[0]"),),
        (call(1000, 1 << 26, 1, "[0]"),),
        (kernel(0, float("1e300")), kernel(0, 3)),
    ],
)
def test_a_trace_that_tells_nothing_is_said_to(events, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has nothing that a plan could use.*record_shapes=True"):
        constants_from(write(tmp_path / "t.json", *events), NODES, Constants())


def test_batches_and_biases_of_products_are_read() -> None:
    events = [
        product(1, [7], [64, 32], [32, 16], name="aten::addmm"), of(1, 1),
        product(2, [3, 64, 32], [3, 32, 16], name="aten::bmm"), of(2, 1),
        product(3, [3, 4, 5], [3, 4, 6], [3, 6, 5], name="aten::baddbmm"), of(3, 1),
    ]  # fmt: skip
    assert set(rates_of_events(events).products) == {(1, 64, 32, 16), (3, 64, 32, 16), (3, 4, 6, 5)}


def test_files_that_are_none(tmp_path: Path) -> None:
    folder, empty, text = tmp_path / "folder", tmp_path / "empty.json", tmp_path / "text.json"
    folder.mkdir()
    empty.write_text("")
    text.write_text("no trace")
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    cut = tmp_path / "cut.json"
    cut.write_text(write(tmp_path / "t.json", *PRODUCT).read_text()[:-40])
    said = {
        folder: "a folder", empty: "it is empty", text: "it is no trace", pipe: "it is a pipe",
        cut: "ends in the middle", tmp_path / "none.json": "No such file",
        tmp_path / "table.csv": "no shapes of products",
        write(tmp_path / "host.json", host("cpu_op", "aten::mm", 0, 5)): "none of its events is a kernel of a GPU",
    }  # fmt: skip
    for path, words in said.items():
        with pytest.raises(ValueError, match=words):
            read_rates(path)


def test_events_without_an_end_are_refused(monkeypatch) -> None:
    monkeypatch.setattr("course_lib.plan_command.trace_rates.MOST_EVENTS", 3)
    with pytest.raises(TraceFileError, match="more than 3 events"):
        rates_of_events(of(1, 1) for _ in range(4))
    assert rates_of_events(of(1, 1) for _ in range(3)).kernels == 3


def test_a_calibration_gives_its_rates_to_more_nodes_than_it_was_made_on(tmp_path: Path) -> None:
    rates = {"matmul_flops_per_s": {"bfloat16": 6.0e14}, "memory_bandwidth_bytes_per_s": 2.7e12}
    entry = {"one_core": rates, "gpu": rates, "link": {"bandwidth_bytes_per_s": 3.6e11, "latency_s": 6e-6},
             "backend": "nccl"}  # fmt: skip
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps({"Some CPU | 16 cores | 8 NVIDIA H100 80GB HBM3 GPU-aa | torch 2.11.0": entry}))
    found, told = constants_from(file, NODES, Constants())
    assert found.matmul_share == pytest.approx(6.0e14 / NODES.peak_flops_per_s)
    assert found.memory_share == pytest.approx(2.7 / 3.35)
    assert found.inside_share == pytest.approx(0.8)
    assert "products at 61% of the data sheet" in told[0]
    file.write_text(json.dumps({"Some CPU | 16 cores | torch 2.11.0": entry | {"backend": "gloo"}}))
    assert constants_from(file, NODES, Constants())[0].inside_share == Constants().inside_share


def test_the_command_plans_with_it_and_says_what_it_took(tmp_path: Path, capsys) -> None:
    file = write(tmp_path / "rank0.json", *PRODUCT, INSIDE)
    assert cli.main([*LINE, "--from", str(file)]) == 0
    out = capsys.readouterr().out
    assert "From rank0.json, 3 kernels: products at" in " ".join(out.split())
    assert cli.main([*LINE, "--from", str(tmp_path / "none.json")]) == 2
    assert "--from is" in capsys.readouterr().err
    assert cli.main([*LINE, "--from", str(file), "--machine", str(file)]) == 2
    assert "With --from, --machine must be a name" in capsys.readouterr().err
