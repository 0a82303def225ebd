# %% [markdown]
# # 05h · Sharded data parallelism: precision on the wire
#
# Weights and gradients are sent in a number format, and you choose it, or PyTorch does. You find out what PyTorch
# chooses, and what that does to gradients. Then you send weights in a quarter of their bytes without losing what
# training has learnt.
#
# **75 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 8 of 8 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [3: what stays whole](05c_what_stays_whole.ipynb) · [4: links and
# precision](05d_links_and_precision.ipynb) · [5: one model again](05e_one_model_again.ipynb) · [6: build the
# optimizer](05f_build_sharded_optimizer.ipynb) · [7: build the wrapper](05g_build_fully_sharded.ipynb)
#
# This part builds on [05d: links and precision](05d_links_and_precision.ipynb). Have you done it? `from course_lib
# import start; start("05h")` says whether you have.
#
# At the end you can
#
# - say which formats `fully_shard` sends in, from the calls of a run;
# - choose a `MixedPrecisionPolicy` by what it does to the sum of the gradients;
# - write an all-gather that sends one byte a number and one scale a block;
# - say where rounding a message does lasting harm, and where it does not.
#
# From [part 4](05d_links_and_precision.ipynb) you need the reduce dtype, and how a sum in bfloat16 can lose small
# numbers.

# %%
from course_lib import ask, check, hint, quiz, reveal, shared_cluster
from course_lib.meter import bytes_text, metered
from course_lib.parallel.collectives import Members
from course_lib.parallel.sharded import all_gather_quantized, dequantize_blocks, quantize_blocks
from course_lib.rounding import rounded

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## What PyTorch chooses
#
# Part 4 used the course's own class. This page uses PyTorch's `fully_shard` on four ranks. Its `MixedPrecisionPolicy`
# has two settings that matter here. `param_dtype` is the format in which weights are gathered, and in which layers
# compute. `reduce_dtype` is the format in which gradients are reduced.
#
# Say that you set the first one, and leave the second as it is. The shards stay in float32, and so do their gradients.
#
# **`MixedPrecisionPolicy(param_dtype=torch.bfloat16)`, and nothing else: in which formats are gradients sent and
# summed?**

# %%
### BEGIN SOLUTION
### STUB ask("05.wire_default")
ask("05.wire_default").commit("sent and summed in float32")  # "the shards' gradients are float32"
### END SOLUTION

# %%
HALF = torch.bfloat16
POLICIES = {
    "no policy": {},
    "param_dtype": {"param_dtype": HALF},
    "both dtypes": {"param_dtype": HALF, "reduce_dtype": torch.float32},
}


def sharded(me, layers, policy):
    mesh = init_device_mesh(me.device.type, (me.world_size,))
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(**policy))


def one_step(me, policy):
    """Four weights; rank 0's gradient of each is 256, and the other ranks' is 1."""
    model = nn.Linear(1, 4, bias=False).to(me.device)
    sharded(me, [model], policy)
    model(torch.full((1, 1), 256.0 if me.rank == 0 else 1.0, device=me.device)).sum().backward()
    return (me.world_size * model.weight.grad.full_tensor()).flatten().cpu()  # it was the mean


# %% [markdown]
# The next cell takes a step with each policy. It prints the calls of rank 0, with their format and the bytes that rank
# 0 gave to them.

# %%
formats, sums = {}, {}
for name, policy in POLICIES.items():
    run = metered(four, one_step, policy)
    calls = [
        call for call in run.communication.of(0).calls if call.operation in ("all_gather", "reduce_scatter")
    ][:-1]  # without the last, which makes the gradient whole for us
    print(
        f"{name:<12}", *(f"{call.operation} {call.dtype} {call.size_bytes:g} B" for call in calls), sep="  "
    )
    formats[name] = next(call.dtype for call in calls if call.operation == "reduce_scatter")
    sums[name] = run[0].tolist()

# %%
for name, gradients in sums.items():
    print(
        f"{name:<12} 256 + 1 + 1 + 1 = {', '.join(rounded(number, 0, apart=1e-6) for number in sorted(gradients))}"
    )
reveal("05.wire_default", formats["param_dtype"], sums["param_dtype"])

