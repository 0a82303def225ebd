# %% [markdown]
# # 10a · Long context and experts: the ring
#
# A sequence is too long for one device. You cut it by positions, and write the few lines that compute attention in
# pieces. You send keys and values round a ring. You find out how much longer a sequence may be, and what this costs.
#
# **70 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 1 of 9 · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [3: experts, shared out](10c_experts.ipynb) ·
# [4: equally busy](10d_busy_experts.ipynb) · [5: hide the exchange](10e_hide_the_exchange.ipynb) · [6: many small
# experts](10f_many_small_experts.ipynb) · [7: packed documents](10g_packed_documents.ipynb) · [8: build ring
# attention](10h_build_ring_attention.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [02a: what travels](02a_collectives.ipynb) and [08b: a transformer,
# cut](08b_split_transformer.ipynb). Have you done them? `from course_lib import start; start("10a")` says whether you
# have.
#
# At the end you can
#
# - say what grows with the length of a sequence, and how fast;
# - join the output of attention to some keys with its output for other keys;
# - say what travels round the ring, forward and backward, and why;
# - say on which links the ring costs no time.
#
# From [lesson 02](02a_collectives.ipynb) you need messages that go round in a ring, and from [lesson
# 08](08b_split_transformer.ipynb) attention. It has queries (batch, heads, positions, numbers of a head), and maybe
# fewer heads of keys and values. Here these shapes are called (B, H, T, K) and (B, G, T, K).

# %%
from course_lib import Link, Links, ask, check, cost, hint, pace, reveal, shared_cluster
from course_lib.cluster import exchange, recv, send, start
from course_lib.layouts import SequenceCut
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.models import Transformer, TransformerBlock, TransformerConfig, next_token_loss
from course_lib.parallel.context import (
    RunningAttention,
    context_loss,
    join_positions,
    own_positions,
    ring_attention,
    split_context,
)
from course_lib.plot import lines, position_grids, stacked_bars
from course_lib.rounding import agree

import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

# %% tags=["nbval-ignore-output"]
one, four = (shared_cluster(number) for number in (1, 4))

# %% [markdown]
# ## One long sequence
#
# Take a block of a small transformer, with 8 heads of queries, and 2 of keys and values. The next cell measures how
# much it keeps of a sequence of 256 tokens for its backward pass:

# %%
small = TransformerConfig(context_length=2048, num_layers=1, width=64, num_heads=8, num_kv_heads=2)


def kept_of(length):
    """Bytes that a block keeps of one sequence."""
    block = TransformerBlock(small)
    x = torch.ones(1, length, small.width, requires_grad=True)
    with MemoryLedger(block, inputs=x) as ledger:
        y = block(x)
        kept = ledger.mark("after forward").by_label["activation"]
    return kept + x.nbytes - y.nbytes  # the input is kept, too; the output counts for the next block


kept_short = kept_of(256)
print(f"256 tokens: {bytes_text(kept_short)}")

# %% [markdown]
# **How many times as much does the block keep of a sequence of 512 tokens?**

# %%
### BEGIN SOLUTION
### STUB ask("10.length")
ask("10.length").commit(4)  # "attention is quadratic"
### END SOLUTION

# %%
kept_long = kept_of(512)
print(f"512 tokens: {bytes_text(kept_long)}")
reveal("10.length", kept_short, kept_long)

# %% [markdown]
# Why are long sequences a problem, then? Lesson 08's formula has $34\,sbh$ bytes for a block, with $b$ sequences of $s$
# positions and width $h$. It is for 16-bit numbers, with the scores computed anew. A model of 8 billion parameters has,
# say, 32 blocks of width 4096. For one sequence this gives:

# %%
for length in (8_192, 131_072, 1_048_576):
    print(f"{length:>9,} tokens: {34 * length * 4096 * 32 / 1e9:7.0f} GB of activations")

