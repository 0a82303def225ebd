"""What to type: the course's programs understand their lines, and the others' settings say what the layout says."""

from __future__ import annotations

import json
import shlex
import tomllib
from argparse import Namespace
from dataclasses import replace

import pytest
from torch.distributed.run import get_args_parser

from course_lib.examples.train_ddp.settings import parse_arguments as ddp_words
from course_lib.examples.train_fsdp.settings import parse_arguments as fsdp_words
from course_lib.examples.train_mesh.axes import axes_of
from course_lib.examples.train_mesh.settings import parse_arguments as mesh_words
from course_lib.plan import MODELS, Constants, Job, Layout, Software, cluster_of, list_layouts, to_type
from course_lib.plan.output.exporters import PROGRAMS
from course_lib.plan.search.constraints import why_illegal

JOB = Job(MODELS["llama-3-8b"], seq=8192, batch=512)
PARSERS = {"train_ddp": ddp_words, "train_fsdp": fsdp_words, "train_mesh": mesh_words}
LAYOUTS = [
    Layout(),
    Layout(dp=8, micro_batch=2),
    Layout(dp=8, sharding=3, recompute="full"),
    Layout(dp=32, sharding=3, recompute="selective"),
    Layout(dp=32, sharding=3, shard_size=8),
    Layout(dp=8, sharding=1),
    Layout(tp=8, sequence_parallel=True),
    Layout(tp=2, pp=4, dp=4, sharding=3, sequence_parallel=True, micro_batch=4),
    Layout(tp=4, pp=2, chunks=2, sequence_parallel=True),
    Layout(tp=4, pp=2, chunks=4, dp=4, sharding=1, sequence_parallel=True, recompute="selective"),
    Layout(cp=2, dp=4, sharding=1),
    Layout(cp=2, dp=16, sharding=3, shard_size=8),
    Layout(dp=8, sharding=1, offload=True),
    Layout(tp=2, dp=4, sharding=3, sequence_parallel=True),
]


def cluster(layout: Layout):
    return cluster_of("8xh100", gpus=layout.gpus)


def typed(program: str, layout: Layout, job: Job = JOB) -> dict:
    return {one.program: one for one in to_type(program, job, layout, cluster(layout))}


def started(text: str) -> tuple[str, Namespace, int]:
    """The program of a line, its settings by its own parser, and how many ranks torchrun starts."""
    words = shlex.split(text)
    at = words.index("-m")
    program, ranks = words[at + 1], 1
    if words[0] == "torchrun":
        torchrun = get_args_parser().parse_args([*words[1:at], "-m", program])
        assert torchrun.module
        ranks = int(torchrun.nnodes.split(":")[0]) * int(torchrun.nproc_per_node)
    else:
        assert words[:at] == ["python"]
    return program, PARSERS[program](words[at + 2 :]), ranks


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_each_line_is_understood_by_its_program(layout: Layout) -> None:
    assert why_illegal(JOB, layout, layout.gpus) is None
    for name, one in typed("course", layout).items():
        if not one.text:
            assert one.notes
            continue
        program, args, ranks = started(one.text)
        assert program == name
        assert ranks == layout.gpus
        assert args.batch_size == JOB.batch
        assert args.accumulate == JOB.batch // (layout.dp * layout.micro_batch)
        if name == "train_ddp":
            continue
        assert (args.layers, args.width, args.heads, args.context) == (32, 4096, 32, 8192)
        assert args.recompute == (layout.recompute != "none")
        if name == "train_mesh":
            axes = axes_of(args, ranks)  # raises where the mesh cannot be
            shard = (layout.shard_size or layout.dp) if layout.sharding else 1
            assert (axes.tp, axes.pp, axes.shard, axes.dp) == (
                layout.tp,
                layout.pp,
                shard,
                layout.dp // shard,
            )
            assert args.precision == "bf16"
            assert args.peak_tflops == 989


@pytest.mark.parametrize(
    ("layout", "can"),
    [
        (Layout(), ["train_ddp", "train_fsdp", "train_mesh"]),
        (Layout(dp=8), ["train_ddp", "train_mesh"]),
        (Layout(dp=8, recompute="full"), ["train_mesh"]),
        (Layout(dp=8, sharding=3, recompute="full"), ["train_fsdp", "train_mesh"]),
        (Layout(dp=16, sharding=3, shard_size=8), ["train_mesh"]),
        (Layout(tp=2, pp=2, dp=2, sharding=3, sequence_parallel=True), ["train_mesh"]),
        (Layout(pp=2, chunks=2), []),
        (Layout(cp=2, dp=4), []),
        (Layout(dp=8, ep=8), []),
        (Layout(dp=8, offload=True), []),
        (Layout(tp=2), []),
        (Layout(pp=8, dp=64, micro_batch=8), []),
    ],
    ids=str,
)
def test_programs_run_what_they_can_and_say_what_they_cannot(layout: Layout, can: list[str]) -> None:
    found = typed("course", layout)
    assert {name for name, one in found.items() if one.text} == set(can)
    assert all(one.notes for one in found.values())


