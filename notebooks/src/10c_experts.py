# %% [markdown]
# # 10c · Long context and experts: experts, shared out
#
# A layer may have many times the weights, if each token uses only a part of them. You find out what that costs. You
# share out the layer's experts among ranks, and send tokens to them and back. On another day you mend a layer that
# gives some tokens wrong outputs.
#
# **2 × 45 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 9 · [1: the ring](10a_long_context.ipynb) · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [4:
# equally busy](10d_busy_experts.ipynb) · [5: hide the exchange](10e_hide_the_exchange.ipynb) · [6: many small
# experts](10f_many_small_experts.ipynb) · [7: packed documents](10g_packed_documents.ipynb) · [8: build ring
# attention](10h_build_ring_attention.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [01c: doing with less memory](01c_less_memory.ipynb), [02a: what travels](02a_collectives.ipynb)
# and [04a: one rule, sent in buckets](04a_distributed_data_parallel.ipynb). Have you done them? `from course_lib
# import start; start("10c")` says whether you have.
#
# At the end you can
#
# - say what a layer of experts costs in memory, in arithmetic, and in bytes;
# - send tokens to experts on other ranks, and their outputs back;
# - say over which ranks which gradients are averaged;
# - on another day: find out why a small rounding error became large.
#
# From [lesson 02](02a_collectives.ipynb) you need the all-to-all, from [lesson 04](04a_distributed_data_parallel.ipynb)
# the mean of gradients over ranks, and from [lesson 01](01a_one_device.ipynb) bfloat16.

# %%
from course_lib import ask, check, cost, hint, reveal, shared_cluster
from course_lib.meter import bytes_text, metered
from course_lib.parallel.experts import ExpertParallel, MixtureOfExperts
from course_lib.plot import flow_chart
from course_lib.rounding import agree, rounded

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## More weights than a token needs
#
# Most weights of a transformer are in its MLPs, and every token passes through all of them. What if a layer had eight
# MLPs, and each token went through the two that suit it best?
#
# ![A token goes into a box, router, with eight boxes behind it, MLP 0 to MLP 7; two arrows, thicker than the others,
# lead to MLP 2 and MLP 5, whose outputs are weighed and added](../assets/10_mixture.png)
#
# <!-- word: mixture of experts | also: MoE | sentences: 2 -->
# A **mixture of experts** is a layer with many MLPs, the experts, of which each token uses a few. It takes the place of
# an MLP. ([Shazeer et al., 2017](https://arxiv.org/abs/1701.06538).)

# %%
WIDTH, HIDDEN, EXPERTS, TOP_K = 64, 256, 8, 2


def mixture(**options):
    torch.manual_seed(0)
    return MixtureOfExperts(WIDTH, hidden=HIDDEN, num_experts=EXPERTS, top_k=TOP_K, **options)


mlp = nn.Sequential(nn.Linear(WIDTH, HIDDEN, bias=False), nn.GELU(), nn.Linear(HIDDEN, WIDTH, bias=False))
for name, module in {"one MLP": mlp, "8 experts": mixture()}.items():
    print(f"{name:<10}{sum(p.numel() for p in module.parameters()):>9,} parameters")

# %% [markdown]
# There are eight experts, each as large as the MLP. Each token goes to two of them. The next cell counts the
# arithmetic and compares it with the MLP's:


# %%
def flops(module, num_tokens=512):
    with FlopCounterMode(display=False) as counter:
        module(torch.ones(num_tokens, WIDTH))
    return counter.get_total_flops()


print(f"8 experts: {flops(mixture()):,} operations, {flops(mixture()) / flops(mlp):.2f} times one MLP's")

# %% [markdown]
# A token costs the arithmetic of its two experts, and a little for choosing them. So a model can have more weights for
# the same arithmetic. Many of the largest models are built in this way. Their *active* parameters, those that a token
# uses, are a small part of all.
#
# ## The choice of experts
#
# <!-- word: router | also: gate, gating network | sentences: 2 -->
# The **router** of a mixture of experts is a matrix with a row for each expert. A token's product with a row is that
# expert's score. The k experts with the highest scores are chosen. Their outputs are added up, each times its softmax
# probability.
#
# The next cell has such a layer in plain loops, and compares it with the course's layer. That one sorts tokens by
# expert and computes each expert once:


