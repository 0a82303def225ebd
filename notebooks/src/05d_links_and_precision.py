# %% [markdown]
# # 05d · Sharded data parallelism: links and precision
#
# A sharded model sends its weights around in every step. You count these bytes, and find out on which links they cost
# time. You also find out which settings save messages but need more memory, and which save memory but send more.
#
# **2 × 50 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 4 of 8 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [3: what stays whole](05c_what_stays_whole.ipynb) · [5: one model
# again](05e_one_model_again.ipynb) · [6: build the optimizer](05f_build_sharded_optimizer.ipynb) · [7: build the
# wrapper](05g_build_fully_sharded.ipynb) · [8: precision on the wire](05h_precision_on_the_wire.ipynb)
#
# This part builds on [04d: build your own](04d_build_ddp.ipynb), [05a: states, shared
# out](05a_sharded_data_parallel.ipynb) and [05b: whole while it computes](05b_whole_for_a_moment.ipynb). Have you done
# them? `from course_lib import start; start("05d")` says whether you have.
#
# At the end you can
#
# - say what ZeRO-3 sends in a step, and on which links it is slower than DDP;
# - start all-gathers early enough, within a limit on memory;
# - choose between resharding, keeping weights whole, and hybrid sharding, by bytes on each link;
# - say what accumulation and 16-bit messages save here, and what they cost.
#
# From parts 1 and 2 you need ZeRO-3, which the course has as `FullySharded`. Each of n ranks keeps 1/n of all weights,
# gradients and optimizer states. The weights of a *unit* of layers are gathered before its forward, let go, and
# gathered again before its backward. Then its gradients leave by a reduce-scatter.

# %%
from course_lib import Link, Links, ask, check, cost, hint, mine, pace, reveal, shared_cluster
from course_lib.meter import Communication, MemoryLedger, Span, Timeline, bytes_text, metered
from course_lib.parallel.sharded import FullySharded
from course_lib.plot import gantt, lines, sent_bars, slots_chart, traffic_map
from course_lib.rounding import rounded

import time

import torch
import torch.distributed as dist
from torch import nn

# %% tags=["nbval-ignore-output"]
two, four = (shared_cluster(number) for number in (2, 4))

# %% [markdown]
# The model of this page has six layers, and each is a unit. They are *paced*, as in lesson 04: weights, gradients and
# messages are real, and computing is a timed wait. (Where bytes are counted and not time, the wait is 0.)


