"""Files that are no traces, damaged, endless or foreign: a sentence each, and nobody waits."""

from __future__ import annotations

import gzip
import json
import os

import pytest
from trace_files import host, kernel, nccl, write

from course_lib.traces import TraceFileError, json_stream, main, profiler_events, read_traces, trace_report

WHOLE = json.dumps({"traceEvents": [kernel(n, 1) for n in range(50)]})
TABLE = "where,lane,start_us,duration_us,name,collective,bytes\n"


FILES = [
    ("t.json", b"", "it is empty"),
    ("t.json", b" \n\t ", "it is empty"),
    ("t.json", b"\x00" * 100, "it is no trace: a trace's JSON begins with"),
    ("t.json", b"# a page", "it is no trace"),
    ("t.json", b"{}", "it holds no event"),
    ("t.json", b"[]", "it holds no event"),
    ("t.json", b'{"traceEvents": 5}', "it holds no event"),
    ("t.json", b'{"traceEvents": [1, null, "x", [], {}]}', "none of its 0 events"),
    ("t.json", WHOLE[:-100].encode(), "it ends in the middle, after 4"),
    ("t.json", WHOLE.replace('"ts"', "ts", 1).encode(), "it ends in the middle, after 0 events, or is no JSON"),
    ("t.json", b"[" * 100_000, "nested deeper"),
    ("t.json", b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "cat": "python_function"}]}', "none of its 1 ev"),
    ("t.json.gz", gzip.compress(WHOLE.encode())[:-30], "its gzip is damaged"),
    ("t.json.gz", gzip.compress(WHOLE.encode())[:40] + b"xxxxxxxxxx" * 9, "its gzip is damaged"),
    ("t.csv", b"", "it is empty"),
    ("t.csv", b"a,b\n1,2\n", "its first line has to be where,lane"),
    ("t.csv", TABLE.encode(), "it holds no work of a GPU"),
    ("t.csv", (TABLE + "gpu,7,0\n").encode(), "line 2 has 3 fields, and a line has 7"),
    ("t.csv", (TABLE + "gpu,7,zero,1,x,,\n").encode(), "line 2 has a time or a size that is no number"),
    ("t.csv", (TABLE + "gpu,7,0,-1,x,,\n").encode(), "line 2: a duration"),
    ("t.csv", (TABLE + "gpu,7,0,nan,x,,\n").encode(), "line 2: a duration"),
    ("t.csv", (TABLE + "disk,7,0,1,x,,\n").encode(), "line 2 begins with disk,7; it is gpu or cpu"),
    ("t.csv", b"\xff\xfe\x00", "no text in UTF-8"),
]


@pytest.mark.parametrize("number", range(len(FILES)))
def test_a_file_that_is_no_trace_gets_a_sentence(tmp_path, capsys, number):
    name, content, why = FILES[number]
    (tmp_path / name).write_bytes(content)
    assert main([str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.startswith("course trace: ")
    assert said.count("\n") == 1


def test_what_is_no_plain_file_is_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    names = {"pipe": "a pipe", "endless": "a device", ".": "a folder", "gone.json": "No such file"}
    for name, why in names.items():
        assert main([str(tmp_path / name)]) == 2
        assert why in capsys.readouterr().err


def test_so_many_bytes_of_text_and_events_are_read_and_no_more(tmp_path, monkeypatch):
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(12):
            file.write(b"[" + b" " * (1 << 20))
    with pytest.raises(TraceFileError, match="more than 8 MiB of JSON, the most that is read"):
        list(json_stream.events_of(bomb, most_bytes=8 << 20))
    monkeypatch.setattr(profiler_events, "MOST_EVENTS", 40)
    (tmp_path / "t.json").write_text(WHOLE)
    with pytest.raises(TraceFileError, match="more than 40 events, and this command reads at most that many"):
        read_traces(tmp_path / "t.json")


def test_one_value_without_end_is_given_up(tmp_path):
    (tmp_path / "t.json").write_text('{"traceEvents": [{"name": "' + "x" * (20 << 20))
    with pytest.raises(TraceFileError, match="is no JSON"):
        read_traces(tmp_path / "t.json")


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_where_the_file_is_cut_into_chunks_changes_nothing(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(json_stream, "_CHUNK_BYTES", chunk)
    events = [{"ph": "X", "name": "größer \U0001f600", "ts": -1.5e3, "dur": 12}, 123, "x", [1, [2]], True]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"a": 12345, "traceEvents": events, "b": {"c": None}}, ensure_ascii=False))
    found = list(json_stream.events_of(path))
    assert found == [("a", 12345), *(("traceEvents", event) for event in events), ("b", {"c": None})]
    path.write_text(json.dumps(events, indent=3))
    assert [event for _, event in json_stream.events_of(path)] == events


def test_events_with_nonsense_in_them_are_left_out(tmp_path):
    odd = [
        {**kernel(0, 1), **more}
        for more in ({"ts": "0"}, {"dur": None}, {"dur": -1}, {"ts": float("nan")}, {"dur": float("inf")},
                     {"ts": True}, {"ts": 10**400}, {"ph": "B"})
    ]  # fmt: skip
    strange = [
        {**kernel(10, 5), "args": 7}, {**kernel(20, 5), "pid": [1]}, {**kernel(30, 5), "name": None},
        nccl(40, 5, operation="\x1b[2Jevil") | {"tid": {}}, kernel(50, 5, device="x", correlation="y", stream=None),
        host("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=[1]), host("cpu_op", "record_param_comms", 0, 1),
        {"ph": "M", "name": "process_name", "pid": 1, "args": 5}, {"ph": "M", "name": "process_name"},
    ]  # fmt: skip
    path = write(tmp_path / "t.json", *odd, *strange, distributedInfo=[5])
    report = trace_report(path)
    assert report.devices[0].time.computing_us == 20
    assert report.devices[0].time.communication_us == 5
    assert "\x1b" not in str(report)


def test_options_that_cannot_be_met_get_a_sentence(tmp_path, capsys):
    path = write(tmp_path / "t.json", kernel(0, 1))
    assert main([]) == 2
    assert "FILE" in capsys.readouterr().err
    assert main([str(path), "--picture", "t.gif"]) == 2
    assert "ends in .png or .svg" in capsys.readouterr().err
    assert main([str(path), "--json", str(tmp_path / "no" / "t.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    with pytest.raises(TraceFileError, match="no file was given"):
        read_traces()
    with pytest.raises(TraceFileError, match="is no name of a file"):
        read_traces(5)


def test_a_file_is_called_by_its_name_where_that_tells_it_from_the_others(tmp_path):
    def trace(place, rank):
        place.parent.mkdir(exist_ok=True)
        return write(place, kernel(0, 10), distributedInfo={"rank": rank})

    first, second, same = (
        trace(tmp_path / folder / name, rank)
        for rank, (folder, name) in enumerate((("a", "r0.json"), ("a", "r1.json"), ("b", "r0.json")))
    )
    assert "(r0.json): " in repr(trace_report(first))
    assert str(tmp_path) not in repr(trace_report(first, second))
    assert all(f"({path}): " in repr(trace_report(first, same)) for path in (first, same))
    assert trace_report(first).to_dict()["devices"][0]["source"] == str(first)  # JSON keeps the way to it