# %% tags=["nbval-ignore-output"]
def in_loops(layer, x):
    probabilities = F.linear(x, layer.router.weight).softmax(-1)  # (N, E)
    weights, chosen = probabilities.topk(TOP_K)  # (N, k)
    out = torch.zeros_like(x)
    for token in range(len(x)):
        for weight, expert in zip(weights[token], chosen[token], strict=True):
            hidden = F.gelu(layer.experts.w_up[expert] @ x[token])
            out[token] += weight * (layer.experts.w_down[expert] @ hidden)
    return out


x, layer = torch.randn(16, WIDTH, dtype=torch.float64), mixture().double()
print("the same:", torch.allclose(in_loops(layer, x), layer(x)))
print("experts of the first tokens:", layer.routing.experts[:5].tolist())

# %% [markdown]
# A choice is not a smooth function of the scores. A slightly larger score changes nothing, until suddenly another
# expert is chosen. How does the router learn then? Send one token through the layer, forward and backward. **How many
# of the router's eight rows get a gradient?**

# %%
### BEGIN SOLUTION
### STUB ask("10.learns")
ask("10.learns").commit(2)  # "those of its two experts"
### END SOLUTION


# %%
def rows_with_gradient(**options):
    layer = mixture(**options).double()
    layer(torch.ones(1, WIDTH, dtype=torch.float64)).square().sum().backward()
    rows = layer.router.weight.grad.abs().amax(1)
    return int((rows > 1e-9 * rows.max()).sum())


reveal("10.learns", rows_with_gradient(), rows_with_gradient(normalised=True), EXPERTS, TOP_K)

# %% [markdown]
# ## Experts on ranks
#
# A token uses two experts, but memory has to hold all eight. Take 32 layers of 8 experts, of width 4,096 with 16,384
# hidden units, without the attention between them:

# %%
LARGE = {"width": 4096, "hidden": 16384, "num_experts": 8, "top_k": 2}
one_layer = cost.expert_parameters(**LARGE)
total, active = (32 * numel / 1e9 for numel in (one_layer.total, one_layer.active))
print(f"{total:.1f} billion parameters, of which a token uses {active:.1f}")
print(f"weights, gradients and AdamW, at 16 bytes: {16 * total:.0f} GB")
for num_ranks in (2, 4, 8):
    of_rank = cost.expert_parameters(**LARGE, num_ranks=num_ranks)
    print(f"    experts shared out on {num_ranks} ranks: {16 * 32 * of_rank.by_rank[0] / 1e9:.0f} GB on each")

# %% [markdown]
# ![Four ranks; each has tokens of its own, a router, and two of eight experts, in its colour; between the ranks a
# question mark](../assets/10_shared_out.png)
#
# <!-- word: expert parallelism | also: EP | sentences: 2 -->
# In **expert parallelism** each rank has tokens of its own, as in data parallelism, all of the router, and some of the
# experts. A token travels to the ranks of its experts, and their outputs travel back.
#
# Each of four ranks has 512 tokens, each a row of 64 numbers. Each token chooses two experts, and the choices are
# spread evenly. A row whose expert is on its own rank is not sent. **How many times the bytes of its own tokens does a
# rank send in the forward pass of the layer?**

# %%
### BEGIN SOLUTION
### STUB ask("10.travels")
ask("10.travels").commit(2 * 3 / 4)  # "two rows a token, and one of four is at home"
### END SOLUTION


# %% tags=["nbval-ignore-output"]
def own_tokens(me, num_tokens=512, dtype=torch.float32):
    generator = torch.Generator().manual_seed(me.rank)
    return torch.randn(num_tokens, WIDTH, generator=generator).to(me.device, dtype)


def by_the_course(me):
    layer = ExpertParallel(me, mixture())
    return layer(own_tokens(me)).shape


communication = metered(four, by_the_course).communication
sent_bytes = sum(communication.sent_bytes(rank) for rank in range(4)) / 4
print("rank 0's calls:", [call.operation for call in communication.of(0).calls])
print(f"a rank sends {bytes_text(sent_bytes)}, and has {bytes_text(512 * WIDTH * 4)} of tokens")

# %%
reveal("10.travels", sent_bytes / (512 * WIDTH * 4), TOP_K, 4)


