# %% [markdown]
# # 10b · Long context and experts: equal work, and all-to-all
#
# In a causal model late positions need more computing than early ones. You find out what that costs a ring, and deal
# out positions so that it costs nothing. Then you cut attention in another way, by heads.
#
# **2 × 45 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 9 · [1: the ring](10a_long_context.ipynb) · [3: experts, shared out](10c_experts.ipynb) · [4: equally
# busy](10d_busy_experts.ipynb) · [5: hide the exchange](10e_hide_the_exchange.ipynb) · [6: many small
# experts](10f_many_small_experts.ipynb) · [7: packed documents](10g_packed_documents.ipynb) · [8: build ring
# attention](10h_build_ring_attention.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [10a: the ring](10a_long_context.ipynb). Have you done it? `from course_lib import start;
# start("10b")` says whether you have.
#
# At the end you can
#
# - say which share of a causal ring's time is waiting, for any order of positions;
# - deal out positions so that memory and work are even, in every step;
# - name the other parts of a model that depend on that order;
# - choose between a ring and an all-to-all, by bytes, by heads, and by what hides the messages.
#
# From [part 1](10a_long_context.ipynb) you need the ring: queries stay, keys and values go round. The shapes are the
# same: queries (B, H, T, K), keys and values (B, G, T, K).

# %%
from course_lib import Links, ask, check, cost, hint, pace, reveal, shared_cluster
from course_lib.cluster import recv, send, start
from course_lib.data import ByteTokenizer
from course_lib.layouts import SequenceCut
from course_lib.meter import MemoryLedger, Timeline, metered
from course_lib.models import Transformer, TransformerBlock, TransformerConfig, next_token_loss
from course_lib.parallel.context import (
    context_loss,
    join_positions,
    own_positions,
    ring_attention,
    split_context,
)
from course_lib.plot import gantt
from course_lib.rounding import agree, rounded
from course_lib.widgets import ContextExplorer

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# %% tags=["nbval-ignore-output"]
one, four = (shared_cluster(number) for number in (1, 4))

# %% [markdown]
# ## How much does each rank compute?
#
# In a language model a query looks at the keys that are not after it. A *pair* is a query and a key that it looks at.
# Attention's arithmetic is in proportion to the number of pairs. Four ranks have a quarter of 64 positions each, one
# after the other:

# %%
T = 64
SEES = torch.ones(T, T).tril()  # SEES[query, key]
QUARTERS = [list(range(16 * rank, 16 * (rank + 1))) for rank in range(4)]

# %% [markdown]
# **What share of all pairs has the last rank, rank 3?**

# %%
### BEGIN SOLUTION
### STUB ask("10.last")
ask("10.last").commit(25)  # "a quarter each"
### END SOLUTION

# %%
work = [int(SEES[own].sum()) for own in QUARTERS]
print("pairs of ranks 0 to 3:", work)
reveal("10.last", work)

# %% [markdown]
# In the ring a rank does not compute all its pairs at once. In each step it has one block of keys. If the mask hides
# the whole block, it computes nothing.
#
# ![A causal mask of sixteen queries and sixteen keys, cut into four times four blocks; rows belong to the rank of the
# query, columns to the rank of the key](../assets/10_mask.png)
#
# Suppose that messages cost no time at all. A lap lasts until the last rank is done. **What share of that time do the
# four ranks compute, on average?**

# %%
### BEGIN SOLUTION
### STUB ask("10.lap")
ask("10.lap").commit(75)  # "the last one always, the first one half of the time"
### END SOLUTION

# %% [markdown]
# Here is a lap of four ranks. Messages are real, and computing is *paced*, as in part 1: a timed wait of 0.1 ms for
# each pair. (Four ranks on a laptop share its cores. Timed waits need no core.)


