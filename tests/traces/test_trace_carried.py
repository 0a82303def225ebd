"""The two tables of real jobs that the course carries: their source's numbers."""

from __future__ import annotations

import json
import re

import pytest

from course_lib.traces import CARRIED, TraceFileError, main, read_traces, table_rows, trace_report


def only(name):
    (one,) = trace_report(name).devices
    return one


def test_ddp_s_buckets_carry_a_resnet_50_in_each_step():
    time = only("ddp_resnet_2xa100").time
    by_name = {row.collective: row for row in time.collectives}
    assert by_name["all_reduce"].size_bytes == 3 * 4 * 25_557_032
    assert (by_name["all_reduce"].num_calls, by_name["broadcast"].num_calls) == (15, 6)
    assert by_name["broadcast"].size_bytes == 3 * (212_480 + 424)
    assert (time.num_steps, round(time.step_us / 1e3)) == (3, 222)
    assert (round(time.computing_us / 1e3), round(time.communication_us / 1e3, 1)) == (118, 46.9)
    assert round(time.hidden_us / time.communication_us, 2) == 0.16


def test_the_recommender_hides_half_of_its_communication():
    one = only("recommender_rank3_of_8xa100")
    calls = {row.collective: row.num_calls for row in one.time.collectives}
    assert (one.time.rank, calls) == (3, {"all_to_all": 42, "all_reduce": 18})
    assert round(one.time.communication_us / 1e3, 1) == 163.5
    assert round(one.time.hidden_us / one.time.communication_us, 2) == 0.47


@pytest.mark.parametrize("name", CARRIED)
def test_page_picture_and_json_say_the_same(name, tmp_path, capsys):
    assert main([name, "--json", str(tmp_path / "t.json"), "--picture", str(tmp_path / "t.png")]) == 0
    page = capsys.readouterr().out
    assert "the file has no launch of the next kernel" in page
    assert "https://ui.perfetto.dev" in page
    (device,) = json.loads((tmp_path / "t.json").read_text())["devices"]
    share = device["time"]["computing_us"] / device["time"]["window_us"]
    assert f"{share:.0%}" in page.split("computing")[1].split("\n")[0]
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    alt = str(trace_report(name).picture())
    exposed = (device["time"]["communication_us"] - device["time"]["hidden_us"]) / device["time"]["window_us"]
    assert f"communication exposed {exposed:.0%}" in alt


def test_the_lines_of_a_table_come_as_they_stand_in_it(tmp_path):
    rows = table_rows("ddp_resnet_2xa100")
    assert (len(rows), rows[0].name, rows[0].end_us) == (3841, "ProfilerStep#4", 28719.3 + 222442.2)
    first = next(row for row in rows if row.collective == "allreduce")
    assert (first.where, first.lane, first.size_bytes) == ("gpu", "40", 8_196_000)
    assert sum(row.name.startswith("Memcpy DtoD") for row in rows) == 960
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(TraceFileError, match="its first line has to be where,lane"):
        table_rows(tmp_path / "t.csv")
    with pytest.raises(TraceFileError, match="cannot be read"):
        table_rows(tmp_path / "gone.csv")


@pytest.mark.parametrize("read", [table_rows, read_traces])
def test_what_is_wrong_with_a_table_is_told_with_its_name(tmp_path, read):
    path = tmp_path / "half.csv"
    path.write_text("where,lane\n")
    with pytest.raises(TraceFileError, match=re.escape(f"{path}: it is no table of a trace")):
        read(path)
