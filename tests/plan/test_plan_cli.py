"""``course plan``: its page, its files, and a sentence for each wish that cannot be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib import cli

LINE = ["plan", "--model", "llama-3-8b", "--machine", "8xh100", "--batch", "64", "--seq", "8192"]
ONE = ["--layout", "tp=8 mb=1"]
SMALL = ["plan", "--model", "gpt-2", "--machine", "8xh100", "--batch", "8", "--seq", "256"]


def page(capsys, *words: str, line=LINE, code: int = 0) -> str:
    assert cli.main([*line, *words]) == code
    return capsys.readouterr().out


def test_the_main_line(capsys) -> None:
    out = page(capsys, "--nodes", "4", "--batch", "512")
    assert "llama-3-8b, 8.03 billion parameters, on 32 GPUs of 8x H100, 4 nodes" in out
    assert "512 sequences of 8,192 tokens a step." in out
    for word in ("tokens/s", "MFU", "Time of a step with", "Memory of its fullest GPU", "Why not the others"):
        assert word in out
    assert len(out.splitlines()) < 60  # three minutes of reading
    assert max(map(len, out.splitlines())) <= 120
    assert len(re.findall(r"^ +\d+ +[\d.e+]+ s ", out, re.MULTILINE)) == 10


def test_the_words_below_the_table_are_those_of_its_layouts(capsys) -> None:
    out = page(capsys, *ONE, "--top", "1")
    assert "tp N: N GPUs share each product; sp: between products they share the positions; mb N" in out
    assert "pp N" not in out
    assert "zero3" not in out
    out = page(capsys, "--layout", "tp=1 pp=1 cp=1 zero=3").replace("\n  ", " ")
    assert "zero3: states, gradients and weights (FSDP) sharded" in out


def test_the_parts_add_up_to_the_layout_that_was_picked(capsys, tmp_path) -> None:
    file = tmp_path / "plan.json"
    out = page(capsys, "--pick", "3", "--top", "2", "--json", str(file))
    third = json.loads(file.read_text())["options"][2]
    assert f"Time of a step with {third['name']}\n" in out
    time, memory = out.split("Memory of its fullest GPU")[0], out.split("Memory of its fullest GPU")[1]
    seconds = [float(n.replace(",", "")) for n in re.findall(r"([\d,.]+) s +\d+%", time)]
    assert sum(seconds) == pytest.approx(third["step_s"], abs=0.06)
    held = [float(n) for n in re.findall(r"([\d.]+) GB +\d+%", memory.split("Why not")[0])]
    assert sum(held) == pytest.approx(third["memory_bytes"] / 1e9, abs=0.04)


def test_days_energy_and_cost(capsys, tmp_path) -> None:
    file = tmp_path / "plan.json"
    more = ["--tokens", "1T", "--price-per-gpu-hour", "2", "--json", str(file)]
    out = page(capsys, *ONE, *more)
    assert re.search(r"memory +days +MWh +cost +layout", out)
    best = json.loads(file.read_text())["options"][0]
    assert best["days"] == pytest.approx(1e12 / best["tokens_per_s"] / 86400)
    assert best["cost"] == pytest.approx(best["days"] * 24 * 8 * 2)
    assert best["energy_mwh"] == pytest.approx(best["days"] * 24 * 8 * 700e-6)
    assert "MWh count the GPUs alone, at 700 W each" in out
    assert "at 350 W each" in page(capsys, *ONE, *more, "--watts", "350")
    assert json.loads(file.read_text())["options"][0]["energy_mwh"] == pytest.approx(best["energy_mwh"] / 2)


@pytest.mark.long
def test_days_that_are_too_few_say_how_many_gpus_would_do(capsys) -> None:
    line = [*LINE, "--layout", "cp=1 pp=1 mb=1"]
    out = page(capsys, "--tokens", "1T", "--days", "60", line=line, code=1)
    found = re.search(r"The fastest takes [\d.]+ days, and 60 were asked for: (\d+) GPUs take ([\d.]+) days", out)
    assert found, out
    more = page(capsys, "--tokens", "1T", "--days", "60", "--gpus", found.group(1), line=line)
    assert "were asked for" not in more
    assert float(found.group(2)) <= 60
    out = page(capsys, "--tokens", "100T", "--days", "1", line=line, code=1)
    assert re.search(
        r"with this batch no number of GPUs is fast enough. The nearest is [\d.,]+ days", out.replace("\n  ", " ")
    )


@pytest.mark.long
def test_the_number_of_gpus_is_found(capsys, tmp_path) -> None:
    file = tmp_path / "plan.json"
    asked = ["--layout", "cp=1 pp=1 mb=1", "--max-gpus", "64", "--tokens", "1T", "--json", str(file)]
    out = page(capsys, *asked)
    assert re.search(r"^ +2 +none runs", out, re.MULTILINE)
    assert re.search(r"^ +64 ", out, re.MULTILINE)
    assert json.loads(file.read_text())["cluster"]["gpus"] == 64
    page(capsys, *asked, "--days", "60")
    fewest = json.loads(file.read_text())
    assert 8 < fewest["cluster"]["gpus"] < 64
    assert fewest["options"][0]["days"] <= 60
    half = json.loads(json.dumps(fewest))["cluster"]["gpus"] // 2
    page(capsys, *asked[:2], "--gpus", str(half), "--tokens", "1T", "--days", "60", code=1)


def test_a_picture_is_drawn(capsys, tmp_path) -> None:
    drawn = {}
    for name in ("plan.png", "plan.svg"):
        page(capsys, *ONE, "--picture", str(tmp_path / name))
        drawn[name] = (tmp_path / name).read_bytes()
    assert drawn["plan.png"].startswith(b"\x89PNG")
    assert b"<svg" in drawn["plan.svg"]
    assert cli.main([*LINE, "--picture", str(tmp_path / "no" / "plan.png")]) == 2
    assert "--picture" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.png", "plan.svg"]


def test_json_on_the_screen_is_all_there_is(capsys, tmp_path) -> None:
    out = page(capsys, *ONE, "--json", "-")
    assert json.loads(out)["options"][0]["layout"]["tp"] == 8
    kept = tmp_path / "plan.json"
    kept.write_text("mine")
    assert cli.main([*LINE, *ONE, "--json", str(tmp_path / "no" / "plan.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert cli.main([*LINE, "--tokens", "-1", "--json", str(kept)]) == 2
    assert kept.read_text() == "mine"


def test_what_to_type_is_told_for_each_program(capsys) -> None:
    out = page(capsys, *ONE, "--type", "all")
    for word in (
        "train_ddp cannot run this layout",
        "-m train_mesh",
        "[parallelism]",
        "--tensor-model-parallel-size 8",
    ):
        assert word in out
    assert '"autotp_size": 8' in out
    assert "--type course, torchtitan, megatron, deepspeed or all" in page(capsys, *ONE)


def test_nothing_runs_and_what_would(capsys) -> None:
    out = page(capsys, "--gpus", "1", "--batch", "8", "--seq", "2048", code=1).replace("\n  ", " ")
    assert "0 layouts run" in out
    assert "on 1 GPU of 8x H100" in out
    assert "The nearest was one GPU" in out
    assert "To make it fit: shard with sharding 1" in out
    assert "With --offload it runs" in out
    assert "The nearest number of GPUs on which it runs is" in out


def test_a_model_that_fits_on_no_machine_of_this_size_says_how_many_would(capsys) -> None:
    line = ["plan", "--model", "llama-3-405b", "--machine", "8xh100", "--batch", "512", "--seq", "8192"]
    line += ["--layout", "tp=8 cp=1 mb=1"]
    out = page(capsys, line=line, code=1).replace("\n  ", " ")
    gpus = re.search(r"The nearest number of GPUs on which it runs is (\d+)", out)
    assert gpus, out
    assert 64 <= int(gpus.group(1)) <= 512
    assert page(capsys, "--gpus", gpus.group(1), line=line).startswith("llama-3-405b")


def test_one_gpu_is_the_better_answer_for_a_small_model(capsys) -> None:
    out = page(capsys, line=SMALL)
    assert "the better answer" in out


def test_a_layout_that_fills_the_memory_is_told_of(capsys) -> None:
    full = page(capsys, "--layout", "tp=1 pp=1 cp=1 dp=8 zero=3 mb=1", "--gpus", "8", "--top", "1")
    found = re.search(r" (\d+)% ([\d.]+) GB +dp8", full.replace("  ", " "))
    warned = "it may not fit" in full
    assert warned == (float(re.search(r"([\d.]+) GB +dp8", full).group(1)) > 0.92 * 85.5), found
    roomy = json.loads(page(capsys, *ONE, "--memory", "60", "--json", "-"))
    assert not any("it may not fit" in line for line in roomy["advice"])
    assert roomy["memory_limit_bytes"] == 60e9
    assert all(one["memory_bytes"] <= 60e9 for one in roomy["options"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "as a share of the GPUs' peak. A plan fills at most 79.5 of a GPU's 85.5 GB."),
        (
            ["--memory", "60", "--dtype", "float8"],
            "GPUs' 16-bit peak. A plan fills at most 60.0 of a GPU's 85.5 GB.",
        ),
    ],
)
def test_how_to_read_the_table_is_said(words: list[str], said: str, capsys) -> None:
    out = page(capsys, *ONE, *words).replace("\n  ", " ")
    assert said in out
    assert "8 in 10: 8 of 10 runs lie between these times" in out


def test_a_profile_changes_the_times(capsys) -> None:
    times = {page(capsys, *ONE, *more).split("Time of")[0] for more in ([], ["--profile", "H100 EFA"])}
    assert len(times) == 2


def test_a_machine_without_published_runs_is_told_of(capsys) -> None:
    assert "No published run is from 8x MI300X" in page(capsys, *ONE, "--machine", "8xmi300x")
    assert "No published run" not in page(capsys, *ONE)


def test_a_reader_who_leaves_early_hears_no_complaint() -> None:
    words = [sys.executable, "-m", "course_lib.cli", *SMALL, "--gpus", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_help_teaches(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["plan", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "course plan --model llama-3-8b --machine 8xh100 --nodes 4 --batch 512 --seq 8192" in out
    for word in (
        "zero1",
        "tp8",
        "cp2",
        "pp2",
        "dp4",
        "ep8",
        "mb1",
        "MFU",
        "Exposed",
        "--max-gpus",
        "--picture",
    ):
        assert word in out


def test_the_examples_of_the_help_are_understood() -> None:
    """Each option that the examples name is one, with a value that it takes."""
    from course_lib.plan_command import options

    text = options.__doc__ or ""
    words = {option for option in re.findall(r"--[a-z-]+", text) if option not in ("--help",)}
    source = Path(options.__file__).read_text()
    assert words <= set(re.findall(r'"(--[a-z-]+)"', source))


def test_a_gpu_without_bfloat16_is_told_with_what_float16_needs(capsys):
    said = page(capsys, "--model", "gpt-2", "--machine", "2xt4", "--batch", "64", "--seq", "1024")
    assert "A GPU of 2x T4 has no bfloat16: times are for float16, whose gradients need a scaler" in " ".join(
        said.split()
    )
    assert "no bfloat16" not in page(capsys, *ONE)


def test_a_slow_network_is_told_and_takes_its_time(capsys):
    words = ["--nodes", "2", "--layout", "tp=8 dp=2 mb=1 zero=1"]
    own, slow = page(capsys, *words), page(capsys, *words, "--network-gbit", "10")
    assert "A node sends 10 Gbit/s to others. A node of 8x H100 as its maker builds it has 3,200 Gbit/s." in slow
    assert "A node sends" not in own
    steps = [float(re.search(r"1 +([0-9.]+) s ", one).group(1)) for one in (own, slow)]
    assert steps[1] > 1.2 * steps[0]
    assert page(capsys, *words, "--network-gbit", "3.2k").splitlines()[:5] == own.splitlines()[:5]


def test_a_brief_page_has_the_layouts_and_their_parts_alone(capsys):
    whole, brief = page(capsys, *ONE), page(capsys, *ONE, "--brief")
    for said in ("Time of a step with", "Memory of its fullest GPU", "How sure"):
        assert said in brief
    for said in ("tp N: N GPUs share", "Why not the others", "To see what to type"):
        assert said in whole or said.startswith("Why")
        assert said not in brief
    assert "What to type" in page(capsys, *ONE, "--brief", "--type", "megatron")
