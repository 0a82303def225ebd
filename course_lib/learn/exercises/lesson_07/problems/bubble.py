"""Problems on paper of lesson 07: how many GPUs, virtual stages and micro-batches a bubble allows."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["grow", "last", "pays"]


@problem("07.grow", "How far can this job grow?", unit="GPUs")
def grow(draw: random.Random) -> Posed:
    name, stages = draw.choice((("llama-2-13b", 8), ("llama-2-13b", 10), ("llama-3-70b", 16), ("llama-3-70b", 20)))
    tokens, sequences = draw.choice(((4096, 1024), (4096, 2048), (2048, 4096), (8192, 1024)))
    percent = draw.choice((15, 20, 25, 30))
    least = -(-(stages - 1) * (100 - percent) // percent)
    replicas = sequences // least
    value = stages * replicas
    by_work = -(-(stages - 1) * 100 // percent)
    return Posed(
        text=f"A job trains {name}. Each pipeline has {stages} equal stages on {stages} GPUs and runs 1F1B. The batch "
        f"of a step stays as it is, {sequences:,} sequences of {tokens:,} tokens ({sequences * tokens / 1e6:.1f} "
        "million tokens), and a micro-batch is one sequence. More GPUs mean more pipelines, each with a smaller part "
        f"of the batch; parts may differ by one sequence. In every pipeline the idle share shall be at most {percent} "
        "%. Messages take no time. On how many GPUs at most can the job run?",
        value=value,
        way=(
            f"(p − 1)/(m + p − 1) ≤ {percent / 100:g} means m ≥ {stages - 1} × {1 - percent / 100:g} / "
            f"{percent / 100:g} = {(stages - 1) * (100 - percent) / percent:.4g}.",
            f"So a pipeline needs at least {least} micro-batches, which are {least} sequences.",
            f"{sequences:,} / {least} = {sequences / least:.4g}, so {replicas} pipelines at most.",
            f"{replicas} × {stages} GPUs = {said(value, 'GPUs')}.",
        ),
        slips=(
            Wrong(
                stages * (sequences // by_work),
                "You have divided the waiting by the work alone. The idle share divides by the whole step.",
            ),
            Wrong(replicas, "Those are pipelines. Each of them has several GPUs."),
            Wrong(8 * replicas * stages, "Here a pipeline has one GPU for each stage, not a node."),
            Wrong(stages * sequences, "With one micro-batch for each pipeline nearly all time is waiting."),
        ),
        beside="MegaScale's authors (arXiv 2402.15627) ran Megatron-LM in 8 stages on 256 and on 768 A100. With 768 "
        "sequences a step took 40.0 s and 15.2 s: three times the GPUs were 2.63 times as fast.",
    )


@problem("07.pays", "When does interleaving pay?", unit="ms")
def pays(draw: random.Random) -> Posed:
    name, stages, virtual = draw.choice(
        (
            ("llama-3-8b", 4, 2), ("llama-3-8b", 4, 4), ("llama-3-8b", 8, 2), ("llama-3-8b", 8, 4),
            ("llama-2-13b", 4, 2), ("llama-2-13b", 4, 5), ("llama-2-13b", 10, 2), ("llama-2-13b", 10, 4),
        )
    )  # fmt: skip
    model, machine = MODELS[name], MACHINES[draw.choice(("8x A100", "8x H100"))]
    tokens, share = draw.choice((2048, 4096)), draw.choice((0.35, 0.4, 0.45))
    micro_batches = stages * draw.choice((2, 4))
    rate = machine.matmul_flops_per_s["bfloat16"] * share
    work_ms = 6 * model.parameters / stages * tokens / rate * 1e3
    saved_ms = (stages - 1) * (1 - 1 / virtual) * work_ms
    more = 2 * micro_batches * (virtual - 1)
    value = saved_ms / more
    return Posed(
        text=f"{stages} GPUs train {name} ({model.parameters / 1e9:.2f} billion parameters) in equal stages, with "
        f"1F1B and {micro_batches} micro-batches of {tokens:,} tokens. A GPU reaches {rate / 1e12:.1f} TFLOP/s. The "
        f"team thinks of interleaved 1F1B with {virtual} virtual stages on each GPU. Suppose that under both "
        "schedules a GPU in the middle waits for every message that it gets. That is an activation and a gradient for "
        "each micro-batch and virtual stage. Leave out attention over the sequence. How long may one message take, so "
        "that the step is as long either way?",
        value=value,
        way=(
            f"Forward and backward of a micro-batch take a stage 6 × {model.parameters / stages / 1e9:.3g} × 10⁹ × "
            f"{tokens:,} / ({rate / 1e12:.1f} × 10¹²) s = {said(work_ms, 'ms')}.",
            f"Waiting for the stairs was {stages - 1} of these, and becomes {stages - 1}/{virtual}. That saves "
            f"{stages - 1} × (1 − 1/{virtual}) × {said(work_ms, 'ms')} = {said(saved_ms, 'ms')}.",
            f"Messages to a GPU were 2 × {micro_batches}, and become {virtual} times as many: {more} more.",
            f"{said(saved_ms, 'ms')} / {more} = {said(value, 'ms')}.",
        ),
        slips=(
            Wrong(value * (virtual - 1) / virtual, "1F1B waits for messages, too. Count only those that come on top."),
            Wrong(value * 2, "Gradients come back as activations go there. Count both."),
            Wrong(value / 3, "That is forward's work alone. Backward takes twice as long again."),
            Wrong(value * stages, "That is the work of the whole model. A GPU has one stage."),
        ),
        sources=(machine.source, f"Sizes of {name}: its published config.json."),
        beside="Narayanan et al. (2021, arXiv 2104.04473) report that their interleaved schedule can improve "
        "throughput by 10 % or more.",
    )


@problem("07.last", "The output sits on the last stage", unit="%")
def last(draw: random.Random) -> Posed:
    name, stages = draw.choice(
        (
            ("llama-2-7b", 4), ("llama-2-7b", 8), ("llama-3-8b", 4), ("llama-3-8b", 8), ("llama-2-13b", 8),
            ("llama-3-70b", 16), ("llama-3-70b", 20), ("llama-3-70b", 8),
        )
    )  # fmt: skip
    model, micro_batches = MODELS[name], stages * draw.choice((2, 4, 8, 16))
    layers = model.layers // stages
    layer_m, output_m = round(model.layer_parameters / 1e6), round(model.embedding_parameters / 1e6)
    extra = output_m / layer_m
    step = (stages - 1) * layers + micro_batches * (layers + extra)
    work = micro_batches * (layers + extra / stages)
    value = 100 * (1 - work / step)
    return Posed(
        text=f"{name} has {model.layers} layers of {layer_m} million parameters. It is cut in {stages} stages of "
        f"{layers} layers. The last stage also has the output to the vocabulary, {output_m} million parameters. Time "
        f"goes by parameters, and the embedding takes none. A step of 1F1B has {micro_batches} micro-batches, and "
        "messages take no time. The last stage computes without a pause from its first forward to its last backward. "
        "What share of all ranks' time is idle?",
        value=value,
        way=(
            f"Take the time of one layer, forward and backward, as 1. The output takes {output_m}/{layer_m} = "
            f"{extra:.3g}, so the last stage needs {layers + extra:.4g} for a micro-batch, the others {layers}.",
            f"The last stage works {micro_batches} × {layers + extra:.4g}. Before and after, it waits for {stages - 1} "
            f"stages of {layers}.",
            f"The step takes {micro_batches} × {layers + extra:.4g} + {stages - 1} × {layers} = {step:,.4g}.",
            f"A rank works for {micro_batches} × ({layers} + {extra:.3g}/{stages}) = {work:,.4g} on average.",
            f"1 − {work:,.4g}/{step:,.4g} = {said(value, '%')}.",
        ),
        slips=(
            Wrong(
                100 * (stages - 1) / (micro_batches + stages - 1),
                "That formula is for equal stages. Here everybody waits for the slowest.",
            ),
            Wrong(
                100 * (stages - 1) / stages * extra / (layers + extra),
                "That is the waiting for the slowest stage. The pipeline fills and empties as well.",
            ),
            Wrong(
                100 * (stages - 1) * layers / step,
                "That is the last rank. The others wait for it, micro-batch after micro-batch.",
            ),
            Wrong(100 * extra / layers, "That says how much longer the last stage is, not how long all ranks wait."),
        ),
        sources=(f"Sizes of {name}: its published config.json.",),
        beside="For Llama 3 405B the first and the last stage got one layer fewer each, to balance the pipeline (Llama "
        "Team, 2024, section 3.3).",
    )
