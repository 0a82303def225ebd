"""Problems on paper of lesson 07: what stages hand on, and gradients that go out too often."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["every", "message"]

_SHARES = (0.35, 0.4, 0.45, 0.5)


@problem("07.message", "How long is a stage's message?", unit="%")
def message(draw: random.Random) -> Posed:
    name, stages = draw.choice(
        (("llama-2-13b", 4), ("llama-2-13b", 8), ("llama-3-70b", 20), ("llama-3-70b", 40), ("gpt-3-175b", 48))
    )
    model, machine = MODELS[name], MACHINES[draw.choice(("8x A100", "8x H100"))]
    tokens, share = draw.choice((2048, 4096)), draw.choice(_SHARES)
    peak, port = machine.matmul_flops_per_s["bfloat16"], machine.inter.bandwidth_bytes_per_s
    message_ms = 2 * tokens * model.hidden / port * 1e3
    forward_ms = 2 * model.parameters / stages * tokens / (peak * share) * 1e3
    value = 100 * message_ms / forward_ms
    return Posed(
        text=f"{name} has {model.parameters / 1e9:.2f} billion parameters and is {model.hidden:,} wide. It is cut in "
        f"{stages} equal stages, one on each GPU. A GPU has a peak of {peak / 1e12:.0f} TFLOP/s and reaches "
        f"{100 * share:.0f} % of it. Every stage stands on another node, and each GPU has a port of "
        f"{8 * port / 1e9:.0f} Gbit/s in each direction. A micro-batch has {tokens:,} tokens, and activations are in "
        "bfloat16. Leave out latency, and attention over the sequence. How long does a message forward take, as a "
        "share of a stage's forward?",
        value=value,
        way=(
            f"The message: {tokens:,} × {model.hidden:,} × 2 bytes = {said(2 * tokens * model.hidden / 1e6, 'MB')}.",
            f"{8 * port / 1e9:.0f} Gbit/s are {port / 1e9:.0f} GB/s, so it takes {said(message_ms, 'ms')}.",
            f"A stage has {said(model.parameters / stages / 1e9, 'billion')} parameters. Forward takes 2 operations "
            f"for each of them and each token: {said(2 * model.parameters / stages * tokens / 1e12, 'TFLOP')}.",
            f"At {said(peak * share / 1e12, 'TFLOP/s')} that is {said(forward_ms, 'ms')}.",
            f"{said(message_ms, 'ms')} / {said(forward_ms, 'ms')} = {said(value, '%')}.",
        ),
        slips=(
            Wrong(value / 2, "A number in bfloat16 takes two bytes."),
            Wrong(value / 8, "The speed of a port is given in bits. You have read it as bytes."),
            Wrong(value / stages, "That is beside the forward of the whole model. A GPU has one stage of it."),
            Wrong(value / share, "That is at the full peak, which no run reaches."),
            Wrong(value / 3, "Six operations are those of forward and backward together."),
        ),
        sources=(machine.source, sizes_source(MODELS[name])),
    )


@problem("07.every", "Averaging at every backward", unit="tokens")
def every(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100", "8x MI300X"))]
    replicas, share = draw.choice((2, 4, 8, 16)), draw.choice(_SHARES)
    word, num_bytes = draw.choice((("bfloat16", 2), ("float32", 4)))
    rate, port = machine.matmul_flops_per_s["bfloat16"] * share, machine.inter.bandwidth_bytes_per_s
    sent_bytes = 2 * (replicas - 1) / replicas * num_bytes
    value = sent_bytes / port * rate / 4
    return Posed(
        text=f"{replicas} equal pipelines train one model. The {replicas} ranks that hold the same stage stand on "
        f"different nodes, and each has a port of {port / 1e9:.0f} GB/s in each direction. A team averages the whole "
        f"stage's gradients after every micro-batch, by a ring, in {word}. A GPU reaches {rate / 1e12:.1f} TFLOP/s. "
        "This all-reduce travels beside the next backward, which is as long as any other. Leave out latency, and "
        "attention over the sequence. How many tokens must a micro-batch have at least, so that the all-reduce takes "
        "no longer than one backward?",
        value=value,
        way=(
            f"For each parameter of the stage a rank sends 2 × {replicas - 1}/{replicas} × {num_bytes} bytes = "
            f"{sent_bytes:.3g} bytes.",
            f"At {port / 1e9:.0f} GB/s that takes {sent_bytes / port * 1e12:.4g} × 10⁻¹² s.",
            "Backward takes 4 operations for each parameter and token: "
            f"4 / ({rate / 1e12:.1f} × 10¹²) s = {4 / rate * 1e15:.4g} × 10⁻¹⁵ s. The stage's size drops out.",
            f"{sent_bytes / port * 1e12:.4g} × 10⁻¹² s / ({4 / rate * 1e15:.4g} × 10⁻¹⁵ s) = {said(value, 'tokens')}.",
        ),
        slips=(
            Wrong(value / 2, "You have counted one of the two halves of an all-reduce."),
            Wrong(value * 2, "Two operations for each parameter and token are forward's. Backward has more."),
            Wrong(value * 4 / 6, "Six operations are forward and backward together. It has to hide behind backward."),
        ),
        sources=(machine.source,),
    )
