# %% [markdown]
# # 10f · Long context and experts: many small experts
#
# Mixtures now have hundreds of small experts, and a token goes to eight of them. You find out what that changes. You
# write the rule that sends a token to each node only once. You also give attention and experts meshes of their own.
#
# **60 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 6 of 9 · [1: the ring](10a_long_context.ipynb) · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [3:
# experts, shared out](10c_experts.ipynb) · [4: equally busy](10d_busy_experts.ipynb) · [5: hide the
# exchange](10e_hide_the_exchange.ipynb) · [7: packed documents](10g_packed_documents.ipynb) · [8: build ring
# attention](10h_build_ring_attention.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [08c: positions, shared out](08c_sequence_parallel.ipynb), [09a: places and
# links](09a_meshes.ipynb), [10c: experts, shared out](10c_experts.ipynb) and [10d: equally
# busy](10d_busy_experts.ipynb). Have you done them? `from course_lib import start; start("10f")` says whether you
# have.
#
# At the end you can
#
# - say how the size of experts changes bytes, arithmetic and balance;
# - compute on how many nodes a token's experts lie, and what a limit saves;
# - send a token once to a node, and add up its outputs there;
# - share out experts among more ranks than there are replicas of the data.
#
# From [part 3](10c_experts.ipynb) you need dispatch and combine, from [part 4](10d_busy_experts.ipynb) capacity and
# the selection bias, from [lesson 08](08c_sequence_parallel.ipynb) sequence parallelism, and from
# [lesson 09](09a_meshes.ipynb) meshes.

# %%
from course_lib import ask, check, cost, hint, quiz, reveal, shared_cluster
from course_lib.layouts import Mesh
from course_lib.meter import metered
from course_lib.models import Attention, TransformerConfig
from course_lib.parallel.experts import (
    DeduplicatedExperts,
    ExpertParallel,
    MixtureOfExperts,
    NodeGroups,
    SigmoidRouter,
)
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.tensor import HeadParallelAttention
from course_lib.rounding import agree, rounded

import torch

# %% tags=["nbval-ignore-output"]
eight = shared_cluster(8)

# %% [markdown]
# ## Few large experts, many small ones
#
# Mixtral 8x7B has 8 experts in a layer, as in part 3, and 2 for each token. DeepSeek-V3 has 256, and 8 for each token.
# The next cell computes both layers by the course's cost functions.
#
# (Their experts have three matrices, and the course's have two. So `hidden` below is one and a half times theirs. This
# makes the numbers of parameters equal.)

