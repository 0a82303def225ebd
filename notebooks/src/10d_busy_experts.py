# %% [markdown]
# # 10d · Long context and experts: equally busy
#
# Experts are shared out among ranks, and all ranks wait for the busiest one. You find out how uneven a router's choices
# become if nothing prevents it. You try two ways to keep them even. And you find a job that drops tokens without an
# error.
#
# **70 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 4 of 9 · [1: the ring](10a_long_context.ipynb) · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [3:
# experts, shared out](10c_experts.ipynb) · [5: hide the exchange](10e_hide_the_exchange.ipynb) · [6: many small
# experts](10f_many_small_experts.ipynb) · [7: packed documents](10g_packed_documents.ipynb) · [8: build ring
# attention](10h_build_ring_attention.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [10c: experts, shared out](10c_experts.ipynb). Have you done it? `from course_lib import start;
# start("10d")` says whether you have.
#
# At the end you can
#
# - say what one busy expert costs all ranks;
# - keep experts equally busy by a loss or by a bias, and say which parameters each of the two changes;
# - say how many tokens a capacity drops, and which ones;
# - say by which number to divide the gradients of experts that have copies.
#
# From [part 3](10c_experts.ipynb) you need the layer of experts. A router gives each token a probability for every
# expert, and the token goes to the k best of them. One all-to-all sends tokens to the ranks of their experts, and
# another sends the outputs back. The outputs are added up, each times its probability.

# %%
from course_lib import Link, ask, check, cost, hint, problems, quiz, reveal, shared_cluster
from course_lib.data import documentation_windows, loader
from course_lib.layouts import Mesh
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.experts import (
    ExpertParallel,
    MixtureOfExperts,
    TopKRouter,
    average_gradients,
    expert_capacity,
    load_balancing_loss,
    run_experts,
    update_selection_bias,
    within_capacity,
)
from course_lib.parallel.mesh import MeshGroups
from course_lib.plot import lines
from course_lib.rounding import agree, rounded

import math
from dataclasses import replace
from itertools import islice

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
one, four = (shared_cluster(number) for number in (1, 4))

# %% [markdown]
# ## All ranks wait for the busiest one
#
# Eight experts on four ranks, two on each. Each rank has 56 tokens, and every token goes to one expert. If all experts
# are equally busy, each gets 7 tokens from each rank:

# %%
EVEN = [[7] * 8] * 4  # EVEN[i][e]: how many tokens of rank i go to expert e
SKEWED = [[28] + [4] * 7] * 4  # half of all tokens go to expert 0

# %% [markdown]
# ![Four ranks with two experts each, and tokens that queue in front of them: the same for all on the left, half of all
# at expert 0 on the right](../assets/10_queues.png)
#
# (The picture shows the tokens of one rank. Each of the other three sends as many.) Now let half of all tokens go to
# expert 0, and share out the rest evenly among the other seven. A rank computes its experts one after the other. Each
# row (a token at an expert) takes the same time, and links take almost no time. **How many times as long as with even
# experts does the layer take?**

# %%
### BEGIN SOLUTION
### STUB ask("10.slowest")
ask("10.slowest").commit(4)  # "a half in place of an eighth"
### END SOLUTION

# %% [markdown]
# Ranks, messages and waiting are real. The experts are *paced*: a row takes two milliseconds of timed waiting, so that
# the number of your cores does not matter.

# %% tags=["nbval-ignore-output"]
ROW_S = 2e-3
even_s, skewed_s = (max(run_experts(four, counts, row_s=ROW_S)) for counts in (EVEN, SKEWED))
print(f"even {even_s * 1e3:.0f} ms, skewed {skewed_s * 1e3:.0f} ms")
even, skewed = (
    cost.expert_layer_time(counts, width=8, row_s=ROW_S, network=Link()) for counts in (EVEN, SKEWED)
)
reveal("10.slowest", even_s, skewed_s, even, skewed)

# %% [markdown]
# The next cell prints how long each rank is idle:

# %%
for rank, (rows, idle_s) in enumerate(zip(skewed.rows, skewed.idle_s, strict=True)):
    print(f"rank {rank}: {rows:>3} rows, {idle_s / skewed.compute_s:4.0%} of the time idle")

