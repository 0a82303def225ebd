"""Experts that are shared out: what a GPU holds, what the journeys take, and how long all wait for the busiest."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["busy", "held", "journeys"]

_MIXTRAL = "Sizes after mixtral-8x7b: its published config.json. The number of experts is varied here."


@problem("10.held", "What a GPU holds of all experts", unit="GB")
def held(draw: random.Random) -> Posed:
    model, (experts, axis) = MODELS["mixtral-8x7b"], draw.choice(((8, 4), (16, 4), (8, 8), (16, 8), (24, 8), (32, 8)))
    gpus = draw.choice((32, 48, 64, 96, 128))
    expert_b = experts * model.layers * model.mlp_weights / 1e9
    shared_b = 1.6
    weights_gb, optimizer_gb = 4 * (expert_b / axis + shared_b), 12 * (expert_b + shared_b) / gpus
    held_gb = weights_gb + optimizer_gb
    return Posed(
        text=f"A model has {model.layers} layers with {experts} experts each. An expert has three matrices of "
        f"{model.hidden:,} × {model.ffn:,} numbers. All the rest of the model, such as attention, has {shared_b} "
        f"billion parameters. {gpus} GPUs train it. Every {axis} of them share out one set of experts, and each has "
        "the rest of the model whole. A weight and its gradient take 2 bytes each. The 12 bytes of AdamW are shared "
        "out as in ZeRO-1: among all GPUs that hold the same weight. How much do these states take on a GPU?",
        value=held_gb,
        way=(
            f"All experts: {experts} × {model.layers} × 3 × {model.hidden:,} × {model.ffn:,} = {expert_b:.1f} × 10⁹ "
            "numbers.",
            f"Weights and gradients: 4 bytes × ({expert_b:.1f}/{axis} + {shared_b}) × 10⁹ = {said(weights_gb, 'GB')}.",
            f"An expert has {gpus // axis} copies, so a GPU has AdamW's 12 bytes for {expert_b:.1f}/{axis}/"
            f"{gpus // axis} = {expert_b / gpus:.3g} × 10⁹ numbers of experts, and for {shared_b}/{gpus} × 10⁹ others: "
            f"{said(optimizer_gb, 'GB')}.",
            f"{said(weights_gb, 'GB')} + {said(optimizer_gb, 'GB')} = {said(held_gb, 'GB')}.",
        ),
        slips=(
            Wrong(16 * (expert_b / axis + shared_b), "AdamW's states are shared out once more, among the copies."),
            Wrong(weights_gb, "Those are weights and gradients. AdamW's states come on top."),
            Wrong(4 * (expert_b + shared_b) + optimizer_gb, "A GPU holds its share of the experts, not all of them."),
            Wrong(
                16 * (expert_b + shared_b) / gpus, "Here all is shared out among all GPUs, which ZeRO-1 does not do."
            ),
        ),
        sources=(_MIXTRAL,),
    )


@problem("10.journeys", "How long the messages of tokens take", unit="%")
def journeys(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100", "8x B200"))]
    inside, hidden = draw.choice((True, False)), draw.choice((2048, 4096, 8192, 14336))
    gpus = 8 if inside else draw.choice((8, 16))
    top_k, share, tokens, width = draw.choice((2, 4, 8)), draw.choice((0.35, 0.4)), 8192, 4096
    peak = machine.matmul_flops_per_s["bfloat16"]
    link = (machine.intra if inside else machine.inter).bandwidth_bytes_per_s
    sent_gb = 2 * tokens * top_k * width * 2 * (gpus - 1) / gpus / 1e9
    travel_ms, compute_ms = sent_gb * 1e12 / link, tokens * top_k * 6 * width * hidden / (peak * share) * 1e3
    part = 100 * travel_ms / (travel_ms + compute_ms)
    where = f"in one machine {machine.name}" if inside else f"in {gpus} machines {machine.name}, one in each,"
    return Posed(
        text=f"{gpus} GPUs {where} share out the experts of a layer. Each GPU has {tokens:,} tokens of width "
        f"{width:,}, and each token chooses {top_k} experts, spread evenly. An expert has three matrices of {width:,} "
        f"× {hidden:,} numbers. A GPU reaches {100 * share:.0f} % of {peak / 1e12:,.0f} TFLOP/s and sends "
        f"{link / 1e9:.0f} GB/s in one direction. Rows are sent in bfloat16, there and back, and nothing hides them. "
        "Each choice is a row of its own. Rows that stay on their GPU cost nothing, and latency is left out. Forward "
        "takes the time of messages and of experts, one after the other. Which share of it do the messages take?",
        value=part,
        way=(
            f"{tokens:,} × {top_k} rows of {width:,} × 2 bytes, of which {gpus - 1}/{gpus} leave, there and back: "
            f"{said(sent_gb, 'GB')}.",
            f"At {link / 1e9:.0f} GB/s that takes {said(travel_ms, 'ms')}.",
            f"A row takes 2 × 3 × {width:,} × {hidden:,} operations, so all rows take {said(compute_ms, 'ms')} "
            f"at {peak * share / 1e12:,.0f} TFLOP/s.",
            "Both grow alike with tokens, width and choices: "
            f"{travel_ms:.3g}/({travel_ms:.3g} + {compute_ms:.3g}) = {said(part, '%')}.",
        ),
        slips=(
            Wrong(100 * travel_ms / (travel_ms + 2 * compute_ms), "A row is sent there, and its output is sent back."),
            Wrong(100 * travel_ms / (travel_ms + compute_ms / top_k), "A token computes with each of its experts."),
            Wrong(
                100 * travel_ms / (travel_ms + compute_ms * share), "That is at the full peak, which no run reaches."
            ),
            Wrong(
                100 * travel_ms / compute_ms,
                "That is messages divided by experts. The question is their share of both.",
            ),
        ),
        sources=(machine.source,),
        beside=""
        if inside
        else "DeepSeek-V3 has experts of 2,048 hidden numbers across nodes of H800. Its report of 2024 (section 3.2.1) "
        "speaks of about as much time for communication as for computing, before it hides one behind the other.",
    )


@problem("10.busy", "How long all wait for the busiest", unit="ms")
def busy(draw: random.Random) -> Posed:
    machine, model = MACHINES[draw.choice(("8x A100", "8x H100"))], MODELS["mixtral-8x7b"]
    experts, percent = draw.choice(((16, 15), (16, 20), (32, 10), (32, 12), (64, 6), (64, 8)))
    tokens, top_k, share, gpus = draw.choice((4096, 8192, 16384)), draw.choice((1, 2)), draw.choice((0.35, 0.4)), 8
    own, rate = experts // gpus, machine.matmul_flops_per_s["bfloat16"] * share
    rows, even = gpus * tokens * top_k, tokens * top_k
    busiest = rows * (percent / 100 + (own - 1) * (1 - percent / 100) / (experts - 1))
    row_ms = 6 * model.hidden * model.ffn / rate * 1e3
    lost_ms = (busiest - even) * row_ms
    return Posed(
        text=f"The {gpus} GPUs of a machine {machine.name} share out {experts} experts of a layer, {own} on each. "
        f"Each GPU has {tokens:,} tokens, and a token makes {top_k} {'choice' if top_k == 1 else 'choices'}. One "
        f"expert gets {percent} % of all choices, and the others share the rest evenly. An expert has three matrices "
        f"of {model.hidden:,} × {model.ffn:,} numbers, and a GPU reaches {rate / 1e12:.1f} TFLOP/s. There is no "
        "capacity, and links cost next to nothing. How much longer does the forward pass of this layer's experts "
        "take than if all experts were equally busy?",
        value=lost_ms,
        way=(
            f"There are {gpus} × {tokens:,} × {top_k} = {rows:,} rows. Spread evenly, a GPU would have {even:,}.",
            f"The GPU of the busy expert has {percent} % of all rows, and {own - 1}/{experts - 1} of the other "
            f"{100 - percent} %: {busiest:,.0f} rows.",
            f"A row takes 2 × 3 × {model.hidden:,} × {model.ffn:,} operations, which is {row_ms * 1e3:.3g} µs.",
            f"All wait for this GPU: ({busiest:,.0f} − {even:,}) × {row_ms * 1e3:.3g} µs = {said(lost_ms, 'ms')}.",
        ),
        slips=(
            Wrong(busiest * row_ms, "That is the whole time. The question is what comes on top of even experts."),
            Wrong((rows * percent / 100 - even) * row_ms, "The GPU of the busy expert has others to compute as well.")
            if rows * percent / 100 > 1.05 * even
            else Wrong(rows * percent / 100 * row_ms, "That is the busy expert alone, and not what comes on top."),
            Wrong(
                even * (percent / 100 * experts - 1) * row_ms,
                "The busy expert has so many times its even share. Its GPU has others beside it, which are less busy.",
            ),
            Wrong(lost_ms / 3, "An expert has three matrices here, and each of them multiplies."),
        ),
        sources=(machine.source, _MIXTRAL),
    )
