"""What the files of tests of ``train_fsdp`` share: a plugin of pytest, for those that name it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fsdp_runs import go_on, names_in
from torch import Tensor

# Six channels on four ranks: a norm's parts have 2, 2, 2 and no values.
SMALL = "--layers 2 --width 6 --heads 2 --context 8 --batch-size 8 --steps 6 --warmup 2 --lr 0.01"


@pytest.fixture(scope="session")
def stopped_fsdp_run(clusters, tmp_path_factory) -> tuple[Path, dict[str, Tensor], dict[str, Tensor]]:
    """The folder of two ranks that stopped after three of six steps, what they had, and where six would have led."""
    folder = tmp_path_factory.mktemp("runs")
    *_, uninterrupted, number = clusters(2).run(go_on, f"--out {folder / 'whole'} --save-every 2")[0]
    assert number == 0
    assert names_in(folder / "whole") == ["lock", "log.jsonl", "step-00000004", "step-00000006"]
    run = clusters(2).run(go_on, f"--out {folder / 'run'} --save-every 2", 3)
    assert [number for *_, number in run] == [15, 15]
    had = run[0][2]
    assert names_in(folder / "run") == ["lock", "log.jsonl", "step-00000002", "step-00000003"]
    return folder / "run", had, uninterrupted


@pytest.fixture(scope="session")
def words(tmp_path_factory) -> str:
    """Small settings of ``train_fsdp``, with a text of 700 bytes: ten steps an epoch."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    chance = torch.Generator().manual_seed(3)
    path.write_bytes(bytes(torch.randint(97, 123, (700,), generator=chance, dtype=torch.uint8).tolist()))
    return f"{SMALL} --data {path}"
