"""Problems on paper of lesson 02: bytes and time of collectives at real size."""

from __future__ import annotations

import math
import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]


@problem("02.bus", "What the links carry", unit="%")
def _bus(draw: random.Random) -> Posed:
    machine, gpus = MACHINES[draw.choice(("8x A100", "8x H100", "8x B200"))], draw.choice((4, 8))
    size_gb, hundredths = draw.choice((1, 2, 4, 8)), draw.randrange(55, 90, 2)
    link_gb_s = machine.intra.bandwidth_bytes_per_s / 1e9
    factor = 2 * (gpus - 1) / gpus
    time_ms = round(size_gb * factor / (link_gb_s * hundredths / 100) * 1e3, 2)
    algbw = size_gb / time_ms * 1e3
    share = algbw * factor / link_gb_s * 100
    return Posed(
        text=f"{gpus} GPUs of the machine {machine.name} all-reduce a tensor of {size_gb} GB around a ring. Their "
        f"links carry {link_gb_s:.0f} GB/s in one direction. The all-reduce takes {time_ms:.2f} ms. Which share of the "
        "link's bandwidth is its bus bandwidth?",
        value=share,
        way=(
            f"The algorithm bandwidth is {size_gb} GB / {time_ms:.2f} ms = {said(algbw, 'GB/s')}.",
            f"Each GPU sends 2 × {gpus - 1}/{gpus} = {factor:.3g} tensors, so the bus bandwidth is {factor:.3g} × "
            f"{said(algbw, 'GB/s')} = {said(algbw * factor, 'GB/s')}.",
            f"{said(algbw * factor, 'GB/s')} / {link_gb_s:.0f} GB/s = {said(share, '%')}.",
        ),
        slips=(
            Wrong(share / factor, "That is the algorithm bandwidth. In a ring a GPU sends more than one tensor."),
            Wrong(share / 2, "You count one half of the all-reduce, or both directions of the link."),
            Wrong(share / factor**2, "You have divided by the factor, and not multiplied."),
        ),
        sources=(machine.source,),
        beside="With nccl-tests, 8 A100 with NVLink took 8,204 µs to all-reduce 1 GiB. That is a bus "
        "bandwidth of 229 GB/s, or 76 % of 300 GB/s.",
    )