# %% [markdown]
# So set both dtypes: `MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)`. torchtitan does so
# by default. The price is that gradients need twice as many bytes.
#
# In somebody else's job you see the format in a trace ([part 5 of lesson 04](04e_read_a_trace.ipynb)). On GPUs the
# profiler writes beside each of NCCL's kernels a `dtype` and a number of elements. Look at the kernels of the
# reduce-scatter.
#
# ### Many pieces, one step
#
# Take a batch in 300 pieces. The gradient of each piece is 1. One run reduces gradients after every piece. The other
# run calls `set_requires_gradient_sync(False)` for all pieces but the last, and so sends one message for all of them.
# Both runs set only `param_dtype`. **Which run ends with a gradient of 300?**

# %%
### BEGIN SOLUTION
### STUB ask("05.wire_pieces")
ask("05.wire_pieces").commit("the one with one message")  # "fewer sums in bfloat16"
### END SOLUTION


# %%
def pieces(me, policy, syncs, num_pieces=300):
    model = nn.Linear(1, 4, bias=False).to(me.device)
    sharded(me, [model], policy)
    for piece in range(num_pieces):
        model.set_requires_gradient_sync(syncs or piece == num_pieces - 1)
        model(torch.ones(1, 1, device=me.device)).sum().backward()
    return model.weight.grad.full_tensor()[0].item()


# %%
ends = {}
for name, syncs in (("param_dtype", True), ("param_dtype", False), ("both dtypes", False)):
    ends[name, syncs] = four.run(pieces, POLICIES[name], syncs)[0]
    gradient = rounded(ends[name, syncs], 0, apart=1e-6)
    print(f"{name}, {'300 messages' if syncs else '1 message'}: a gradient of {gradient}")
reveal("05.wire_pieces", *ends.values())

# %% [markdown]
# ## One byte a weight
#
# Can messages be smaller still? Weights are gathered once or twice in a step. (In the runs above it was once: PyTorch
# keeps a unit whole until backward if no other unit contains it.) In bfloat16 each weight has two bytes. Is one byte
# enough?
#
# <!-- word: quantization | also: quantize, dequantize -->
# **Quantization** stores numbers as small whole numbers, times a scale that many of them share. With int8 the whole
# numbers go from -127 to 127. The scale is the largest absolute value divided by 127, so the number that has it becomes
# 127 or -127. We call the whole numbers *codes*.

# %%
weights = torch.tensor([0.31, -0.02, 0.127, 0.0, -0.254])
scale = weights.abs().max() / 127
codes = (weights / scale).round().to(torch.int8)
print("codes    ", codes.tolist())
print("come back", rounded(codes * scale, 4, apart=1e-6))
print(
    "off by   ",
    rounded((codes * scale - weights).abs().max(), 4, apart=1e-5),
    "at most; half a scale is",
    end=" ",
)
print(rounded(scale / 2, 4, apart=1e-5))

# %% [markdown]
# A number is off by half a scale at most. So the error depends on the scale, and the scale depends on the largest
# number.
#
# Take 65,536 weights such as a layer may have: normally distributed, with a standard deviation of 0.02. Exactly one of
# them is large: it is 6. All of them share one scale. **How many per cent of the weights come back as exactly 0?**

# %%
### BEGIN SOLUTION
### STUB ask("05.wire_outlier")
ask("05.wire_outlier").commit(1)  # "int8 has 255 values, and 0 is one of them"
### END SOLUTION

# %%
torch.manual_seed(0)
normal = 0.02 * torch.randn(65_536)
one_large = normal.clone()
one_large[1000] = 6.0


def come_back(numbers, block, dtype=torch.int8):
    return dequantize_blocks(*quantize_blocks(numbers, block, dtype), block)


zeros = 100 * (come_back(one_large, 65_536) == 0).double().mean()
print(f"one scale for all: {rounded(zeros, 0)}% are 0")
reveal("05.wire_outlier", zeros.item(), one_large.max().item() / 127)

# %% [markdown]
# <!-- word: block scaling | also: blockwise quantization, block-wise scale -->
# The remedy is **block scaling**: each run of a few weights, a *block*, has a scale of its own. Then an outlier makes
# only the steps of its own block coarse. The price is the scales, which ranks have to send too.

# %%
print("block    weights that are 0    without the large one    bytes a weight")
for block in (65_536, 4096, 256, 32):
    are_zero, also = (
        rounded(100 * (come_back(numbers, block) == 0).double().mean(), 1) for numbers in (one_large, normal)
    )
    print(f"{block:>6} {are_zero:>16}% {also:>21}% {1 + 4 / block:>20.4f}")