# %% [markdown]
# Which cut helps? Data parallelism shares out sequences, and here there is only one. Recomputation keeps the inputs of
# blocks, 2 of those 34 bytes, and they grow just as fast. Tensor parallelism, with lesson 08's sequence parallelism,
# divides the 34 by the number of ranks. But these ranks need fast links to each other, such as those between the 8 GPUs
# of a machine. And memory is not all: attention's arithmetic does grow quadratically.
#
# ## Cut by positions
#
# ![A sequence in four colours, a quarter for each of four ranks; each rank has a column of boxes: norm, matrices for q,
# k and v, attention with a question mark, output matrix, norm, MLP](../assets/10_quarters.png)
#
# <!-- word: context parallelism | also: CP -->
# In **context parallelism** each rank has some of the positions of every sequence, from the first layer to the loss,
# and all of the weights. Is that possible? The next cell gives each part of a block the last quarter of the positions
# alone. It compares the output with the last quarter of the output for the whole sequence:

# %%
torch.manual_seed(0)
block = TransformerBlock(small)
x = torch.randn(1, 32, small.width)
parts = {"norm": block.norm1, "w_q": block.attention.w_q, "attention": block.attention, "MLP": block.mlp}
for name, part in parts.items():
    from_all = part(x)[:, -8:]  # computed from all positions
    from_own = part(x[:, -8:])  # computed from the last quarter alone
    print(f"{name:<10} needs no other position: {agree(from_own, from_all, within=1e-5)}")


# %%
def reads(part):
    """(T, T): whether the output of ``part`` at position i depends on its input at position j."""
    given = x.clone().requires_grad_()
    made = part(given)[0]  # (T, width)
    numbers = (made * torch.randn(made.size(-1))).sum(-1)  # one for each position
    rows = [torch.autograd.grad(number, given, retain_graph=True)[0][0] for number in numbers]
    return torch.stack([row.abs().amax(-1) > 0 for row in rows])


grids = {name: reads(part) for name, part in parts.items()}
position_grids(grids, num_ranks=4, title="Which positions each position depends on (filled), in quarters")

# %% [markdown]
# So only attention needs something from other ranks. (Lesson 08's *sequence parallelism* gathered the positions before
# attention and MLP, since it cut both by features. Here the MLP stays where it is. Some authors call context
# parallelism *sequence parallelism*, too.)
#
# An all-gather of keys and values would do. But then every rank holds those of the whole sequence, in each layer. Can a
# rank work with one part of them at a time? The next function computes attention to some keys:


# %%
def attend_to(q, k, v):
    """Attention of Q queries to S keys: the output (B, H, Q, K), and lse (B, H, Q).

    q: (B, H, Q, K), k and v: (B, G, S, K)
    """
    sharing = q.size(1) // k.size(1)  # query heads that share a head of keys and values
    k, v = k.repeat_interleave(sharing, dim=1), v.repeat_interleave(sharing, dim=1)
    scores = q @ k.mT / q.size(-1) ** 0.5  # (B, H, Q, S)
    lse = scores.logsumexp(-1)
    return (scores - lse.unsqueeze(-1)).exp() @ v, lse  # softmax, times the values


# %% [markdown]
# The last line is softmax: exponentials, divided by their sum, which is exp(lse). You will need `lse` soon.
#
# Take eight keys, four on each of two ranks. Each rank computes the attention of the same four queries to its own keys.
# (In this part all queries look at all keys, as in an encoder. The causal mask comes back in part 2.) **Take the mean
# of the two outputs. How does it compare with attention to all eight keys?**

# %%
### BEGIN SOLUTION
### STUB ask("10.mean")
ask("10.mean").commit("that, but for rounding")  # "an average of averages, of equally many keys"
### END SOLUTION

# %%
random = torch.Generator().manual_seed(3)
q, k, v = (torch.randn(1, 2, length, 8, generator=random).double() for length in (4, 8, 8))
whole = F.scaled_dot_product_attention(q, 2 * k, v)  # 2 k: larger scores, so that a query prefers some keys
sides = [attend_to(q, 2 * k[:, :, keys], v[:, :, keys]) for keys in (slice(0, 4), slice(4, 8))]
mean = (sides[0][0] + sides[1][0]) / 2
reveal("10.mean", (mean - whole).abs().max().item(), whole.abs().max().item())

