"""Problems on paper of lesson 04: data parallelism at real size."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import LINKS, MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sized, sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]

_NUMBERS = (("bfloat16", 2), ("float32", 4))
_BUS_GB_PER_S = {4: 160, 8: 99.6, 16: 84.7, 32: 64.9, 64: 32.9}  # all-reduce of 256 MB, by nodes of 8 H100
_BUS_SOURCE = "Bus bandwidths: Hugging Face, The Ultra-Scale Playbook (2025), 256 MB on nodes of 8 H100 with EFA."
_H100 = MACHINES["8x H100"]


@problem("04.sent", "What a GPU sends in a step", unit="GB")
def _sent(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b", "llama-2-7b", "llama-3-8b"))]
    gpus = draw.choice((8, 16, 32, 64))
    word, num_bytes = draw.choice(_NUMBERS)
    gradients_gb = model.parameters * num_bytes / 1e9
    sent_gb = 2 * (gpus - 1) / gpus * gradients_gb
    return Posed(
        text=f"{gpus} GPUs train replicas of {sized(model)}. All parameters learn, and gradients are kept in {word}. "
        "A ring averages the gradients of all GPUs once in each step. How much does one GPU send in a step?",
        value=sent_gb,
        way=(
            f"A number in {word} takes {num_bytes} bytes, so the gradients take {model.parameters / 1e9:.2f} × 10⁹ × "
            f"{num_bytes} bytes = {said(gradients_gb, 'GB')}.",
            f"In a ring each GPU sends (n − 1)/n of them to add up, and as much again to share the sums: "
            f"2 × {gpus - 1}/{gpus} = {2 * (gpus - 1) / gpus:.3g} times.",
            f"{2 * (gpus - 1) / gpus:.3g} × {said(gradients_gb, 'GB')} = {said(sent_gb, 'GB')}.",
        ),
        slips=(
            Wrong(sent_gb / 2, "You have counted one of the two halves of an all-reduce: adding up, or sharing out."),
            Wrong((gpus - 1) * gradients_gb, "That is a whole gradient for each other GPU. A ring adds up on the way."),
            Wrong(sent_gb * (num_bytes + 8) / num_bytes, "That sends AdamW's states too. They stay where they are."),
            Wrong(gradients_gb / gpus, "That is one message around the ring. Count how many of them each GPU sends."),
        ),
        sources=(sizes_source(model),),
    )


@problem("04.left", "What is left on each GPU", unit="GB")
def _left(draw: random.Random) -> Posed:
    middle = ("llama-2-7b", "mistral-7b", "llama-3-8b")
    name, models = draw.choice(
        (("8x H100", ("gpt-2-xl",)), ("8x H200", middle[:2]), ("8x B200", middle), ("8x MI300X", middle))
    )
    machine, model, gpus = MACHINES[name], MODELS[draw.choice(models)], draw.choice((16, 64, 256, 1024))
    optimizer, states = draw.choice((("AdamW (two states)", 8), ("SGD with momentum (one state)", 4)))
    is_view, memory_gb = draw.choice((False, True)), machine.memory_bytes / 1e9
    each = 4 + (4 if is_view else 8) + states
    held_gb = each * model.parameters / 1e9
    setting = "`gradient_as_bucket_view=True`" if is_view else "the default `gradient_as_bucket_view=False`"
    beside = "in its bucket alone" if is_view else "twice, in `.grad` and in its bucket"
    return Posed(
        text=f"{gpus:,} GPUs of {machine.name} machines, with {memory_gb:.2f} GB each, train {sized(model)} by DDP. "
        f"All numbers are float32. The optimizer is {optimizer}, and DDP has {setting}. How much memory is left on "
        "each GPU for activations and all else?",
        value=memory_gb - held_gb,
        way=(
            f"With {setting} each gradient exists {beside}: {4 if is_view else 8} bytes for a parameter.",
            f"Weights take 4 bytes and the optimizer {states}: {each} bytes for each parameter in all.",
            f"Each GPU holds all of it, however many there are: {each} × {model.parameters / 1e9:.2f} × 10⁹ bytes = "
            f"{said(held_gb, 'GB')}.",
            f"{memory_gb:.2f} GB − {said(held_gb, 'GB')} = {said(memory_gb - held_gb, 'GB')}.",
        ),
        slips=(
            Wrong(memory_gb - held_gb / gpus, "You have shared the state out. In DDP every GPU holds all of it."),
            Wrong(
                memory_gb - (each + (4 if is_view else -4)) * model.parameters / 1e9,
                "How often does a gradient exist with this setting? Look at `.grad` and at the bucket.",
            ),
            Wrong(
                memory_gb - 4 * model.parameters / 1e9, "Those are the weights alone. Training holds more than them."
            ),
            Wrong(held_gb, "That is what the state takes. The question is what remains beside it."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("04.hides", "For how long can an all-reduce hide?", unit="ms")
def _hides(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100", "8x H200", "8x B200"))]
    model = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b"))]
    tokens, share = draw.choice((2048, 4096, 8192, 16384)), draw.choice((0.35, 0.38, 0.42))
    peak = machine.matmul_flops_per_s["bfloat16"]
    backward_ms = 4 * model.parameters * tokens / (peak * share) * 1e3
    return Posed(
        text=f"A GPU of the machine {machine.name} works on {tokens:,} tokens of {sized(model)} in a step. It "
        f"reaches {100 * share:.0f} % of its peak of {peak / 1e12:,.0f} TFLOP/s in bfloat16. Count the usual "
        "operations for each parameter and token, and leave attention out. For how long can an all-reduce hide "
        "behind this backward pass?",
        value=backward_ms,
        way=(
            "Forward takes two operations for each parameter and token, and backward twice as many: four.",
            f"4 × {model.parameters / 1e9:.2f} × 10⁹ × {tokens:,} = {4 * model.parameters * tokens / 1e12:.3g} TFLOP.",
            f"{100 * share:.0f} % of {peak / 1e12:,.0f} TFLOP/s are {peak * share / 1e12:.3g} TFLOP/s, so it takes "
            f"{said(backward_ms, 'ms')}.",
        ),
        slips=(
            Wrong(backward_ms / 2, "Two operations for each parameter and token are forward's. Backward has more."),
            Wrong(backward_ms * 1.5, "Those are the operations of the whole step. No gradient is there in forward."),
            Wrong(backward_ms * share, "That is at the full peak, which no run reaches."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("04.latency", "A bucket for many GPUs", unit="MB")
def _latency(draw: random.Random) -> Posed:
    name, gbits = draw.choice((("infiniband edr", 100), ("infiniband hdr", 200), ("infiniband ndr", 400)))
    gpus, share = draw.choice((64, 128, 256, 512, 1024)), draw.choice((0.2, 0.25, 0.3, 0.4, 0.5))
    alpha_s, bytes_per_s = LINKS[name].latency_s, LINKS[name].bandwidth_bytes_per_s
    one_mb = alpha_s * bytes_per_s * (1 - share) / share / 1e6
    return Posed(
        text=f"A single ring joins {gpus:,} GPUs. Each message in it waits {alpha_s * 1e6:.0f} µs of latency, and then "
        f"goes at {gbits} Gbit/s. DDP sends its gradients in buckets, one all-reduce each. Latency is to "
        f"take at most {100 * share:.0f} % of the time of an all-reduce. How large must a bucket be at least?",
        value=gpus * one_mb,
        way=(
            f"An all-reduce has 2 × {gpus - 1:,} messages in a row. Each waits {alpha_s * 1e6:.0f} µs and carries "
            f"1/{gpus:,} of the bucket.",
            f"The bytes are to take ({1 - share:.2g}/{share:.2g}) times as long as the latency: "
            f"{alpha_s * 1e6 * (1 - share) / share:.3g} µs for each message.",
            f"{gbits} Gbit/s are {gbits / 8:g} GB/s, and in that time carry {said(one_mb, 'MB')}.",
            f"The bucket has {gpus:,} such parts: {said(gpus * one_mb, 'MB')}.",
        ),
        slips=(
            Wrong(one_mb, "That is one message. It carries only one of the parts into which the ring cuts a bucket."),
            Wrong(8 * gpus * one_mb, "The link is given in bits, and a bucket is asked for in bytes."),
            Wrong(gpus * one_mb / (1 - share), "The share is one of latency and bytes together, not of the bytes."),
        ),
        sources=("Link: bandwidth by its standard; the latency is an estimate of the course for NCCL.",),
        beside="In the runs of the Ultra-Scale Playbook (8 H100 a node, EFA) the bus bandwidth of 256 MB "
        "falls from 362 GB/s on 2 nodes to 32.9 GB/s on 64.",
    )


@problem("04.enough", "A batch large enough for the gradients", unit="tokens")
def _enough(draw: random.Random) -> Posed:
    nodes, share = draw.choice(tuple(_BUS_GB_PER_S)), draw.choice((0.35, 0.4, 0.45))
    word, num_bytes = draw.choice(_NUMBERS)
    model, gpus, bus = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b"))], 8 * nodes, _BUS_GB_PER_S[nodes]
    rate = _H100.matmul_flops_per_s["bfloat16"] * share
    factor = 2 * (gpus - 1) / gpus
    tokens = factor * num_bytes / (bus * 1e9) * rate / 4
    return Posed(
        text=f"{gpus} H100 train {sized(model)} by DDP. Gradients travel in {word}, at a bus bandwidth of {bus} GB/s. "
        f"A GPU computes {rate / 1e12:.0f} TFLOP/s. All-reduces run beside backward, and do not slow it "
        "down. Leave latency out. How many tokens does each GPU need at least, so that all of them hide?",
        value=tokens,
        way=(
            f"Take a billion parameters. An all-reduce sends 2 × {gpus - 1}/{gpus} × {num_bytes} = "
            f"{factor * num_bytes:.3g} GB of gradients, which takes {said(factor * num_bytes / bus * 1e3, 'ms')}.",
            f"Backward takes 4 operations for each parameter and token: {4e12 / rate:.3g} ms for a token.",
            "With more parameters both grow alike, so the model does not matter.",
            f"{said(factor * num_bytes / bus * 1e3, 'ms')} / {4e12 / rate:.3g} ms are {said(tokens, 'tokens')}.",
        ),
        slips=(
            Wrong(tokens * 2, "Two operations are forward's. Gradients travel beside backward, which has more."),
            Wrong(tokens * 2 / 3, "Six operations are those of the whole step. In forward no gradient is there."),
            Wrong(tokens / 2, "Either one half of an all-reduce is missing, or the bytes of a number are not these."),
            Wrong(tokens * gpus, "That is the batch of all GPUs together. The question is about each of them."),
        ),
        sources=(_BUS_SOURCE, _H100.source, sizes_source(model)),
        beside="These bus bandwidths: 160 GB/s on 4 nodes, 99.6 on 8, 84.7 on 16, 64.9 on 32, 32.9 on 64 (Hugging "
        "Face, The Ultra-Scale Playbook).",
    )


@problem("04.quiet", "How much work before the gradients leave?", unit="tokens")
def _quiet(draw: random.Random) -> Posed:
    model, nodes = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b"))], draw.choice((8, 16, 32))
    piece, share = draw.choice((1024, 2048)), draw.choice((0.1, 0.15, 0.2))
    gpus, bus, rate = 8 * nodes, _BUS_GB_PER_S[nodes], draw.choice((350e12, 400e12, 450e12))
    forward_ms = 2 * model.parameters * piece / rate * 1e3
    sum_ms = 2 * (gpus - 1) / gpus * 4 * model.parameters / bus / 1e6
    waits_ms = sum_ms - 2 * forward_ms
    tokens = waits_ms * (1 - share) / share / (3 * forward_ms) * piece
    return Posed(
        text=f"{gpus} H100 train {sized(model)} by DDP, with float32 gradients at a bus bandwidth of {bus} GB/s. A "
        f"micro-batch has {piece:,} tokens on each GPU, which computes {rate / 1e12:.0f} TFLOP/s. `no_sync` covers "
        "all micro-batches of a step but the last, whose backward alone hides the all-reduce. A GPU is to wait for "
        f"at most {100 * share:.0f} % of a step. How many tokens does each GPU need in a step, if part of a "
        "micro-batch may count?",
        value=tokens,
        way=(
            f"A micro-batch takes {said(forward_ms, 'ms')} forward and {said(2 * forward_ms, 'ms')} backward.",
            f"The all-reduce takes 2 × {gpus - 1}/{gpus} × 4 bytes × {model.parameters / 1e9:.2f} × 10⁹ / {bus} GB/s = "
            f"{said(sum_ms, 'ms')}, of which {said(waits_ms, 'ms')} are exposed.",
            f"So computing is to take {(1 - share) / share:.3g} times as long as that: "
            f"{said(waits_ms * (1 - share) / share, 'ms')}.",
            f"Divided by {said(3 * forward_ms, 'ms')} that is {tokens / piece:.2f} micro-batches of {piece:,} tokens: "
            f"{said(tokens, 'tokens')}.",
        ),
        slips=(
            Wrong(
                sum_ms * (1 - share) / share / (3 * forward_ms) * piece,
                "Does all of the all-reduce cost time? The last backward runs beside it.",
            ),
            Wrong(tokens * 1.5, "Those are backward passes alone. A micro-batch goes forward as well."),
            Wrong(
                sum_ms / (2 * forward_ms) * piece,
                "That hides the all-reduce behind all backward passes. It can start in the last one only.",
            ),
            Wrong(tokens * gpus, "That is the batch of all GPUs together. The question is about each of them."),
        ),
        sources=(_BUS_SOURCE, _H100.source, sizes_source(model)),
    )


@problem("04.strong", "The same batch on more GPUs", unit="times")
def _strong(draw: random.Random) -> Posed:
    model, rate = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b"))], draw.choice((360e12, 400e12, 440e12))
    few, many = draw.choice(((4, 32), (8, 64), (16, 64)))
    word, num_bytes = draw.choice(_NUMBERS)
    batch = draw.choice((2**19, 2**20))

    def times_ms(nodes: int) -> tuple[float, float, float]:
        """Forward, all-reduce, and the step."""
        gpus = 8 * nodes
        forward = 2 * model.parameters * batch / gpus / rate * 1e3
        sums = 2 * (gpus - 1) / gpus * num_bytes * model.parameters / _BUS_GB_PER_S[nodes] / 1e6
        return forward, sums, forward + max(2 * forward, sums)

    before, after = times_ms(few), times_ms(many)
    faster = before[2] / after[2]
    return Posed(
        text=f"A job trains {sized(model)} by DDP. Its batch of {batch:,} tokens stays as it is. It moves from "
        f"{8 * few} H100, with a bus bandwidth of {_BUS_GB_PER_S[few]} GB/s, to {8 * many} with {_BUS_GB_PER_S[many]} "
        f"GB/s. Each GPU computes {rate / 1e12:.0f} TFLOP/s, and gradients are {word}. The all-reduce begins with "
        "backward, and hides behind it as far as it can. How many times as fast is a step then?",
        value=faster,
        way=(
            *(
                f"On {8 * nodes} GPUs forward takes {said(forward, 'ms')}, backward {said(2 * forward, 'ms')} and the "
                f"all-reduce {said(sums, 'ms')}. The step takes forward and the longer of the two: {said(step, 'ms')}."
                for nodes, (forward, sums, step) in ((few, before), (many, after))
            ),
            f"{said(before[2], 'ms')} / {said(after[2], 'ms')} = {said(faster, 'times')}.",
        ),
        slips=(
            Wrong(many / few, "The computing is so much faster. The gradients are as large as before."),
            Wrong(
                (3 * before[0] + before[1]) / (3 * after[0] + after[1]),
                "You have added the all-reduce to the computing. What part of it runs beside backward?",
            ),
            Wrong(1 / faster, "That is the new time divided by the old one. The question is about speed."),
        ),
        sources=(_BUS_SOURCE, _H100.source, sizes_source(model)),
    )


PROBLEMS = (_sent, _left, _hides, _latency, _enough, _quiet, _strong)