# %%
LAYERS = {
    "Mixtral 8x7B": {"width": 4096, "hidden": 14336 * 3 // 2, "num_experts": 8, "top_k": 2},
    "DeepSeek-V3": {"width": 7168, "hidden": 2048 * 3 // 2, "num_experts": 256, "top_k": 8},
}
for name, sizes in LAYERS.items():
    layer = cost.expert_parameters(**sizes)
    share = layer.active / layer.total
    print(f"{name:<13}{layer.total / 1e9:6.2f} billion parameters in a layer, a token uses {share:.1%}")

# %% [markdown]
# <!-- word: fine-grained experts | also: small experts -->
# Experts that are many, and much smaller than the MLP of a dense model, are called **fine-grained experts**. The model
# has far more ways to combine them. There are 28 sets of two of eight, and 410 million million sets of eight of 256.
# ([DeepSeekMoE](https://arxiv.org/abs/2401.06066), 2024.)
#
# <!-- word: shared expert -->
# Such a layer also has a **shared expert**, an expert through which every token goes. It learns what all tokens need,
# so the other experts need not learn it. No router chooses it, each rank holds it whole, and no token travels to it.
# (It is not counted above.)
#
# <!-- word: sigmoid scores | also: sigmoid gating -->
# And the router has **sigmoid scores**: each expert's score is the sigmoid of its product with the token. The
# probabilities of a softmax depend on all 256 experts. A sigmoid depends on one expert alone. An expert is chosen by
# its score plus its bias (part 4). Its weight is computed without the bias: its score, divided by the sum of the eight
# chosen scores. (DeepSeek-V3 then multiplies these weights by 2.5, `route_scale` of its configuration.)
#
# Eight ranks share out each of these layers, and every choice sends one row there and gets one back, as in part 3.
# Tokens are spread evenly. Divide the operations of a rank's routed experts by the bytes that the rank sends, both in
# the forward pass. **How many times Mixtral's quotient is DeepSeek-V3's?**

# %%
### BEGIN SOLUTION
### STUB ask("10.per_byte")
ask("10.per_byte").commit(0.25)  # "four times the rows"
### END SOLUTION


# %%
def forward_of(sizes, num_tokens=1024, num_ranks=8):
    """Operations of a rank's experts, and bytes that it sends, in bfloat16."""
    width, num_experts, top_k = sizes["width"], sizes["num_experts"], sizes["top_k"]
    counts = [[num_tokens * top_k // num_experts] * num_experts] * num_ranks
    sent_bytes = cost.expert_sent_bytes(counts, width=width, itemsize=2, is_training=False)[0]
    active = cost.expert_parameters(**sizes).active - num_experts * width  # without the router
    return 2 * num_tokens * active, sent_bytes


per_byte = {}
for name, sizes in LAYERS.items():
    flops, sent_bytes = forward_of(sizes)
    per_byte[name] = flops / sent_bytes
    times = sent_bytes / (1024 * 2 * sizes["width"])
    print(
        f"{name:<13}sends {times:4.1f} times its tokens' bytes, {per_byte[name]:>6,.0f} operations for each byte"
    )
reveal("10.per_byte", *per_byte.values(), 14336, 2048, 4)

# %% [markdown]
# How long does the sending take, compared with the computing? An H100 does at most 989 TFLOP/s in bfloat16 ([data
# sheet](https://www.nvidia.com/en-us/data-center/h100/)). Between nodes assume 50 GB/s, the InfiniBand of DeepSeek-V3's
# machines ([report](https://arxiv.org/abs/2412.19437), section 3.2.2).

# %%
at_once = 989e12 / 50e9
print(f"while a byte is sent, a GPU could do {at_once:,.0f} operations")
for name, operations in per_byte.items():
    print(f"{name:<13}sending between nodes takes {at_once / operations:.1f} times as long as computing")

# %% [markdown]
# So for small experts the links limit the speed. (These are the best rates of both. Real arithmetic is slower, so the
# share of sending is smaller. And each choice counts as a row of its own, as if each rank were a node. In section 3.2.1
# the report counts the whole model, attention included: with experts on several nodes, computing and communicating are
# about 1 to 1.)
#
# ### Tokens or gradients, again
#
# In part 3 you compared two ways: to send tokens, or to keep all experts on each rank and send gradients. From some
# number of tokens on, gradients need fewer bytes. The next cell computes whether 32 times as many experts change that
# number:

# %%
for name, sizes in LAYERS.items():
    expert_numel = cost.expert_parameters(**sizes).total - sizes["num_experts"] * sizes["width"]
    gradient_bytes = cost.expert_gradients_sent_bytes(
        shared_numel=expert_numel, own_numel=0, num_replicas=8, ranks_of_replica=1, itemsize=2
    )
    token_bytes = 2 * forward_of(sizes)[1] / 1024  # forward, and as much backward
    print(f"{name:<13}equal at {gradient_bytes / token_bytes / 1000:.1f} thousand tokens on a rank")

# %% [markdown]
# The number hardly changes. There are 32 times as many experts, each with a seventh of the hidden width. And there are
# 4 times as many choices: 32 / 7 / 4 is 1.14. (The width of the model cancels: an expert's parameters and a token's row
# both grow with it.) But no rank can hold all 256 experts. So tokens travel, and the rest of this page is about sending
# fewer bytes for them.
#
# ### Who is busy?
#
# Take a die in place of the router, for 8,192 tokens. Each token gets 2 of 8 experts, or 8 of 256 (all different).
# Eight ranks hold 1 expert each, or 32. Divide the load of the busiest expert by the mean of all experts, and do the
# same for ranks. A larger quotient means a less even load. **Are many small experts more even than few large ones, or
# less? And the ranks that hold them?**

# %%
### BEGIN SOLUTION
### STUB ask("10.even")
ask("10.even").commit("experts more even, ranks more even")  # "there are more of them"
### END SOLUTION


# %%
def dice(num_tokens, num_experts, top_k):
    """(tokens, k): different experts for each token, all equally likely."""
    return torch.rand(num_tokens, num_experts, generator=torch.Generator().manual_seed(0)).topk(top_k).indices


def busiest(num_experts, top_k, num_ranks=8):
    """The most rows of an expert, and of a rank, each over the mean of all."""
    loads = torch.bincount(dice(8192, num_experts, top_k).flatten(), minlength=num_experts)
    of_ranks = loads.view(num_ranks, -1).sum(1)
    return tuple((one.max() / one.double().mean()).item() for one in (loads, of_ranks))


large, small = busiest(8, 2), busiest(256, 8)
print(f"2 of   8: busiest expert {rounded(large[0], 2)} times the mean, busiest rank {rounded(large[1], 2)}")
print(f"8 of 256: busiest expert {rounded(small[0], 2)} times the mean, busiest rank {rounded(small[1], 2)}")
reveal("10.even", large, small)

# %% [markdown]
# DeepSeek-V3 drops no token. It keeps experts busy by the bias of part 4 and a very small loss (section 2.1.2). A real
# router does not choose at random: it prefers some experts, and may prefer several of one rank together.
#
# ## Once to each node
#
# The ranks of one node have fast links to each other, NVLink, and slow ones to other nodes. In DeepSeek-V3's training
# 64 GPUs on 8 nodes share out a layer's experts, 32 on each node. A token has 8 experts. If two of them lie on one
# node, its row need not go there twice. Send it once, and let the node copy it.
#
# ![Left, a token sends four rows over the slow link, to four experts on two nodes. Right, it sends two rows, one to
# each node, where it is copied](../assets/10_once_a_node.png)
#
# The saving depends on how often two experts of a token lie on one node. **Choose eight of 256 experts at random. On
# how many of the eight nodes do they lie on average?**

# %%
### BEGIN SOLUTION
### STUB ask("10.nodes")
ask("10.nodes").commit(8)  # "eight choices, eight nodes"
### END SOLUTION

# %%
num_nodes_of = [len(set(nodes)) for nodes in (dice(8192, 256, 8) // 32).tolist()]
mean = sum(num_nodes_of) / len(num_nodes_of)
for number in range(2, 9):
    print(f"{number} nodes: {num_nodes_of.count(number) / len(num_nodes_of):6.1%} of tokens")
reveal("10.nodes", mean, cost.distinct_groups(num_experts=256, top_k=8, num_groups=8), 8, 8)

# %% [markdown]
# ### Build: which token goes to which node
#
# Write the rule. You get the table of chosen experts of one rank's tokens. You return two things for one all-to-all:
# the tokens that are sent, node after node, and how many go to each node. The rank's own node is treated like the
# others. Its rows are not sent over a slow link, so the function need not know which node is its own.
#
# Say 8 experts lie on 2 nodes, and three tokens chose `[[0, 5], [4, 7], [6, 1]]`. Tokens 0 and 2 go to both nodes,
# token 1 to node 1 alone. So the tokens are `[0, 2, 0, 1, 2]`, and the sizes `[2, 3]`.


# %%
def once_a_node(chosen, num_experts, num_nodes):
    """Which of this rank's tokens go to which node: (tokens, sizes).

    chosen: (N, k) int64, the experts of each token, none twice for a token. N may be 0.
    Node m has a block of experts: m E/nodes to (m + 1) E/nodes - 1; num_nodes divides num_experts.
    tokens: (S,) whole numbers, a tensor or a list: those for node 0, rising, then those for node 1, ...
    sizes: a list or a tensor, with a whole number for each node: how many tokens are for it.
    A token goes once to each node that has one of its experts, however many of them lie there.
    """
    ### BEGIN SOLUTION
    nodes = chosen // (num_experts // num_nodes)  # (N, k)
    goes = torch.zeros(len(chosen), num_nodes, dtype=torch.bool)
    goes.scatter_(1, nodes, True)
    return goes.T.nonzero()[:, 1], goes.sum(0).tolist()
    ### END SOLUTION


# %%
node_verdict = check("10.once_a_node", once_a_node)

# %%
# hint("10.once_a_node")

# %% [markdown]
# ### On eight ranks
#
# Now send real rows. There are four nodes of two ranks, 32 experts, 8 for each token, and 64 tokens on each rank, in
# float64. (The nodes are only names here, wherever your ranks are. Bytes are counted, and times are not.)
#
# Each rank has a place in its node. Over the slow link a row is sent to the rank that has the sender's place in the
# other node. That rank passes it on inside its node, once to each rank that has one of its experts. The numbers of its
# experts, and their weights, travel with the row.
#
# The way back can use as few rows, since a sum may be computed in parts. Each rank adds up the outputs of its own
# experts for a token, times their weights. The rank that passed the row on adds up its node's sums, and sends one row
# back.

# %%
WIDTH, EXPERTS, TOP_K = 128, 32, 8
NODES, RANKS_PER_NODE = 4, 2


def mixture(max_nodes=None):
    torch.manual_seed(0)
    layer = MixtureOfExperts(WIDTH, hidden=32, num_experts=EXPERTS, top_k=TOP_K)
    layer.router = SigmoidRouter(WIDTH, EXPERTS, top_k=TOP_K, num_nodes=NODES, max_nodes=max_nodes)
    return layer.double()


def own_tokens(rank):
    return torch.randn(64, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))


def plan(chosen):
    tokens, sizes = once_a_node(chosen.cpu(), EXPERTS, NODES)
    return torch.as_tensor(tokens, device=chosen.device), sizes


# %%
def forward(me, way, max_nodes=None):
    nodes = NodeGroups(me, ranks_per_node=RANKS_PER_NODE)
    if way == "a choice":
        layer = ExpertParallel(me, mixture(max_nodes))
    elif way == "a rank":
        layer = DeduplicatedExperts(me, mixture(max_nodes))
    else:  # by your function, or by the course's until yours has passed
        yours = plan if node_verdict.passed else None
        layer = DeduplicatedExperts(me, mixture(max_nodes), nodes=nodes, plan=yours)
    out = layer(own_tokens(me.rank).to(me.device)).detach().cpu()
    nodes.close()
    return out


# %% [markdown]
# The next cells run three ways. Each is compared with one process that has the tokens of all eight ranks:

# %%
EVERY = torch.cat([own_tokens(rank) for rank in range(8)])


def by_link(communication):
    """Bytes between nodes, and bytes inside nodes."""
    between = inside = 0
    for sender, row in enumerate(communication.matrix()):
        for receiver, size_bytes in enumerate(row):
            if sender // RANKS_PER_NODE == receiver // RANKS_PER_NODE:
                inside += size_bytes
            else:
                between += size_bytes
    return between, inside


# %%
def mib(size_bytes):
    return f"{size_bytes / 2**20:.2f} MiB"


def compare(way, max_nodes=None):
    run = metered(eight, forward, way, max_nodes)
    is_same = agree(torch.cat(list(run)), mixture(max_nodes)(EVERY), within=1e-10)
    between, inside = by_link(run.communication)
    sizes = f"between nodes {mib(between)}, inside {mib(inside)}"
    print(f"a row for each {way[2:] + ':':<7} {sizes}; as one process: {is_same}")
    return between


between = {way: compare(way) for way in ("a choice", "a rank", "a node")}

# %% [markdown]
# The next cell computes the same by a formula: each token's rows to other nodes, there and back. `distinct_groups` says
# on how many ranks, or nodes, the experts lie on average if all sets of 8 are equally likely.

# %%
on_ranks, on_nodes = (
    cost.distinct_groups(num_experts=EXPERTS, top_k=TOP_K, num_groups=n) for n in (8, NODES)
)
row_bytes, beside_bytes = 8 * WIDTH, (8 + 4) * TOP_K  # weights in float64, numbers of experts in int32
rows_of = {"a choice": (8, 0), "a rank": (on_ranks, beside_bytes), "a node": (on_nodes, beside_bytes)}
for way, (rows, extra_bytes) in rows_of.items():
    away = rows * 3 / 4  # to other nodes
    by_formula = 512 * away * (2 * row_bytes + extra_bytes)
    sizes = f"{mib(by_formula)}, counted {mib(between[way])}"
    print(f"a row for each {way[2:] + ':':<7} {away:.2f} rows to other nodes, {sizes}")

# %% [markdown]
# The formula leaves out a little (counts travel first), and this router does not choose at random. The fast links carry
# more than before. Compare a row for each node with a row for each rank. Inside nodes some 2.2 MiB more are sent, and
# between nodes 1.5 MiB less. If one link waits for the other, this pays when the links inside are more than 1.5 times
# as fast. (DeepSeek-V3's report assumes 160 GB/s for NVLink and 50 GB/s for InfiniBand.)
#
# ## A limit on nodes
#
# <!-- word: node-limited routing | also: device-limited routing, group-limited routing -->
# In **node-limited routing** a token's experts have to lie on a few nodes. First the router chooses the nodes. The
# score of a node is a sum over its best experts, of score plus bias. How many experts count is k divided by the limit.
# Then the router chooses the k best experts on these nodes. DeepSeek-V3 allows 4 of 8 nodes, and each node's score is
# the sum over its best two experts (section 2.1.2). If scores are equal, the lower number goes first, so that all ranks
# and runs choose alike.
#
# In the small layer above allow 2 of 4 nodes. **How many bytes go between nodes now, in per cent of the bytes that a
# row for each choice takes?**

# %%
### BEGIN SOLUTION
### STUB ask("10.limited")
ask("10.limited").commit(50)  # "half of the nodes"
### END SOLUTION

# %%
limited = compare("a node", max_nodes=2)
reveal("10.limited", limited, between["a choice"], NODES, 2, TOP_K)

# %% [markdown]
# What does the limit cost? The next cell takes a router that was never limited, limits it, and counts how many choices
# change:

# %%
free, near = (mixture(max_nodes).router(EVERY) for max_nodes in (None, 2))
kept = (near.experts.unsqueeze(2) == free.experts.unsqueeze(1)).any(2)  # (tokens, k)
print(
    f"{rounded(100 * (1 - kept.double().mean()), 0)} % of the choices are other experts than without a limit"
)

# %% [markdown]
# So the limit is a part of the model, as k is. It is used from the first step of training on, and the router learns
# with it. With another limit than in training, a model gives other outputs.
#
# ## Attention and experts have meshes of their own
#
# On eight ranks attention is cut with `tp=4`, and there are two replicas for data. Among how many ranks can the experts
# be shared out? If they are cut along the axis of data alone, two ranks share them out. But experts do not depend on
# how attention was cut. The output of attention for a token is a row, and may go to any rank.
#
# <!-- word: MoE parallel folding | also: parallel folding -->
# **MoE parallel folding** gives attention one mesh and experts another, on the same ranks: `dp_replicate=2 tp=4` for
# the one, `ep=8` for the other. ([Liu et al., 2025](https://arxiv.org/abs/2504.14960).) The next cell computes what a
# rank then holds of DeepSeek-V3's layer:

# %%
for num_ranks in (2, 8):
    held = cost.expert_parameters(**LAYERS["DeepSeek-V3"], num_ranks=num_ranks).by_rank[0]
    print(
        f"experts shared out on {num_ranks} of 8 ranks: each holds {held / 1e9:.2f} billion parameters of a layer"
    )

# %% [markdown]
# (Cutting the experts themselves with `tp=4`, too, has two disadvantages. Matrices that are 2,048 wide would be 512
# wide, too narrow for a GPU's best speed. And each row would go to four ranks.)
#
# Without sequence parallelism the four ranks of a tensor-parallel group have the same outputs of attention, for all
# positions. A colleague lets each rank send all its tokens to their experts. The gradients of experts are divided by
# eight, as in part 3. **What happens?**

# %%
### BEGIN SOLUTION
### STUB ask("10.folded")
ask("10.folded").commit("the gradients of experts are 4 times too large")  # "four copies"
### END SOLUTION

# %%
SHAPE = TransformerConfig(vocab_size=2, context_length=32, num_layers=1, width=WIDTH, num_heads=4)
SEQUENCES = EVERY.view(16, 32, WIDTH)[:4]  # two for each replica


def attention_layer():
    torch.manual_seed(1)
    return Attention(SHAPE).double()


def gradients(experts):
    """The gradients of both matrices: (experts, numbers)."""
    return torch.cat([one.grad.flatten(1).cpu() for one in (experts.w_up, experts.w_down)], dim=1)


# %%
def folded(me, sequence_parallel):
    """Attention on groups of four, experts on all eight: outputs, the experts' gradients, rows."""
    groups = MeshGroups(me, Mesh.of(dp_replicate=2, tp=4))
    options = {"group": groups.group("tp"), "sequence_parallel": sequence_parallel}
    attention = HeadParallelAttention(me, attention_layer(), **options)
    experts, place = ExpertParallel(me, mixture()), groups.coordinates
    x = SEQUENCES.chunk(2)[place["dp_replicate"]].to(me.device)
    x = x.chunk(4, dim=1)[place["tp"]] if sequence_parallel else x
    y = experts(x + attention(x))
    y.square().mean().backward()
    groups.close()
    return y.detach().cpu(), gradients(experts.experts), int(experts.routing.loads.sum())


# %%
alone = mixture()
right = alone(SEQUENCES + attention_layer()(SEQUENCES))
right.square().mean().backward()


def beside_one_process(sequence_parallel):
    outs, grads, rows = zip(*eight.run(folded, sequence_parallel), strict=True)
    groups = (outs[:4], outs[4:])
    out = torch.cat([torch.cat(group, dim=1) if sequence_parallel else group[0] for group in groups])
    same_out = agree(out, right, within=1e-9)
    same_gradient = agree(torch.cat(grads) / 8, gradients(alone.experts), within=1e-9)
    print(f"outputs as of one process: {same_out}; gradients of experts, divided by 8: {same_gradient}")
    return sum(rows), 4 * 32 * TOP_K, same_out, same_gradient


reveal("10.folded", *beside_one_process(sequence_parallel=False))

# %% [markdown]
# With sequence parallelism attention ends in a reduce-scatter, and each rank of the group has a quarter of the
# positions. These are the tokens that it sends:

# %%
num_rows, num_needed, *_ = beside_one_process(sequence_parallel=True)
print(f"rows computed: {num_rows:,}; needed: {num_needed:,}")

# %% [markdown]
# Megatron-Core requires this: with experts and tensor parallelism on, sequence parallelism has to be on as well.
#
# ## In production
#
# | here | elsewhere |
# |---|---|
# | `SigmoidRouter` | Megatron-Core's `--moe-router-score-function sigmoid` |
# | `max_nodes` of `num_nodes` | Megatron-Core's `--moe-router-group-topk` of `--moe-router-num-groups` |
# | `DeduplicatedExperts` | DeepEP, and HybridEP in Megatron-Core: `--moe-token-dispatcher-type flex` |
# | a shared expert | Megatron-Core's `--moe-shared-expert-intermediate-size` |
# | a mesh for experts | Megatron-Core's `--expert-tensor-parallel-size 1`; torchtitan's `expert_parallel_degree` |
#
# ## Two questions

# %%
quiz("10f")

# %% [markdown]
# ## What you can do now
#
# You can say what changes with small experts: less arithmetic for each byte, less even experts, more even ranks. Your
# rule sends a token once to each node. You know what a limit saves in addition, and that the limit is a part of the
# model. You have put experts on all ranks, however attention is cut.
#
# **The limit.** Experts still wait for the bytes that remain. [Lesson 11](11a_does_it_fit.ipynb) works out how much of
# each cut is right for *your* model on *your* machines.
#
# **Further reading.** DeepSeek-AI, [DeepSeek-V3](https://arxiv.org/abs/2412.19437) (2024), sections 2.1.2 (router,
# bias, nodes), 3.2 (how rows are sent) and 4.2 (the sizes). Jiang et al., [Mixtral of
# Experts](https://arxiv.org/abs/2401.04088) (2024), section 2. Dai et al.,
# [DeepSeekMoE](https://arxiv.org/abs/2401.06066) (2024), section 3: small and shared experts. Liu et al., [MoE Parallel
# Folding](https://arxiv.org/abs/2504.14960) (2025). Code: [DeepEP](https://github.com/deepseek-ai/DeepEP).