# %% tags=["nbval-ignore-output"]
weights = 100 * (q @ (2 * k).mT / 8**0.5).softmax(-1)[0]  # (2, 4, 8): of each key, in per cent
shares = {
    f"head {h}, query {i}": {"first four keys": of[:4].sum().item(), "last four keys": of[4:].sum().item()}
    for h in range(2)
    for i, of in enumerate(weights[h])
}
stacked_bars(shares, unit="%", what="weight that a query gives to the keys", limit=("half:", 50), decimals=0)

# %% [markdown]
# <!-- word: log-sum-exp | also: LSE, logsumexp -->
# The **log-sum-exp** of a query over some keys is the logarithm of the sum of exp(score) over these keys, which is what
# softmax divides by. When two sides are joined, it says how much each side's output counts. And it stays small where
# the sum itself would overflow.
#
# ![Two sides with four keys each; each side gives an output and an lse; both go into a box, join, with a question mark,
# and an output and an lse come out](../assets/10_two_sides.png)
#
# ### Build: two sides, joined
#
# Write `join`. Its result is an output and an lse, like each of the two sides. So a third side can be joined to it.
# Take care of two things. Scores may be large (exp(1000) overflows). And for one query all keys of a side may be hidden
# by a causal mask. Then the lse of that side is minus infinity, the logarithm of 0, and its output is 0. This may
# happen on both sides.


# %%
def join(first, second):
    """Attention of queries to the keys of two sides, as if it had been computed for all of them at once.

    ``first`` and ``second`` are pairs (out, lse), of shapes (B, H, Q, K) and (B, H, Q).
    Returns such a pair, of the same dtype. A loss that is computed from it has gradients for
    both sides.
    """
    ### BEGIN SOLUTION
    (out1, lse1), (out2, lse2) = first, second
    both = torch.logaddexp(lse1, lse2)  # log(exp(lse1) + exp(lse2))
    base = both.masked_fill(both == -torch.inf, 0.0)
    share1, share2 = (lse1 - base).exp(), (lse2 - base).exp()
    return share1.unsqueeze(-1) * out1 + share2.unsqueeze(-1) * out2, both
    ### END SOLUTION


# %%
join_verdict = check("10.join", join)

# %%
# hint("10.join")

# %% [markdown]
# <!-- word: online softmax | sentences: 2 -->
# An **online softmax** takes keys piece by piece, and joins the outputs of the pieces by their log-sum-exp. So it never
# sees all scores at once. (Milakov and Gimelshein described it in 2018; fused attention uses it tile by tile.) The
# course has a class for it, which stands in for your `join` until yours has passed.


# %%
def the_courses(first, second):
    running = RunningAttention(first[0])  # has seen nothing yet
    for found in (first, second):
        running.add(slice(None), *found)  # for all queries
    return running.out, running.lse


joined = join if join_verdict.passed else the_courses
print("the two sides joined are attention to all keys:", agree(joined(*sides)[0], whole, within=1e-10))

# %% [markdown]
# ## Round the ring
#
# ![Four ranks in a ring, each with its own queries; the keys and values of each rank go to the next one, step by
# step](../assets/10_round.png)
#
# <!-- word: ring attention | sentences: 2 -->
# In **ring attention** queries stay on their rank, and keys and values go once round, from rank to rank. Each rank
# joins the outputs of its queries for each block of keys and values. Besides its own block a rank needs room for two
# more blocks of keys and values. It computes with one of them while the other is coming. ([Liu et al.,
# 2023](https://arxiv.org/abs/2310.01889).)


# %%
def passed_on(me, tensor):
    """Send ``tensor`` to the next rank. Returns the one of the rank before."""
    after, before = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    give = tensor.contiguous()
    come = torch.empty_like(give)
    exchange([send(give, after), recv(come, before)])
    return come


def keys_round(me, q, k, v):
    """Attention of this rank's queries to all ranks' keys: (B, H, T_r, K) -> same."""
    found = attend_to(q, k, v)
    for _ in range(me.world_size - 1):
        k, v = passed_on(me, torch.stack([k, v]))
        found = joined(found, attend_to(q, k, v))
    return found[0]


