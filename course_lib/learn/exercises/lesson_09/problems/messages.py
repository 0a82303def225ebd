"""Problems on paper of lesson 09: what each axis sends, and which axis gets the fast link."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["border", "gathers", "turned"]

_WORDS = (("bfloat16", 2), ("float32", 4))


@problem("09.border", "Which axis sends more, pp or dp_replicate?", unit="sequences")
def border(draw: random.Random) -> Posed:
    name, stages = draw.choice(
        (("llama-3-70b", 4), ("llama-3-70b", 8), ("llama-3-405b", 14), ("llama-3-405b", 18), ("gpt-3-175b", 12))
    )
    length = 2048 if name == "gpt-3-175b" else draw.choice((4096, 8192))
    model, replicas, (word, num_bytes) = MODELS[name], draw.choice((2, 4, 8)), draw.choice(_WORDS)
    billions = round(model.parameters / 1e9, 1)
    part_gb = billions / (8 * stages) * num_bytes
    data_gb = 2 * (replicas - 1) / replicas * part_gb
    one_gb = 2 * 2 * length * model.hidden / 1e9
    value = data_gb / one_gb
    return Posed(
        text=f"{name} has {billions} billion parameters and is {model.hidden:,} wide. It is trained on the mesh "
        f"dp_replicate={replicas}, pp={stages}, tp=8, and the ranks of a replica share its parameters out evenly. Look "
        "at a rank of a stage in the middle. It hands all activations on and all gradients of activations back, in "
        f"bfloat16. Once a step a ring averages gradients over the replicas, in {word}. A sequence has "
        f"{length:,} tokens. Up to how many sequences of a replica in a step does the rank send no more along pp than "
        "along dp_replicate?",
        value=value,
        way=(
            f"A rank has {billions} × 10⁹ / ({stages} × 8) parameters: {said(part_gb, 'GB')} of gradients.",
            f"Along dp_replicate it sends 2 × {replicas - 1}/{replicas} × {said(part_gb, 'GB')} = "
            f"{said(data_gb, 'GB')}.",
            f"Along pp a sequence is {length:,} × {model.hidden:,} × 2 bytes forward and as much backward: "
            f"{said(one_gb, 'GB')}.",
            f"{said(data_gb, 'GB')} / {said(one_gb, 'GB')} = {said(value, 'sequences')}.",
        ),
        slips=(
            Wrong(value * 2, "Along pp gradients go back, with as many bytes as the activations."),
            Wrong(value / 2, "You have counted one half of the all-reduce."),
            Wrong(value * 8, "A rank has a slice of its stage, not all of it."),
            Wrong(value * 8 * stages, "That is an all-reduce of the whole model. A rank has a part of it."),
        ),
        sources=(sizes_source(MODELS[name]),),
    )


@problem("09.turned", "The mesh with its axes turned", unit="times")
def turned(draw: random.Random) -> Posed:
    name, machine_name = draw.choice(
        (
            ("llama-3-8b", "8x A100"), ("llama-3-8b", "8x H100"), ("llama-2-13b", "8x A100"),
            ("llama-2-13b", "8x H100"), ("llama-3-70b", "8x MI300X"), ("llama-3-70b", "8x B200"),
        )
    )  # fmt: skip
    model, machine, (word, num_bytes) = MODELS[name], MACHINES[machine_name], draw.choice(_WORDS)
    tokens = draw.choice((16384, 32768, 65536, 131072))
    billions = round(model.parameters / 1e9, 2)
    inside, outside = machine.intra.bandwidth_bytes_per_s / 1e9, machine.inter.bandwidth_bytes_per_s / 1e9
    tensor_gb = 2 * 7 / 8 * 4 * model.layers * tokens * model.hidden * 2 / 1e9
    data_gb = 2 * 7 / 8 * billions / 8 * num_bytes
    right_s, wrong_s = tensor_gb / inside + data_gb / outside, tensor_gb / outside + data_gb / inside
    value = wrong_s / right_s
    return Posed(
        text=f"{name} has {billions} billion parameters in {model.layers} layers, {model.hidden:,} wide. It is "
        f"trained on 8 nodes of 8 GPUs, dp_replicate=8 and tp=8. A link within a node has {inside:.0f} GB/s in each "
        f"direction, and a GPU's port between nodes has {outside:.0f} GB/s. In a step each replica works on "
        f"{tokens:,} tokens. Along tp a layer has four all-reduces of its activations, in bfloat16. Along "
        f"dp_replicate gradients are averaged once, in {word}. All are rings, nothing hides, and latency is left out. "
        "Somebody turns the order of the axes, so that tp goes from node to node. How many times as long do a step's "
        "messages take now?",
        value=value,
        way=(
            f"Along tp: 4 × {model.layers} × 2 × 7/8 × {tokens:,} × {model.hidden:,} × 2 bytes = "
            f"{said(tensor_gb, 'GB')}.",
            f"Along dp_replicate: 2 × 7/8 × {billions} × 10⁹/8 × {num_bytes} bytes = {said(data_gb, 'GB')}.",
            f"Right order: {tensor_gb:.4g}/{inside:.0f} + {data_gb:.3g}/{outside:.0f} = {said(right_s, 's')}.",
            f"Turned: {tensor_gb:.4g}/{outside:.0f} + {data_gb:.3g}/{inside:.0f} = {said(wrong_s, 's')}.",
            f"{said(wrong_s, 's')} / {said(right_s, 's')} = {said(value, 'times')}.",
        ),
        slips=(
            Wrong(inside / outside, "That is the ratio of the links. One axis loses the fast link, the other gets it."),
            Wrong(1 / value, "You have divided the other way round."),
            Wrong(
                (tensor_gb / outside + 8 * data_gb / inside) / (tensor_gb / inside + 8 * data_gb / outside),
                "A rank averages the gradients of its slices, not of the whole model.",
            ),
            Wrong(
                (tensor_gb / 4 / outside + data_gb / inside) / (tensor_gb / 4 / inside + data_gb / outside),
                "Count the all-reduces of a layer again: two regions, forward and backward.",
            ),
        ),
        sources=(machine.source, sizes_source(MODELS[name])),
    )


@problem("09.gathers", "Weights gathered for every micro-batch", unit="s")
def gathers(draw: random.Random) -> Posed:
    name, stages = draw.choice(
        (("llama-3-70b", 4), ("llama-3-70b", 8), ("llama-3-405b", 14), ("llama-3-405b", 18), ("gpt-3-175b", 8))
    )
    model, machine = MODELS[name], MACHINES[draw.choice(("8x A100", "8x H100"))]
    shards, micro_batches = draw.choice((4, 8, 16)), stages * draw.choice((2, 3, 4))
    billions, port = round(model.parameters / 1e9, 1), machine.inter.bandwidth_bytes_per_s / 1e9
    part_gb = 2 * billions / (8 * stages)
    one_s = (shards - 1) / shards * part_gb / port
    value = (2 * micro_batches - 1) * one_s
    return Posed(
        text=f"{name} has {billions} billion parameters, shared out evenly on the mesh pp={stages}, "
        f"dp_shard={shards}, tp=8. A step has {micro_batches} micro-batches. One team fully shards its stages: a rank "
        "gathers the weights of its slices anew for every forward and every backward. Another team gathers them once "
        "a step and keeps them. Both reduce-scatter gradients once. Weights are sent in bfloat16, in rings along "
        f"dp_shard. Each GPU has a port of {port:.0f} GB/s in each direction between nodes. Leave out latency. How "
        "much longer do a step's messages along dp_shard take in the first team?",
        value=value,
        way=(
            f"The weights of a rank's slices: {billions} × 10⁹ / (8 × {stages}) × 2 bytes = {said(part_gb, 'GB')}.",
            f"An all-gather sends {shards - 1}/{shards} of that. At {port:.0f} GB/s it takes {said(one_s, 's')}.",
            f"The first team has 2 × {micro_batches} all-gathers and the second one: {2 * micro_batches - 1} more.",
            f"{2 * micro_batches - 1} × {said(one_s, 's')} = {said(value, 's')}.",
        ),
        slips=(
            Wrong((micro_batches - 1) * one_s, "Weights are gathered for the backward, too."),
            Wrong(2 * value, "An all-gather is one half of an all-reduce."),
            Wrong(8 * value, "A rank gathers its slices, not all of its stage."),
            Wrong(value / shards, "A ring sends nearly all of what is gathered, not one shard."),
            Wrong(one_s, "That is one all-gather."),
        ),
        sources=(machine.source, sizes_source(MODELS[name])),
    )
