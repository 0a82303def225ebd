"""Problems on paper of lesson 08: what sequence parallelism spares, and what it makes room for."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["left", "spare"]

_FORMULA = "Korthikanti et al., 2022 (arXiv 2205.05198), sections 4 and 5"


@problem("08.spare", "What sequence parallelism saves", unit="GB")
def spare(draw: random.Random) -> Posed:
    layers, hidden = draw.choice(((48, 6144), (24, 6144), (12, 12288), (8, 12288), (6, 12288), (7, 20480), (5, 20480)))
    ranks, length, batch = draw.choice((4, 8)), 2048, draw.choice((1, 2, 3, 4))
    stream_gb = length * batch * hidden / 1e9
    plain, shared = 10 + 24 / ranks, 34 / ranks
    value = layers * stream_gb * (plain - shared)
    return Posed(
        text=f"{ranks} GPUs share {layers} layers by tensor parallelism. The layers have GPT-3's form and are "
        f"{hidden:,} wide. A micro-batch has {batch} × {length:,} tokens, in 16-bit numbers with dropout. Scores of "
        "attention are computed anew in the backward pass. By the published formula a layer keeps "
        "sbh (10 + 24/t) bytes on a GPU, and 34 sbh/t with sequence parallelism. "
        "How much does sequence parallelism save on each GPU, for one micro-batch?",
        value=value,
        way=(
            f"s b h = {length:,} × {batch} × {hidden:,} = {stream_gb:.4g} × 10⁹.",
            f"Without it a layer keeps {plain:g} bytes for each of these, with it {shared:g}.",
            f"That is {plain - shared:g} bytes less: the 10 of norms, masks and inputs of regions become 10/{ranks}.",
            f"{layers} × {stream_gb:.4g} × 10⁹ × {plain - shared:g} bytes = {said(value, 'GB')}.",
        ),
        slips=(
            Wrong(
                layers * stream_gb * 34 * (1 - 1 / ranks),
                "That compares with no split at all. Here tensor parallelism has cut the regions already.",
            ),
            Wrong(
                layers * stream_gb * shared, "That is what a GPU still keeps. The question is what it no longer keeps."
            ),
            Wrong(layers * stream_gb * 10, "Each GPU still has its part of the positions."),
            Wrong(value / layers, "That is a single layer."),
        ),
        sources=(f"The formula: {_FORMULA}.",),
        beside="Korthikanti et al. (2022, table 5) trained a model of 22 billion parameters on 8 A100. With sequence "
        "parallelism and scores computed anew a step took 1.10 s. With all activations computed anew it was 1.42 s.",
    )


@problem("08.left", "The largest micro-batch that fits", unit="tokens")
def left(draw: random.Random) -> Posed:
    name, stages, machine_name = draw.choice(
        (
            ("gpt-3-175b", 8, "8x A100"), ("gpt-3-175b", 12, "8x A100"), ("gpt-3-175b", 12, "8x H100"),
            ("gpt-3-175b", 4, "8x H200"), ("megatron-530b", 21, "8x A100"), ("megatron-530b", 35, "8x H100"),
            ("megatron-530b", 15, "8x H200"), ("megatron-530b", 35, "8x H200"),
        )
    )  # fmt: skip
    model, machine, other_gb = MODELS[name], MACHINES[machine_name], draw.choice((4, 5, 6, 8))
    memory_gb, parameters = round(machine.memory_bytes / 1e9, 1), round(model.parameters / 1e9, 1)
    state_gb = 16 * parameters / (8 * stages)
    layers = model.layers // stages
    token_mb = 34 * model.hidden / 8 * layers / 1e6
    free_gb = memory_gb - state_gb - other_gb
    value = free_gb * 1e3 / (stages * token_mb)
    no_states_gb = memory_gb - state_gb / 4 - other_gb
    return Posed(
        text=f"{name} has {parameters} billion parameters and {model.layers} layers that are {model.hidden:,} wide. It "
        f"is cut in {stages} equal stages, each shared by the 8 GPUs of a node by tensor parallelism with sequence "
        f"parallelism. The schedule is 1F1B, with many micro-batches. A layer keeps 34 bytes × tokens × width / 8 on "
        f"a GPU. A GPU has {memory_gb} GB. Weights, gradients and states take 16 bytes for each parameter, and other "
        f"things {other_gb} GB. How many tokens may a micro-batch have at most, so that it fits on the first stage?",
        value=value,
        way=(
            f"A GPU has 1/(8 × {stages}) of the model: 16 × {parameters} / {8 * stages} GB = {said(state_gb, 'GB')}.",
            f"{memory_gb} − {state_gb:.4g} − {other_gb} GB = {said(free_gb, 'GB')} are left for activations.",
            f"A stage has {layers} layers. For a token they keep {layers} × 34 × {model.hidden:,} / 8 bytes = "
            f"{said(token_mb, 'MB')} on a GPU.",
            f"The first stage has {stages} micro-batches in flight: {said(stages * token_mb, 'MB')} for each token.",
            f"{said(free_gb, 'GB')} / {said(stages * token_mb, 'MB')} = {said(value, 'tokens')}.",
        ),
        slips=(
            Wrong(value * stages, "The first stage of 1F1B has several micro-batches in flight."),
            Wrong(value / 8, "Each of the 8 GPUs keeps a part of a layer's activations."),
            Wrong(value * 34 / (10 * 8 + 24), "That is without sequence parallelism."),
            Wrong(value * no_states_gb / free_gb, "Did you count all 16 bytes? Master weights and states are in them."),
        ),
        sources=(machine.source, sizes_source(MODELS[name]), f"The formula: {_FORMULA}."),
        beside="Korthikanti et al. (2022, table 5) ran GPT-3's sizes on 64 A100, in 8 stages of 8 GPUs. A micro-batch "
        "was one sequence of 2,048 tokens. Scores were computed anew, and a step took 13.75 s.",
    )