# %% [markdown]
# Memory is uneven too. The rank with the busy expert keeps activations for all the rows that come, so it is the first
# to run out of memory. How much memory it needs cannot be said beforehand.
#
# ## A router that nothing keeps even
#
# Do routers become so uneven? Take a small transformer with 8 experts in place of its MLP, 2 for each token, and train
# it on Python's documentation. The choice of experts does not depend on the rank that holds them, so one rank is
# enough.

# %%
small = TransformerConfig(vocab_size=256, context_length=64, num_layers=1, width=32, num_heads=4)
NUM_EXPERTS, TOP_K = 8, 2


def new_model(router=None):
    """A transformer with experts, and its layer of experts."""
    torch.manual_seed(0)
    model = Transformer(small)
    layer = model.blocks[0].mlp = MixtureOfExperts(32, hidden=64, num_experts=NUM_EXPERTS, top_k=TOP_K)
    if router is not None:
        router.load_state_dict(layer.router.state_dict())
        layer.router = router
    return model, layer


# %%
def trained(me, balance=0.0, rate=0.0, router=None):
    """The routing of every step, and the loss on text that was not trained on."""
    model, layer = new_model(router)
    model.to(me.device)
    train, test = documentation_windows(64)
    optimizer, routings = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for x, y in islice(loader(train, 8), 150):
        optimizer.zero_grad()
        loss = next_token_loss(model(x.to(me.device)), y.to(me.device))
        (loss + balance * load_balancing_loss(me, layer.routing)).backward()
        optimizer.step()
        if rate:
            update_selection_bias(layer.router, layer.routing.choices, rate=rate)
        routings.append(without_history(layer.routing))
    with torch.no_grad():
        x, y = next(iter(loader(test, 64)))
        return routings, next_token_loss(model(x.to(me.device)), y.to(me.device)).item()


# %%
def without_history(routing):
    """What can be kept of a step without its graph. (You need not read it.)"""
    experts, probabilities, kept = routing.experts, routing.probabilities.detach(), routing.kept
    return replace(
        routing, experts=experts.cpu(), probabilities=probabilities.cpu(), kept=kept.cpu(), weights=None
    )


def busiest(routing):
    """The share of tokens that use the busiest expert."""
    return routing.choices.max().item() / len(routing.experts)


# %% [markdown]
# With 2 of 8 experts for each token, an even router would have a quarter of all tokens at each expert. For now
# `balance` and `rate` are 0: nothing makes the router even. (The next section explains both.) **Which share of the
# tokens uses the busiest expert at the end of the 150 steps?** (Give the mean of the last ten steps.)

# %%
### BEGIN SOLUTION
### STUB ask("10.alone")
ask("10.alone").commit(30)  # "random weights, and noise: about even"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
alone, alone_loss = one.run(trained)[0]
for step in (0, 10, 40, 80, 149):
    chances = alone[step].probabilities  # (tokens, experts)
    print(
        f"step {step:>3}: busiest {busiest(alone[step]):4.0%}; "
        f"probabilities differ by {chances.mean(0).std():.3f} from expert to expert, "
        f"by {chances.std(0).mean():.3f} from token to token"
    )
reveal("10.alone", [busiest(routing) for routing in alone], alone[0].probabilities, alone[10].probabilities)

