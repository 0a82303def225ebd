"""What fits: a loss in pieces, the first stage of a pipeline, and states in the memory of the host."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.inputs.models import MODELS

__all__ = ["chunks", "first", "host"]


def _layer_kb(model: Decoder) -> float:
    """What a layer keeps of one token, in kB, as lesson 11 counts it."""
    norms, attention = 8 * model.hidden, 4 * (model.q_width + model.kv_width)
    return round((norms + attention + 6 * (model.q_width + model.kv_width) + 8 * model.ffn) / 1e3, 1)


@problem("11.host", "When is the host's link no trouble?", unit="tokens")
def host(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    model = MODELS[draw.choice(("llama-3.2-1b", "mistral-7b", "llama-3-8b"))]
    passes, again = draw.choice(((6, "nothing is computed again"), (8, "all layers are computed again")))
    share, percent, link_gb = draw.choice((0.35, 0.4, 0.45)), draw.choice((15, 20, 25, 30)), draw.choice((25, 50))
    gpu = machine.name.removeprefix("8x ")
    rate = machine.matmul_flops_per_s["bfloat16"] * share
    link_s = 4 * model.parameters / (link_gb * 1e9)
    token_s = passes * model.parameters / rate
    tokens = link_s / (percent / 100) / token_s
    return Posed(
        text=f"One {gpu} trains {model.name} ({model.parameters / 1e9:.2f} billion parameters) and "
        "keeps AdamW's states in the memory of the host. In each step all gradients go to the host and then all "
        f"weights come back, in bfloat16. That link carries {link_gb} GB/s. Nothing of this hides, and the host's own "
        f"work is left out. The GPU computes at {rate / 1e12:.1f} TFLOP/s, and {again}. Leave out attention over the "
        f"sequence. How many tokens must a step have so that the link takes {percent} % of the time of computing?",
        value=tokens,
        way=(
            f"Gradients and weights: 2 × 2 bytes × {model.parameters / 1e9:.2f} × 10⁹, so the link takes "
            f"{said(link_s, 's')} in each step.",
            f"Computing may take {said(link_s, 's')}/{percent / 100:g} = {said(link_s * 100 / percent, 's')}.",
            f"A token takes {passes} × {model.parameters / 1e9:.2f} × 10⁹ operations, which is "
            f"{said(token_s * 1e6, 'µs')}.",
            f"{said(link_s * 100 / percent, 's')}/{said(token_s * 1e6, 'µs')}, in which the size of the model cancels "
            f"out, is {said(tokens, 'tokens')}.",
        ),
        slips=(
            Wrong(tokens / 2, "Gradients go, and weights come back: that is twice over the link."),
            Wrong(tokens * percent / 100, "That is where the link takes as long as computing."),
            Wrong(tokens * passes / (14 - passes), "Look again at what is computed: forward may run once or twice."),
            Wrong(tokens * passes / 2, "That is forward alone. Backward counts as computing, too."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("11.chunks", "A sequence with its loss in pieces", unit="tokens")
def chunks(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    name, gpus, pieces = draw.choice(
        (
            *(("llama-3-8b", gpus, pieces) for gpus in (8, 16) for pieces in (2, 4)),
            *(("llama-3-70b", gpus, pieces) for gpus in (32, 64) for pieces in (2, 4, 8)),
            *(("llama-3-405b", gpus, pieces) for gpus in (128, 256) for pieces in (2, 4)),
        )
    )
    model, gpu = MODELS[name], machine.name.removeprefix("8x ")
    memory_gb, layer_kb = round(machine.memory_bytes / 1e9, 1), _layer_kb(model)
    states_gb = 16 * model.parameters / gpus / 1e9
    room_gb = 0.9 * memory_gb - states_gb
    inputs_kb, logits_kb = 2 * model.hidden * model.layers / 1e3, 10 * model.vocab / 1e3
    tokens = room_gb * 1e6 / (inputs_kb + layer_kb + logits_kb / pieces)
    return Posed(
        text=f"{gpus} {gpu} GPUs train {model.name} with ZeRO-3. It has {model.parameters / 1e9:.1f} billion "
        f"parameters, at 16 bytes each, {model.layers} layers of width {model.hidden:,}, and {model.vocab:,} tokens "
        "in its vocabulary. Full recomputation keeps each layer's input in bfloat16, and the inside of one layer, "
        f"which is {layer_kb:,} kB a token. A logit takes 10 bytes, and logits are in memory at the same time as "
        f"these. The loss is computed in {pieces} equal pieces, one at a time. A GPU has {memory_gb} GB, of which a "
        "tenth stays free. Leave out the layer that is gathered. How many tokens may the one sequence of a GPU have?",
        value=tokens,
        way=(
            f"Room: 0.9 × {memory_gb} − 16 × {model.parameters / 1e9:.1f}/{gpus} = {said(room_gb, 'GB')}.",
            f"A token keeps the inputs of its layers, {model.layers} × 2 × {model.hidden:,} bytes = "
            f"{said(inputs_kb, 'kB')}, and {layer_kb:,} kB inside of one.",
            f"Its logits take 10 × {model.vocab:,} bytes = {said(logits_kb, 'kB')}, and only one token in {pieces} has "
            f"them at a time: {said(logits_kb / pieces, 'kB')}.",
            f"{said(room_gb, 'GB')}/{said(inputs_kb + layer_kb + logits_kb / pieces, 'kB')} = "
            f"{said(tokens, 'tokens')}.",
        ),
        slips=(
            Wrong(room_gb * 1e6 / (inputs_kb + layer_kb + logits_kb), "All logits at once is what the pieces avoid."),
            Wrong(
                room_gb * 1e6 / (model.layers * layer_kb), "That is without recomputation, which keeps every inside."
            ),
            Wrong(
                room_gb * 1e6 / (inputs_kb + logits_kb / pieces), "The layer that is computed again needs room, too."
            ),
            Wrong((room_gb + states_gb) / room_gb * tokens, "The states take their part of the room, even if sharded."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("11.first", "The first stage of a pipeline", unit="GB")
def first(draw: random.Random) -> Posed:
    model, stages = draw.choice(
        (*((MODELS["llama-3-70b"], pp) for pp in (2, 4, 8)), *((MODELS["llama-3-405b"], pp) for pp in (9, 14, 18)))
    )
    tensor, replicas = 8, draw.choice((4, 8, 16))
    seq, micro_batches = draw.choice((2048, 4096, 8192)), draw.choice((32, 64))
    layer_kb, layers = _layer_kb(model), model.layers // stages
    numbers_b = model.parameters / 1e9 / tensor / stages
    states_gb = numbers_b * (4 + 12 / replicas)
    one_gb = seq * layers * layer_kb / tensor / 1e6
    held_gb = states_gb + stages * one_gb
    return Posed(
        text=f"{model.name} has {model.parameters / 1e9:.1f} billion parameters in {model.layers} layers. They are cut "
        f"into {stages} stages of {layers} layers, and each stage by a tensor axis of {tensor}, with sequence "
        f"parallelism. There are {replicas} such replicas, with ZeRO-1 among them. Weights and gradients take 2 bytes "
        f"each, AdamW 12. A layer keeps {layer_kb:,} kB of one token before the tensor axis cuts it. A micro-batch is "
        f"one sequence of {seq:,} tokens, and a replica has {micro_batches} of them a step. The schedule is 1F1B. "
        "Count parameters as spread evenly, and leave out all else. How much does a GPU of the first stage need?",
        value=held_gb,
        way=(
            f"A GPU has {model.parameters / 1e9:.1f}/({tensor} × {stages}) = {numbers_b:.3g} × 10⁹ parameters, at 4 + "
            f"12/{replicas} bytes: {said(states_gb, 'GB')}.",
            f"For one micro-batch it keeps {seq:,} × {layers} × {layer_kb:,} kB/{tensor} = {said(one_gb, 'GB')}.",
            f"With 1F1B the first stage has as many in flight as there are stages, {stages}: "
            f"{said(stages * one_gb, 'GB')}.",
            f"{said(states_gb, 'GB')} + {said(stages * one_gb, 'GB')} = {said(held_gb, 'GB')}.",
        ),
        slips=(
            Wrong(states_gb + one_gb, "That is one micro-batch. The first stage has several in flight."),
            Wrong(
                states_gb + micro_batches * one_gb, "1F1B begins backward before all micro-batches have gone forward."
            ),
            Wrong(numbers_b * 16 + stages * one_gb, "ZeRO-1 shares out AdamW's states among the replicas."),
            Wrong(
                states_gb + stages * tensor * one_gb, "With sequence parallelism the tensor axis cuts activations, too."
            ),
        ),
        sources=(sizes_source(model),),
    )