# %% [markdown]
# Each rank takes its own positions of a sequence. Then the outputs are put together again:

# %%
T = 32
CUT = SequenceCut(T, num_ranks=4, order="contiguous")  # a quarter each
random = torch.Generator().manual_seed(0)
head_counts = (small.num_heads, small.kv_heads, small.kv_heads)
WHOLE = [torch.randn(1, heads, T, small.head_dim, generator=random).double() for heads in head_counts]


def own_part(me, dtype=torch.float64):
    """This rank's q, k, v."""
    return [own_positions(CUT, me.rank, x, dim=2).to(me.device, dtype) for x in WHOLE]


def with_own_part(me, way):
    return way(me, *own_part(me)).cpu()


expected = F.scaled_dot_product_attention(*WHOLE, enable_gqa=True)
parts = four.run(with_own_part, keys_round)
alike = agree(join_positions(CUT, list(parts), dim=2), expected, within=1e-10)
print(f"no output of four ranks is off by more than 1e-10: {alike}")

# %% [markdown]
# ### Or queries?
#
# The ring could also send the queries round. Then keys and values stay, and each block of queries takes its output and
# its lse along. After a whole lap, once round the ring, a rank has the output and the lse of its own queries.


# %%
def queries_round(me, q, k, v):
    found = attend_to(q, k, v)
    for _ in range(me.world_size - 1):
        q, *found = (passed_on(me, each) for each in (q, *found))  # q, output and lse
        found = joined(found, attend_to(q, k, v))
    return passed_on(me, found[0])  # the last step, to the rank of the queries


parts = four.run(with_own_part, queries_round)
alike = agree(join_positions(CUT, list(parts), dim=2), expected, within=1e-10)
print(f"no output of four ranks is off by more than 1e-10: {alike}")

# %% [markdown]
# **There are 8 heads of queries, and 2 heads of keys and values. How many times the bytes of `keys_round` does
# `queries_round` send?**

# %%
### BEGIN SOLUTION
### STUB ask("10.queries")
ask("10.queries").commit(2)  # "8 heads against 2 and 2"
### END SOLUTION

# %%
sent_bytes = {}
for way in (keys_round, queries_round):
    communication = metered(four, with_own_part, way).communication
    sent_bytes[way] = communication.sent_bytes(0)
    print(
        f"{way.__name__:<14}{communication.num_messages(0)} messages, {bytes_text(sent_bytes[way])} by rank 0"
    )
reveal("10.queries", *sent_bytes.values(), small)

# %% [markdown]
# An all-gather of keys and values by a ring would send as many bytes as `keys_round`. So ring attention saves no bytes.
# It saves memory: a rank never holds the keys and values of all ranks.
#
# ## The backward pass
#
# `keys_round` has no backward pass. The course's `ring_attention` is a custom autograd function: it keeps q, k and v of
# its own positions, the output, and lse. In backward each rank computes its scores anew, one block of keys at a time.
# The stored lse is that of all keys, so exp(score - lse) is the weight of a key. From the weights the rank computes the
# gradients of its own queries. It also computes *its part* of the gradients of all ranks' keys and values.
#
# **How many times as many bytes does a rank send in backward as in forward? (All numbers are float32.)**

# %%
### BEGIN SOLUTION
### STUB ask("10.back")
ask("10.back").commit(1)  # "gradients of keys and values go round, once"
### END SOLUTION


# %%
def by_the_course(me, with_backward, dtype=torch.float32):
    """This rank's part of the output, and of the gradients of q, k and v."""
    leaves = [part.requires_grad_() for part in own_part(me, dtype)]
    out = ring_attention(me, *leaves, CUT, is_causal=False)
    if with_backward:
        out.square().sum().backward()
    return [tensor.detach().cpu() for tensor in (out, *(leaf.grad for leaf in leaves)) if tensor is not None]


forward, both = (metered(four, by_the_course, way).communication for way in (False, True))
for name, communication in {"forward": forward, "both passes": both}.items():
    print(f"{name:<12}{communication.num_messages(0)} messages, {bytes_text(communication.sent_bytes(0))}")