# %%
def by_step(parts):
    """table[step][rank]: pairs of the queries of a rank with the keys of the rank ``step`` before it."""
    return [[int(SEES[parts[r]][:, parts[r - step]].sum()) for r in range(4)] for step in range(4)]


def paced_lap(me, pairs, length):
    """The spans of three laps in which this rank computes; each rank has ``length`` positions."""
    block, laps = torch.zeros(2, 4, length, 8, device=me.device), []
    come = torch.empty_like(block)
    for _ in range(3):
        timeline = Timeline(me.rank)
        dist.barrier()
        for step in range(4):
            on_the_way = [send(block, (me.rank + 1) % 4), recv(come, (me.rank - 1) % 4)]
            wait = start(on_the_way if step < 3 else [])
            if pairs[step][me.rank]:
                with timeline.span(f"step {step}"):
                    pace(me, 1e-4 * pairs[step][me.rank])
            wait()
        laps.append(timeline)
    return laps


# %% tags=["nbval-ignore-output"]
def lap_of(parts):
    """The quickest of three laps, on all ranks, and the share of it in which they compute."""
    with four.shaped(links=Links()):  # on the CPU: a rank waits for its message before it is paced
        by_rank = four.run(paced_lap, by_step(parts), 16)
    laps = [Timeline.join(ranks) for ranks in zip(*by_rank, strict=True)]
    best = min(laps, key=lambda lap: lap.wall_s)
    return best, sum(span.time_s for span in best.spans) / (4 * best.wall_s)


lap, busy_share = lap_of(QUARTERS)
reveal("10.lap", busy_share, T, 4)

# %% tags=["nbval-ignore-output"]
gantt(lap, title="A lap with a quarter each (paced): gaps are waiting")

# %% [markdown]
# ## Clinic: the same number of pairs for each rank
#
# A colleague wants equal work, and gives each rank as many pairs as the others. The counts of pairs are nearly equal.
#
# *Symptom.* The job's sequences used to fit. Now the job runs out of memory, always on the same one of four devices.
# **Why does it not fit any more?**

# %%
### BEGIN SOLUTION
### STUB ask("10.equal")
ask("10.equal").commit("late positions keep more scores than early ones")
### END SOLUTION

# %% [markdown]
# *Evidence.* Here is the colleague's function. Then the next cell measures what a block of a transformer keeps on each
# rank for its backward pass.


