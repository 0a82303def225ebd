"""Problems on paper of lesson 09: whole jobs, on more GPUs, and by their published time."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["faster", "works"]


@problem("09.faster", "More replicas, the same batch", unit="times")
def faster(draw: random.Random) -> Posed:
    stages, replicas, more = draw.choice((8, 12, 16)), draw.choice((4, 8, 16)), draw.choice((4, 8))
    few = draw.choice((4, 8, 12, 16))
    many, sequences = few * more, replicas * more * few
    gpus = 8 * stages * replicas
    value = (many + stages - 1) / (few + stages - 1)
    return Posed(
        text=f"A job runs on {gpus:,} GPUs, on the mesh dp_replicate={replicas}, pp={stages}, tp=8. A step has "
        f"{sequences:,} sequences, and a micro-batch is one sequence. The schedule is 1F1B with equal stages. Now the "
        f"job gets {gpus * more:,} GPUs. The batch, pp and tp stay, and dp_replicate becomes {replicas * more}. A "
        "micro-batch takes as long as before. Leave out all messages and the optimizer. How many times as fast is a "
        "step now?",
        value=value,
        way=(
            f"Before, a pipeline had {sequences:,}/{replicas} = {many} micro-batches. Now it has "
            f"{sequences:,}/{replicas * more} = {few}.",
            f"A step takes m + p − 1 moments of a micro-batch: before {many} + {stages - 1} = {many + stages - 1}.",
            f"Now it takes {few} + {stages - 1} = {few + stages - 1}.",
            f"{many + stages - 1} / {few + stages - 1} = {said(value, 'times')}.",
        ),
        slips=(
            Wrong(more, "Pipelines fill and empty in each step, and with fewer micro-batches that counts more."),
            Wrong(value / more, "That compares with the ideal speed. Compare with the old speed."),
            Wrong(1 / value, "You have divided the other way round."),
        ),
        beside="Narayanan et al. (2021, table 2) trained GPT-3's sizes in 12 stages and tp=8, with 1,536 sequences. By "
        "their printed TFLOP/s a step took 76.8 s on 384 GPUs and 20.8 s on 1,536: 3.69 times as fast, as the formula "
        "says.",
    )


@problem("09.works", "How fast are the GPUs while they work?", unit="%")
def works(draw: random.Random) -> Posed:
    name, stages, length, machine_name = draw.choice(
        (
            ("gpt-3-175b", 8, 2048, "8x A100"), ("gpt-3-175b", 12, 2048, "8x A100"),
            ("gpt-3-175b", 16, 2048, "8x H100"), ("llama-3-70b", 4, 8192, "8x H100"),
            ("llama-3-70b", 8, 8192, "8x H100"), ("llama-3-405b", 14, 8192, "8x H100"),
            ("llama-3-405b", 18, 8192, "8x H100"),
        )
    )  # fmt: skip
    model, machine, replicas = MODELS[name], MACHINES[machine_name], draw.choice((4, 8, 16))
    micro_batches, billions = stages * draw.choice((1, 2, 3)), round(model.parameters / 1e9, 1)
    gpus, tokens = 8 * stages * replicas, micro_batches * replicas * length
    peak = machine.matmul_flops_per_s["bfloat16"]
    busy = micro_batches / (micro_batches + stages - 1)
    whole_s = 6 * billions * 1e9 * tokens / (gpus * peak)
    step_s = round(whole_s / (busy * draw.choice((0.4, 0.43, 0.46, 0.49, 0.52))), 1)
    mfu = 100 * whole_s / step_s
    value = mfu / busy
    return Posed(
        text=f"{name} has {billions} billion parameters. It is trained on {gpus:,} GPUs, on the mesh "
        f"dp_replicate={replicas}, pp={stages}, tp=8. A step has {micro_batches * replicas:,} sequences of {length:,} "
        f"tokens and takes {step_s} s. A micro-batch is one sequence, and the schedule is 1F1B with equal stages. The "
        f"peak of a GPU is {peak / 1e12:.0f} TFLOP/s. Leave out attention over the sequence. The bubble is what the "
        "formula says. Which share of its peak does a GPU reach while it is not in the bubble?",
        value=value,
        way=(
            f"A step takes 6 × {billions} × 10⁹ × {tokens:,} = {6 * billions * 1e9 * tokens / 1e18:.4g} × 10¹⁸ "
            "operations.",
            f"At its peak the job would take {said(whole_s, 's')}, so the MFU is {said(mfu, '%')}.",
            f"A pipeline has {micro_batches} micro-batches. It works for {micro_batches}/({micro_batches} + "
            f"{stages - 1}) = {said(100 * busy, '%')} of the time.",
            f"{said(mfu, '%')} / {said(100 * busy, '%')} = {said(value, '%')}.",
        ),
        slips=(
            Wrong(mfu, "That is the MFU, over the whole step. A part of it is waiting."),
            Wrong(mfu * busy, "You have taken the bubble off twice. The MFU contains it already."),
            Wrong(value / 3, "A step has six operations for each parameter and token."),
            Wrong(
                mfu / (1 - (stages - 1) / micro_batches),
                "You have divided the waiting by the work. For the idle share, divide by the whole step.",
            ),
        ),
        sources=(machine.source, sizes_source(MODELS[name])),
        beside="Llama 3 405B reached 430 TFLOP/s, 43 % of the peak, on 8,192 H100 with 16 stages and tp=8 (Llama Team, "
        "2024, table 4).",
    )