reveal("10.back", forward.sent_bytes(0), both.sent_bytes(0))

# %%
leaves = [tensor.clone().requires_grad_() for tensor in WHOLE]
out = F.scaled_dot_product_attention(*leaves, enable_gqa=True)
out.square().sum().backward()
alone = [out.detach(), *(leaf.grad for leaf in leaves)]
of_ranks = zip(*four.run(by_the_course, True, torch.float64), strict=True)
for name, parts, right in zip(("output", "dq", "dk", "dv"), of_ranks, alone, strict=True):
    alike = agree(join_positions(CUT, list(parts), dim=2), right, within=1e-10)
    print(f"{name:<7}no number of four ranks is off by more than 1e-10: {alike}")

# %% [markdown]
# ## A sequence that fits nowhere
#
# `split_context` puts the ring into a transformer. All ranks get the same tokens. Each takes its own positions, and
# computes the logits and the loss of these. (The model is causal. Then the order in which `SequenceCut` deals out
# positions matters; part 2 explains why.) Gradients of weights are averaged over ranks, as in lesson 04. For gradients,
# a rank with some of the positions is like a rank with some of the samples.
#
# Say each device has room for 3 MiB, weights and their gradients included (the optimizer is left out). The ledger
# measures the peak of a step, forward and backward:


# %%
def peaks(me, lengths):
    """Bytes at the fullest moment of a step, for sequences of these lengths."""
    found = {}
    for length in lengths:
        model, cut = Transformer(small).to(me.device), SequenceCut(length, me.world_size)
        if me.world_size > 1:
            split_context(me, model, cut, tile=64)  # scores of 64 queries and 64 keys at a time
        tokens = torch.zeros(1, length, dtype=torch.int64, device=me.device)
        with MemoryLedger(model, inputs=tokens) as ledger:
            logits = model(tokens)
            whole_loss = me.world_size == 1
            loss = next_token_loss(logits, tokens) if whole_loss else context_loss(me, logits, tokens, cut)
            loss.backward()
        found[length] = ledger.peak().total_bytes
    return found


# %%
def longest(found):
    for length, size_bytes in found.items():
        print(
            f"{length:>5} tokens: {bytes_text(size_bytes):>8} {'' if size_bytes <= ROOM_BYTES else 'too much'}"
        )
    return max(length for length, size_bytes in found.items() if size_bytes <= ROOM_BYTES)


ROOM_BYTES = 3 * 2**20
longest_of_one = longest(one.run(peaks, (128, 256, 320, 384))[0])

# %% [markdown]
# **About how many tokens may a sequence have on four of these devices?**

# %%
### BEGIN SOLUTION
### STUB ask("10.longest")
ask("10.longest").commit(512)  # "four times the room, and attention is quadratic"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("10.longest", longest_of_one, longest(four.run(peaks, range(256, 1281, 256))[0]))

# %% [markdown]
# ## When does the ring cost no time?
#
# A block of keys and values can travel while the rank computes with the one that it has. So `ring_attention` first
# starts to send and then computes. Does the message arrive in time? Four ranks on a laptop share its cores, so here
# computing is *paced*, as in lesson 04: it is a timed wait. Messages are real, on a shaped link of 2 MB/s. (`start` is
# the first half of `exchange`. It returns a function; a rank calls this function to wait.)
#
# A lap has four steps, each with one block. At 128 positions on each rank, a step takes this long by the cost model:

# %% tags=["computed-time"]
link = Link(bandwidth_bytes_per_s=2e6)
FLOPS_PER_S = 2e9


def lap_model(length):
    """Arithmetic and waiting of one lap, by the cost model: all queries look at all keys."""
    cut = SequenceCut(4 * length, 4, "contiguous")
    return cost.ring_attention_time(small, cut, link, batch_size=1, flops_per_s=FLOPS_PER_S, is_causal=False)


block_bytes = 4 * 2 * small.kv_heads * small.head_dim  # keys and values of a position
compute_s, message_s = lap_model(128).compute_s / 4, link.time_s(128 * block_bytes)
print(f"computing {compute_s * 1e3:.1f} ms, the message of the next block {message_s * 1e3:.1f} ms")