# %%
def colleagues_positions(rank, num_ranks, num_tokens):
    """Position after position, until the rank has its share of the pairs."""
    share = num_tokens * (num_tokens + 1) / 2 / num_ranks
    return [t for t in range(num_tokens) if t * (t + 1) / 2 // share == rank]


small = TransformerConfig(context_length=64, num_layers=2, width=64, num_heads=8, num_kv_heads=4)


def kept_of(length):
    """Bytes that a block keeps for its backward pass, on a rank that has ``length`` positions."""
    block, x = TransformerBlock(small), torch.ones(1, length, small.width, requires_grad=True)
    with MemoryLedger(block, inputs=x) as ledger:
        y = block(x)
        kept = ledger.mark("after forward").by_label["activation"]
    return kept + x.nbytes - y.nbytes  # the input is kept, too; the output counts for the next block


# %%
COLLEAGUES = [colleagues_positions(rank, 4, T) for rank in range(4)]
pairs = [int(SEES[own].sum()) for own in COLLEAGUES]
kept = [kept_of(len(own)) for own in COLLEAGUES]
for rank in range(4):
    print(f"rank {rank}: {pairs[rank]:>4} pairs, keeps {kept[rank] / 1024:>4.0f} KiB of a block")
print(f"with the quarters: {kept_of(16) / 1024:.0f} KiB on every rank")

# %%
reveal("10.equal", pairs, kept)

# %% [markdown]
# ### Build: equal work in every step
#
# You need an order in which *both* are even, positions and pairs. And the pairs should be even in every step of the
# ring. A rank that has its work in another step than its neighbours makes them wait. There is one more condition: a
# rank's positions should not be scattered. Kernels compute in tiles of many queries and keys, and can skip a tile only
# if the mask hides all of it.
#
# Write `positions_of`. Several orders do what its docstring asks; the check accepts all of them.


# %%
def positions_of(rank, num_ranks, num_tokens):
    """The positions of a rank: a list of whole numbers, rising. For all ranks together:

    - each of the positions 0 to num_tokens - 1 has one owner,
    - a rank has at most two runs, each without a gap,
    - the numbers of positions of two ranks differ by at most 2,
    - in each step of the ring the numbers of pairs of two ranks differ by at most 3 * p, where p is
      the largest number of positions that a rank has.

    num_tokens need not be a multiple of 2 * num_ranks (hence the 2 and the 3 * p), and a rank
    may have no positions at all.
    In step s the queries of rank r meet the keys of rank (r - s) % num_ranks.
    """
    ### BEGIN SOLUTION
    base, extra = divmod(num_tokens, 2 * num_ranks)
    positions = []
    for part in (rank, 2 * num_ranks - 1 - rank):  # counted from the front, and from the back
        begin = part * base + min(part, extra)
        positions += range(begin, begin + base + (part < extra))
    return positions
    ### END SOLUTION


# %%
positions_verdict = check("10.zigzag", positions_of)

# %%
# hint("10.zigzag")

# %% [markdown]
# <!-- word: zigzag order | also: head-tail order, zigzag | sentences: 2 -->
# In a **zigzag order** each rank has an early run of positions and a late one. They are paired so that in every step of
# a causal ring all ranks have equal work. This holds for one causal mask over the whole sequence. It does not hold
# where several documents share a sequence, and tokens attend to those of their own document alone.
# [10g](10g_packed_documents.ipynb) is about that case.
#
# The course's `SequenceCut` uses zigzag order, and so did the training of Llama 3. The next cells run the same lap
# again, with your order (or the course's, until yours has passed):

# %%
if positions_verdict.passed:
    DEALT = [positions_of(rank, 4, T) for rank in range(4)]
else:
    DEALT = [SequenceCut(T, 4).positions(rank) for rank in range(4)]
print(f"{'':<8}{'a quarter each':<26}dealt out")
for step, (before, after) in enumerate(zip(by_step(QUARTERS), by_step(DEALT), strict=True)):
    print(f"step {step}  {before!s:<26}{after}")

# %% tags=["nbval-ignore-output"]
even_lap, even_share = lap_of(DEALT)
print(f"a quarter each: {lap.wall_s * 1e3:.0f} ms, computing {busy_share:.0%} of it")
print(f"dealt out:      {even_lap.wall_s * 1e3:.0f} ms, computing {even_share:.0%} of it")
gantt(even_lap, title="A lap with positions dealt out (paced)")

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above this
# one. In the second sitting you find out what else depends on the new positions, and cut attention in another way.

# %% [markdown]
# ## Positions travel with their tokens
#
# What else depends on the order? The loss needs the targets of a rank's own positions. The mask needs the positions of
# queries and keys. And the first layer, the *stem*, adds a vector to each token for its position. A team writes a stem
# of its own:


# %%
class CountingStem(nn.Module):
    """This rank's tokens, each with a vector for its position: (B, T) -> (B, T_r, D)."""

    def __init__(self, me, embedding, cut):
        super().__init__()
        self.cut, self.group_rank = cut, me.rank
        self.tokens, self.positions = embedding.tokens, embedding.positions

    def forward(self, tokens):
        own = own_positions(self.cut, self.group_rank, tokens)  # (B, T_r)
        numbers = torch.arange(own.size(1), device=own.device)
        return self.tokens(own) + self.positions(numbers)


# %% [markdown]
# ![A sequence of sixteen tokens, a quarter for each of four ranks; below each token the number that it gets from the
# team's stem](../assets/10_numbers.png)
#
# (In the picture each rank has one quarter of the sequence; the team's job uses zigzag order.) The team trains on four
# ranks, and then loads the weights on one device. **What does the team see?**

# %%
### BEGIN SOLUTION
### STUB ask("10.numbers")
ask("10.numbers").commit("a loss that does not fall")
### END SOLUTION

# %%
TEXT = "To be, or not to be, that is the question: whether 'tis nobler in"
TOKENS = ByteTokenizer().encode(TEXT).unsqueeze(0)  # (1, 65)
X, Y, CUT = TOKENS[:, :-1], TOKENS[:, 1:], SequenceCut(64, 4)


def train(me, stem_class):
    """The losses of 20 steps, all on the same text, and the weights."""
    torch.manual_seed(0)
    model = Transformer(small)
    stem = stem_class(me, model.stem, CUT)
    split_context(me, model, CUT)
    model.stem = stem
    ddp = DistributedDataParallel(model)  # averages gradients over ranks, as in lesson 04
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = context_loss(me, ddp(X.to(me.device)), Y.to(me.device), CUT)
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach() / 4)
        losses.append(mean.item())
    return losses, model.cpu().state_dict()