# %% [markdown]
# In small blocks, most of the weights that come back as 0 do so without the large weight too, because they are near 0.
#
# ### Build: an all-gather in bytes
#
# Now write an all-gather with block scaling. Each rank has a shard, and gets the shards of all ranks, rounded. Ranks
# send codes, one byte each, and one scale for each block in float32.
#
# Think of a shard whose last block is not full, and of a block in which all weights are 0. Which numbers should a rank
# use for its *own* shard?


# %%
def gather_in_bytes(me, shard, block):
    """The shards of all ranks behind each other, rounded to int8 and back: (n * K,), in the dtype of ``shard``.

    shard: (K,), finite numbers, as many on every rank; it stays as it is. A block is ``block`` numbers, and the last
    may be shorter. Its scale is its largest absolute value divided by 127, in float32.
    A rank sends K bytes and 4 for each block, in two calls at most. All ranks get exactly the same.
    """
    ### BEGIN SOLUTION
    filled = F.pad(shard.float(), (0, -len(shard) % block)).view(-1, block)
    scales = filled.abs().amax(1) / 127
    whole = (filled / scales.clamp_min(1e-38)[:, None]).round()
    codes = whole.to(torch.int8).flatten()[: len(shard)]
    all_codes = [torch.empty_like(codes) for _ in range(me.world_size)]
    all_scales = [torch.empty_like(scales) for _ in range(me.world_size)]
    dist.all_gather(all_codes, codes)
    dist.all_gather(all_scales, scales)
    pairs = zip(all_codes, all_scales, strict=True)
    parts = [codes * scales.repeat_interleave(block)[: len(codes)] for codes, scales in pairs]
    return torch.cat(parts).to(shard.dtype)
    ### END SOLUTION


# %%
gather_verdict = check("05.quantized_gather", gather_in_bytes)

# %%
# hint("05.quantized_gather")

# %% [markdown]
# Did you avoid 0 / 0? It is nan, and no rule says which int8 number nan becomes. Any such number times a scale of 0 is
# 0, so your function can pass even if it computes 0 / 0. In a format that has nan, such as float8 below, the result
# stays nan.
#
# How many bytes does your function send? Below, each rank has 100,000 weights. (Until your function has passed, the
# course's is used, here and further down.)


# %%
def courses_gather(me, shard, block):
    return all_gather_quantized(Members.of(me, None), shard, block)


gather = gather_in_bytes if gather_verdict.passed else courses_gather


def plain(me, dtype):
    shard = torch.zeros(100_000, dtype=dtype, device=me.device)
    dist.all_gather([torch.empty_like(shard) for _ in range(me.world_size)], shard)


def in_bytes(me, block):
    gather(me, torch.zeros(100_000, device=me.device), block)


# %%
wide = metered(four, plain, torch.float32).communication.sent_bytes(0)
runs = {"float32": (plain, torch.float32), "bfloat16": (plain, HALF)}
runs |= {f"int8, blocks of {block}": (in_bytes, block) for block in (256, 32)}
for name, (function, option) in runs.items():
    sent_bytes = metered(four, function, option).communication.sent_bytes(0)
    print(f"{name:<20} {bytes_text(sent_bytes):>9}, {100 * sent_bytes / wide:.1f}% of float32")

# %% [markdown]
# ## Which byte?
#
# <!-- word: float8 | also: FP8, e4m3, `torch.float8_e4m3fn` -->
# There is another format of one byte. **float8** (e4m3) has a sign, four bits of exponent and three of mantissa. Like
# every floating-point format it has fine steps for small numbers and coarse ones for large numbers. Its largest number
# is 448, so the scale of a block is the block's largest absolute value divided by 448. The format int8 has equal steps
# everywhere.
#
# The `normal` weights from above have no outlier. Take blocks of 256. **Which of the two formats brings them back
# nearer to the original, and how much nearer?**

# %%
### BEGIN SOLUTION
### STUB ask("05.wire_eight")
ask("05.wire_eight").commit("float8, several times nearer")  # "floating point follows small numbers"
### END SOLUTION

# %%
EIGHT = {"int8": torch.int8, "float8": torch.float8_e4m3fn}


def off_percent(numbers, block, dtype, of=slice(None)):
    """How far the numbers that come back are off, in per cent of the length of all."""
    off = (come_back(numbers, block, dtype) - numbers).double()[of]
    return 100 * off.norm() / numbers.double()[of].norm()