# %% [markdown]
# ## Two ways to keep experts even
#
# ![A router in three steps: scores, probabilities, choice of two; one lever is a loss that reaches back to the scores,
# the other a bias that is added before the choice](../assets/10_levers.png)
#
# <!-- word: load-balancing loss | also: auxiliary loss, balance loss -->
# A **load-balancing loss** is added to the loss of the text, so that the router learns to keep experts equally busy.
# The usual one is
#
# $$L = E \sum_{e} f_e\,P_e$$
#
# with $E$ experts, $f_e$ the share of all choices that fell on expert $e$, and $P_e$ its mean probability. $L$ is 1 if
# all experts are equally busy, and up to $E$ if one gets all tokens. A count has no gradient, so the gradient comes
# from $P$. The busier an expert is, the more this gradient lowers its probability. The loss is multiplied by a small
# number, such as 0.01, since it works against the loss of the text. ([Fedus et al.,
# 2021](https://arxiv.org/abs/2101.03961).)
#
# On several ranks, $f$ is counted over all of them, by an all-reduce of $E$ numbers: `load_balancing_loss(me, routing)`
# does so. If each rank counted alone, the loss would be small only if every small part of a batch used all experts.
#
# <!-- word: selection bias | also: auxiliary-loss-free load balancing -->
# A **selection bias** is a number for each expert that is added to the probabilities when a token's experts are chosen.
# It is used nowhere else. After each step, experts with more tokens than the mean lose a fixed amount of bias, such as
# 0.001. Experts with fewer tokens gain as much. No gradient is involved. ([Wang et al.,
# 2024](https://arxiv.org/abs/2408.15664), in use in DeepSeek-V3.)
#
# How fast does the bias work? Take four experts, of which each token uses one, and 100 tokens that are all alike. The
# router gives the experts probabilities of 0.45, 0.275, 0.175 and 0.1, so all tokens go to expert 0. **The rate is
# 0.001. After how many steps does some token go to another expert?**

# %%
### BEGIN SOLUTION
### STUB ask("10.steps")
ask("10.steps").commit(175)  # "expert 0 has to come down by 0.175"
### END SOLUTION

# %%
PROBABILITIES = torch.tensor([0.45, 0.275, 0.175, 0.1])
router, alike = TopKRouter(4, 4, top_k=1), torch.ones(100, 4)
with torch.no_grad():
    router.weight.copy_(PROBABILITIES.log().diag())  # scores of a token of ones
choices, num_steps = router(alike).choices, 0
while choices[0] == 100:
    update_selection_bias(router, choices, rate=1e-3)
    choices, num_steps = router(alike).choices, num_steps + 1
reveal("10.steps", num_steps, PROBABILITIES, choices)

# %% [markdown]
# What happens afterwards? The next cell continues for 400 steps with the same router. It prints how many tokens each
# expert has in single steps, and in the mean over many steps:

# %% tags=["nbval-ignore-output"]
seen = []
for _ in range(400):
    update_selection_bias(router, seen[-1] if seen else choices, rate=1e-3)
    seen.append(router(alike).choices)
print("in single steps:", *(counts.tolist() for counts in seen[-5:]))
print("the mean of the last 100 steps:", torch.stack(seen[-100:]).float().mean(0).tolist())

# %% [markdown]
# Tokens that are alike all go to the same expert. So the bias makes experts equally busy in the mean over steps. In a
# single step it can do so only as far as tokens differ. The loss has the same limit: a router cannot send tokens to
# different experts if it cannot distinguish them.
#
# ### Training with both
#
# The next cell trains the same transformer from the same start, once with the loss and once with the bias.

# %% tags=["nbval-ignore-output"]
by_loss, loss_loss = one.run(trained, balance=0.01)[0]
by_bias, bias_loss = one.run(trained, rate=1e-3)[0]
runs = {"left alone": alone, "loss, times 0.01": by_loss, "bias, by 0.001": by_bias}
lines(
    {
        name: {step: 100 * busiest(run[step]) for step in range(0, 150, 6)} | {149: 100 * busiest(run[149])}
        for name, run in runs.items()
    },
    x_label="step",
    y_label="tokens at the busiest expert (%)",
    title="2 of 8 experts for each token: even is 25 %",
)

# %% [markdown]
# How much time do even experts save, if four ranks have two experts each? All ranks wait for the rank with the most
# rows. The next cells divide its rows by the mean of all ranks, in each of the last ten steps. Beside it they print the
# loss of the text, which each way may make worse:


# %%
def wait_for_the_busiest(run):
    """The rows of the busiest rank over the mean of all ranks; averaged over the last ten steps."""
    rows = torch.stack([routing.choices.view(4, 2).sum(1) for routing in run[-10:]]).float()  # (steps, ranks)
    return (rows.amax(1) / rows.mean(1)).mean().item()


# %% tags=["nbval-ignore-output"]
for (name, run), text_loss in zip(runs.items(), (alone_loss, loss_loss, bias_loss), strict=True):
    times = wait_for_the_busiest(run)
    print(f"{name:<17} experts take {times:.2f} times as long as even ones, text loss {text_loss:.2f}")