@problem("02.server", "Up to how many GPUs is the naive way fast enough?", unit="GPUs")
def _server(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("llama-3.2-1b", "llama-2-7b", "llama-3-8b"))]
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    limit_s = draw.choice((16, 20, 24, 30, 36, 45))
    rate, billions = machine.inter.bandwidth_bytes_per_s / 1e9, round(model.parameters / 1e9, 2)
    size_gb = billions * 4
    each_s = 2 * size_gb / rate
    gpus = math.floor(limit_s / each_s) + 1
    return Posed(
        text=f"A group of GPUs sums the gradients of {model.name} the naive way. It has {billions:.2f} billion "
        f"parameters, and each has a float32 gradient. All others send to GPU 0, and then GPU 0 sends the sum to "
        f"each of them. Its port carries {rate:.0f} GB/s in each direction, and takes one message after the other. The "
        f"sum may take {limit_s} s, and latency is left out. How many GPUs can the group have at most, with GPU 0?",
        value=gpus,
        way=(
            f"The gradients take {billions:.2f} × 4 = {said(size_gb, 'GB')}, which are "
            f"{said(size_gb / rate, 's')} at {rate:.0f} GB/s.",
            f"For each other GPU they come in and go out, one after the other: {said(each_s, 's')}.",
            f"{limit_s} s / {said(each_s, 's')} = {limit_s / each_s:.2f}, so there can be {gpus - 1} others.",
            f"With GPU 0 that is {gpus} GPUs. A ring takes less than {said(each_s, 's')} for any number of them.",
        ),
        slips=(
            Wrong(
                math.floor(2 * limit_s / each_s) + 1,
                "GPU 0 cannot send the sum before it has it. The way in and the way out add up.",
            ),
            Wrong(math.floor(limit_s / each_s / 8) + 1, "The port's rate is in bytes each second, and not in bits."),
            Wrong(math.floor(limit_s / each_s * 4) + 1, "A gradient has 4 bytes. You have counted one."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("02.saved", "Two halves in two formats", unit="ms")
def _saved(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b", "llama-2-7b", "llama-3-8b"))]
    machine, gpus = MACHINES[draw.choice(("8x A100", "8x H100", "8x B200"))], draw.choice((4, 8))
    rate, billions = machine.intra.bandwidth_bytes_per_s / 1e9, round(model.parameters / 1e9, 2)
    share = (gpus - 1) / gpus
    part_ms = share * billions / rate * 1e3
    saved_ms = 2 * part_ms
    return Posed(
        text=f"{gpus} GPUs of one node sum gradients of {model.name} ({billions:.2f} billion parameters). In plan A a "
        "ring all-reduces them in float32. In plan B a ring reduce-scatters them in float32, and each GPU updates its "
        f"own part of the weights. Then a ring all-gathers the new weights in bfloat16. Links carry {rate:.0f} GB/s in "
        "one direction, and latency and computing are left out. How much less time do the collectives take in plan B?",
        value=saved_ms,
        way=(
            f"Each half of a ring sends (n − 1)/n = {share:.3g} of its tensor from each GPU.",
            f"Plan A: two halves of 4 bytes a number, {share:.3g} × {billions:.2f} × 8 = "
            f"{said(share * billions * 8, 'GB')}.",
            f"Plan B: one half of 4 bytes and one of 2, {share:.3g} × {billions:.2f} × 6 = "
            f"{said(share * billions * 6, 'GB')}.",
            f"The difference of {said(share * billions * 2, 'GB')} takes {said(saved_ms, 'ms')} at {rate:.0f} GB/s.",
        ),
        slips=(
            Wrong(4 * part_ms, "Plan B still has a second half, the all-gather. Its numbers are shorter."),
            Wrong(6 * part_ms, "That is the whole time of plan B. What it saves is asked for."),
            Wrong(gpus * saved_ms, "You have added up what all GPUs send. They send at the same time."),
            Wrong(saved_ms / 2, "The link's rate is that of one direction. Do not double it."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("02.switch", "A bus bandwidth above the link's", unit="GB/s")
def _switch(draw: random.Random) -> Posed:
    machine, gpus = MACHINES[draw.choice(("8x H100", "8x B200"))], 8
    percent = draw.randrange(59, 80)
    link = machine.intra.bandwidth_bytes_per_s / 1e9
    factor = 2 * (gpus - 1) / gpus
    algbw = link * percent / 100
    return Posed(
        text=f"On {gpus} GPUs of the machine {machine.name} the switch adds up. In an all-reduce each GPU sends its "
        f"tensor once and receives the sum once, at the same time. The links carry {link:.0f} GB/s in one direction. "
        f"An all-reduce reaches {percent} % of that, and latency is left out. Which bus bandwidth does nccl-tests "
        "print?",
        value=algbw * factor,
        way=(
            f"A tensor goes out at {percent} % of {link:.0f} GB/s = {said(algbw, 'GB/s')}. It goes out once, so this "
            "is the algorithm bandwidth.",
            f"nccl-tests multiplies by 2(n − 1)/n = 2 × {gpus - 1}/{gpus} = {factor:.3g}. It does not know that the "
            "switch adds.",
            f"{factor:.3g} × {said(algbw, 'GB/s')} = {said(algbw * factor, 'GB/s')}, where a link carries "
            f"{link:.0f} GB/s.",
        ),
        slips=(
            Wrong(algbw, "That is the algorithm bandwidth: size over time."),
            Wrong(algbw / factor, "That is the algorithm bandwidth of a ring. Here each tensor goes out once."),
            Wrong(algbw * factor / 2, "This is the factor of one half, a reduce-scatter or an all-gather."),
            Wrong(algbw * factor * 2, "The link's rate in the text is that of one direction. Do not double it."),
        ),
        sources=(machine.source,),
        beside="8 H200 with such a switch all-reduced 1 GiB at an algorithm bandwidth of 264.9 GB/s, by "
        "nccl-tests. Their links carry 450 GB/s. The bus bandwidth was 464 GB/s.",
    )


@problem("02.pieces", "Into how many pieces may you cut?", unit="pieces")
def _pieces(draw: random.Random) -> Posed:
    name, gpus = draw.choice(
        (("llama-3-8b", 16), ("llama-3-8b", 32), ("llama-3-8b", 64), ("llama-2-13b", 64), ("llama-2-13b", 256))
    )
    model, latency_us, percent = MODELS[name], draw.choice((8, 10, 12)), draw.choice((10, 20, 25))
    rate, billions = MACHINES["8x H100"].inter.bandwidth_bytes_per_s / 1e9, round(model.parameters / 1e9, 2)
    size_gb, factor, messages = 2 * billions, 2 * (gpus - 1) / gpus, 2 * (gpus - 1)
    bytes_ms, ring_ms = size_gb * factor / rate * 1e3, messages * latency_us / 1e3
    exact = bytes_ms * percent / 100 / ring_ms
    return Posed(
        text=f"{gpus} GPUs sum the gradients of {model.name} ({billions:.2f} billion parameters) in bfloat16. They cut "
        "the gradients into equal pieces and all-reduce one piece after the other, each around a ring of all GPUs. A "
        f"link carries {rate:.0f} GB/s in one direction. Suppose that each message has a latency of {latency_us} µs. "
        f"All latencies together may take {percent} % of the time that the bytes take. How many pieces may there be "
        "at most?",
        value=math.floor(exact),
        way=(
            f"The gradients take 2 × {billions:.2f} = {said(size_gb, 'GB')}. Each GPU sends {factor:.4g} of them. That "
            f"takes {said(bytes_ms, 'ms')}, in however many pieces.",
            f"Each piece has 2 × ({gpus} − 1) = {messages} messages in a row: {said(ring_ms, 'ms')} of latency.",
            f"{percent} % of {said(bytes_ms, 'ms')} are {said(bytes_ms * percent / 100, 'ms')}.",
            f"{said(bytes_ms * percent / 100, 'ms')} / {said(ring_ms, 'ms')} = {exact:.1f}, rounded down: "
            f"{math.floor(exact):,} pieces.",
        ),
        slips=(
            Wrong(math.floor(2 * exact), "One of the two laps is missing: in the bytes, or in the messages."),
            Wrong(math.floor(exact * messages), "A ring has many messages in a row, and each has a latency."),
            Wrong(math.floor(exact * 100 / percent), "The latencies may take a share of the time of the bytes only."),
            Wrong(math.floor(exact / factor), "You count one tensor to send. In a ring each GPU sends nearly two."),
        ),
        sources=(MACHINES["8x H100"].source, sizes_source(model)),
    )


@problem("02.tie", "Where do ring and tree take equally long?", unit="MB")
def _tie(draw: random.Random) -> Posed:
    power, latency_us = draw.choice((5, 6, 7, 8, 9, 10)), draw.choice((6, 8, 10))
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    gpus, rate = 2**power, machine.inter.bandwidth_bytes_per_s
    messages, rounds, sent = 2 * (2**power - 1), 2 * power, 2 * (2**power - 1) / 2**power
    product_mb = latency_us * 1e-6 * rate / 1e6
    size_mb = product_mb * (messages - rounds) / (rounds - sent)
    return Posed(
        text=f"{gpus:,} GPUs all-reduce a tensor, each over a link of {rate / 1e9:.0f} GB/s in one direction. Suppose "
        f"that a message has a latency of {latency_us} µs. A library has a ring and the simple tree of the lesson. "
        "The tree sends the whole tensor up in rounds, and down again in as many. Count the rounds that follow one "
        "after the other. At which size of the tensor do both take equally long?",
        value=size_mb,
        way=(
            f"Ring: 2 × ({gpus:,} − 1) = {messages:,} latencies, and {sent:.4g} tensors to send.",
            f"Tree: {gpus:,} ranks are {power} doublings, so 2 × {power} = {rounds} latencies, and {rounds} tensors in "
            "a row.",
            f"The ring has {messages - rounds:,} latencies more, {said((messages - rounds) * latency_us / 1e3, 'ms')}. "
            f"The tree has {rounds - sent:.4g} tensors more, so it wins where a tensor is small.",
            f"Both take equally long where these tensors take {said((messages - rounds) * latency_us / 1e3, 'ms')} at "
            f"{rate / 1e9:.0f} GB/s. That is so for a tensor of {said(size_mb, 'MB')}.",
        ),
        slips=(
            Wrong(
                product_mb * (messages - power) / (power - sent),
                "The tree goes up and comes down. You count one of the two.",
            ),
            Wrong(
                product_mb * (messages / 2 - rounds) / (rounds - sent / 2),
                "A ring has two laps, one to add and one to hand out the sums.",
            ),
            Wrong(product_mb, "At that size a single message spends as long on latency as on its bytes."),
            Wrong(size_mb * 8, "The link's rate is in bytes each second. You have given bits."),
        ),
        sources=(machine.source,),
    )


PROBLEMS = (_bus, _server, _saved, _switch, _pieces, _tie)