for block in (256, 32):
    off = {name: rounded(off_percent(normal, block, dtype), 1, apart=1e-3) for name, dtype in EIGHT.items()}
    print(f"blocks of {block:>3}: int8 is off by {off['int8']}%, float8 by {off['float8']}%")
reveal("05.wire_eight", {name: off_percent(normal, 256, dtype).item() for name, dtype in EIGHT.items()})

# %% [markdown]
# These weights have no outliers. Now one weight of every block of 256 becomes 1, which is 50 times the standard
# deviation of the others. The next cell prints the error of these others:

# %%
outliers, others = normal.clone(), torch.arange(65_536) % 256 != 0
outliers[~others] = 1.0
for name, dtype in EIGHT.items():
    print(f"{name:<7} off by {rounded(off_percent(outliers, 256, dtype, others), 1, apart=1e-3)}%")

# %% [markdown]
# So int8 needs small blocks, and float8 also works with large ones. float8 is not only for messages: training recipes
# multiply in it, and then weights that were gathered in float8 need no conversion. (A GPU's tensor cores multiply int8
# without conversion too, but activations and gradients have outliers.)
#
# ## Does the error grow?
#
# Now train with your gather. `set_custom_all_gather` of `fully_shard` replaces its all-gather. Its argument is an
# object that makes a buffer and fills it. The object in the next cell calls your function:


# %%
class ByteGather:
    """PyTorch's all-gather of a unit, replaced by ``gather``."""

    def __init__(self, me):
        self.me = me

    def allocate(self, size, *, dtype, device):
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        output_tensor.copy_(gather(self.me, input_tensor, 256))


def model_of(me, in_int8):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3))).to(me.device)
    sharded(me, model, {})
    for layer in model if in_int8 else ():
        layer.set_custom_all_gather(ByteGather(me))
    return model


# %% [markdown]
# Four ranks take 60 steps of AdamW, with a learning rate of 3e-4, as many large models do. The model learns to compute
# what a random matrix computes. After steps 1, 10, 30 and 60 the cell notes the loss, and how far off the gathered
# weights are from the shards. (The argument `stores` is for later.)

# %%
WATCHED = 1, 10, 30, 60


def train(me, in_int8, stores=False):
    model = model_of(me, in_int8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    target = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)).to(me.device) / 8
    random = torch.Generator().manual_seed(2 + me.rank)
    losses, off_percents = {}, {}
    for step in range(1, max(WATCHED) + 1):
        x = torch.randn(32, 64, generator=random).to(me.device)
        loss = F.mse_loss(model[2](model[1](model[0](x).tanh()).tanh()), (x @ target).tanh())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step in WATCHED:
            losses[step], off_percents[step] = loss.item(), rounding_error(me, model)
        if stores:
            store_what_was_sent(me, model)
    return losses, off_percents


# %%
@torch.no_grad()
def rounding_error(me, model):
    """How far a rank's gathered weights are off from the shards, in per cent."""
    shards = [weight.to_local().flatten() for weight in model.parameters()]
    sent = [gather(me, shard, 256).chunk(me.world_size)[me.rank] for shard in shards]
    return (100 * (torch.cat(sent) - torch.cat(shards)).norm() / torch.cat(shards).norm()).item()


@torch.no_grad()
def store_what_was_sent(me, model):
    for weight in model.parameters():
        shard = weight.to_local()
        shard.copy_(gather(me, shard.flatten(), 256).chunk(me.world_size)[me.rank].view_as(shard))


# %% [markdown]
# The weights are off already in the first step. **By what factor are they further off in step 60?** (2 would mean:
# twice as far.)

# %%
### BEGIN SOLUTION
### STUB ask("05.wire_steps")
ask("05.wire_steps").commit(8)  # "independent errors add up as the root of 60"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
exact_losses, _ = four.run(train, False)[0]
losses, off_percents = four.run(train, True)[0]
for step in WATCHED:
    print(
        f"step {step:>2}: loss {losses[step]:.4f} in int8, {exact_losses[step]:.4f} in float32; ",
        end="",
    )
    print(f"weights off by {off_percents[step]:.2f}%")
reveal("05.wire_steps", off_percents[60] / off_percents[1], losses[60], exact_losses[60])

# %% [markdown]
# ### Break it
#
# One more line makes it another algorithm: after each step, every rank stores in its shard what it would send. Nothing
# else changes. (The code calls the gather once more to get the rounded shard. The rank's own codes would be enough.)
# The next gather then rounds nothing: each weight is already a code times its scale. **What do you expect of the
# loss?**