# %% [markdown]
# (With another seed the losses change by 0.1 or 0.2. Two experts on one rank are together less uneven than single
# experts.) In a run this short neither way costs much, and both need some steps to work. While tokens look alike to a
# router, it sends them to the same experts. A larger factor makes the balance loss work faster. But its gradients then
# change the router, and all layers below it, more. The bias gives no gradients.
#
# ## A limit
#
# <!-- word: expert capacity | also: capacity factor | sentences: 2 -->
# Until now an expert took all tokens that came. An **expert capacity** is the most tokens that an expert takes in a
# step. It is a *capacity factor* times the number that it would get if all experts were equally busy. So the most time
# and memory that a step takes is known beforehand. For each token beyond the capacity the expert's output is 0. If none
# of a token's experts has room, only the residual stream goes on. (The course drops by position, as GShard and Switch
# do. By default Megatron-Core drops the tokens to which the router gave the lowest probability, wherever they stand.)
#
# <!-- word: dropped token | also: token dropping | sentences: 2 -->
# A **dropped token** is one that an expert turns away because it is full. There is no error, and the layer goes on
# without that expert's output for it.
#
# ![An expert with four places, four tokens in them, and two more tokens that go past the expert on the residual
# stream](../assets/10_room.png)
#
# Now take a router that prefers no expert: a fair die with eight sides. It sends each of 4096 tokens to one of 8
# experts, and the factor is 1:


# %%
def turned_away(num_ranks, factor):
    """The share of 4096 tokens that are turned away, where each rank counts its own."""
    experts = torch.randint(8, (4096, 1), generator=torch.Generator().manual_seed(0))  # dice
    kept = []
    for part in experts.chunk(num_ranks):
        room = expert_capacity(len(part), num_experts=8, top_k=1, capacity_factor=factor)
        kept.append(within_capacity(part, num_experts=8, capacity=room))
    return 1 - torch.cat(kept).float().mean().item()


whole_share = turned_away(1, 1.0)
print(f"one rank with 4096 tokens: {rounded(100 * whole_share, 1)}% turned away")

# %% [markdown]
# To count over all ranks, they would have to exchange the counts before any token leaves. So each rank counts its own
# tokens, and an expert keeps some places for each rank. **The same tokens go to the same experts, on 64 ranks with 64
# tokens each. What share is turned away?**

# %%
### BEGIN SOLUTION
### STUB ask("10.dealt")
ask("10.dealt").commit(1.7)  # "the same tokens and the same experts"
### END SOLUTION

# %%
reveal("10.dealt", whole_share, turned_away(64, 1.0))

# %% [markdown]
# The table shows how much a larger factor helps. It costs memory: the last column is the largest share of the reserved
# places that can be used.

# %%
print("factor        1 rank   8 ranks   64 ranks   room used at most")
for factor in (1.0, 1.25, 1.5, 2.0):
    shares = [rounded(100 * turned_away(num_ranks, factor), 1) for num_ranks in (1, 8, 64)]
    print(f"{factor:<11} {shares[0]:>7}% {shares[1]:>8}% {shares[2]:>9}% {1 / factor:19.0%}")

# %% [markdown]
# ## Clinic: twice the room, and a worse model
#
# *Symptom.* A colleague has added a capacity to the model above, with a factor of 2 to be safe. The colleague has also
# made the balance loss ten times as strong. There is no error, and the loss falls. But the loss ends higher than
# without a limit. This is the colleague's code:

# %%
FACTOR = 2.0


def colleagues_room(num_tokens, num_experts, top_k, factor):
    """How many tokens an expert takes."""
    return min(num_tokens, math.ceil(factor * num_tokens / num_experts))


class LimitedRouter(TopKRouter):
    """The same router, but an expert turns away what comes when it is full."""

    def __init__(self, room_of):
        super().__init__(32, NUM_EXPERTS, top_k=TOP_K)
        self.room_of = room_of

    def forward(self, x):
        routing = super().forward(x)
        room = self.room_of(len(x), NUM_EXPERTS, TOP_K, FACTOR)
        return replace(routing, kept=within_capacity(routing.experts, num_experts=NUM_EXPERTS, capacity=room))