# %%
class Paced(torch.autograd.Function):
    """Returns x after ``time_s`` in forward, and its gradient after twice that; a timeline notes both."""

    @staticmethod
    def forward(ctx, x, me, time_s, timeline):
        ctx.pacing = me, time_s, timeline
        with timeline.span("forward"):
            pace(me, time_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        me, time_s, timeline = ctx.pacing
        with timeline.span("backward"):
            pace(me, 2 * time_s)
        return gradient, None, None, None


# %%
class PacedLayer(nn.Linear):
    def __init__(self, width, *pacing):
        super().__init__(width, width, bias=False)
        self.pacing = pacing

    def forward(self, x):
        return Paced.apply(super().forward(x), *self.pacing)


NUM_LAYERS, WIDTH = 6, 256


def layers(me, time_s=0.0, width=WIDTH, timeline=None):
    torch.manual_seed(0)
    timeline = timeline or Timeline(rank=me.rank)
    model = nn.Sequential(*(PacedLayer(width, me, time_s, timeline) for _ in range(NUM_LAYERS)))
    return model.to(me.device)


layer_bytes = 4 * WIDTH * WIDTH
print(f"{NUM_LAYERS} layers of {bytes_text(layer_bytes)}: {bytes_text(NUM_LAYERS * layer_bytes)} of weights")

# %% [markdown]
# ## How many bytes?
#
# ![Forward and backward of four units, once for DDP and once for ZeRO-3, with the messages below: gradients for DDP,
# weights and gradients for ZeRO-3; their sizes are question marks](../assets/05_sent.png)
#
# First count DDP's bytes, on four ranks. The DDP is the one that you have built in [part 4 of lesson
# 04](04d_build_ddp.ipynb), or else the course's. Its all-reduce is a ring of gloo's. Once `MyFullySharded` of part 7
# has passed, the cells run it beside the course's `FullySharded`.

# %% tags=["nbval-ignore-output"]
ddp_of_04 = mine.MyDDP
sharded_of_05 = mine.if_passed("MyFullySharded")


# %%
def ddp(me, model, bucket_bytes=2**20):
    return ddp_of_04(model, me, bucket_bytes=bucket_bytes)


def yours_of_part_7(me, model, prefetch=1):
    return sharded_of_05(model, list(model), me, prefetch=prefetch)


yours = yours_of_part_7 if sharded_of_05 else None


def step(me, wrap, width=WIDTH, **options):
    model = wrap(me, layers(me, width=width), **options)
    dist.barrier()
    model(torch.ones(1, width, device=me.device)).sum().backward()


def traffic(ranks, function, *args, **options):
    """What a function's ranks send after their barrier."""
    every, calls = metered(ranks, function, *args, **options).communication, ()
    for rank in range(ranks.world_size):
        mine = every.of(rank).calls
        calls += mine[[call.operation for call in mine].index("barrier") + 1 :]
    return Communication(ranks.world_size, calls)


ddp_bytes = traffic(four, step, ddp).sent_bytes(0)
print(f"DDP: rank 0 sends {bytes_text(ddp_bytes)} in a step")

# %% [markdown]
# **How many MiB does a rank send in a step of ZeRO-3?**

# %%
### BEGIN SOLUTION
### STUB ask("05.half")
ask("05.half").commit(6.75)  # "three collectives in place of one"
### END SOLUTION

# %%
by_whom = mine.beside(lambda wrap: traffic(four, step, wrap), FullySharded, yours)
sharded = by_whom["the course's"]
for name in sharded.by_operation():
    kind = sharded.of(0, operation=name)
    print(f"{name:<11} {len(kind.calls):>2} calls, {bytes_text(kind.sent_bytes(0))}")
reveal("05.half", sharded.sent_bytes(0), ddp_bytes, beside=by_whom)

# %%
in_order = {"DDP": traffic(four, step, ddp), "ZeRO-3": sharded}
in_order = {name: sent.of(0).calls for name, sent in in_order.items()}
sent_bars(in_order, title="A step on rank 0, call after call")

# %% [markdown]
# Why does the list say `all_to_all`, and not `reduce_scatter`? gloo has no reduce-scatter of its own. PyTorch runs an
# all-reduce in its place, and each rank throws most of the result away. The course runs an all-to-all: each rank gets
# the others' parts for it, and adds them. NCCL has a reduce-scatter.


# %%
def pytorchs(me):
    parts = torch.ones(me.world_size, 2**16, device=me.device)  # 1 MiB, a part for each rank
    mine = torch.empty_like(parts[0])
    dist.barrier()
    dist.reduce_scatter(mine, list(parts))


def the_courses(me):
    parts = torch.ones(me.world_size, 2**16, device=me.device)
    come = torch.empty_like(parts)
    dist.barrier()
    dist.all_to_all_single(come, parts)
    return come.sum(dim=0)


for scatter in (pytorchs, the_courses):
    sent_bytes = traffic(four, scatter).sent_bytes(0)
    print(f"a reduce-scatter of 1 MiB, {scatter.__name__:<11} {bytes_text(sent_bytes)} sent")

# %% [markdown]
# If the number of ranks does not divide the rows, padding is added. Four ranks send 250 rows as four times 63.

# %%
for width in (256, 250):
    shapes = [(width, width)] * NUM_LAYERS
    even = 3 * 3 / 4 * NUM_LAYERS * 4 * width * width  # 3 (n-1)/n P
    padded = cost.sharded_sent_bytes(shapes, stage=3, num_ranks=4)
    measured = traffic(four, step, FullySharded, width=width).sent_bytes(0)
    print(f"{width} rows: {even:,.0f} bytes without padding, {padded:,} with it; {measured:,} measured")

# %% [markdown]
# ## More bytes: how much longer?
#
# Now each layer computes for 8 ms forward and 16 ms backward, which is 144 ms in all. A shaped link of 25 MB/s joins
# the two ranks. DDP gets a bucket for each layer, so that DDP and ZeRO-3 send pieces of the same size. (If your DDP has
# not passed step 4 of its build, it hides no messages. It then takes longer than the model of DDP says below.)

# %%
dial = Link(latency_s=0.0, bandwidth_bytes_per_s=25e6)
forward_s, backward_s = NUM_LAYERS * 0.008, NUM_LAYERS * 0.016
SIZES = [layer_bytes] * NUM_LAYERS
one_layer = {"bucket_bytes": layer_bytes}


def step_s(me, wrap, repeats=2, **options):
    """The fastest of ``repeats`` steps, after a first one that finds out the order of the units."""
    model = wrap(me, layers(me, time_s=0.008), **options)
    x, times_s = torch.ones(1, WIDTH, device=me.device), []
    for _ in range(1 + repeats):
        dist.barrier()
        start_s = time.perf_counter()
        model(x).sum().backward()
        times_s.append(time.perf_counter() - start_s)
    return min(times_s[1:])


def on_link(link, wrap, **options):
    with two.shaped(links=Links(link)):
        return max(two.run(step_s, wrap, **options))


# %% tags=["nbval-ignore-output"]
ddp_s = on_link(dial, ddp, **one_layer)
print(f"DDP at 25 MB/s: {ddp_s * 1e3:.0f} ms")

# %% [markdown]
# **How long does a step of ZeRO-3 take on the same link?** (When a unit computes, the all-gather of the next unit has
# already begun.)

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("05.slower")
ask("05.slower").commit(260)  # "one and a half times the bytes, so of the time too"
### END SOLUTION


# %%
def ddp_model_s(link):
    def all_reduce_s(size_bytes):
        return cost.collective_cost("all_reduce", size_bytes, link, num_ranks=2).time_s

    buckets = cost.ddp_buckets(SIZES, bucket_cap_bytes=layer_bytes, first_bucket_bytes=layer_bytes)
    return cost.ddp_step(
        buckets, forward_s=forward_s, backward_s=backward_s, all_reduce_time_s=all_reduce_s
    ).time_s


def sharded_model_s(link, prefetch=1):
    return cost.sharded_step_s(
        SIZES, num_ranks=2, link=link, forward_s=forward_s, backward_s=backward_s, prefetch=prefetch
    )


# %% tags=["nbval-ignore-output"]
times_s = mine.beside(lambda wrap: on_link(dial, wrap), FullySharded, yours)
sharded_s = times_s["the course's"]
print(f"ZeRO-3: {sharded_s * 1e3:.0f} ms; by the model {sharded_model_s(dial) * 1e3:.0f} ms")
if "yours" in times_s:
    print(f"yours:  {times_s['yours'] * 1e3:.0f} ms")
print(f"DDP:    {ddp_s * 1e3:.0f} ms; by the model {ddp_model_s(dial) * 1e3:.0f} ms")
reveal("05.slower", sharded_s, ddp_s, sharded_model_s(dial), ddp_model_s(dial), beside=by_whom)

# %% [markdown]
# So on which links is ZeRO-3 slower than DDP? Call the time of computing forward F, and that of DDP's all-reduce C. By
# the algebra of lesson 02, an all-gather or a reduce-scatter of everything takes C/2.
#
# | | beside forward | beside backward |
# |---|---|---|
# | computing | F | 2 F |
# | DDP | nothing | C |
# | ZeRO-3 | C/2 | C/2 + C/2 |
#
# Both ways hide all their messages as long as C is at most 2 F. The condition is the *same* for both, and the next cell
# prints the slowest link on which it holds here. On a slower link DDP waits for C - 2 F, and ZeRO-3 for one and a half
# times that, however early its messages begin. On fast links ZeRO-3 waits only at the ends: for the first all-gather of
# each pass, and for the last reduce-scatter.
#
# The condition holds where weights and gradients travel in one format, as they do here. With weights in bfloat16 and
# gradients in float32 (further down) ZeRO-3 sends C/4 beside forward, and C/4 + C/2 beside backward. It then hides for
# C up to 8/3 F, while DDP, all in float32, still needs C up to 2 F.

# %% tags=["nbval-ignore-output"]
speeds = [1e6 * speed for speed in (4, 6, 8, 11, 16, 23, 32, 45, 64)]  # bytes per second
at = [Link(0.0, speed) for speed in speeds]
tried, once = speeds[1::3], {"repeats": 1}
curves = {
    "DDP, model": (speeds, [ddp_model_s(link) for link in at]),
    "ZeRO-3, model": (speeds, [sharded_model_s(link) for link in at]),
    "DDP, measured": (
        tried,
        [on_link(Link(0.0, v), ddp, **once, **one_layer) for v in tried],
    ),
    "ZeRO-3, measured": (tried, [on_link(Link(0.0, v), FullySharded, **once) for v in tried]),
}
print(f"C is 2 F at {NUM_LAYERS * layer_bytes / (2 * forward_s) / 1e6:.0f} MB/s")
lines(
    {name: ([x / 1e6 for x in xs], [1e3 * y for y in ys]) for name, (xs, ys) in curves.items()},
    x_label="link (MB/s)",
    y_label="step (ms)",
    title="Two ranks, paced computing on a shaped link",
    log_x=True,
)

# %% [markdown]
# The measured points may lie above their curves by the same time on every link. That time is what a step costs on your
# machine besides computing and link.
#
# ### Real sizes
#
# On many ranks an all-gather brings each rank nearly all P parameters, 2 P bytes in bfloat16. A forward pass over T
# tokens is 2 P T operations, as lesson 01 found. **The model grows to ten times its parameters, and each rank still has
# T tokens. How many times as fast must the link be, so that its all-gathers still hide?**

# %%
### BEGIN SOLUTION
### STUB ask("05.larger")
ask("05.larger").commit(10)  # "ten times the bytes"
### END SOLUTION


# %%
def link_needed(num_parameters, num_tokens, flops_per_s=400e12):
    """Bytes per second at which an all-gather takes as long as the forward pass that is to hide it."""
    forward_s = 2 * num_parameters * num_tokens / flops_per_s
    return 2 * num_parameters / forward_s


times = link_needed(70e9, num_tokens=4096) / link_needed(7e9, num_tokens=4096)
print(
    f"7 billion parameters: {link_needed(7e9, num_tokens=4096) / 1e9:.0f} GB/s; 70 billion: {times:g} times that"
)
reveal("05.larger", times)

# %% [markdown]
# So for each link there is a least number of *tokens* that a rank needs to hide its messages. In forward it is the
# operations that a device computes while its link carries one byte. Backward computes twice as much. With gradients in
# bfloat16 it sends twice as much too, 2 P bytes of weights and 2 P of gradients, and needs as many tokens. With
# gradients in float32 it sends 2 P and 4 P bytes beside 4 P T operations, and needs 1.5 times as many tokens. Take a
# GPU that reaches 400 TFLOP/s:

# %%
print("tokens on each rank, in each step, with gradients in bfloat16 and in float32:")
for name in ("nvlink 4", "infiniband ndr"):
    needed = 400e12 / cost.LINKS[name].bandwidth_bytes_per_s
    print(f"{name:<15} {needed:6,.0f} {1.5 * needed:8,.0f}")

# %% [markdown]
# With more ranks for the same batch, each rank has fewer tokens. With too few tokens ZeRO-3 no longer hides what it
# sends. Then a job needs the other ways of cutting a model.
#
# ## Prefetch
#
# <!-- word: prefetch | also: forward prefetch, backward prefetch -->
# ZeRO-3 hides its all-gathers because it starts them before it needs their weights. To **prefetch** is to start the
# all-gather of the next unit while this one computes. How does a rank know what comes next? It remembers the order of
# the last step.
#
# Take the link of 25 MB/s again. Without prefetch a rank waits for every all-gather. In backward it waits even longer:
# the all-gather queues on the link behind the reduce-scatter of the unit before. Look how much time a prefetch of one
# unit saves, and how much a second unit saves:

# %% tags=["nbval-ignore-output"]
ahead_s = {prefetch: on_link(dial, FullySharded, prefetch=prefetch) for prefetch in (0, 1, 2)}
for prefetch, found_s in ahead_s.items():
    model_s = sharded_model_s(dial, prefetch)
    print(f"prefetch {prefetch}: {found_s * 1e3:.0f} ms, by the model {model_s * 1e3:.0f} ms")

# %% [markdown]
# With one unit ahead, every all-gather but the first of each pass travels while something is computed. None waits
# behind a reduce-scatter if it could have been sent before it.
#
# The picture shows one step of rank 0 for each prefetch. In each row the upper bar shows computing, and the lower bar
# shows messages: all-gathers beside forward, and all-gathers and reduce-scatters beside backward. If your
# `MyFullySharded` has passed, the last row is a step of it. (You need not read the next cell: it finds the shortest of
# three steps.)


# %%
def watched(me, wrap, prefetch):
    timeline = Timeline(rank=me.rank)
    model = wrap(me, layers(me, time_s=0.008, timeline=timeline), prefetch=prefetch)
    steps = []
    for _ in range(4):
        dist.barrier()
        start_s = time.perf_counter()
        model(torch.ones(1, WIDTH, device=me.device)).sum().backward()
        steps.append((start_s, time.perf_counter()))
    return steps[1:], timeline.spans  # the first step finds out the order of the units


def row(wrap, prefetch, number):
    """The spans of rank 0 in its shortest step, from the beginning of that step on."""
    run = metered(two, watched, wrap, prefetch)
    steps, computing = run[0]
    start_s, end_s = min(steps, key=lambda step: step[1] - step[0])
    names = {"all_to_all": "reduce_scatter"}
    for span in (*computing, *run.communication.of(0).timeline().spans):
        if start_s <= span.start_s < end_s:
            name, began_s = names.get(span.name, span.name), span.start_s - start_s
            yield Span(number, name, span.kind, began_s, span.end_s - start_s)


# %% tags=["nbval-ignore-output"]
def rows_of(wrap):
    """Three rows of the course's; one of yours."""
    units_ahead = (0, 1, 2) if wrap is FullySharded else (1,)
    first = 0 if wrap is FullySharded else 3
    return [tuple(row(wrap, prefetch, first + place)) for place, prefetch in enumerate(units_ahead)]


with two.shaped(links=Links(dial)):
    rows = mine.beside(rows_of, FullySharded, yours)
gantt(
    Timeline.join(one for of_one in rows.values() for one in of_one),
    names={**{prefetch: f"prefetch {prefetch}" for prefetch in (0, 1, 2)}, 3: "yours, prefetch 1"},
    title="A step of rank 0 at 25 MB/s",
)

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you measure what gathering ahead of time costs in memory, and shard a model over two
# kinds of links.

# %% [markdown]
# ### What prefetch costs
#
# A gathered unit needs memory before it is used. The next cells measure the peak of a step on four ranks. Their model
# has twelve layers, so that one unit is a small part of it:


# %%
def peak_bytes(me, wrap=FullySharded, **options):
    """The smallest peak of two steps: gloo's thread may hold a buffer a moment too long."""
    model = wrap(me, nn.Sequential(*layers(me), *layers(me)), **options)
    optimizer = torch.optim.AdamW(model.parameters())
    x, peaks = torch.ones(1, WIDTH, device=me.device), []
    for _ in range(3):
        optimizer.zero_grad()
        with MemoryLedger(model, optimizer, inputs=x) as ledger:
            model(x).sum().backward()
        peaks.append(ledger.peak().total_bytes)
        optimizer.step()
    return min(peaks[1:])  # the first step has no optimizer states yet


def model_bytes(**options):
    unit = cost.UnitSizes(whole_numel=WIDTH * WIDTH, part_numel=WIDTH * WIDTH // 4)
    moments = cost.sharded_moments([unit] * 2 * NUM_LAYERS, num_ranks=4, **options)
    return max(moment.total for moment in moments)


# %%
found_bytes = {prefetch: min(four.run(peak_bytes, prefetch=prefetch)) for prefetch in (0, 1, 2)}
for prefetch, peak in found_bytes.items():
    model_peak = model_bytes(prefetch=prefetch)
    print(f"prefetch {prefetch}: {bytes_text(peak)} at the peak, by the model {bytes_text(model_peak)}")


def peak_of(wrap):
    return found_bytes[1] if wrap is FullySharded else min(four.run(peak_bytes, wrap, prefetch=1))


if "yours" in (peaks := mine.beside(peak_of, FullySharded, yours)):
    print(f"yours, prefetch 1: {bytes_text(peaks['yours'])} at the peak")

# %% [markdown]
# So each unit that is gathered ahead needs memory for one more unit, and by the model the second one saves no time
# here. It saves time if units differ in size: a small unit cannot hide the all-gather of a large one that follows it.
# PyTorch's `fully_shard` is one unit ahead, too. In forward that is so because the host starts a GPU's work before the
# GPU gets to it. In backward it is a prefetch as here. To be further ahead, call `set_modules_to_forward_prefetch` and
# `set_modules_to_backward_prefetch`.
#
# ### Build: the order of a step
#
# ![Four units and room for two: what is whole or on its way while unit 0 and unit 1 go forward, and question marks for
# the six computations after that; above them the first words, G0 G1 F0 R0 G2 F1](../assets/05_room.png)
#
# You are given the number of units, and how many of them may be whole *or on their way* at a time. Write the order of a
# step, a list of words. `G2` begins the all-gather of unit 2. `F2` and `B2` are its forward and its backward, each of
# which waits until the unit is whole. `R2` lets it go (*reshard*). Forward goes from unit 0 up, backward comes back. At
# the end nothing is whole.
#
# The step must not take longer than necessary, and must not gather a unit again that could have stayed whole. (The link
# carries one all-gather after the other. Gradients are left out.)


# %%
def order_of_step(num_units, most_whole):
    """The words of one step, such as ["G0", "F0", "B0", "R0"] for a single unit."""
    # 1. Before the first forward: how many all-gathers can begin?
    # 2. After a forward: is there room for one more?
    # 3. Which units does backward need first, and are they still whole?
    ### BEGIN SOLUTION
    order = [f"G{unit}" for unit in range(min(most_whole, num_units))]
    for unit in range(num_units):
        order.append(f"F{unit}")
        if unit + most_whole < num_units:
            order += [f"R{unit}", f"G{unit + most_whole}"]
    for unit in reversed(range(num_units)):
        order += [f"B{unit}", f"R{unit}"]
        if unit >= most_whole:
            order.append(f"G{unit - most_whole}")
    return order
    ### END SOLUTION


# %%
order_verdict = check("05.order", order_of_step)

# %%
# hint("05.order")

# %%
slots_chart(
    order_of_step(4, 2), title="Your order: four units, room for two"
) if order_verdict.passed else None

# %% [markdown]
# The course's `FullySharded` lets every unit go after its forward, and gathers it again. `fully_shard` does so too,
# with one exception. It keeps the weights of the outermost module, which backward usually needs first.
#
# ## Keep them whole
#
# With `reshard_after_forward=False` a unit is let go only after its backward, and is gathered once in place of twice.
# So a rank sends as many bytes as with DDP or ZeRO-2. The peak grows: all weights are whole between forward and
# backward. But gradients still leave unit by unit, and optimizer states stay shared out, so the peak stays below DDP's
# state:

# %%
weights_bytes = 2 * NUM_LAYERS * layer_bytes
print(f"weights {bytes_text(weights_bytes)}; all of DDP's state {bytes_text(4 * weights_bytes)}")
kept_bytes = min(four.run(peak_bytes, reshard_after_forward=False))
for name, reshards, peak in (("resharded", True, found_bytes[1]), ("kept", False, kept_bytes)):
    sent_bytes = traffic(four, step, FullySharded, reshard_after_forward=reshards).sent_bytes(0)
    print(f"{name:<10} peak {bytes_text(peak)}; in a step of six layers {bytes_text(sent_bytes)} sent")

# %% [markdown]
# ## Two links: hybrid sharding
#
# ![Two machines of two ranks each: inside a machine a thick line, between the machines a thin one; ranks 0 and 1 share
# a model, ranks 2 and 3 share the same model](../assets/05_hybrid.png)
#
# <!-- word: hybrid sharding | also: HSDP, hybrid sharded data parallelism | sentences: 3 -->
# Inside a machine links are fast, between machines they are slow. **Hybrid sharding** shards within a machine and
# replicates between machines. Each rank shares all weights with the ranks of its own machine. After the reduce-scatter
# it averages its shard's gradients with the ranks of other machines that keep the same rows.
#
# Take four ranks, on two machines of two. First the model is sharded over all four:

# %%
NODES = (0, 1), (2, 3)


def leaving_bytes(calls):
    """What the ranks of the first machine send to the second."""
    matrix = calls.matrix()  # matrix[i][j]: bytes from rank i to rank j
    return sum(matrix[mine][other] for mine in NODES[0] for other in NODES[1])


over_all = traffic(four, step, FullySharded)
print(f"sharded over four: {bytes_text(leaving_bytes(over_all))} leave a machine in a step")

# %% [markdown]
# **How many MiB leave a machine with hybrid sharding?**

# %%
### BEGIN SOLUTION
### STUB ask("05.hybrid")
ask("05.hybrid").commit(0)  # "a machine has all it needs"
### END SOLUTION


# %%
def hybrid(me, model, **options):
    inside = [dist.new_group(list(node)) for node in NODES]  # all ranks make all groups
    between = [dist.new_group(list(twins)) for twins in zip(*NODES, strict=True)]
    node, place = divmod(me.rank, 2)
    return FullySharded(me, model, group=inside[node], replicas=between[place], **options)


halves = traffic(four, step, hybrid)
print(f"hybrid: {bytes_text(leaving_bytes(halves))} leave a machine in a step")
reveal("05.hybrid", leaving_bytes(halves), leaving_bytes(over_all), NUM_LAYERS * layer_bytes)

# %%
both = {"sharded over four": (over_all.matrix(), NODES), "hybrid": (halves.matrix(), NODES)}
traffic_map(both, place="machine", title="Who sends how much to whom in a step")

# %% [markdown]
# Hybrid sharding sends fewer bytes between machines, and other kinds of messages. A rank has to wait for an all-gather
# before it computes a unit. With hybrid sharding only gradients go between machines, and no rank waits for them before
# the end of backward. The next cell measures both, with fast links inside (200 MB/s) and one slow port for each machine
# (12 MB/s):

# %% tags=["nbval-ignore-output"]
machines = Links.nodes(2, inside=Link(0.0, 200e6), across=Link(0.0, 12e6))
with four.shaped(links=machines):
    for name, wrap in (("sharded over four", FullySharded), ("hybrid", hybrid)):
        print(f"{name:<18} {max(four.run(step_s, wrap)) * 1e3:4.0f} ms a step")

# %% [markdown]
# A third way lies between sharding over all ranks and hybrid sharding. With `reshard_after_forward=2`, each rank keeps
# a half of a unit from forward to backward. Two ranks together can make it whole again, so the second all-gather stays
# inside a machine. Between two steps a rank still keeps a quarter. In `fully_shard` the argument has the same name.

# %%
for smaller in (True, 2, False):
    calls = traffic(four, step, FullySharded, reshard_after_forward=smaller)
    peak = min(four.run(peak_bytes, reshard_after_forward=smaller))
    print(
        f"{smaller!s:<5} {bytes_text(leaving_bytes(calls))} leave a machine; twelve layers: {bytes_text(peak)}"
    )

# %% [markdown]
# Between machines, the setting of the middle line sends as much as that of the last line. Hybrid sharding sends less
# than both, but needs more memory between the steps: a rank keeps a half of everything and not a quarter. Over how many
# ranks you shard is a choice between memory and bytes. Most jobs shard over the ranks that fast links join. In PyTorch
# you give `fully_shard` a mesh of two axes, and it shards along the second one.
#
# ## Accumulation
#
# Take a batch in four pieces, with one step of the optimizer after the last. Under DDP, `no_sync` for all but the last
# piece left a quarter of the calls. `FullySharded` has `no_sync` too: gradients stay on the rank until the last piece.
# **The next cell prints how many calls a rank makes in a step of four pieces without `no_sync`. How many does it make
# with `no_sync`?**


# %%
def pieces(me, quiet, num_pieces=4, **options):
    model = FullySharded(me, layers(me), **options)
    x = torch.ones(1, WIDTH, device=me.device)
    dist.barrier()
    for piece in range(num_pieces):
        if quiet and piece < num_pieces - 1:
            with model.no_sync():
                model(x).sum().backward()
        else:
            model(x).sum().backward()


loud = traffic(two, pieces, False)
num_loud = len(loud.of(0).calls)
print(f"without no_sync: {num_loud} calls, {bytes_text(loud.sent_bytes(0))} sent by a rank")

# %%
### BEGIN SOLUTION
### STUB ask("05.accumulate")
ask("05.accumulate").commit(num_loud // 4)  # "a quarter, as under DDP"
### END SOLUTION

# %%
quiet = traffic(two, pieces, True)
num_quiet = len(quiet.of(0).calls)
print(f"with no_sync:    {num_quiet} calls, {bytes_text(quiet.sent_bytes(0))}")
reveal("05.accumulate", num_quiet, num_loud, NUM_LAYERS)

# %% [markdown]
# Gradients that stay on a rank are whole. The next cell prints how many bytes of gradients a rank holds after three
# pieces of four:


# %%
def gradient_bytes(me, quiet):
    model = FullySharded(me, layers(me))
    x = torch.ones(1, WIDTH, device=me.device)
    with MemoryLedger(model, inputs=x) as ledger:
        before_bytes = ledger.mark("before").total_bytes
        for _ in range(3):
            if quiet:
                with model.no_sync():
                    model(x).sum().backward()
            else:
                model(x).sum().backward()
        time.sleep(0.02)  # for gloo's thread, which may still hold a buffer
        return ledger.mark("after three").total_bytes - before_bytes


for is_quiet in (False, True):
    print(f"no_sync {is_quiet!s:<5} {bytes_text(min(two.run(gradient_bytes, is_quiet)))} of gradients")

# %% [markdown]
# If there is room for whole gradients, there may be room for whole weights too. With `reshard_after_forward=False` and
# `no_sync` together, a rank makes one all-gather for each unit in each piece, and one reduce-scatter for each unit:

# %%
fewest = traffic(two, pieces, True, reshard_after_forward=False)
print(f"both: {len(fewest.of(0).calls)} calls, {bytes_text(fewest.sent_bytes(0))} sent by a rank")

# %% [markdown]
# In PyTorch `no_sync` is `model.set_requires_gradient_sync(False)`, and `set_reshard_after_backward(False)` keeps
# weights whole from piece to piece.
#
# ## Half as wide
#
# <!-- word: reduce dtype | also: `reduce_dtype` -->
# Lesson 04 found that autocast halves nothing that DDP sends. ZeRO-3 can halve what it sends. Ranks send copies of the
# weights, which they need only for a moment. These copies may be bfloat16, while the shards and the optimizer's steps
# stay in float32. The shards are the master weights of lesson 04. The **reduce dtype** is the number format in which
# gradients are sent and summed. It need not be the format in which the layers compute.

# %%
half, whole = torch.bfloat16, torch.float32
for compute, reduce in ((whole, whole), (half, whole), (half, half)):
    calls = traffic(four, step, FullySharded, compute_dtype=compute, reduce_dtype=reduce)
    names = {"dtype": str(compute).removeprefix("torch."), "reduce_dtype": str(reduce).removeprefix("torch.")}
    shapes = [(WIDTH, WIDTH)] * NUM_LAYERS
    wanted = cost.sharded_sent_bytes(shapes, stage=3, num_ranks=4, **names)
    print(f"weights {names['dtype']:<9} gradients {names['reduce_dtype']:<9}", end="")
    print(f"{bytes_text(calls.sent_bytes(0))}, by the model {bytes_text(wanted)}")
print(f"DDP, all in float32: {bytes_text(ddp_bytes)}")

# %% [markdown]
# With weights in bfloat16 and gradients in float32, a rank sends what DDP sends. In the third line a rank sends half as
# much as in the first, and that has a price. A ring adds in the format in which it sends, rank after rank.
#
# **On each of 512 ranks the gradient is 1. What is the sum along a ring, in bfloat16?**

# %%
### BEGIN SOLUTION
### STUB ask("05.sum")
ask("05.sum").commit(512)
### END SOLUTION


# %%
def along_a_ring(gradients):
    """gradients (n, K), a row for each rank -> (K,): each adds its own to what has come."""
    total = gradients[0]
    for own in gradients[1:]:
        total = total + own
    return total


ones = along_a_ring(torch.ones(512, 1, dtype=torch.bfloat16)).item()
print(rounded(ones, 0))
reveal("05.sum", ones)

# %% [markdown]
# Real gradients are not all 1. Take random gradients: each is a part that all ranks share, plus noise of its own rank.
# The next cell prints how far off their mean is, in per cent of the exact mean's length:

# %%
torch.manual_seed(0)
print("ranks   summed in bfloat16   in float32, from bfloat16")
for num_ranks in (8, 64, 512):
    gradients = torch.randn(4096) + torch.randn(num_ranks, 4096)
    exact = gradients.double().mean(0)
    off = []
    for sent in (gradients.bfloat16(), gradients.bfloat16().float()):
        mean = along_a_ring(sent).double() / num_ranks
        off.append(100 * (mean - exact).norm() / exact.norm())
    in_16_bits, in_32 = rounded(off[0], 1, apart=1e-3), rounded(off[1], 2, apart=1e-3)
    print(f"{num_ranks:>5}   {in_16_bits:>17}%   {in_32:>24}%")

# %% [markdown]
# If each rank *rounds* its gradient to bfloat16, the error is small, and smaller with more ranks: rounding errors
# average out. If the ranks also *sum* in bfloat16, the error grows with each rank. Therefore the usual setting is
# weights in bfloat16 and `reduce_dtype` float32: torchtitan's default. (The course's own reduce-scatter, from above,
# adds all parts in one sum, and rounds once.)
#
# ## What you can do now
#
# You know what a sharded step sends, and on which links that hides behind computing. You can write the order in which
# units are gathered and let go within a limit of memory. And you know four settings: prefetch, weights that stay whole
# until backward, shards within a machine, and 16-bit messages. For each you can say what it changes in memory, and in
# bytes on which link.
#
# [Part 5](05e_one_model_again.ipynb) makes one model of the shards again: to clip it, to save it, to load it on another
# number of ranks.
#
# **Further reading.** Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054) (2020), section 7: the bytes. Zhao
# et al., [PyTorch FSDP](https://arxiv.org/abs/2304.11277) (2023), section 3: prefetching, hybrid sharding and its bytes
# between machines, accumulation with and without communication. Austin et al., [How to Scale Your
# Model](https://jax-ml.github.io/scaling-book/training/) (2025), on training: how many tokens a rank needs for its
# link.
