"""Problems on paper of lesson 03: one process for several GPUs at real size."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]


@problem("03.idle", "Unused GPUs in the last batch", unit="%")
def _idle(draw: random.Random) -> Posed:
    gpus, batch = draw.choice((4, 6, 8)), draw.choice((64, 128, 256))
    full, whole, extra = draw.choice((40, 75, 120)), draw.choice((1, 2, 3, 4)), draw.randrange(1, gpus)
    rows = gpus * whole + extra
    largest = whole + 1
    busy = -(-rows // largest)
    unused = 100 * (1 - rows / (gpus * largest))
    return Posed(
        text=f"A data set has {batch * full + rows:,} examples, and the loader says `batch_size={batch}` and keeps "
        f"the last, shorter batch. `nn.DataParallel` cuts each batch for {gpus} GPUs by the rule of `Tensor.chunk`. "
        "The time of a GPU goes with its rows, and the step ends when the GPU with the most rows is done. In the "
        f"last batch of an epoch, which share of the time of all {gpus} GPUs is unused?",
        value=unused,
        way=(
            f"{batch * full + rows:,} are {full} batches of {batch}, and {rows} rows are left for the last batch.",
            f"A part has {rows}/{gpus}, rounded up: {largest} rows. So {busy} GPUs get rows, and the last of them may "
            "get fewer.",
            f"All {gpus} GPUs have time for {gpus} × {largest} = {gpus * largest} rows until the largest part is done.",
            f"{rows} of these are computed, so {gpus * largest - rows}/{gpus * largest} = {said(unused, '%')} is "
            "unused.",
        ),
        slips=(
            Wrong(100 - unused, "That is the share that is used."),
            Wrong(gpus * largest - rows, "That is a number of rows. A share of the time is asked for."),
            Wrong(
                100 * (gpus * largest / rows - 1), "You have divided by the rows, and not by the time that there is."
            ),
        ),
    )


@problem("03.evaluation", "An evaluation that sends weights", unit="s")
def _evaluation(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b"))]
    machine = MACHINES[draw.choice(("4x RTX 4090", "8x V100", "8x A100"))]
    batches = draw.choice((200, 300, 500, 800))
    gpus, rate = machine.num_devices, machine.intra.bandwidth_bytes_per_s / 1e9
    billions = round(model.parameters / 1e9, 2)
    each_gb = 4 * billions
    time_s = batches * (gpus - 1) * each_gb / rate
    return Posed(
        text=f"`nn.DataParallel` holds {model.name} ({billions:.2f} billion float32 parameters) on {gpus} GPUs of the "
        f"machine {machine.name}. It evaluates {batches} batches under `no_grad`. Suppose that GPU 0 sends the weights "
        f"to each of the others itself, one after the other. Its port sends {rate:.4g} GB/s. Leave out latency, inputs "
        "and outputs. For how long does GPU 0 send weights in the whole evaluation?",
        value=time_s,
        way=(
            f"The weights take 4 × {billions:.2f} = {said(each_gb, 'GB')}. {gpus - 1} other GPUs get them in each "
            "forward pass.",
            f"A forward pass sends {gpus - 1} × {said(each_gb, 'GB')} = {said((gpus - 1) * each_gb, 'GB')}, which "
            f"takes {said((gpus - 1) * each_gb / rate, 's')}. Replicas that stayed would need that once.",
            f"{batches} batches are {batches} forward passes: {said(time_s, 's')}.",
        ),
        slips=(
            Wrong(2 * time_s, "There is no backward pass in an evaluation, so no gradients come back."),
            Wrong(time_s / batches, "The replicas live for one forward pass. The next batch gets new ones."),
            Wrong(time_s * gpus / (gpus - 1), "Replica 0 sits with the model. Nothing travels for it."),
            Wrong(time_s / (gpus - 1), "You have sent one copy. Each of the other GPUs needs its own."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("03.inside", "What the loss in the module frees", unit="GB")
def _inside(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("gpt-2", "gpt-2-xl", "llama-3.2-1b"))]
    gpus, texts, length = draw.choice((4, 8)), draw.choice((16, 24, 32, 48)), draw.choice((512, 1024))
    tokens = texts * length
    table_gb = 4 * tokens * model.vocab / 1e9
    freed_gb = 3 * table_gb * (1 - 1 / gpus)
    return Posed(
        text=f"`nn.DataParallel` trains {model.name} on {gpus} GPUs. Its vocabulary has {model.vocab:,} tokens. A "
        f"batch has {texts} texts of {length:,} tokens, and all outputs are gathered on GPU 0 in float32. Around the "
        "loss, GPU 0 holds three tables of this size: the outputs, what the loss keeps, and a gradient. Then the loss "
        "moves into the module, so each replica has the tables of its own rows alone. How much less do the tables take "
        "on GPU 0?",
        value=freed_gb,
        way=(
            f"A table has {texts} × {length:,} × {model.vocab:,} numbers of 4 bytes: {said(table_gb, 'GB')}.",
            f"Before, GPU 0 holds three of them: {said(3 * table_gb, 'GB')}.",
            f"After, it holds those of 1/{gpus} of the rows: {said(3 * table_gb / gpus, 'GB')}.",
            f"That is {said(freed_gb, 'GB')} less.",
        ),
        slips=(
            Wrong(freed_gb / 3, "One table is counted. GPU 0 holds three of that size."),
            Wrong(3 * table_gb, "The tables of its own rows stay on GPU 0."),
            Wrong(
                freed_gb / gpus, "Before, the tables on GPU 0 are those of the whole batch, and not of its own rows."
            ),
            Wrong(freed_gb / 2, "The outputs are float32. You have counted two bytes for a number."),
        ),
        sources=(sizes_source(model),),
    )


@problem("03.wrapped", "Several processes, one wrapper each", unit="GB")
def _wrapped(draw: random.Random) -> Posed:
    model, gpus = MODELS[draw.choice(("gpt-2", "gpt-2-xl", "llama-3.2-1b"))], draw.choice((2, 3, 4, 5, 6, 7, 8))
    how, tensors = draw.choice((("AdamW", "two tensors"), ("SGD with momentum", "one tensor")))
    extra = 4 + 4 * (2 if how == "AdamW" else 1)
    billions = round(model.parameters / 1e9, 3)
    more_gb = gpus * extra * billions
    return Posed(
        text=f"Somebody starts {gpus} processes on {gpus} GPUs. By mistake each process wraps its own {model.name} in "
        f"`nn.DataParallel` for all {gpus} GPUs, GPU 0 first. The model has {billions:.3f} billion parameters. All "
        f"numbers are float32, and {how} keeps {tensors} of the model's size. On a GPU that is not its first, a "
        "process holds a replica's weights and nothing else. On GPU 0 it holds one copy of the weights, the gradients "
        "and the optimizer's state. Do not ask whether that fits. How much more would GPU 0 hold than GPU 1?",
        value=more_gb,
        way=(
            f"Each process has a replica on every GPU, so {gpus} copies of the weights lie on GPU 0, and on GPU 1 too.",
            f"On GPU 0 each process also has gradients and the optimizer's state: {extra} bytes for each parameter.",
            f"{gpus} × {extra} × {billions:.3f} × 10⁹ bytes = {said(more_gb, 'GB')}.",
        ),
        slips=(
            Wrong(more_gb / gpus, "That is for one process. Each of them puts its state on GPU 0."),
            Wrong(
                gpus * (extra + 4) * billions,
                "That is what GPU 0 holds in all. GPU 1 holds as many copies of the weights.",
            ),
            Wrong(gpus * (extra - 4) * billions, "The gradients arrive in the module as well, and so on GPU 0."),
        ),
        sources=(sizes_source(model),),
    )


@problem("03.launch", "When one interpreter is the limit", unit="tokens")
def _launch(draw: random.Random) -> Posed:
    model, gpus = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b"))], draw.choice((2, 4, 8))
    operators, launch_us, share = draw.choice((12, 15, 20)), draw.choice((5, 6, 8)), draw.choice((0.35, 0.4, 0.45))
    machine = MACHINES["8x A100"]
    peak, billions = machine.matmul_flops_per_s["bfloat16"], round(model.parameters / 1e9, 2)
    one_ms = model.layers * operators * launch_us / 1e3
    tokens = gpus * gpus * one_ms / 1e3 * peak * share / (2 * billions * 1e9)
    return Posed(
        text=f"`nn.DataParallel` runs the forward pass of {model.name} on {gpus} GPUs of the machine {machine.name}. "
        f"Suppose that each of its {model.layers} layers is {operators} operators, and that to launch one holds the "
        f"GIL for {launch_us} µs. The model has {billions:.2f} billion parameters. A GPU does {100 * share:.0f} % of "
        f"its {peak / 1e12:.0f} TFLOP/s in bfloat16. Count two operations for each parameter and token, and no "
        "attention. The batch is shared evenly. With how many tokens in the whole batch does computing take as long "
        "as all launches together?",
        value=tokens,
        way=(
            f"One replica needs {model.layers} × {operators} × {launch_us} µs = {said(one_ms, 'ms')} of launches. "
            f"There is one lock, so {gpus} replicas need {said(gpus * one_ms, 'ms')}.",
            f"In that time a GPU does {said(gpus * one_ms, 'ms')} × {peak * share / 1e12:.4g} TFLOP/s = "
            f"{gpus * one_ms * peak * share / 1e15:.3g} TFLOP.",
            f"Forward takes 2 × {billions:.2f} × 10⁹ operations a token. A GPU computes {tokens / gpus:,.0f} tokens.",
            f"{gpus} GPUs compute {gpus} × {tokens / gpus:,.0f} = {tokens:,.0f} tokens. With fewer, they wait for "
            "Python.",
        ),
        slips=(
            Wrong(tokens / gpus, "These are the tokens of one GPU, or the launches of one replica."),
            Wrong(
                tokens / gpus**2, "One interpreter launches for all replicas, and each has only its part of the batch."
            ),
            Wrong(tokens / 3, "Six operations are those of a whole step. Here it is the forward pass."),
            Wrong(tokens / share, "You have counted with the full peak."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("03.pays", "How large a batch pays for the copies?", unit="tokens")
def _pays(draw: random.Random) -> Posed:
    name, dtype = draw.choice((("8x V100", "float16"), ("8x A100", "bfloat16"), ("8x H100", "bfloat16")))
    machine, gpus, share = MACHINES[name], draw.choice((4, 8)), draw.choice((0.3, 0.35, 0.4, 0.45))
    rate, peak = machine.intra.bandwidth_bytes_per_s, machine.matmul_flops_per_s[dtype]
    tokens = 8 * (gpus - 1) * gpus * peak * share / (6 * rate)
    per_billion_ms = 8 * (gpus - 1) / (rate / 1e9) * 1e3
    return Posed(
        text=f"`nn.DataParallel` trains a transformer with float32 weights on {gpus} GPUs of the machine {name}. "
        f"Suppose that weights and gradients all pass GPU 0's port, which carries {rate / 1e9:.0f} GB/s in one "
        f"direction. A GPU does {100 * share:.0f} % of its {peak / 1e12:.0f} TFLOP/s in {dtype}. Copies and computing "
        "do not overlap, and the batch is cut evenly. Leave out attention, the optimizer, latency, and what else "
        "travels. With how many tokens in the batch do copies and computing take equally long?",
        value=tokens,
        way=(
            f"Let N be the parameters. {gpus - 1} copies of the weights go out, and then {gpus - 1} gradients come in: "
            f"2 × {gpus - 1} × 4 × N bytes = {8 * (gpus - 1)} N.",
            f"At {rate / 1e9:.0f} GB/s that takes {said(per_billion_ms, 'ms')} for each billion of N.",
            f"A step of T tokens takes 6 × N × T operations, shared by {gpus} GPUs that do {100 * share:.0f} % of "
            f"{peak / 1e12:.0f} TFLOP/s each.",
            f"N is on both sides, so the size does not matter. T = {8 * (gpus - 1)} × {gpus} × "
            f"{peak * share / 1e12:.4g} × 10¹² / (6 × {rate / 1e9:.0f} × 10⁹) = {tokens:,.0f} tokens.",
        ),
        slips=(
            Wrong(tokens / 2, "The gradients come back as well, each as large as the weights."),
            Wrong(tokens / gpus, "You have let one GPU compute all tokens, or given the tokens of one GPU."),
            Wrong(tokens * 3, "Two operations for each parameter and token are forward's. A step has six."),
            Wrong(tokens / share, "You have counted with the full peak."),
        ),
        sources=(machine.source,),
    )


@problem("03.full", "How many tokens until GPU 0 is full?", unit="tokens")
def _full(draw: random.Random) -> Posed:
    name, kept_mb = draw.choice((("gpt-2-xl", 4), ("gpt-2-xl", 5), ("llama-3.2-1b", 1.6), ("llama-3.2-1b", 2.4)))
    model, gpus = MODELS[name], draw.choice((2, 4, 8))
    machine = MACHINES[draw.choice(("8x V100", "8x A100", "8x H100"))]
    memory_gb, billions = round(machine.memory_bytes / 1e9, 1), round(model.parameters / 1e9, 2)
    left_gb = memory_gb - 16 * billions
    tables_mb = 3 * 4 * model.vocab / 1e6
    each_mb = kept_mb / gpus + tables_mb
    tokens = left_gb * 1e3 / each_mb
    return Posed(
        text=f"`nn.DataParallel` trains {model.name} with AdamW on {gpus} GPUs, all in float32. It has {billions:.2f} "
        f"billion parameters and a vocabulary of {model.vocab:,} tokens. A GPU has {memory_gb} GB. Suppose that a "
        f"replica keeps {kept_mb} MB of activations for each of its own tokens. On top of this, GPU 0 holds three "
        "tables of the whole batch around the loss. They have a number for each token and each entry of the "
        "vocabulary. GPU 0 also holds parameters, gradients and AdamW's two tensors in full, and "
        "the batch is cut evenly. With how many tokens in the batch is GPU 0 full?",
        value=tokens,
        way=(
            f"AdamW's training holds 16 bytes for each parameter: {said(16 * billions, 'GB')}. So {memory_gb} GB leave "
            f"{said(left_gb, 'GB')}.",
            f"A token of the batch puts 3 × 4 × {model.vocab:,} bytes = {said(tables_mb, 'MB')} of tables on GPU 0.",
            f"One in {gpus} tokens is its own, so activations take {kept_mb}/{gpus} = {said(kept_mb / gpus, 'MB')} for "
            "each token of the batch.",
            f"{said(left_gb, 'GB')} / {said(each_mb, 'MB')} = {tokens:,.0f} tokens.",
        ),
        slips=(
            Wrong(left_gb * 1e3 / (kept_mb + tables_mb), "GPU 0 keeps activations for its own part of the batch only."),
            Wrong(
                left_gb * 1e3 * gpus / (kept_mb + tables_mb),
                "The tables on GPU 0 are those of the whole batch, and not of its own part.",
            ),
            Wrong(left_gb * 1e3 / (kept_mb / gpus + tables_mb / 3), "One table is counted. There are three."),
            Wrong(memory_gb * 1e3 / each_mb, "The state of the model takes a part of the memory."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


PROBLEMS = (_idle, _evaluation, _inside, _wrapped, _launch, _pays, _full)
