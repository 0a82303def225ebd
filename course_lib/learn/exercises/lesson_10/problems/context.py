"""Sequences cut by positions: bytes, room, order, and from which length on the ring is hidden."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["enough", "fewer", "order", "stretch"]

_LLAMA_3 = (
    "Llama 3 405B reached 380 TFLOP/s a GPU on 16,384 H100, with 131,072 tokens and a context axis of 16. With 8,192 "
    "tokens and no such axis it reached 400 (The Llama 3 Herd of Models, 2024, table 4)."
)


@problem("10.fewer", "Ring or all-to-all: which sends less?", unit="GB")
def fewer(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("llama-2-7b", "llama-3-8b", "llama-3-70b"))]
    gpus, tokens = draw.choice((4, 8)), draw.choice((16384, 32768, 65536, 131072, 262144, 524288))
    q, kv = model.heads, model.kv_heads or model.heads
    of_head_gb = 128 * 2 * tokens * (gpus - 1) / gpus * model.layers / 1e9
    ring_gb, all_to_all_gb = 2 * kv * of_head_gb, (2 * q + 2 * kv) / gpus * of_head_gb
    saved_gb = abs(ring_gb - all_to_all_gb)
    less = "ring" if ring_gb < all_to_all_gb else "all-to-all"
    return Posed(
        text=f"{gpus} GPUs share sequences of {tokens:,} tokens by context parallelism. The model is {model.name}: "
        f"{model.layers} layers, {q} heads of queries and {kv} of keys and values, 128 numbers in a head. There is one "
        "sequence, and all is sent in bfloat16. Compare ring attention and all-to-all attention in the forward "
        "pass of all layers. How much less does a GPU send in the way that sends less?",
        value=saved_gb,
        way=(
            f"One head at all positions of all layers takes 128 × 2 bytes × {tokens:,} × {model.layers}; of that, "
            f"{gpus - 1}/{gpus} are sent: {said(of_head_gb, 'GB')}.",
            f"In the ring, all blocks of keys and values pass through a GPU: 2 × {kv} heads, {ring_gb:.4g} GB.",
            f"In the all-to-all a GPU sends q, k, v and the output of its own positions: (2 × {q} + 2 × {kv})/{gpus} "
            f"heads, {all_to_all_gb:.4g} GB.",
            f"The {less} sends less, by {said(saved_gb, 'GB')}.",
        ),
        slips=(
            Wrong(ring_gb, "That is what the ring sends. The question is the difference between both ways."),
            Wrong(
                all_to_all_gb, "That is what the all-to-all sends. The question is the difference between both ways."
            ),
            Wrong(saved_gb / model.layers, "That is one layer. Every layer has an attention."),
            Wrong(saved_gb * 2, "A number in bfloat16 takes half the bytes of one in float32."),
        ),
        sources=(sizes_source(model),),
    )


@problem("10.stretch", "How much of a sequence a GPU holds", unit="tokens")
def stretch(draw: random.Random) -> Posed:
    name, gpus, again = draw.choice(
        (
            *(("llama-3-8b", gpus, False) for gpus in (8, 16)),
            *(("llama-3-70b", gpus, again) for gpus in (32, 64) for again in (False, True)),
            *(("llama-3-405b", gpus, again) for gpus in (128, 256) for again in (False, True)),
        )
    )
    model, machine = MODELS[name], MACHINES[draw.choice(("8x H100", "8x H200"))]
    memory_gb, spare_gb = round(machine.memory_bytes / 1e9, 1), draw.choice((5, 8))
    gpu, states_gb = machine.name.removeprefix("8x "), 16 * model.parameters / gpus / 1e9
    room_gb = memory_gb - spare_gb - states_gb
    all_kept, inputs_kept = 34 * model.layers, 2 * model.layers + 34
    kept = inputs_kept if again else all_kept
    tokens = room_gb * 1e9 / (kept * model.hidden)
    rule = (
        "Full recomputation keeps only a layer's input, 2 of these 34 bytes, and the inside of one layer on top. "
        if again
        else "Nothing is computed again. "
    )
    return Posed(
        text=f"{gpus} {gpu} GPUs share one long sequence by context parallelism, and nothing else. The model is "
        f"{model.name}: {model.parameters / 1e9:.1f} billion parameters, {model.layers} layers of width "
        f"{model.hidden:,}. Its states take 16 bytes a parameter, and ZeRO-3 shares them out among all {gpus} GPUs. A "
        f"layer keeps 34 bytes for each token and channel. {rule}A GPU has {memory_gb} GB, and {spare_gb} GB of them "
        "have to stay free. Leave out logits, gathered weights, and keys and values of others. How many tokens of "
        "the sequence does one GPU hold at most?",
        value=tokens,
        way=(
            f"States: 16 × {model.parameters / 1e9:.1f} × 10⁹/{gpus} = {said(states_gb, 'GB')} on each GPU.",
            f"Room for activations: {memory_gb} − {spare_gb} − {states_gb:.1f} = {said(room_gb, 'GB')}.",
            f"A token takes ({f'2 × {model.layers} + 34' if again else f'34 × {model.layers}'}) × {model.hidden:,} "
            f"bytes = {said(kept * model.hidden / 1e6, 'MB')}.",
            f"{said(room_gb, 'GB')}/{said(kept * model.hidden / 1e6, 'MB')} = {said(tokens, 'tokens')} on a GPU.",
        ),
        slips=(
            Wrong(tokens * gpus, "That is the whole sequence. The question is about one GPU."),
            Wrong(
                room_gb * 1e9 / ((all_kept if again else inputs_kept) * model.hidden),
                "You have taken full recomputation for none, or none for full.",
            ),
            Wrong((room_gb + states_gb) * 1e9 / (kept * model.hidden), "The states need memory as well."),
            Wrong(tokens * kept / (2 * model.layers), "The layer that is computed again needs all its 34 bytes.")
            if again
            else Wrong(tokens * model.layers, "That is one layer. All layers keep their activations until backward."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("10.enough", "Which sequence hides the ring?", unit="tokens")
def enough(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    model = MODELS[draw.choice(("llama-3-8b", "llama-3-70b", "llama-3-405b"))]
    gpus, share = draw.choice((4, 8, 16)), draw.choice((0.35, 0.4, 0.45, 0.5))
    peak, link = machine.matmul_flops_per_s["bfloat16"], machine.inter.bandwidth_bytes_per_s
    per_byte = peak * share / link
    of_gpu = 2 * model.kv_heads / model.heads * per_byte
    tokens = gpus * of_gpu
    return Posed(
        text=f"A ring of {gpus} GPUs computes attention of {model.name}: {model.heads} heads of queries, "
        f"{model.kv_heads} of keys and values. The mask is causal and the order is zigzag, so each step has half of a "
        f"block's pairs. A GPU reaches {100 * share:.0f} % of its {peak / 1e12:.0f} TFLOP/s in bfloat16. Each GPU is "
        f"in another machine {machine.name}, and its port sends {link / 1e9:.0f} GB/s in one direction. Take the "
        "forward pass, numbers of 2 bytes, and no latency. From how many tokens of the whole sequence on is the ring "
        "hidden?",
        value=tokens,
        way=(
            "Let a GPU have T tokens, H heads of queries and G of keys and values, of K numbers. A step computes "
            "4 × H × K × T²/2 operations and sends 2 × G × K × T × 2 bytes.",
            f"The port sends a byte while the GPU computes {100 * share:.0f} % × {peak / 1e12:.0f} × "
            f"10¹²/({link / 1e9:.0f} × 10⁹) = {per_byte:,.0f} operations.",
            f"Both take equally long where T = 2 × G/H × {per_byte:,.0f} = 2 × {model.kv_heads}/{model.heads} × "
            f"{per_byte:,.0f} = {said(of_gpu, 'tokens')}.",
            f"{gpus} GPUs have as many each: {said(tokens, 'tokens')}.",
        ),
        slips=(
            Wrong(tokens / 2, "The causal mask leaves half of the arithmetic. The messages stay as they are."),
            Wrong(of_gpu, "That is what one GPU has of the sequence."),
            Wrong(tokens * model.heads / model.kv_heads, "Queries are not sent. Only heads of keys and values are."),
            Wrong(tokens / share, "That is at the full peak, which no run reaches."),
        ),
        sources=(machine.source, sizes_source(model)),
        beside=_LLAMA_3 if machine.name == "8x H100" else "",
    )


@problem("10.order", "What a contiguous order costs", unit="s")
def order(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    model = MODELS[draw.choice(("llama-3-8b", "llama-3-70b"))]
    gpus, tokens = draw.choice(((4, 32768), (4, 65536), (8, 65536), (8, 131072)))
    share, part = draw.choice((0.35, 0.4, 0.45)), tokens // gpus
    gpu = machine.name.removeprefix("8x ")
    rate = machine.matmul_flops_per_s["bfloat16"] * share
    block_s = 4 * model.q_width * part**2 * model.layers / rate
    contiguous_s, zigzag_s = (gpus - 0.5) * block_s, gpus / 2 * block_s
    lost_s = contiguous_s - zigzag_s
    return Posed(
        text=f"{gpus} {gpu} GPUs compute causal ring attention of one sequence of {tokens:,} tokens. Each "
        f"has {part:,} positions, one after the other: the order is contiguous. {model.name} has {model.layers} layers "
        f"and {model.heads} heads of queries, of 128 numbers. A pair of query and key takes 4 operations for each "
        f"number and head. A GPU reaches {rate / 1e12:.1f} TFLOP/s and computes nothing of what the mask hides. All "
        "GPUs go from step to step together. Messages cost no time. How much shorter is the forward pass of all "
        "layers if the positions are dealt out in zigzag order?",
        value=lost_s,
        way=(
            f"A whole block has {part:,}² pairs: 4 × {model.heads} × 128 × {part:,}² × {model.layers} operations in "
            f"all layers, so it takes {said(block_s, 's')}.",
            f"Contiguous: in the first step all have half a block, in each of the other {gpus - 1} some GPU has a "
            f"whole one: {gpus - 0.5} blocks, {said(contiguous_s, 's')}.",
            f"Zigzag: all have half a block in each of {gpus} steps: {gpus / 2:g} blocks, {said(zigzag_s, 's')}.",
            f"{said(contiguous_s, 's')} − {said(zigzag_s, 's')} = {said(lost_s, 's')}.",
        ),
        slips=(
            Wrong(contiguous_s, "That is the whole pass in contiguous order. The question is what zigzag saves."),
            Wrong(zigzag_s, "That is the whole pass in zigzag order. The question is what that order saves."),
            Wrong(lost_s / model.layers, "That is one layer. Each layer has a ring of its own."),
        ),
        sources=(machine.source, sizes_source(model)),
    )
