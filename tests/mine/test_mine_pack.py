"""`course mine --pack`: a folder that trains by the learner's library, run by programs that do not know the course."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.base.paths import project_root
from course_lib.lessons.regions import solution_text
from course_lib.lessons.source import read_source
from course_lib.mine.ledger import note_passed
from course_lib.mine.source.package import version_of
from course_lib.mine.table import entry_of
from course_lib.mine.terminal import command
from course_lib.mine.terminal.pieces import WAYS

HANG_LIMIT_S = 300
PAGES = {"MyDDP": "04d_build_ddp", "MyShardedOptimizer": "05f_build_sharded_optimizer"}
PAGES["MyFullySharded"] = "05g_build_fully_sharded"
IMPORTS = (
    "import contextlib\n\nimport torch\nimport torch.distributed as dist\nimport torch.nn.functional as F\n"
    "from torch import nn\n"
)


def build(learner, name: str, text: str | None = None) -> Path:
    """As if the learner had passed this build by the solution of its page; the file."""
    entry = entry_of(name)
    source = read_source(project_root() / "notebooks" / "src" / f"{PAGES[name]}.py")
    cell = next(cell.text for cell in source.cells if cell.is_code and f"class {name}" in cell.text)
    path = learner.folder / f"{entry.module}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(IMPORTS + "\n\n" + (text or solution_text(cell, lambda line: f"{name}:{line}")))
    note_passed(entry, entry.exercise, version_of(learner.folder, entry.module, name).digest)
    return path


def said(capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = command.main(words)
    told = capsys.readouterr()
    return code, told.out, told.err


def losses_of(folder: Path, way: str, ranks: int = 0) -> list[float]:
    """What a run writes, by a Python that finds no course. Without ``ranks`` it is one process, by itself."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks else []
    words = ["train.py", "--way", way, "--steps", "4", "--double", "--json", f"{way}.json"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *launch, *words],
        cwd=folder,
        env={**env, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((folder / f"{way}.json").read_text())
    assert told["ranks"] == max(1, ranks)
    return told["losses"]


def test_before_a_build_has_passed_there_is_nothing_to_pack(anna, capsys, tmp_path):
    code, _, err = said(capsys, "--pack", str(tmp_path / "pack"))
    assert code == 1
    assert err.startswith("course mine: there is nothing to pack yet. ddp: MyDDP is the course's so far; it is yours ")
    assert not (tmp_path / "pack").exists()


def test_a_pack_has_what_passed_and_says_what_is_left_out(anna, capsys, tmp_path):
    path = build(anna, "MyDDP")
    path.write_text(path.read_text() + "\n\nSECRET = 'a note of mine'\n")
    changed = build(anna, "MyShardedOptimizer")
    changed.write_text(changed.read_text().replace("num_ranks", "count"))
    code, out, _ = said(capsys, "--pack", str(tmp_path / "pack"))
    assert code == 0
    packed = (tmp_path / "pack" / "mine" / "ddp.py").read_text()
    assert "class MyDDP" in packed
    assert "class Bucket" in packed
    assert "SECRET" not in packed
    assert not (tmp_path / "pack" / "mine" / "zero.py").exists()
    assert "Left out is sharded_optimizer: what stands in mine/zero.py has not passed 05.zero_bytes." in out
    assert "Left out is fully_sharded: MyFullySharded is the course's so far" in out
    assert "WAYS_" not in (tmp_path / "pack" / "train.py").read_text() + (tmp_path / "pack" / "README.md").read_text()


def test_code_that_needs_the_course_is_left_out_with_its_line(anna, capsys, tmp_path):
    build(anna, "MyDDP", "from course_lib.cluster import send\n\n\nclass MyDDP(nn.Module):\n    go = send\n")
    code, _, err = said(capsys, "--pack", str(tmp_path / "pack"))
    assert code == 1
    assert "mine/ddp.py needs the course (`from course_lib.cluster import send`), and a pack runs without it." in err


def test_nothing_is_written_over(anna, capsys, tmp_path):
    build(anna, "MyDDP")
    (tmp_path / "note.txt").write_text("mine")
    code, _, err = said(capsys, "--pack", str(tmp_path))
    assert code == 1
    assert "is there already, and nothing is written over" in err
    code, _, err = said(capsys, "--pack", str(tmp_path / "note.txt"))
    assert code == 1
    assert (tmp_path / "note.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_a_sentence(anna, capsys):
    build(anna, "MyDDP")
    code, _, err = said(capsys, "--pack", "/proc/pack")
    assert code == 1
    assert err.startswith("course mine: /proc/pack cannot be written (")


def test_one_rank_trains_as_one_device(anna, capsys, tmp_path):
    build(anna, "MyDDP")
    assert said(capsys, "--pack", str(tmp_path / "pack"))[0] == 0
    alone = losses_of(tmp_path / "pack", "one")
    assert losses_of(tmp_path / "pack", "ddp") == pytest.approx(alone, rel=1e-12)
    assert alone[-1] < alone[0]


@pytest.mark.long
def test_several_ranks_train_as_one_device_by_each_way(anna, capsys, tmp_path):
    for name in WAYS.values():
        build(anna, name)
    assert said(capsys, "--pack", str(tmp_path / "pack"))[0] == 0
    alone = losses_of(tmp_path / "pack", "one")
    for way in WAYS:
        for ranks in (2, 3):
            assert losses_of(tmp_path / "pack", way, ranks) == pytest.approx(alone, rel=1e-10), (way, ranks)