# %% [markdown]
# **How many positions must a rank have, so that the message is hidden behind the computing?** (The cell below tries
# powers of 2. A message counts as hidden where less than a fifth of a lap is waiting.)

# %%
### BEGIN SOLUTION
### STUB ask("10.hidden")
ask("10.hidden").commit(256)  # "twice as long is four times the computing"
### END SOLUTION


# %%
def paced_lap_s(me, length, step_s):
    """The time of a forward lap, with a timed wait in place of the arithmetic; of three laps the quickest."""
    block = torch.zeros(2, small.kv_heads, length, small.head_dim, device=me.device)
    come, times_s = torch.empty_like(block), []
    for _ in range(3):
        dist.barrier()
        start_s = time.perf_counter()
        for step in range(me.world_size):
            is_last = step == me.world_size - 1
            on_the_way = [send(block, (me.rank + 1) % 4), recv(come, (me.rank - 1) % 4)]
            wait = start([] if is_last else on_the_way)
            pace(me, step_s)
            wait()
        times_s.append(time.perf_counter() - start_s)
    return min(times_s)


# %% tags=["nbval-ignore-output"]
exposed = {}
with four.shaped(links=Links(link)):
    for length in (64, 128, 256, 512, 1024):
        computing_s = lap_model(length).compute_s
        lap_s = max(four.run(paced_lap_s, length, computing_s / 4))
        exposed[length] = 1 - computing_s / lap_s
        print(
            f"{length:>5} positions: a lap takes {lap_s * 1e3:5.0f} ms, waiting {exposed[length]:4.0%} of it"
        )
reveal("10.hidden", exposed, compute_s, message_s, 128)

# %% tags=["nbval-ignore-output"]
laps = {length: lap_model(length) for length in exposed}
lines(
    {
        "model": {length: 100 * lap.exposed_s / lap.time_s for length, lap in laps.items()},
        "measured": {length: 100 * share for length, share in exposed.items()},
    },
    x_label="positions of a rank",
    y_label="waiting (% of a lap)",
    title="Four paced ranks on a shaped link",
    log_x=True,
)

# %% [markdown]
# ### Real sizes
#
# For $T_r$ positions of a rank, a step has $4HKT_r^2$ operations. Its message has $2GKT_r$ numbers, of 2 bytes in
# bfloat16. Divide the device's operations in a second by the link's bytes in a second. The positions that a rank needs
# are this quotient times G/H. (Lesson 05 had the same quotient for ZeRO-3, in tokens of a batch.) The next cell takes
# 400 TFLOP/s, which a good GPU reaches:

# %%
print("positions on each rank    32 heads of queries, 8 of keys   32 of each")
for name in ("nvlink 4", "infiniband ndr", "ethernet 100"):
    per_byte = 400e12 / cost.LINKS[name].bandwidth_bytes_per_s
    print(f"{name:<25} {8 / 32 * per_byte:30,.0f} {per_byte:12,.0f}")

# %% [markdown]
# (A causal mask halves the arithmetic, and doubles these lengths.) Long contexts hide the ring's messages even between
# machines. Short contexts do not, but they need no cut.
#
# ## What you can do now
#
# You have cut a sequence by positions, and joined the outputs of its parts. You have sent keys round the ring, then
# queries, and counted the bytes of both. Four devices hold a sequence about four times as long, and for long sequences
# the link costs no time.
#
# **The limit.** In what you counted and timed, every query looked at every key. A language model is causal: a query
# looks at the keys before it. Which of the four ranks is then busy, and when? [Part 2](10b_equal_work.ipynb) answers
# that, and shows another way to cut attention.
#
# **Further reading.** Liu, Zaharia and Abbeel, [Ring Attention with Blockwise Transformers for Near-Infinite
# Context](https://arxiv.org/abs/2310.01889) (2023), section 3: the ring, and when it is hidden. Dao et al.,
# [FlashAttention](https://arxiv.org/abs/2205.14135) (2022), section 3: tiles, and a backward pass without stored
# scores. Milakov and Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867) (2018).