# %% tags=["nbval-ignore-output"]
unlimited, unlimited_loss = one.run(trained, balance=0.1)[0]
limited, limited_loss = one.run(trained, balance=0.1, router=LimitedRouter(colleagues_room))[0]
print(f"text loss without a limit {unlimited_loss:.2f}, with the colleague's {limited_loss:.2f}")

# %% [markdown]
# **What is wrong?**

# %%
### BEGIN SOLUTION
### STUB ask("10.tenth")
ask("10.tenth").commit("the balance loss is too strong")
### END SOLUTION

# %% [markdown]
# *Evidence.* `routing.kept` says which choices had room. The next cell looks at the last fifty steps. It prints which
# share was turned away: of first choices, of second choices, and by the place of a sequence in the batch.


# %%
def evidence(run):
    kept = torch.stack([routing.kept for routing in run[-50:]]).float()  # (steps, tokens, choices)
    first, second = (1 - kept.mean((0, 1))).tolist()
    print(f"turned away: {first:.0%} of first choices, {second:.0%} of second choices")
    by_sequence = 1 - kept.view(50, 8, -1).mean((0, 2))
    print("by sequence:", *(f"{share:4.0%}" for share in by_sequence.tolist()))
    shares = [busiest(routing) for routing in run[-50:]]
    print(f"the busiest expert was chosen by {sum(shares) / 50:.0%} of tokens; even is 25%")


# %% tags=["nbval-ignore-output"]
evidence(limited)
reveal("10.tenth", limited[-50:], colleagues_room(512, NUM_EXPERTS, TOP_K, FACTOR))

# %% [markdown]
# ### Mend it
#
# Change one line. An expert takes `factor` times its even share, rounded up, and never more than there are tokens.


# %%
def mended_room(num_tokens, num_experts, top_k, factor):
    """How many tokens an expert takes: a whole number."""
    ### BEGIN SOLUTION
    ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
    ### STUB return min(num_tokens, math.ceil(factor * num_tokens / num_experts))
    return min(num_tokens, math.ceil(factor * num_tokens * top_k / num_experts))
    ### END SOLUTION


# %%
room_verdict = check("10.room", mended_room)

# %%
# hint("10.room")

# %% tags=["nbval-ignore-output"]
right_room = mended_room if room_verdict.passed else colleagues_room
mended, mended_loss = one.run(trained, balance=0.1, router=LimitedRouter(right_room))[0]
evidence(mended)
print(f"text loss {mended_loss:.2f}; without a limit it was {unlimited_loss:.2f}")

# %% [markdown]
# Always look at the share of dropped tokens as well as at the loss. A capacity also matters to people who use the
# model. The output for a sequence depends on the sequences that stand before it in the batch. (Where the lowest
# probabilities are dropped, it depends on all sequences of the batch.)
#
# ## Experts that have copies
#
# On many ranks there are several copies of each expert. Then the ranks form a mesh as in lesson 09, with an axis for
# experts and an axis for data. Take four ranks. Ranks 0 and 1 share out one copy of the experts, ranks 2 and 3 another.
# So ranks 0 and 2 have the same experts, and so do ranks 1 and 3. The loss is the mean of all ranks' losses, each the
# mean over its own tokens. Parameters that all ranks hold, such as the router, get the mean of their gradients over all
# four. For the experts a colleague takes the mean over the two ranks with the same experts, as a data-parallel wrapper
# for these two would. **How many times too large are the experts' gradients?** (1 means that they are right.)
# %%
### BEGIN SOLUTION
### STUB ask("10.copies")
ask("10.copies").commit(1)  # "a mean over the copies is a mean"
### END SOLUTION

# %%
TOKENS = torch.randn(4, 16, 32, generator=torch.Generator().manual_seed(0)).double()  # 16 for each rank