def test_what_is_done_another_way_is_said() -> None:
    selective = typed("course", Layout(dp=8, sharding=3, recompute="selective"))["train_fsdp"]
    assert any("whole blocks" in note for note in selective.notes)
    first = typed("course", Layout(dp=8, sharding=1))["train_mesh"]
    assert any("The plan has zero1; it shards the weights too (zero3)" in note for note in first.notes)
    assert "has no context axis (cp=2)" in str(typed("course", Layout(cp=2, dp=2))["train_mesh"])
    assert "fewer than 8, so give a batch of at least 4096" in str(
        typed("course", Layout(pp=8, dp=64, micro_batch=8))["train_mesh"]
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_torchtitan_is_told_the_same(layout: Layout) -> None:
    one = typed("torchtitan", layout)["torchtitan"]
    found = tomllib.loads(one.text)
    axes, training = found["parallelism"], found["training"]
    degrees = [axes[f"{name}_parallel_degree"] for name in ("tensor", "context", "pipeline")]
    assert degrees == [layout.tp, layout.cp, layout.pp]
    replicas, shards = axes["data_parallel_replicate_degree"], axes["data_parallel_shard_degree"]
    assert replicas * shards == layout.dp
    assert shards == (layout.shards // layout.cp if layout.sharding else 1)
    assert (training["seq_len"], training["global_batch_size"]) == (8192, 512)
    accumulated = 512 // (training["local_batch_size"] * layout.dp)
    assert layout.pp == 1 or accumulated == 1  # a pipeline is filled once a step, by all micro-batches
    size = axes.get("pipeline_parallel_microbatch_size", training["local_batch_size"])
    assert size == layout.micro_batch
    assert accumulated * training["local_batch_size"] // size == layout.num_micro_batches(512)
    assert found["activation_checkpoint"]["mode"] == layout.recompute
    assert (axes.get("pipeline_parallel_schedule") == "Interleaved1F1B") == (layout.chunks > 1)


def test_torchtitan_is_told_the_layers_of_a_stage_where_its_rounding_gives_as_many_stages() -> None:
    layout = Layout(tp=4, pp=2, chunks=4, sequence_parallel=True)
    large = typed("torchtitan", layout, Job(MODELS["llama-3-70b"], 8192, 512))["torchtitan"]
    size = tomllib.loads(large.text)["parallelism"]["pipeline_parallel_layers_per_stage"]
    assert -(-(80 + 2) // size) == 8
    small = typed("torchtitan", layout)["torchtitan"]
    assert "pipeline_parallel_layers_per_stage" not in small.text
    assert any("No equal number of layers a stage cuts 32 layers into 8 stages" in note for note in small.notes)


def test_torchtitan_shares_out_what_was_to_be_copied() -> None:
    for stage in (1, 2):
        one = typed("torchtitan", Layout(dp=8, sharding=stage))["torchtitan"]
        assert tomllib.loads(one.text)["parallelism"]["fsdp_reshard_after_forward"] == "never"
        assert f"It has no zero{stage}" in str(one)
    piped = typed("torchtitan", Layout(dp=8, pp=2, sharding=3))["torchtitan"].text
    assert tomllib.loads(piped)["parallelism"]["fsdp_reshard_after_forward"] == "always"


@pytest.mark.parametrize(
    ("layout", "runs"),
    [
        (Layout(dp=8, ep=8, sharding=3), True),
        (Layout(dp=8, ep=4, sharding=1), True),
        (Layout(dp=8, ep=8), False),  # copies: no ranks share states out, nor experts
        (Layout(dp=16, ep=16, sharding=3, shard_size=8), False),
        (Layout(cp=2, dp=4, ep=4, sharding=3), True),
        (Layout(cp=4, dp=4, ep=2, sharding=3), False),
    ],
    ids=str,
)
def test_torchtitan_shares_experts_out_among_the_ranks_that_share_states(layout: Layout, runs: bool) -> None:
    one = typed("torchtitan", layout, Job(MODELS["mixtral-8x7b"], 8192, 64))["torchtitan"]
    assert bool(one.text) == runs
    if runs:
        assert tomllib.loads(one.text)["parallelism"]["expert_parallel_degree"] == layout.ep
        assert "expert_tensor_parallel_degree" not in one.text
    else:
        assert "ep must divide" in str(one)


def test_torchtitan_cuts_experts_as_the_plan_does_beside_a_tensor_axis() -> None:
    layout = Layout(tp=2, dp=8, ep=8, sharding=3, sequence_parallel=True)
    one = typed("torchtitan", layout, Job(MODELS["mixtral-8x7b"], 4096, 64))["torchtitan"]
    assert tomllib.loads(one.text)["parallelism"]["expert_tensor_parallel_degree"] == 2
    assert any("expert_tensor_parallel_degree" in note for note in one.notes)


def test_deepspeed_shares_weights_out_beside_its_tensor_axis_and_experts_of_models_that_it_knows() -> None:
    mixture, other = Job(MODELS["mixtral-8x7b"], 4096, 64), Job(replace(MODELS["mixtral-8x7b"], name="own"), 4096, 64)
    layout = Layout(dp=8, ep=8, sharding=3)
    known = json.loads(typed("deepspeed", layout, mixture)["deepspeed"].text)["expert_parallel"]
    assert known == {"enabled": True, "autoep_size": 8, "preset_model": "mixtral"}
    unknown = typed("deepspeed", layout, other)["deepspeed"]
    assert not unknown.text
    assert "ZeRO 3 only by AutoEP" in str(unknown)
    by_hand = typed("deepspeed", Layout(dp=8, ep=8, sharding=2), other)["deepspeed"]
    assert "expert_parallel" not in json.loads(by_hand.text)
    assert "deepspeed.moe.layer.MoE" in str(by_hand)
    tensor = typed("deepspeed", Layout(tp=2, dp=4, sharding=3, sequence_parallel=True), mixture)["deepspeed"]
    assert json.loads(tensor.text)["zero_optimization"]["stage"] == 3
    assert "since 0.19.4" in str(tensor)


@pytest.mark.parametrize("program", ["torchtitan", "megatron", "deepspeed"])
def test_names_of_others_say_for_which_version_they_are(program: str) -> None:
    for layout in (Layout(dp=8, sharding=1), Layout(cp=4, dp=4, ep=2, sharding=3)):
        one = typed(program, layout)[program]
        assert "2026" in one.version
        assert one.version in str(one).splitlines()[0]
    assert not any(one.version for one in typed("course", Layout()).values())


def test_torchtitan_tells_the_names_of_its_main_branch_too() -> None:
    said = str(typed("torchtitan", Layout(pp=2, dp=4, micro_batch=2, recompute="full"))["torchtitan"])
    for words in ("max_context_length=8192", f"num_tokens_per_train_step={8192 * 512}", "num_pp_microbatches=64"):
        assert words in said.replace("\n    ", " ")
    assert "num_tokens_per_microbatch_per_dp_rank=16384" in said
    assert "FullAC.Config()" in said


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        (Layout(tp=4, dp=2, sequence_parallel=True), "export CUDA_DEVICE_MAX_CONNECTIONS=1"),
        (Layout(cp=2, dp=4, sharding=1), "export CUDA_DEVICE_MAX_CONNECTIONS=1"),
        (Layout(tp=2, dp=4, sharding=3, sequence_parallel=True), "unset CUDA_DEVICE_MAX_CONNECTIONS"),
        (Layout(dp=8), None),
    ],
    ids=str,
)
def test_megatron_gets_the_variable_that_it_asserts(layout: Layout, line: str | None) -> None:
    first, *_ = typed("megatron", layout)["megatron"].text.splitlines()
    assert first == line or (line is None and first.startswith("--tensor"))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_megatron_is_told_the_same(layout: Layout) -> None:
    text = typed("megatron", layout)["megatron"].text
    words = shlex.split(text.replace("\\\n", " "))
    after = {word: following for word, following in zip(words, [*words[1:], ""], strict=True) if word[:2] == "--"}
    assert int(after["--tensor-model-parallel-size"]) == layout.tp
    assert int(after["--pipeline-model-parallel-size"]) == layout.pp
    assert int(after["--context-parallel-size"]) == layout.cp
    assert ("--sequence-parallel" in after) == layout.sequence_parallel
    assert int(after.get("--num-virtual-stages-per-pipeline-rank", 1)) == layout.chunks
    assert (after["--micro-batch-size"], after["--global-batch-size"]) == (str(layout.micro_batch), "512")
    assert ("--use-distributed-optimizer" in after) == (layout.sharding > 0)
    strategy = {2: "optim_grads", 3: "optim_grads_params"}.get(layout.sharding)
    assert after.get("--data-parallel-sharding-strategy") == strategy
    assert after.get("--recompute-granularity", "none") == layout.recompute
    assert ("--optimizer-cpu-offload" in after) == layout.offload
    assert (after["--num-layers"], after["--num-query-groups"], after["--ffn-hidden-size"]) == (
        "32",
        "8",
        "14336",
    )
    assert {"--swiglu", "--disable-bias-linear", "--untie-embeddings-and-output-weights"} <= after.keys()
    assert max(map(len, text.splitlines())) < 110
    assert after["--attention-dropout"] == after["--hidden-dropout"] == "0.0"  # as memory was counted


def test_megatron_knows_gpt_2_and_experts() -> None:
    gpt = typed("megatron", Layout(), Job(MODELS["gpt-2"], 1024, 8))["megatron"].text
    assert "--swiglu" not in gpt
    assert "--untie" not in gpt
    mixture = typed("megatron", Layout(dp=8, ep=8, sharding=1), Job(MODELS["mixtral-8x7b"], 4096, 8))
    assert "--num-experts 8 --moe-router-topk 2" in mixture["megatron"].text.replace(" \\\n", " ")
    assert "--expert-model-parallel-size 8" in mixture["megatron"].text
    assert "--moe-token-dispatcher-type alltoall --moe-grouped-gemm" in mixture["megatron"].text.replace(" \\\n", " ")
    assert "--moe" not in gpt
    stages = typed("megatron", Layout(pp=2), Job(MODELS["llama-3-8b"], 8192, 8))["megatron"]
    assert "--decoder-last-pipeline-num-layers" in str(stages)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_deepspeed_is_told_the_same(layout: Layout) -> None:
    one = typed("deepspeed", layout)["deepspeed"]
    if layout.cp > 1 or (layout.pp > 1 and (layout.sharding > 1 or layout.chunks > 1)):
        assert not one.text
        assert one.notes
        return
    found = json.loads(one.text)
    micro, steps = found["train_micro_batch_size_per_gpu"], found["gradient_accumulation_steps"]
    assert found["train_batch_size"] == micro * steps * layout.dp == 512
    assert micro == layout.micro_batch
    zero = found["zero_optimization"]
    assert zero["stage"] == layout.sharding
    assert ("offload_optimizer" in zero) == layout.offload
    assert zero.get("zero_hpz_partition_size", 0) == layout.shard_size
    assert found.get("tensor_parallel", {"autotp_size": 1})["autotp_size"] == layout.tp


def test_every_layout_that_the_planner_finds_has_something_to_say_for_each_program() -> None:
    job = Job(MODELS["mixtral-8x7b"], seq=4096, batch=32)
    found = list_layouts(job, cluster_of("8xh100", nodes=2), Constants(), Software())
    for option in found.options[::37]:
        for name in ("course", "torchtitan", "megatron", "deepspeed"):
            for one in to_type(name, job, option.layout, found.cluster):
                assert one.text or one.notes
                if one.text and name == "course":
                    program, args, ranks = started(one.text)
                    if program == "train_mesh":
                        axes_of(args, ranks)


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean 'megatron'"):
        to_type("megaton", JOB, Layout(), cluster(Layout()))


@pytest.mark.parametrize("machine", ["2xt4", "8xv100"])
def test_what_is_typed_for_gpus_without_bfloat16_asks_for_float16_or_says_that_it_cannot(machine):
    job, cluster = Job(MODELS["gpt-2"], 1024, 64), cluster_of(machine, gpus=2)
    (megatron,) = to_type("megatron", job, Layout(dp=2), cluster)
    assert "--fp16" in megatron.text
    assert "--bf16" not in megatron.text
    (deepspeed,) = to_type("deepspeed", job, Layout(dp=2), cluster)
    assert json.loads(deepspeed.text)["fp16"] == {"enabled": True}
    assert "bf16" not in deepspeed.text
    (torchtitan,) = to_type("torchtitan", job, Layout(dp=2), cluster)
    assert 'mixed_precision_param = "float32"' in torchtitan.text
    for one in (
        *to_type("course", job, Layout(dp=2, sharding=3), cluster),
        *to_type("course", job, Layout(dp=2), cluster),
    ):
        assert "bf16" not in one.text
        assert not one.text or any("no float16" in note for note in one.notes)


def test_what_is_typed_for_gpus_with_bfloat16_says_nothing_of_float16():
    job, cluster = Job(MODELS["gpt-2"], 1024, 64), cluster_of("8xh100", gpus=2)
    texts = [one.text for name in PROGRAMS for one in to_type(name, job, Layout(dp=2), cluster)]
    assert not [text for text in texts if "fp16" in text or "mixed_precision" in text]
