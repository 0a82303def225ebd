"""Problems on paper of lesson 01: memory and time of one GPU at real size."""

from __future__ import annotations

import math
import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]

_FITS = {
    "gpt-2-xl": ("8x V100", "8x A100", "8x H100"),
    "llama-3.2-1b": ("4x RTX 4090", "8x V100", "8x A100", "8x H100"),
    "llama-2-7b": ("8x H200", "8x B200", "8x MI300X"),
    "llama-3-8b": ("8x H200", "8x B200", "8x MI300X"),
    "mistral-7b": ("8x H200", "8x B200", "8x MI300X"),
}


_KEPT = "34 bytes: Korthikanti et al., arXiv 2205.05198, 2022, section 4.1, without the scores of attention."


@problem("01.left", "What is left for activations?", unit="GB")
def _left(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(tuple(_FITS))]
    machine = MACHINES[draw.choice(_FITS[model.name])]
    how, remembers, extra_bytes = draw.choice(
        (
            ("AdamW", "Its two tensors have 4 bytes a number.", 8),
            ("SGD with momentum", "Its one tensor has 4 bytes a number.", 4),
            ("an AdamW of 8 bits", "Its two tensors have 1 byte a number.", 2),
        )
    )
    memory_gb, billions = machine.memory_bytes / 1e9, model.parameters / 1e9
    state_gb = billions * (8 + extra_bytes)
    return Posed(
        text=f"A GPU of the machine {machine.name} has {memory_gb:.1f} GB of memory. It trains {model.name}, which has "
        f"{billions:.3f} billion parameters, with {how}. {remembers} Parameters and gradients are float32. All of "
        "these are held at the same time. Leave out what the system and PyTorch take. How much memory is left for "
        "activations?",
        value=memory_gb - state_gb,
        way=(
            "For each parameter: 4 bytes for itself, 4 for its gradient, "
            f"{extra_bytes} for the optimizer's state. Together {8 + extra_bytes} bytes.",
            f"{billions:.3f} × 10⁹ × {8 + extra_bytes} bytes = {said(state_gb, 'GB')}.",
            f"{memory_gb:.1f} GB − {said(state_gb, 'GB')} = {said(memory_gb - state_gb, 'GB')}.",
        ),
        slips=(
            Wrong(memory_gb - 4 * billions, "Only the parameters are counted. Training holds more for each of them."),
            Wrong(memory_gb - 8 * billions, "The optimizer's state is missing. It lasts from step to step."),
            Wrong(memory_gb - (4 + extra_bytes) * billions, "The gradients are missing."),
            Wrong(state_gb, "That is the state itself. The question is how much it leaves free."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("01.line", "MFU from a line of a log", unit="%")
def _line(draw: random.Random) -> Posed:
    name, low = draw.choice((("llama-3-8b", 6000), ("llama-2-13b", 3600), ("mistral-7b", 6600), ("llama-3-70b", 700)))
    model, machine = MODELS[name], MACHINES["8x H100"]
    rate = low * draw.choice((100, 105, 110, 115, 120, 125, 130)) // 100
    billions, peak = round(model.parameters / 1e9, 2), machine.matmul_flops_per_s["bfloat16"]
    mfu = 6 * billions * 1e9 * rate / peak * 100
    return Posed(
        text=f"A job trains {model.name}, which has {billions:.2f} billion parameters, on GPUs of the machine "
        f"{machine.name}. Every block is recomputed in backward. The log says {rate:,} tokens/s for each GPU. The peak "
        f"in bfloat16 is {peak / 1e12:.0f} TFLOP/s. Count with all parameters, and leave attention out. What is the "
        "MFU, which counts the operations that the model asks for?",
        value=mfu,
        way=(
            "MFU counts what the model asks for: six operations for each parameter and token. Recomputation is not "
            "counted.",
            f"6 × {billions:.2f} × 10⁹ × {rate:,} tokens/s = {6 * billions * rate / 1e3:.4g} TFLOP/s.",
            f"{6 * billions * rate / 1e3:.4g} / {peak / 1e12:.0f} = {said(mfu, '%')}.",
        ),
        slips=(
            Wrong(mfu * 8 / 6, "The second forward pass is work of the GPU, but the model did not ask for it."),
            Wrong(mfu / 3, "Two operations for each parameter and token are those of forward alone."),
            Wrong(mfu * 2 / 3, "Four operations are those of backward alone."),
            Wrong(mfu / 8, "The log gives the rate of one GPU. Do not share it out among the GPUs of a node."),
        ),
        sources=(machine.source, sizes_source(model)),
        beside="torchtitan's benchmark page has 5,762 tokens/s a GPU for Llama 3 8B on 8 H100 (96 GB), with selective "
        "recomputation. By this rule that is an MFU of 28 %.",
    )


@problem("01.read", "When does a node wait for its images?", unit="ms")
def _read(draw: random.Random) -> Posed:
    batch, gpus = draw.choice((128, 192, 256)), draw.choice((4, 8))
    step_ms, cores = draw.choice((80, 100, 120, 150)), draw.choice((64, 96, 128, 192))
    read_ms = cores * step_ms / (gpus * batch)
    return Posed(
        text=f"A node has {gpus} GPUs, and {cores} cores for the workers that read images. Suppose that each GPU "
        f"takes {step_ms} ms to compute a step on {batch} images of its own. To read and decode an image takes one "
        "core a fixed time, and workers share the images evenly. Above which time for an image does the node become "
        "input-bound?",
        value=read_ms,
        way=(
            f"In {step_ms} ms the {gpus} GPUs use up {gpus} × {batch} = {gpus * batch:,} images.",
            f"In the same time {cores} cores have {cores} × {step_ms} = {cores * step_ms:,} core-milliseconds.",
            f"{cores * step_ms:,} / {gpus * batch:,} = {said(read_ms, 'ms')} for an image.",
        ),
        slips=(
            Wrong(read_ms * gpus, "The cores feed all GPUs of the node, and not one of them."),
            Wrong(step_ms / batch, "That would be for one core and one GPU."),
            Wrong(read_ms * batch, "That is the time for a whole batch. The time for an image is asked for."),
        ),
    )


@problem("01.deadline", "How many GPUs until the deadline?", unit="GPUs")
def _deadline(draw: random.Random) -> Posed:
    name, trillions, days = draw.choice(
        (("llama-3-8b", 2, 30), ("llama-2-13b", 2, 45), ("llama-2-70b", 2, 60), ("llama-3-70b", 15, 90))
    )
    model, machine = MODELS[name], MACHINES[draw.choice(("8x A100", "8x H100"))]
    share = draw.choice((0.3, 0.35, 0.4, 0.45))
    peak, billions = machine.matmul_flops_per_s["bfloat16"], round(model.parameters / 1e9, 2)
    flop = 6 * billions * 1e9 * trillions * 1e12
    one = peak * share * days * 86400
    gpus = flop / one
    return Posed(
        text=f"{model.name} has {billions:.2f} billion parameters and is to train on {trillions} × 10¹² tokens. It "
        f"must be ready in {days} days. A GPU of the machine {machine.name} has a peak of {peak / 1e12:.0f} TFLOP/s "
        f"in bfloat16, and the MFU is {100 * share:.0f} %. Suppose that many GPUs share the work evenly and keep this "
        "MFU. Count with all parameters, and leave attention out. How many whole GPUs does it take?",
        value=math.ceil(gpus),
        way=(
            f"The training takes 6 × {billions:.2f} × 10⁹ × {trillions} × 10¹² = {flop / 1e21:,.4g} × 10²¹ FLOP.",
            f"A GPU does {peak / 1e12:.0f} × 10¹² × {100 * share:.0f} % = {peak * share / 1e12:.4g} × 10¹² of them a "
            "second.",
            f"In {days} days of 86,400 s it does {one / 1e21:.4g} × 10²¹ FLOP.",
            f"{flop / 1e21:,.4g} / {one / 1e21:.4g} = {gpus:,.1f}, rounded up: {math.ceil(gpus):,} GPUs.",
        ),
        slips=(
            Wrong(gpus / 3, "Two operations for each parameter and token are forward's. A step has six."),
            Wrong(gpus * share, "You have counted with the full peak."),
            Wrong(gpus * 8 / 6, "Eight operations are those of a step with recomputation. MFU does not count that."),
            Wrong(gpus / 8, "These are nodes of eight GPUs."),
        ),
        sources=(machine.source, sizes_source(model)),
        beside="Llama 3 405B, trained on 15.6 × 10¹² tokens, reached 38 to 43 % MFU on 8,192 and 16,384 H100 "
        "(arXiv 2407.21783, 2024, table 4).",
    )


@problem("01.cut", "Into how many micro-batches?", unit="micro-batches")
def _cut(draw: random.Random) -> Posed:
    name, seq = draw.choice((("llama-3.2-1b", 2048), ("llama-2-7b", 1024), ("llama-2-7b", 2048), ("llama-2-13b", 1024)))
    model, free_gb = MODELS[name], draw.choice((24, 36, 45, 54))
    sequences = draw.choice((256, 384, 512))
    layer_kb = 34 * model.hidden / 1e3
    each_gb = 34 * model.hidden * model.layers * seq / 1e9
    fit = math.floor(free_gb / each_gb)
    pieces = math.ceil(sequences / fit)
    return Posed(
        text=f"{model.name} has {model.layers} layers and is {model.hidden:,} wide. Suppose that each layer keeps 34 "
        f"bytes for each token and each unit of width, and that nothing else is kept. A GPU has {free_gb} GB left for "
        f"activations. A batch has {sequences} sequences of {seq:,} tokens. A micro-batch has whole sequences, and "
        "the last may be smaller. Into how many micro-batches must the batch be cut at least?",
        value=pieces,
        way=(
            f"For a token one layer keeps 34 × {model.hidden:,} bytes = {said(layer_kb, 'kB')}, and {model.layers} "
            f"layers keep {said(layer_kb * model.layers / 1e3, 'MB')}.",
            f"A sequence of {seq:,} tokens keeps {each_gb:.2f} GB.",
            f"{free_gb} GB / {each_gb:.2f} GB = {free_gb / each_gb:.2f}, so {fit} whole sequences fit.",
            f"{sequences} / {fit} = {sequences / fit:.4g}, rounded up: {pieces} micro-batches.",
        ),
        slips=(
            Wrong(fit, "That is how many sequences a micro-batch has. The number of micro-batches is asked for."),
            Wrong(sequences, "That is one sequence at a time. See how many fit together."),
            Wrong(
                math.ceil(sequences / math.floor(free_gb / each_gb * model.layers)),
                "One layer is counted. All of them keep their activations until backward.",
            ),
        ),
        sources=(_KEPT, sizes_source(model)),
    )


@problem("01.longer", "How many tokens fit with recomputation?", unit="tokens")
def _longer(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("llama-2-7b", "llama-2-13b", "llama-3-70b", "llama-3-405b"))]
    free_gb = draw.choice((6, 8, 10, 12, 16, 20))
    inputs, block = 2 * model.hidden * model.layers, 34 * model.hidden
    inside = block - 2 * model.hidden
    tokens = free_gb * 1e9 / (inputs + inside)
    return Posed(
        text=f"{model.name} has {model.layers} blocks and is {model.hidden:,} wide. Every block is recomputed. The "
        "input of a block takes 2 bytes for each token and each unit of width. Suppose that a block in full keeps 34 "
        "bytes for each of them, its input among them. The state is sharded over many GPUs, and each has "
        f"{free_gb} GB left for activations. Leave out head and loss. With how many tokens in a batch do the "
        "activations fill these GB at the fullest moment?",
        value=tokens,
        way=(
            f"The inputs of all blocks stay: {model.layers} × 2 × {model.hidden:,} bytes = {said(inputs / 1e3, 'kB')} "
            "a token.",
            f"In backward one block at a time is back in full. Beside its input it brings 32 × {model.hidden:,} bytes "
            f"= {said(inside / 1e3, 'kB')}.",
            f"Together a token needs {said((inputs + inside) / 1e3, 'kB')}.",
            f"{free_gb} GB / {said((inputs + inside) / 1e3, 'kB')} = {tokens:,.0f} tokens.",
        ),
        slips=(
            Wrong(free_gb * 1e9 / inputs, "In backward, one block comes back in full on top of the inputs."),
            Wrong(
                free_gb * 1e9 / (block * model.layers), "So many fit if every block keeps all. These are recomputed."
            ),
            Wrong(free_gb * 1e9 / block, "The inputs of the other blocks have to stay as well."),
            Wrong(free_gb * 1e9 / (2 * inputs + inside), "The inputs take 2 bytes here. You have counted 4."),
        ),
        sources=(_KEPT, sizes_source(model)),
    )


@problem("01.worth", "Is recomputation worth it?", unit="times")
def _worth(draw: random.Random) -> Posed:
    small, large = draw.choice((20, 22, 24, 27, 30, 34, 37)), draw.choice((40, 44, 48, 52, 55, 58))
    speed = large / 8 / (small / 6)
    return Posed(
        text=f"Without recomputation a GPU has room for a small micro-batch only. It then works at {small} % of its "
        f"peak. With full recomputation the micro-batch can be larger, and the GPU works at {large} % of its peak. "
        "This counts all that it executes, the second forward pass too. Leave attention out. With recomputation, the "
        "GPU trains how many times as many tokens each second?",
        value=speed,
        way=(
            "Without recomputation a token takes six operations for each parameter, and eight with it: forward is "
            "two of the six, and runs twice.",
            f"So the tokens each second go with {small} / 6 = {small / 6:.3g} and with {large} / 8 = {large / 8:.3g}.",
            f"{large / 8:.3g} / {small / 6:.3g} = {said(speed, 'times')}. Recomputation is "
            f"{'worth' if speed > 1 else 'not worth'} its time here.",
        ),
        slips=(
            Wrong(large / small, "The GPU executes more, but a part of it is the second forward pass."),
            Wrong(large / small * 8 / 6, "Recomputation makes a token dearer, and not cheaper."),
            Wrong(large / small / 2, "Not all of the work is done twice. Forward alone is."),
            Wrong(1 / speed, "That is the other way round: without recomputation, over with it."),
        ),
    )


PROBLEMS = (_left, _line, _read, _deadline, _cut, _longer, _worth)