# %%
def on_one_device(weights):
    model = Transformer(small)
    model.load_state_dict(weights)
    with torch.no_grad():
        return next_token_loss(model(X), Y).item()


counting, weights = four.run(train, CountingStem)[0]
print(f"loss of the first step {rounded(counting[0], 1)}, of the last {rounded(counting[-1], 1)}")
print(f"on one device, with the weights of the last step: {rounded(on_one_device(weights), 1)}")
reveal("10.numbers", counting[0], counting[-1], on_one_device(weights))

# %% [markdown]
# Mend one line. The cells below then compare four ranks that use your stem with a plain training on one device.


# %%
class MendedStem(CountingStem):
    def forward(self, tokens):
        own = own_positions(self.cut, self.group_rank, tokens)
        ### BEGIN SOLUTION
        ### STUB raise NotImplementedError("Your turn: take this line out, and mend the one below")
        ### STUB numbers = torch.arange(own.size(1), device=own.device)  # self.cut knows who has what
        numbers = torch.tensor(self.cut.positions(self.group_rank), device=own.device)
        ### END SOLUTION
        return self.tokens(own) + self.positions(numbers)


# %%
stem_verdict = check("10.stem", MendedStem)

# %%
# hint("10.stem")


# %%
def train_alone(me):
    torch.manual_seed(0)
    model = Transformer(small).to(me.device)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = next_token_loss(model(X.to(me.device)), Y.to(me.device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %%
right_stem = MendedStem if stem_verdict.passed else CountingStem
alone, mended = one.run(train_alone)[0], four.run(train, right_stem)[0]
for name, (losses, trained) in {"the team's": (counting, weights), "yours": mended}.items():
    there = rounded(on_one_device(trained), 1)
    print(f"{name:<11} at the end {rounded(losses[-1], 1)}, and then on one device {there}; ", end="")
    print(f"all losses as on one device: {agree(losses, alone, within=1e-3)}")

# %% [markdown]
# Rotary embeddings, which most models have today, turn queries and keys by their position. Their cosines and sines,
# too, have to be cut with the tokens. The same holds for document masks, and for every other tensor with a dim of
# positions.
#
# ## Heads in place of positions
#
# A ring is not the only way. Heads do not look at each other, so a rank that has *all* positions of a head needs no
# other rank for it. For the rest of the model a rank needs all heads of *its* positions. One all-to-all leads from one
# cut to the other:
#
# ![Two tables of heads by positions. Left: each rank has some of the columns. Right: each rank has some of the
# rows](../assets/10_heads.png)
#
# <!-- word: all-to-all attention | also: DeepSpeed Ulysses, Ulysses | sentences: 2 -->
# **All-to-all attention** takes queries, keys and values from a cut by positions to a cut by heads. It computes each
# head on one rank with any attention kernel, and brings the output back to the cut by positions. DeepSpeed calls it
# Ulysses ([Jacobs et al., 2023](https://arxiv.org/abs/2309.14509)). For parts of equal size the code is short:


# %%
def dealt(me, x, from_dim, to_dim):
    """Cut by positions -> cut by heads, with dims 1 and 2; the other way round with 2 and 1."""
    give = torch.stack(x.chunk(me.world_size, from_dim))  # a piece for each rank
    come = torch.empty_like(give)
    dist.all_to_all_single(come, give)
    return torch.cat(list(come), to_dim)


def by_heads(me, q, k, v):
    """q (B, H, T_r, K), k and v (B, G, T_r, K): quarters, in the order of ranks -> (B, H, T_r, K)."""
    q, k, v = (dealt(me, x, 1, 2) for x in (q, k, v))  # (B, H/n, T, K), (B, G/n, T, K) twice
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return dealt(me, out, 2, 1)


# %% [markdown]
# Equal work needs no care here. Each rank computes whole heads, each with the whole mask, so all orders of positions
# are equally good. (`split_context(..., way="all_to_all")` puts it into a transformer, for any order.)
#
# Each head is computed on one rank, and several heads of queries share one head of keys. So the number of ranks cannot
# be larger than the number of heads of keys and values. Our model has 8 heads of queries and 4 of keys and values:


# %%
def sent_by(num_ranks, config=small):
    """Bytes that rank 0 sends forward in a layer, by the cost model: by the ring, and by the all-to-all."""
    cut = SequenceCut(config.context_length, num_ranks)
    ring, heads = cost.ring_attention_sent_bytes, cost.all_to_all_attention_sent_bytes
    return [count(config, cut, 0, batch_size=1).forward for count in (ring, heads)]


for num_ranks in (2, 4, 8, 16):
    try:
        sent_by(num_ranks)
    except ValueError as error:
        print(f"{num_ranks} ranks: {error}")
        break
    print(f"{num_ranks} ranks: by the cost model they can share the attention")

# %% [markdown]
# Now compare the bytes. In the all-to-all q, k, v and the output travel; in the ring only keys and values do. **Take
# the same model on four ranks, forward. How many times the ring's bytes does the all-to-all send?**

# %%
### BEGIN SOLUTION
### STUB ask("10.sent")
ask("10.sent").commit(3)  # "8 + 4 + 4 + 8 heads against 4 + 4"
### END SOLUTION

# %%
random = torch.Generator().manual_seed(0)
WHOLE = [torch.randn(1, heads, T, 8, generator=random).double() for heads in (8, 4, 4)]
IN_ORDER = SequenceCut(T, 4, order="contiguous")


def by_ring(me, q, k, v):
    return ring_attention(me, q, k, v, IN_ORDER)


def attention(me, way):
    q, k, v = (own_positions(IN_ORDER, me.rank, x, dim=2).to(me.device) for x in WHOLE)
    return way(me, q, k, v).cpu()


expected, sent = F.scaled_dot_product_attention(*WHOLE, is_causal=True, enable_gqa=True), []
for way in (by_ring, by_heads):
    run = metered(four, attention, way)
    alike = agree(join_positions(IN_ORDER, list(run), dim=2), expected, within=1e-10)
    sent.append(run.communication.sent_bytes(0))
    print(f"{way.__name__:<9}{sent[-1]:>7,} bytes sent by rank 0; right to 1e-10: {alike}")
reveal("10.sent", *sent, small, 4)

# %% [markdown]
# The cost model computes the same for more ranks, and for 8 heads of queries with 8, 4 or 2 heads of keys. The table
# has the bytes of the all-to-all divided by those of the ring, forward. (Backward, in float32, the ring sends twice
# what it sends forward. The all-to-all sends as much as forward.)

# %%
print(f"{'heads of keys':<19}" + "".join(f"{n:>9} ranks" for n in (2, 4, 8)))
for kv_heads in (8, 4, 2):
    grouped = TransformerConfig(context_length=64, width=64, num_heads=8, num_kv_heads=kv_heads)
    row = []
    for n in (2, 4, 8):
        ring_bytes, heads_bytes = sent_by(n, grouped) if kv_heads % n == 0 else (1, None)
        row.append("too few" if heads_bytes is None else f"{heads_bytes / ring_bytes:.2f}")
    print(f"{kv_heads:<19}" + "".join(f"{cell:>15}" for cell in row))

# %% [markdown]
# ## Which one, when?
#
# Take an attention layer as in a model of 8 billion parameters: 32 heads of queries, 8 of keys and values, 128 numbers
# each. It runs on eight GPUs in eight machines, with 50 GB/s between them. The ring in zigzag order computes while its
# messages travel. Attention by heads begins only when its messages have come. **Which is quicker, forward and backward
# together?**

# %%
### BEGIN SOLUTION
### STUB ask("10.which")
# "the all-to-all has fewer bytes, and in long sequences bytes are what matters"
ask("10.which").commit("the ring for short sequences, all-to-all for long ones")
### END SOLUTION

# %%
layer = TransformerConfig(context_length=2**20, width=4096, num_heads=32, num_kv_heads=8)


def layer_ms(length, link):
    """Forward and backward of an attention layer, 8 GPUs, 400 TFLOP/s, bfloat16: ring, and by heads."""
    cut = SequenceCut(length, 8)
    sent = cost.all_to_all_attention_sent_bytes(layer, cut, 0, batch_size=1, itemsize=2)
    times = {"batch_size": 1, "flops_per_s": 400e12, "itemsize": 2}
    ring = [cost.ring_attention_time(layer, cut, link, **times, is_backward=back) for back in (False, True)]
    computing_s = sum(one_pass.compute_s for one_pass in ring)
    by_heads_s = computing_s + link.time_s(sent.forward) + link.time_s(sent.backward)
    return 1e3 * sum(one_pass.time_s for one_pass in ring), 1e3 * by_heads_s


# %%
LENGTHS = [2**power for power in (12, 14, 16, 18, 20)]
for name in ("nvlink 4", "infiniband ndr", "ethernet 100"):
    table = {length: layer_ms(length, cost.LINKS[name]) for length in LENGTHS}
    print(f"{name + ' (ms)':<20}{'ring':>12}{'by heads':>10}")
    for length, (ring_ms, heads_ms) in table.items():
        print(f"{length:>13,} tokens{ring_ms:>12.1f}{heads_ms:>10.1f}")
between = {length: layer_ms(length, cost.LINKS["infiniband ndr"]) for length in LENGTHS}
reveal("10.which", *({length: times[way] for length, times in between.items()} for way in (0, 1)))

# %% [markdown]
# The cost model computed all these times, and it leaves out costs of both ways. No kernel reaches 400 TFLOP/s on short
# parts, and here all all-to-alls of a pass count as one message. Besides time, three things decide.
#
# *Heads*: an all-to-all has no more ranks than there are heads of keys and values, unless it copies some. Where tensor
# parallelism has cut the heads already, fewer are left. The ring has no such limit.
#
# *Kernels*: by heads, a rank can use any attention kernel and any mask, and positions need not be dealt out.
#
# *Links*: an all-to-all within a machine and a ring between machines is possible, too. Megatron-Core calls that
# `a2a+p2p`.
#
# ## In production
#
# PyTorch has a prototype, `context_parallel(mesh, buffers=..., buffer_seq_dims=...)`. Inside this context the buffers
# are cut by positions, and dealt out as by `SequenceCut`. PyTorch calls this *head-tail*, and does it only if the
# length is divisible by twice the number of ranks. `scaled_dot_product_attention` then works on the parts. In forward
# it gets keys and values by an all-gather, unless `set_rotate_method("alltoall")` makes them go round. This prototype
# is written for the kernels of GPUs. So the course did not run it, and makes no claim about it. You find context
# parallelism in:
#
# | in | as |
# | --- | --- |
# | torchtitan | `context_parallel_degree`, on PyTorch's prototype |
# | Megatron-Core | `--context-parallel-size`; `--cp-comm-type`: `p2p` (a ring), `all_gather`, `a2a` or `a2a+p2p` |
# | DeepSpeed | Ulysses: `DistributedAttention` around your own attention |
#
# Llama 3 was trained with neither a ring nor an all-to-all. It gathers the keys and values of all ranks, and then
# computes, in zigzag order. Its keys and values are small, with 8 heads where queries have many more. And masks between
# documents are easy to apply.
#
# ## What you can do now
#
# You have seen that ranks wait for nearly half of a lap, and that equal pairs alone make memory uneven. You have dealt
# out positions so that work is even in every step. You have seen a loss fall although the model was wrong on one
# device. You can count what a ring and an all-to-all send, and say which of them waits for its messages.
#
# **The limit.** Sequences may be as long as you like now. But each token still passes through every weight, and a model
# that should know more needs more weights. Twice the weights are twice the arithmetic for each token. [Part
# 3](10c_experts.ipynb) shows a way around that.
#
# **Further reading.** Brandon et al., [Striped Attention](https://arxiv.org/abs/2311.09431) (2023): another balanced
# order. Jacobs et al., [DeepSpeed Ulysses](https://arxiv.org/abs/2309.14509) (2023), section 3. Llama Team, [The Llama
# 3 Herd of Models](https://arxiv.org/abs/2407.21783) (2024), section 3.3.2: context parallelism together with three
# other cuts. Liu et al., [Ring Attention](https://arxiv.org/abs/2310.01889) (2023).
#
# ## Another day: the explorer
#
# The explorer takes some ten minutes more, and nothing later needs it.
#
# ![The explorer's picture, four ranks in a ring with a quarter of 64 positions each: the causal mask in tiles by rank,
# bars for each rank's pairs in each step, and bars for what each rank sends](../assets/10_explorer.png)
#
# The explorer has one small layer: 4 heads of queries, of 8 numbers each, one sequence, float32. On the left is the
# causal mask, in the colours of the ranks that compute it. A number in a tile is the step of the ring. On the right are
# the pairs of each rank in each step, and what each rank sends. The cost model computes all of it. The button runs
# forward and backward with this setting on your ranks, and draws the meter's bytes over the bars as lines. It also says
# how far the results are from those of one process. For more ranks than you have, only the cost model answers. Three
# missions:
#
# 1. Take four ranks, four heads of keys, and 64 tokens or more. No rank sends more than 12 KiB, forward and backward
#    together.
# 2. Take four ranks, 64 tokens or more, and as many heads of keys as you like. No rank sends more than 10 KiB. And in
#    every step the pairs of every rank are within 10 % of the mean of all ranks.
# 3. Take two ranks or more. Find a setting in which the ring and the all-to-all send the same, to the byte. Let the
#    ranks confirm both.

# %% tags=["computed-time"]
explorer = ContextExplorer(four)
explorer

# %%
### BEGIN SOLUTION
### STUB print(explorer.missions)
explorer.choose(way="all_to_all")
explorer.choose(way="ring", order="zigzag", key_heads=1)
for way in ("ring", "all_to_all"):
    explorer.choose(ranks=2, key_heads=2, way=way)
    explorer.run.click()
print(explorer.missions)
### END SOLUTION

# %% [markdown]
# You can also set the controls in a cell: `explorer.choose(ranks=2, way="all_to_all")`. If the heads do not divide
# among the ranks, the explorer says so.