# %% tags=["nbval-ignore-output"]
def rows_to_ranks(me):
    """How many rows this rank's tokens make for the experts of each rank."""
    chosen = ExpertParallel(me, mixture()).router(own_tokens(me)).experts  # (N, k)
    return torch.bincount(chosen.flatten() // (EXPERTS // me.world_size), minlength=me.world_size).tolist()


names = [f"rank {rank}\nexperts {2 * rank}, {2 * rank + 1}" for rank in range(4)]
by_rank = {
    f"rank {rank}": dict(zip(names, to, strict=True)) for rank, to in enumerate(four.run(rows_to_ranks))
}
flow_chart(by_rank, unit="rows", title="Tokens above, experts below")

# %% [markdown]
# There are three calls, and not two. You will need the third one in what you build next.
#
# (Here each choice sends a row of its own, even if two experts of a token lie on one rank or one node. Then it is
# enough to send the token once: see [10f](10f_many_small_experts.ipynb).)
#
# ### Build: to the experts and back
#
# ![The rows of one rank's choices in the order of its tokens, then in another order; arrows to four ranks; on a rank
# the rows that came from four; and an arrow back, with a question mark](../assets/10_journey.png)
#
# Write the whole layer: tokens go to their experts, and outputs come back. For this you need one collective,
# `dist.all_to_all_single(output, input, output_sizes, input_sizes)`. The first `input_sizes[0]` rows of `input` go to
# rank 0, the next rows to rank 1, and so on. `output` receives `output_sizes[0]` rows from rank 0, then those from the
# next ranks. Sizes are lists of whole numbers, and may be 0. Without the two lists, all parts are of one size.
#
# Helpful: `flatten().argsort(stable=True)`, `torch.bincount(..., minlength=)`, `repeat_interleave`.


# %%
def experts_layer(me, tokens, chosen, weights, num_experts, run):
    """The outputs of experts on all ranks for this rank's tokens: (N, D) -> (N, D), forward only.

    For each token t: the sum, over c, of weights[t, c] times the output of expert chosen[t, c] for it.
    chosen, weights: (N, k), no expert twice for a token. N may differ from rank to rank, and be 0.
    ``num_experts`` E is a multiple of the n ranks; rank r has the experts r E/n to (r+1) E/n - 1.
    ``run(expert, rows)``: (R, D) -> (R, D), for the number of an expert of this rank; R may be 0.
    A row travels only to the ranks of its experts, and each expert computes only rows of tokens
    that chose it.
    """
    ### BEGIN SOLUTION
    n = me.world_size
    order = chosen.flatten().argsort(stable=True)  # choices, expert after expert; i is one of token i // k
    counts = torch.bincount(chosen.flatten(), minlength=num_experts)
    come = torch.empty_like(counts)  # for each rank, how many rows it has for each of my experts
    dist.all_to_all_single(come, counts)
    going_rows, coming_rows = (part.view(n, -1).sum(1).tolist() for part in (counts, come))
    rows = tokens.new_empty(sum(coming_rows), tokens.size(1))
    dist.all_to_all_single(rows, tokens[order // chosen.size(1)], coming_rows, going_rows)

    own = torch.arange(num_experts, device=me.device).chunk(n)[me.rank]
    expert_of_row = own.repeat(n).repeat_interleave(come)  # rank after rank
    made = torch.empty_like(rows)
    for expert in own.tolist():
        made[expert_of_row == expert] = run(expert, rows[expert_of_row == expert])

    back = tokens.new_empty(len(order), tokens.size(1))
    dist.all_to_all_single(back, made, going_rows, coming_rows)
    outputs = torch.empty_like(back)
    outputs[order] = back  # to the place of each choice
    return (outputs.view(*chosen.shape, tokens.size(1)) * weights.unsqueeze(-1)).sum(1)
    ### END SOLUTION


# %%
dispatch_verdict = check("10.dispatch", experts_layer)

# %%
# hint("10.dispatch")

# %% [markdown]
# <!-- word: dispatch and combine | also: dispatch, combine -->
# The two exchanges are **dispatch and combine**: tokens go to the ranks of their experts, and the outputs come back. On
# the rank of its token each output is multiplied by its weight, and a token's outputs are added up. The sizes of both
# exchanges are known only when the router has chosen, anew in every layer. `all_to_all_single` takes them as lists on
# the host, so the host has to wait for the counts. (GShard avoids that. It sends a fixed number of places for each
# expert, some of them empty; part 4 explains this. Exchanges that are made for experts, such as HybridEP or those on
# symmetric memory, leave the counts on the GPU.)
#
# The next cells run your function in the course's layer (the course's own stands in until yours has passed). They
# compare the result with one device that has the tokens of all four ranks:


# %%
def by_your_function(me, layer, tokens):
    routing, own = layer.router(tokens), layer.experts

    def run(expert, rows):
        place = expert - me.rank * len(own.w_up)
        return F.linear(F.gelu(F.linear(rows, own.w_up[place])), own.w_down[place])

    with torch.no_grad():
        return experts_layer(me, tokens, routing.experts, routing.weights, EXPERTS, run)


def by_the_layer(me, layer, tokens):
    return layer(tokens).detach()


def outputs_of(me, way):
    layer = ExpertParallel(me, mixture().double())
    return way(me, layer, own_tokens(me, dtype=torch.float64)).cpu()


# %%
EVERY = torch.cat(list(four.run(own_tokens))).cpu()
alone = mixture().double()(EVERY.double())
parts = four.run(outputs_of, by_your_function if dispatch_verdict.passed else by_the_layer)
alike = agree(torch.cat(list(parts)), alone, within=1e-10)
print(f"no output of four ranks is off by more than 1e-10: {alike}")

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above
# this one. In the second sitting you look at the backward pass of these layers.

# %% [markdown]
# ## The gradients of experts
#
# The course's `ExpertParallel` has a backward pass as well. The gradient of a row goes back to the rank that sent the
# row. So the backward of an all-to-all is an all-to-all with its sizes swapped. Each rank takes the mean of a loss over
# its own 512 tokens; one device takes it over all 2,048. The router's gradient on a rank comes from that rank's own
# tokens, and the mean over ranks is right, as in lesson 04.
#
# But each expert is on one rank alone. **Before anything is averaged, how many times as large as on one device is its
# gradient?**

# %%
### BEGIN SOLUTION
### STUB ask("10.own")
ask("10.own").commit(1)  # "all its tokens came to it, so it is complete"
### END SOLUTION


# %%
def gradients(me):
    """Of the router, and of this rank's first matrices, after backward and before any average."""
    layer = ExpertParallel(me, mixture().double())
    layer(own_tokens(me, dtype=torch.float64)).square().mean().backward()
    return layer.router.weight.grad.cpu(), layer.experts.w_up.grad.cpu()


one_device = mixture().double()
one_device(EVERY.double()).square().mean().backward()
routers, ups = zip(*four.run(gradients), strict=True)
times = torch.cat(ups).norm(dim=(1, 2)) / one_device.experts.w_up.grad.norm(dim=(1, 2))  # of each expert
print("length of each expert's gradient, over that on one device:", rounded(times, 2))
reveal("10.own", times.mean().item(), 4)

# %%
means = {
    "router, the mean over ranks": (sum(routers) / 4, one_device.router.weight.grad),
    "experts, divided by 4": (torch.cat(ups) / 4, one_device.experts.w_up.grad),
}
for name, (found, right) in means.items():
    print(f"{name:<30}as on one device: {agree(found, right, within=1e-9)}")

# %% [markdown]
# AdamW would hide the factor of 4, since it divides gradients by their own size. A clip by the norm would not: there
# the experts' gradients would count four times too much.
#
# A colleague does what works for every job with different data on each rank. The colleague wraps the layer in PyTorch's
# `DistributedDataParallel`. **Eight experts are shared out on four ranks. What do the four ranks hold after the
# wrapping?**

# %%
### BEGIN SOLUTION
### STUB ask("10.wrapped")
ask("10.wrapped").commit("an error: ranks hold different experts")
### END SOLUTION


# %%
def wrapped(me):
    layer = ExpertParallel(me, mixture())
    DistributedDataParallel(layer)
    return layer.experts.w_up.detach().cpu()


held = torch.cat(list(four.run(wrapped))).flatten(1)  # (8, ...)
num_different = len(held.unique(dim=0))
print(f"{len(held)} experts, {num_different} of them different")
reveal("10.wrapped", num_different, EXPERTS, 4)

# %% [markdown]
# So one model has two kinds of parameters. The gradients of parameters that all ranks hold are averaged over all ranks.
# The gradients of an expert are added up over the ranks that hold this expert, here one. Then they are divided by the
# number of *all* ranks. Part 4 has both on a mesh, with `average_gradients`.
#
# PyTorch's wrapper cannot know which parameters are parts. The course's own wrapper can: `ExpertParallel` marks them by
# `parts_among`, and the wrapper refuses such a module with an error that says why.
#
# ## Tokens or gradients?
#
# If memory allowed it, each rank could keep all eight experts whole. This is plain data parallelism: no token travels,
# and gradients are averaged. Take a layer of width 4,096 as above, in bfloat16, on 8 ranks with 8,192 tokens each. The
# router spreads tokens evenly. In a step, tokens travel four times: to experts and back, forward and backward. **How
# many times as many bytes does a rank send for gradients as for tokens?**

# %%
### BEGIN SOLUTION
### STUB ask("10.lighter")
ask("10.lighter").commit(0.5)  # "all-to-all in each layer, four times: that must be more"
### END SOLUTION


# %%
def step_bytes(num_tokens, n=8):
    """Bytes that a rank sends in a step: for tokens that travel, and for gradients of whole experts."""
    counts = [[2 * num_tokens // 8] * 8] * n
    tokens = cost.expert_sent_bytes(counts, width=4096, itemsize=2)[0]
    whole = 8 * 2 * 4096 * 16384
    return tokens, cost.expert_gradients_sent_bytes(
        shared_numel=whole, own_numel=0, num_replicas=n, ranks_of_replica=1, itemsize=2
    )


reveal("10.lighter", *step_bytes(8192), 8, 2)

# %%
print("tokens on a rank    tokens travel    gradients travel")
for num_tokens in (2_048, 8_192, 32_768, 65_536, 131_072):
    sizes = (f"{size / 1e9:14.2f} GB" for size in step_bytes(num_tokens))
    print(f"{num_tokens:>16,}", *sizes)

# %% [markdown]
# Bytes alone do not decide. An all-reduce of gradients runs while backward computes (lesson 04). The exchange of tokens
# cannot hide within one micro-batch: the experts wait for it, and the next layer waits for the experts. (A second
# micro-batch can compute meanwhile: [part 5](10e_hide_the_exchange.ipynb).) So expert parallelism needs fast links,
# like tensor parallelism: if possible those within a machine.
#
# ## What you can do now
#
# You have seen a layer with more weights for the same arithmetic, and how its router learns. You have sent tokens to
# experts and back, and counted their bytes. You have found out that an expert's gradient is a sum where a mean is
# needed.
#
# **The limit.** This part assumed that the router spreads tokens evenly. So far nothing makes it do so, and every rank
# waits for the busiest expert. [Part 4](10d_busy_experts.ipynb) finds out for how long, and what helps.
#
# **Further reading.** Shazeer et al., [Outrageously Large Neural Networks](https://arxiv.org/abs/1701.06538) (2017),
# section 2: the layer. Lepikhin et al., [GShard](https://arxiv.org/abs/2006.16668) (2020), section 3: experts on
# devices. Fedus et al., [Switch Transformers](https://arxiv.org/abs/2101.03961) (2021), section 2.4: precision. Zoph et
# al., [ST-MoE](https://arxiv.org/abs/2202.08906) (2022): stable routers.
#
# ## Another day: a few tokens with wrong outputs
#
# This clinic takes some twenty minutes more, and nothing later needs it. It is for you if you train experts in
# bfloat16.
#
# *Symptom.* A team has trained a layer of 16 experts in float32. Now the team runs it in bfloat16, as it has done for
# years with dense models, those without experts. The outputs of most tokens change by a few per cent. The outputs of
# some tokens change completely, and nobody finds anything special about these tokens. Here is how the team's layer
# chooses experts, and the layer around it:


# %%
def colleagues_choice(x, router):
    """(N, D), (E, D) -> the experts of each token, and their weights, both (N, 2)."""
    scores = F.linear(x, router)
    weights, experts = scores.softmax(-1).topk(2)
    return experts, weights


def output(x, router, w_up, w_down, choose):
    """Every expert for every token, and then the two that were chosen: fine for a clinic."""
    experts, weights = choose(x, router)
    hidden = F.gelu(torch.einsum("nd,ehd->neh", x, w_up))
    every = torch.einsum("neh,edh->ned", hidden, w_down)
    chosen = every.gather(1, experts.unsqueeze(-1).expand(-1, -1, WIDTH))
    return (chosen * weights.unsqueeze(-1)).sum(1)


# %%
random = torch.Generator().manual_seed(0)
TOKENS = torch.randn(2048, WIDTH, generator=random)
TOKENS[:, 0] = 4.0
SHAPES = (WIDTH,), (128, WIDTH), (WIDTH, 128)  # of the router, and of the experts' two matrices
TRAINED = [torch.randn(16, *shape, generator=random) / 8 for shape in SHAPES]
TRAINED[0][:, 0] = 5.0  # as training has left it
TOKENS, *TRAINED = (one.bfloat16().float() for one in (TOKENS, *TRAINED))  # bfloat16 has these exactly


def off(choose, weights=TRAINED):
    """By how much each token's output in bfloat16 is off, as a share of its length."""
    right = output(TOKENS, *weights, colleagues_choice)
    found = output(TOKENS.bfloat16(), *(w.bfloat16() for w in weights), choose)
    return (found.float() - right).norm(dim=1) / right.norm(dim=1)


# %% tags=["nbval-ignore-output"]
def print_off(by):
    print(f"half of the tokens are off by less than {by.median():.1%}, the worst of 2048 by {by.max():.0%}")
    print(f"off by more than 10 %: {(by > 0.1).float().mean():.1%} of them")


print_off(off(colleagues_choice))

# %% [markdown]
# **Why are those few tokens so far off?**

# %%
### BEGIN SOLUTION
### STUB ask("10.astray")
ask("10.astray").commit("the experts' sums lose digits")  # "it is long sums that suffer"
### END SOLUTION

# %% [markdown]
# *Evidence.* The next cells run a dense MLP, made of the first expert. Then they print the best scores of a token that
# is far off, and how many tokens have other experts than in float32.


# %%
def elsewhere(choose, router):
    """Share of tokens whose two experts are not those of float32."""
    right, _ = colleagues_choice(TOKENS, router)
    other, _ = choose(TOKENS.bfloat16(), router.bfloat16())
    return (right.sort().values != other.sort().values).any(1).float().mean().item()


# %% tags=["nbval-ignore-output"]
_, up, down = (weights[0] for weights in TRAINED)
right = F.gelu(TOKENS @ up.T) @ down.T
dense = F.gelu(TOKENS.bfloat16() @ up.bfloat16().T) @ down.bfloat16().T
dense_off = ((dense.float() - right).norm(dim=1) / right.norm(dim=1)).median().item()
print(f"dense MLP: half of the tokens are off by less than {dense_off:.1%}")
worst = TOKENS[off(colleagues_choice).argmax()]
for name, scores in {
    "float32": worst @ TRAINED[0].T,
    "bfloat16": worst.bfloat16() @ TRAINED[0].bfloat16().T,
}.items():
    print(f"{name:<9} best scores:", *(f"{score:.3f}" for score in scores.float().sort().values.flip(0)[:4]))
print(f"with other experts: {elsewhere(colleagues_choice, TRAINED[0]):.1%}")

# %% tags=["nbval-ignore-output"]
around_zero = TRAINED[0].clone()
around_zero[:, 0] = 0.0  # 20 less for each expert
at_20, at_0 = (elsewhere(colleagues_choice, router) for router in (TRAINED[0], around_zero))
reveal("10.astray", at_20, at_0, off(colleagues_choice).median().item(), dense_off)

# %% [markdown]
# Why can all scores be around 20? Softmax does not change if the same number is added to all scores. So the model's
# loss does not limit that number. (The router z-loss of [ST-MoE](https://arxiv.org/abs/2202.08906) was made to limit
# it.)
#
# ### Mend it
#
# Tokens and router are given in bfloat16, and the experts may compute in it. One line needs more digits.


# %%
def mended_choice(x, router):
    """(N, D), (E, D) -> the experts of each token, and their weights in the dtype of x, both (N, 2)."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB scores = F.linear(x, router)
    scores = F.linear(x.float(), router.float())
    ### END SOLUTION
    weights, experts = scores.softmax(-1).topk(2)
    return experts, weights.to(x.dtype)


# %%
choice_verdict = check("10.choice", mended_choice)

# %%
# hint("10.choice")

# %% tags=["nbval-ignore-output"]
right_choice = mended_choice if choice_verdict.passed else colleagues_choice
print(f"with other experts: {elsewhere(right_choice, TRAINED[0]):.1%}")
print_off(off(right_choice))

# %% [markdown]
# When no token is far off, your line is right. For a token the router computes E numbers, and its experts compute
# thousands. So the router's additional digits cost very little. [Switch](https://arxiv.org/abs/2101.03961) computes its
# router in float32 inside a bfloat16 model, and so does the course's `TopKRouter`, under autocast too.