# %%
### BEGIN SOLUTION
### STUB ask("05.wire_stored")
ask("05.wire_stored").commit("it falls as before")  # "a message rounds these weights anyhow"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
stored_losses, _ = four.run(train, True, stores=True)[0]
for step in WATCHED:
    print(f"step {step:>2}: loss {stored_losses[step]:.4f}; with shards in float32 {losses[step]:.4f}")
reveal("05.wire_stored", losses[1], losses[60], stored_losses[60])

# %% [markdown]
# A step of the optimizer moves a weight by about 3e-4. Neighbouring codes of these weights are about 1e-3 apart. So
# most steps end nearer to the old code than to the next code. Rounding undoes such a step, and the next step begins
# where this one began. In float32 the shard keeps each small step, until some of them together reach the next code.
#
# So a rank needs *master weights*. A message may be rounded, if no rank stores it in place of its weights. (Some jobs
# have no memory for master weights. They can round up or down at random, with chances that make the mean right. This is
# stochastic rounding.)
#
# What does rounding weights do to the gradients? They are the exact gradients of a model whose weights are a little
# off. The next cell prints how far off they are, with a simpler loss and before the first step.


# %%
def first_gradient(me, in_int8):
    model = model_of(me, in_int8)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(2 + me.rank)).to(me.device)
    F.mse_loss(model(x), x).backward()
    return torch.cat([weight.grad.full_tensor().flatten() for weight in model.parameters()]).cpu()


exact, through_int8 = (four.run(first_gradient, in_int8)[0].double() for in_int8 in (False, True))
off = 100 * (through_int8 - exact).norm() / exact.norm()
print(f"gradients off by {rounded(off, 1, apart=1e-2)}%")

# %% [markdown]
# ## Who does this
#
# | where | setting | what travels |
# |---|---|---|
# | DeepSpeed, ZeRO++ | `zero_quantized_weights` | weights in int8 with a scale for each block |
# | DeepSpeed, ZeRO++ | `zero_quantized_gradients` | gradients in int4, by an all-to-all, summed in high precision |
# | Megatron-LM | `--fp8-param-gather` | weights in float8, as the layers multiply them |
# | torchtitan, float8 | `enable_fsdp_float8_all_gather` | weights in float8, one scale a tensor |
# | torchtitan, float8 | recipe `rowwise` | weights in high precision |
#
# The last line is not a mistake. Each rank multiplies in float8, and makes float8 of the weights *after* they were
# gathered. So "we train in float8" does not say what is sent: that depends on the recipe. Count the bytes.
#
# <!-- word: MXFP8 | also: microscaling, MX formats -->
# **MXFP8** is float8 with a scale for each block of 32 numbers. The scale is a power of two, and has one byte. So a
# number takes 33/32 bytes. GPUs since Blackwell multiply this format as it is.
#
# Gradients are harder to send in few bits. The ranks of a ring add them on the way, and the first half of this page
# showed what rounded sums lose. ZeRO++ sends int4 and adds in high precision. For that, each rank has to get the parts
# of all ranks, by an all-to-all in place of a ring.
#
# ## Two questions

# %%
quiz("05h")

# %% [markdown]
# ## What you can do now
#
# You can read from calls or from a trace in which formats a sharded model is sent. You set both dtypes, since PyTorch's
# default sums in the format of the weights. You have written a gather that sends about a quarter of float32's bytes.
# You know why it does no lasting harm: the shards stay exact.
#
# One limit remains: your gather rounds before it sends, and multiplies after it has received. Between processes on one
# machine that costs more than it saves. When the course's gather was timed there, it took twice as long as a gather in
# float32. On GPUs one kernel does this rounding, and it saves time on slow links between nodes.
#
# **Further reading.** Wang et al., [ZeRO++](https://arxiv.org/abs/2306.10209) (2023), section 3: quantized weights,
# and gradients by an all-to-all. Rouhani et al., [Microscaling Data Formats](https://arxiv.org/abs/2310.10537) (2023),
# section 2: blocks of 32. Micikevicius et al., [FP8 Formats for Deep Learning](https://arxiv.org/abs/2209.05433)
# (2022), section 3: e4m3 and e5m2. PyTorch's page of
# [`fully_shard`](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html): `MixedPrecisionPolicy`.
