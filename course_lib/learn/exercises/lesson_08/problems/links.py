"""Problems on paper of lesson 08: how fast the link, how wide the layer, and how many GPUs."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["across", "speed", "width"]

_LEFT_OUT = "Leave out latency, and attention over the sequence. "


@problem("08.speed", "How fast must the link be?", unit="GB/s")
def speed(draw: random.Random) -> Posed:
    name = draw.choice(("llama-2-7b", "llama-3-8b", "llama-2-13b", "llama-3-70b", "llama-3-405b", "gpt-3-175b"))
    model, machine = MODELS[name], MACHINES[draw.choice(("8x A100", "8x H100"))]
    ranks, percent, share = draw.choice((4, 8)), draw.choice((15, 20, 25, 30)), draw.choice((0.4, 0.45, 0.5))
    layer_m = round(model.layer_parameters / 1e6)
    rate = machine.matmul_flops_per_s["bfloat16"] * share
    token_ns = 6 * layer_m * 1e6 / ranks / rate * 1e9
    sent_kb = 8 * (ranks - 1) / ranks * 2 * model.hidden / 1e3
    value = sent_kb / (percent / 100 * token_ns) * 1e3
    return Posed(
        text=f"{ranks} GPUs share a layer of {name} by tensor parallelism. It has {layer_m:,} million parameters and "
        f"is {model.hidden:,} wide. A GPU reaches {rate / 1e12:.1f} TFLOP/s, and activations are in bfloat16. Each of "
        f"a layer's sums, forward and backward, is an all-reduce by a ring, and nothing hides. {_LEFT_OUT}Forward and "
        f"backward together, messages shall take at most {percent} % of the time of the computing. How fast must a "
        "GPU's link be, in one direction?",
        value=value,
        way=(
            f"Computing takes, for each token, 6 × {layer_m:,} × 10⁶ / {ranks} / ({rate / 1e12:.1f} × 10¹²) s = "
            f"{said(token_ns, 'ns')}.",
            f"A gate sends 2 × {ranks - 1}/{ranks} × {model.hidden:,} × 2 bytes for each token, and a layer has four: "
            f"{said(sent_kb, 'kB')}. The number of tokens drops out.",
            f"{percent} % of {said(token_ns, 'ns')} are {said(percent / 100 * token_ns, 'ns')}.",
            f"{said(sent_kb, 'kB')} / {said(percent / 100 * token_ns, 'ns')} = {said(value, 'GB/s')}.",
        ),
        slips=(
            Wrong(value / 2, "Count gates and halves again: a layer has two regions, forward and backward."),
            Wrong(value / ranks, "Each GPU computes a part of the layer only, so the messages have less time."),
            Wrong(value * 3, "Two operations for each parameter and token are those of forward alone."),
            Wrong(value * 8, "That is in Gbit/s."),
        ),
        sources=(machine.source, sizes_source(MODELS[name])),
        beside=f"By data sheets NVLink gives a GPU here {machine.intra.bandwidth_bytes_per_s / 1e9:.0f} GB/s in "
        f"one direction. Its port to other nodes has {machine.inter.bandwidth_bytes_per_s / 1e9:.0f} GB/s.",
    )


@problem("08.width", "From which width on does the sum hide behind computing?", unit="channels")
def width(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100", "8x B200", "8x MI300X"))]
    ranks, share = draw.choice((4, 8)), draw.choice((0.35, 0.4, 0.45, 0.5))
    rate, link = machine.matmul_flops_per_s["bfloat16"] * share, machine.intra.bandwidth_bytes_per_s
    value = (ranks - 1) * rate / link
    return Posed(
        text="A gated MLP has two matrices behind its entrance, up and gate. Both go from the model's width to the "
        f"inner width f. {ranks} GPUs cut them by columns. Backward, a GPU makes dX of both and begins one all-reduce "
        "of their sum, in bfloat16 by a ring. At the same time the GPU makes dA of both matrices. It reaches "
        f"{rate / 1e12:.1f} TFLOP/s, and its link has {link / 1e9:.0f} GB/s in each direction. Leave out latency. How "
        "large must f be at least, so that the all-reduce hides behind dA?",
        value=value,
        way=(
            f"For each token and channel of the model, dA of two matrices takes 2 × 2 × f/{ranks} operations.",
            f"For each of them the all-reduce sends 2 × {ranks - 1}/{ranks} × 2 bytes. Tokens and width drop out.",
            f"So 4 f/{ranks} / ({rate / 1e12:.1f} × 10¹²) = 4 × {ranks - 1}/{ranks} / ({link / 1e9:.0f} × 10⁹).",
            f"f = {ranks - 1} × {rate / 1e12:.1f} × 10¹² / ({link / 1e9:.0f} × 10⁹) = {said(value, 'channels')}.",
        ),
        slips=(
            Wrong(value * 2, "That is one matrix. Two stand behind this entrance."),
            Wrong(value / 2, "An all-reduce has two halves, and a number in bfloat16 two bytes."),
            Wrong(value / ranks, "A GPU has a part of the columns, so its product is shorter."),
            Wrong(value * ranks / (ranks - 1), "In a ring a GPU does not send all of the buffer in each half."),
        ),
        sources=(machine.source,),
        beside="Published inner widths: 14,336 in Llama 3 8B, 28,672 in 70B and 53,248 in 405B (their config.json).",
    )


@problem("08.across", "From 8 GPUs to 16, across two nodes", unit="times")
def across(draw: random.Random) -> Posed:
    name = draw.choice(("llama-2-7b", "llama-3-70b", "llama-3-405b", "gpt-3-175b", "megatron-530b"))
    model, machine = MODELS[name], MACHINES[draw.choice(("8x A100", "8x H100"))]
    share = draw.choice((0.35, 0.4, 0.45))
    layer_m = round(model.layer_parameters / 1e6)
    rate = machine.matmul_flops_per_s["bfloat16"] * share
    inside, outside = machine.intra.bandwidth_bytes_per_s, machine.inter.bandwidth_bytes_per_s
    compute = [6 * layer_m * 1e6 / ranks / rate * 1e6 for ranks in (8, 16)]
    sent = [4 * 2 * (ranks - 1) / ranks * 2 * model.hidden for ranks in (8, 16)]
    waits = [sent[0] / inside * 1e6, sent[1] / outside * 1e6]
    first, second = compute[0] + waits[0], compute[1] + waits[1]
    value = second / first
    return Posed(
        text=f"A layer of {name} has {layer_m:,} million parameters and is {model.hidden:,} wide. It is cut among the "
        f"8 GPUs of a node, with NVLink of {inside / 1e9:.0f} GB/s in each direction. A team cuts it among 16 GPUs on "
        f"two nodes. Then its rings go at the pace of the ports between nodes, {outside / 1e9:.0f} GB/s. A GPU "
        f"reaches {rate / 1e12:.1f} TFLOP/s, activations are in bfloat16, and none of a layer's all-reduces hides. "
        f"{_LEFT_OUT}How many times as long do a layer's forward and backward take on 16 GPUs as on 8, on the same "
        "tokens?",
        value=value,
        way=(
            f"Computing, for each token: 6 × {layer_m:,} × 10⁶ operations on 8 GPUs take {said(compute[0], 'µs')}, on "
            f"16 GPUs {said(compute[1], 'µs')}.",
            f"Four all-reduces on 8: 4 × 2 × 7/8 × {model.hidden:,} × 2 bytes at {inside / 1e9:.0f} GB/s take "
            f"{said(waits[0], 'µs')}.",
            f"On 16: 4 × 2 × 15/16 × {model.hidden:,} × 2 bytes at {outside / 1e9:.0f} GB/s take "
            f"{said(waits[1], 'µs')}.",
            f"({compute[1]:.4g} + {waits[1]:.4g}) / ({compute[0]:.4g} + {waits[0]:.4g}) = {said(value, 'times')}.",
        ),
        slips=(
            Wrong((compute[1] + sent[1] / inside * 1e6) / first, "The 16 GPUs have no NVLink between the nodes."),
            Wrong(waits[1] / waits[0], "Those are the messages alone. The GPUs compute as well."),
            Wrong((compute[0] + waits[1]) / first, "Each of 16 GPUs computes less than each of 8."),
            Wrong(1 / value, "You have divided the other way round."),
        ),
        sources=(machine.source, sizes_source(MODELS[name])),
        beside="In the runs behind Hugging Face's Ultra-Scale Playbook 128 H100 trained 8.86 billion parameters in "
        "micro-batches of 8. With tp=8 a GPU did 6,028 tokens/s, with tp=16 (and ZeRO-1) 3,142.",
    )
