"""What ``course plan --type`` tells, held against released packages: whether each name is still in their source.

Packages come from the package index, as the newest release, and torchtitan's last one with TOML. Where no index can be
reached, the tests say so. A name that has gone is told with its package and version.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from course_lib.plan import MODELS, Job, Layout, cluster_of, to_type
from course_lib.plan.search.constraints import why_illegal

pytestmark = [pytest.mark.long, pytest.mark.limit_s(900)]

LAYOUTS = [
    Layout(dp=8),
    Layout(dp=8, sharding=1, offload=True),
    Layout(dp=32, sharding=3, recompute="selective"),
    Layout(dp=32, sharding=3, shard_size=8, recompute="full"),
    Layout(cp=2, dp=16, sharding=2),
    Layout(tp=2, pp=4, dp=4, sharding=3, sequence_parallel=True, micro_batch=4),
    Layout(tp=4, pp=2, chunks=2, dp=2, sharding=1, sequence_parallel=True),
    Layout(tp=4, pp=2, chunks=4, dp=2, sequence_parallel=True),
    Layout(tp=2, dp=4, sharding=1, sequence_parallel=True),
    Layout(dp=8, ep=4, sharding=2),
    Layout(tp=2, dp=4, ep=4, sharding=3, sequence_parallel=True),
    Layout(tp=2, dp=4, ep=8, etp=1, sharding=3, sequence_parallel=True),
]
JOBS = [Job(MODELS[name], 4096, 256) for name in ("llama-3-8b", "mixtral-8x7b")]
MACHINES = ["8xh100", "8xv100"]
# Of Megatron-LM's program alone, which is in no package: arguments that are no setting of Megatron-Core by this name.
MEGATRON_PROGRAM = {
    "decoder_last_pipeline_num_layers", "disable_bias_linear", "group_query_attention", "max_position_embeddings",
    "no_gradient_accumulation_fusion", "num_virtual_stages_per_pipeline_rank", "untie_embeddings_and_output_weights",
}  # fmt: skip
# Gone in torchtitan 0.3.0, and said so in a note; [activation_checkpoint] mode is a class there.
TITAN_SAID = {"expert_tensor_parallel_degree", "mode"}


def release(folder: Path, requirement: str) -> tuple[str, str]:
    """The name and version of what the index gives, and all of its Python in one text."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    if done.returncode:
        pytest.skip(f"pip could not get {requirement}: {(done.stderr.strip() or 'no word').splitlines()[-1]}")
    (file,) = folder.iterdir()
    texts = []
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            texts = [wheel.read(name).decode(errors="replace") for name in wheel.namelist() if name.endswith(".py")]
    else:
        with tarfile.open(file) as source:
            for member in source:
                if member.name.endswith(".py") and (opened := source.extractfile(member)) is not None:
                    texts.append(opened.read().decode(errors="replace"))
    assert texts, f"{file.name} has no Python"
    return file.name, "\n".join(texts)


def typed(program: str) -> list[str]:
    """All texts that are told for it, over layouts, models and machines."""
    found = []
    for machine in MACHINES:
        for layout in LAYOUTS:
            cluster = cluster_of(machine, gpus=layout.gpus)
            for job in JOBS:
                if not why_illegal(job, layout, layout.gpus):
                    found += [one.text for one in to_type(program, job, layout, cluster) if one.text]
    assert len(found) > len(LAYOUTS)
    return found


def gone(names: set[str], text: str) -> set[str]:
    return {name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)}


def keys(settings: Any) -> set[str]:
    """The keys of dictionaries within dictionaries."""
    if not isinstance(settings, dict):
        return set()
    return set(settings).union(*(keys(value) for value in settings.values()))


@pytest.mark.parametrize(("requirement", "said"), [("torchtitan==0.2.2", set()), ("torchtitan", TITAN_SAID)])
def test_torchtitan_has_each_name_or_a_note_says_that_it_has_not(tmp_path, requirement, said):
    names = set().union(*(keys(tomllib.loads(text)) for text in typed("torchtitan")))
    assert {"expert_parallel_degree", "pipeline_parallel_schedule", "mixed_precision_param", "mode"} <= names
    version, source = release(tmp_path, requirement)
    assert gone(names - said, source) == set(), f"no longer in {version}"


def test_deepspeed_has_each_name(tmp_path):
    names = set().union(*(keys(json.loads(text)) for text in typed("deepspeed")))
    assert {"bf16", "fp16", "zero_hpz_partition_size", "autotp_size", "autoep_size"} <= names
    version, source = release(tmp_path, "deepspeed")
    assert gone(names, source) == set(), f"no longer in {version}"


def test_megatron_core_has_each_setting_that_is_its_own(tmp_path):
    flags = set(re.findall(r"--([a-z0-9-]+)", "\n".join(typed("megatron"))))
    names = {flag.replace("-", "_") for flag in flags}
    assert {"tensor_model_parallel_size", "fp16", "use_megatron_fsdp", "moe_grouped_gemm"} <= names
    version, source = release(tmp_path, "megatron-core")
    assert gone(names - MEGATRON_PROGRAM, source) == set(), f"no longer in {version}"


def test_a_name_that_has_gone_is_found():
    assert gone({"sequence_length", "seq_len"}, "seq_len: int = 2048\nsequence_lengths = ()") == {"sequence_length"}
    assert keys({"a": {"b": 1}, "c": [2]}) == {"a", "b", "c"}