def expert_gradients(me, way):
    """The gradient of this rank's experts."""
    groups = MeshGroups(me, Mesh.of(dp_replicate=2, ep=2), together=[("dp_replicate", "ep")])
    layer = ExpertParallel(me, new_model()[1].double(), group=groups.group("ep"))
    layer(TOKENS[me.rank].to(me.device)).square().mean().backward()
    if way == "the course's":
        average_gradients(layer, groups)
    else:  # the mean over the ranks with the same experts
        dist.all_reduce(layer.experts.w_up.grad, group=groups.group("dp_replicate"))
        layer.experts.w_up.grad /= 2
    groups.close()
    return layer.experts.w_up.grad


# %%
whole = new_model()[1].double()
whole(TOKENS.view(64, 32)).square().mean().backward()
right = whole.experts.w_up.grad[:4]  # the four experts of ranks 0 and 2
times = {}
for way in ("the colleague's", "the course's"):
    found = four.run(expert_gradients, way)[0].cpu()
    times[way] = ((found * right).sum() / right.square().sum()).item()
    is_right = agree(found / times[way], right, within=1e-5)
    print(f"{way:<16} the right gradient times a number: {is_right}")
reveal("10.copies", times["the colleague's"], times["the course's"])

# %% [markdown]
# ## In production
#
# | here | elsewhere |
# |---|---|
# | `ExpertParallel` | Megatron-Core's `--expert-model-parallel-size`; torchtitan's `expert_parallel_degree` |
# | `TopKRouter`, in float32 | Megatron-Core's `--moe-router-dtype fp32`, which is not its default |
# | `load_balancing_loss` | Megatron-Core's `--moe-router-load-balancing-type global_aux_loss`, `--moe-aux-loss-coeff` |
# | `selection_bias` | Megatron-Core's `--moe-router-enable-expert-bias`; DeepSeek-V3's bias |
# | `capacity_factor` | Megatron-Core's `--moe-expert-capacity-factor`; DeepSpeed-MoE's `capacity_factor` |
# | rows that travel | `torch.distributed.all_to_all_single`; DeepEP's kernels on NVLink and RDMA |
# | a loop over experts | grouped matrix products, `torch.nn.functional.grouped_mm` |
# | `average_gradients` | Megatron-Core's own groups for the gradients of experts |
#
# Megatron-Core's `aux_loss`, its default, counts each micro-batch on each data-parallel rank alone. The course's loss
# counts over all ranks, as `global_aux_loss` does.
#
# Early large models had a capacity (GShard, Switch), since their compilers needed every size beforehand. Many trainers
# now drop no token, since grouped products take any number of tokens for each expert
# ([MegaBlocks](https://arxiv.org/abs/2211.15841), 2022). They still need balance, since all ranks wait for the busiest
# one. DeepSeek-V3 changes its bias by 0.001 in each step for most of the training. It also has a very small balance
# loss within each sequence. It drops no token ([report](https://arxiv.org/abs/2412.19437), sections 2.1.2 and 4.2).
#
# ## Five questions on parts 1 to 4

# %% tags=["computed-time"]
quiz("10")

# %% [markdown]
# ## What you can do now
#
# You can cut a sequence by positions, and attention with it, with equal work for all ranks. You can compute this
# attention by a ring of keys, or by heads and two all-to-alls. You can share out experts, and send tokens to them and
# back. You know what one busy expert costs, and two ways to keep experts equally busy. And you know how to notice
# tokens that a limit turns away.
#
# **The limit.** You have now cut data, states, layers, matrices, sequences and experts. Each cut solves one problem,
# costs something, and needs some link. How much of each cut is right for *your* model on *your* machines? In lesson 11
# you work that out before anybody books a GPU.
#
# **Further reading.** Shazeer et al., [Outrageously Large Neural Networks](https://arxiv.org/abs/1701.06538) (2017),
# section 4: balanced experts. Lepikhin et al., [GShard](https://arxiv.org/abs/2006.16668) (2020), section 2.2:
# capacity, groups, a balance loss. Fedus et al., [Switch Transformers](https://arxiv.org/abs/2101.03961) (2021),
# section 2.2. Wang et al., [Auxiliary-Loss-Free Load Balancing](https://arxiv.org/abs/2408.15664) (2024), section 3.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. The numbers are drawn for you, and others for
# each further try. When a problem is over, you see the way step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("10")
problems("10", ways=True)
### END SOLUTION
