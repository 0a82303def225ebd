"""What it takes and costs: days of a training, two offers, more GPUs than pay, and a layout's tokens a second."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["days", "dear", "offer", "whole"]

_MPT = {  # tokens a second and GPU on H100 and on A100, with the number of GPUs
    "MPT-13b on 8 GPUs": (4793, 2263),
    "MPT-30b on 8 GPUs": (2003, 916),
    "MPT-70b on 32 GPUs": (883, 374),
    "MPT-70b on 64 GPUs": (1039, 411),
}


@problem("11.days", "Days, from a share with recomputation", unit="d")
def days(draw: random.Random) -> Posed:
    name, gpus, trillions = draw.choice(
        (
            ("llama-3-8b", 256, 1), ("llama-3-8b", 512, 2), ("llama-3-70b", 1024, 2), ("llama-3-70b", 2048, 5),
            ("llama-3-405b", 8192, 5), ("llama-3-405b", 16384, 15),
        )
    )  # fmt: skip
    machine, percent = MACHINES["8x H100"], draw.choice((40, 44, 48, 52, 56))
    model, peak = MODELS[name], machine.matmul_flops_per_s["bfloat16"]
    all_tokens, rate = trillions * 1e12, gpus * peak * percent / 100
    token_flops, took_d = 8 * model.parameters, 8 * model.parameters * all_tokens / rate / 86400
    return Posed(
        text=f"A run trains {model.name} ({model.parameters / 1e9:.2f} billion parameters) on {gpus:,} H100 "
        f"GPUs, each with a peak of {peak / 1e12:.0f} TFLOP/s in bfloat16. It computes all of forward again "
        f"in backward, and its log says an HFU of {percent} %. Leave out attention over the sequence. How long does it "
        f"take for {trillions} trillion tokens (× 10¹²), without a stop?",
        value=took_d,
        way=(
            "HFU counts all that is executed: forward 2, forward again 2, backward 4 operations for each parameter and "
            "token, so 8.",
            f"8 × {model.parameters / 1e9:.2f} × 10⁹ × {trillions} × 10¹² = {token_flops * all_tokens / 1e24:.3g} × "
            "10²⁴ FLOP.",
            f"All GPUs execute {gpus:,} × {percent} % × {peak / 1e12:.0f} TFLOP/s = {rate / 1e15:,.4g} PFLOP/s.",
            f"That takes {token_flops * all_tokens / rate / 1e6:.4g} million seconds = {said(took_d, 'd')}.",
        ),
        slips=(
            Wrong(took_d * 6 / 8, "Six operations go with MFU. HFU counts the second forward as work, too."),
            Wrong(took_d * 8 / 6, "The second forward has been counted twice, in the operations and in the share."),
            Wrong(took_d / 4, "That is forward alone, once."),
            Wrong(took_d * percent / 100, "That is at the full peak, which no run reaches."),
        ),
        sources=(machine.source, sizes_source(model)),
        beside="The model card of Llama 3.1 405B reports 30.84 million GPU hours, for more than 15 trillion tokens. "
        "On 16,384 GPUs that is 78 days."
        if name == "llama-3-405b"
        else "",
    )


@problem("11.offer", "What may the older GPU cost?", unit="dollars")
def offer(draw: random.Random) -> Posed:
    name = draw.choice(tuple(_MPT))
    new, old = _MPT[name]
    price, extra = draw.randrange(200, 400, 25) / 100, draw.choice((5, 10, 15))
    limit = price * old / new / (1 + extra / 100)
    hours = 1e9 / new / 3600
    return Posed(
        text=f"{name}: llm-foundry's benchmark page has about {new:,} tokens a second for each H100, and {old:,} for "
        f"each A100. An H100 hour costs {price:.2f} dollars. The cluster of A100 is less reliable: suppose that it "
        f"has to compute {extra} % more tokens for the same training, after failures. What may an A100 hour cost at "
        "most, so that the whole training costs no more there?",
        value=limit,
        way=(
            f"10⁹ tokens take 10⁹/{new:,} s = {hours:.4g} hours of an H100, and cost {hours * price:.4g} dollars.",
            f"The A100 has to compute {1 + extra / 100:g} × 10⁹ tokens: {hours * new / old * (1 + extra / 100):.4g} "
            "hours.",
            "How many GPUs there are does not matter, as long as each is as fast.",
            f"{hours * price:.4g}/{hours * new / old * (1 + extra / 100):.4g} = {limit:.3g} dollars an hour.",
        ),
        slips=(
            Wrong(price, "An hour of an A100 makes fewer tokens, so it is worth less."),
            Wrong(
                price * new / old / (1 + extra / 100),
                "You exchanged the two rates. The slower GPU is worth less.",
            ),
            Wrong(
                price * 312 / 989 / (1 + extra / 100),
                "Those are the peaks of the data sheets, and not what was measured.",
            ),
        ),
        sources=("llm-foundry's benchmark page (MosaicML), tokens a second from its MFU.",),
        beside="The peaks of both GPUs in bfloat16 are 989 and 312 TFLOP/s, 3.2 times. What was measured in these runs "
        "is 2.1 to 2.5 times.",
    )


@problem("11.dear", "More GPUs than are worth their price", unit="times")
def dear(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    model = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b"))]
    step_tokens, gpus = draw.choice(
        ((2**18, 128), (2**18, 256), (2**19, 256), (2**19, 512), (2**20, 512), (2**20, 1024))
    )
    share, buckets = draw.choice((0.35, 0.4)), draw.choice((4, 10))
    gpu = machine.name.removeprefix("8x ")
    rate, port = machine.matmul_flops_per_s["bfloat16"] * share, machine.inter.bandwidth_bytes_per_s
    compute_ms = 6 * model.parameters * step_tokens / gpus / rate * 1e3
    backward_ms, sums_ms = compute_ms * 2 / 3, 2 * (gpus - 1) / gpus * 2 * model.parameters / port * 1e3
    late_ms = max(sums_ms / buckets, sums_ms - (1 - 1 / buckets) * backward_ms)
    price = (compute_ms + late_ms) / compute_ms
    return Posed(
        text=f"{model.name} has {model.parameters / 1e9:.2f} billion parameters, and a step has {step_tokens:,} "
        f"tokens. {gpus:,} {gpu} GPUs share each step by data parallelism. A GPU computes at {rate / 1e12:.1f} "
        "TFLOP/s, 6 operations a parameter and token, of which backward are 4. A ring averages gradients in bfloat16 "
        f"in {buckets} equal buckets, one after the other. Backward fills them at an even pace. Each GPU sends "
        f"{port / 1e9:.0f} GB/s in one direction. Leave out latency and the optimizer. How many times as much does a "
        "token cost as on one GPU of the same speed?",
        value=price,
        way=(
            f"A GPU has {step_tokens // gpus:,} tokens and computes for {said(compute_ms, 'ms')}, of which backward "
            f"takes {said(backward_ms, 'ms')}.",
            f"The ring takes 2 × {gpus - 1}/{gpus} × 2 × {model.parameters / 1e9:.2f} × 10⁹ bytes/{port / 1e9:.0f} "
            f"GB/s = {said(sums_ms, 'ms')}.",
            f"The first bucket is full after {said(backward_ms / buckets, 'ms')} of backward. So of the ring "
            f"{sums_ms:.3g} − {1 - 1 / buckets:g} × {backward_ms:.3g} = {said(late_ms, 'ms')} come after backward.",
            f"The step takes {compute_ms:.3g} + {late_ms:.3g} = {said(compute_ms + late_ms, 'ms')}, and without "
            f"waiting it would be {said(compute_ms, 'ms')}: {said(price, 'times')} as expensive.",
        ),
        slips=(
            Wrong((compute_ms + sums_ms) / compute_ms, "A part of the ring hides behind backward."),
            Wrong((compute_ms + late_ms) / compute_ms / gpus, "The step is shorter, but all GPUs are paid for it."),
            Wrong(gpus * compute_ms / (compute_ms + late_ms), "That is the speed-up, and not what a token costs."),
            Wrong((compute_ms + max(sums_ms / 2 - (1 - 1 / buckets) * backward_ms, sums_ms / 2 / buckets)) / compute_ms,
                 "You have counted one of the two halves of an all-reduce."),
        ),
        sources=(machine.source, sizes_source(model)),
    )  # fmt: skip


@problem("11.whole", "A layout by hand", unit="tokens/s")
def whole(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    model, stages = draw.choice(
        (*((MODELS["llama-3-70b"], pp) for pp in (4, 8, 10)), *((MODELS["llama-3-405b"], pp) for pp in (14, 18)))
    )
    tensor, seq, micro_batches = 8, 8192, draw.choice((8, 16, 24, 32))
    rate, layers = machine.matmul_flops_per_s["bfloat16"] * draw.choice((0.45, 0.5)), model.layers // stages
    inside, port = machine.intra.bandwidth_bytes_per_s, machine.inter.bandwidth_bytes_per_s
    compute_ms = 6 * model.parameters * seq / (tensor * stages) / rate * 1e3
    given_mb = seq * model.hidden * 2 / 1e6
    sums_ms = layers * 4 * 2 * (tensor - 1) / tensor * given_mb * 1e9 / inside
    hops_ms = 2 * given_mb * 1e9 / port
    slot_ms = compute_ms + sums_ms + hops_ms
    slots = micro_batches + stages - 1
    per_gpu = micro_batches * seq / (slots * slot_ms / 1e3) / (tensor * stages)
    return Posed(
        text=f"{model.name} has {model.parameters / 1e9:.1f} billion parameters and {model.layers} layers of width "
        f"{model.hidden:,}. A replica stands on {stages} machines {machine.name}: {stages} stages, each with a tensor "
        f"axis of 8. A step has {micro_batches} micro-batches of one sequence of {seq:,} tokens. A GPU computes at "
        f"{rate / 1e12:.1f} TFLOP/s, 6 operations a parameter and token. In each pass every layer has two ring "
        f"all-reduces of its activations in bfloat16, at {inside / 1e9:.0f} GB/s. Each GPU of a stage sends all "
        f"activations on, once in each pass, at {port / 1e9:.0f} GB/s. Neither of these hides. Gradients do, and "
        "latency is left out. How many tokens a second does one GPU process?",
        value=per_gpu,
        way=(
            f"Computing: 6 × {model.parameters / 1e9:.1f} × 10⁹ × {seq:,}/(8 × {stages})/{rate / 1e12:.1f} TFLOP/s = "
            f"{said(compute_ms, 'ms')} for a micro-batch.",
            f"Sums: activations are {said(given_mb, 'MB')}, so {layers} layers × 4 × 2 × 7/8 × {given_mb:.3g} MB/"
            f"{inside / 1e9:.0f} GB/s = {said(sums_ms, 'ms')}.",
            f"One message to the next stage and one back: {said(hops_ms, 'ms')}. A slot takes {said(slot_ms, 'ms')}.",
            f"With the bubble there are {micro_batches} + {stages} − 1 = {slots} slots: "
            f"{said(slots * slot_ms / 1e3, 's')} a step.",
            f"{micro_batches} × {seq:,} tokens/{said(slots * slot_ms / 1e3, 's')}/{tensor * stages} GPUs = "
            f"{said(per_gpu, 'tokens/s')}.",
        ),
        slips=(
            Wrong(per_gpu * slots / micro_batches, "The bubble is missing: a pipeline has to fill and to drain."),
            Wrong(per_gpu * tensor * stages, "That is the whole replica. The question is about one GPU."),
            Wrong(per_gpu * tensor, "That is a machine, or the GPUs of a stage. The question is about one GPU."),
            Wrong(
                per_gpu * slot_ms / (compute_ms + stages * sums_ms + hops_ms), "A stage has only its own layers to sum."
            ),
        ),
        sources=(machine.source, sizes_source(model)),
        beside="Llama 3 405B, with 16 stages and a tensor axis of 8 on 8,192 H100, reached 430 TFLOP/s on each. That "
        "is about 170 tokens a second (The Llama 3 Herd of Models, 2024, table 4)."
        if model.name == "llama-3-405b" and machine.name == "8x H100"
        else "",
    )
