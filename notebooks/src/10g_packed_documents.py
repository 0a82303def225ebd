# %% [markdown]
# # 10g · Long context and experts: packed documents
#
# Training packs many documents into one long sequence. You find out what that does to the balance of a ring, and which
# of its messages no rank needs. Then you deal out positions so that all ranks have equal work again.
#
# **65 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 7 of 9 · [1: the ring](10a_long_context.ipynb) · [2: equal work, and all-to-all](10b_equal_work.ipynb) · [3:
# experts, shared out](10c_experts.ipynb) · [4: equally busy](10d_busy_experts.ipynb) · [5: hide the
# exchange](10e_hide_the_exchange.ipynb) · [6: many small experts](10f_many_small_experts.ipynb) · [8: build ring
# attention](10h_build_ring_attention.ipynb) · [9: build an expert layer](10i_build_experts.ipynb)
#
# This part builds on [10b: equal work, and all-to-all](10b_equal_work.ipynb). Have you done it? `from course_lib
# import start; start("10g")` says whether you have.
#
# At the end you can
#
# - count the work of each rank for any packing, in pairs;
# - say which bytes of a ring no rank needs, and leave them out;
# - deal out the positions of any documents, so that tokens and pairs are even;
# - say how far a rank can run ahead of its neighbours in a ring as it is built here;
# - choose between these cuts and attention by heads.
#
# From [part 2](10b_equal_work.ipynb) you need pairs, zigzag order, and attention by heads. The shapes are the same:
# queries (B, H, T, K), keys and values (B, G, T, K).

# %%
from course_lib import Links, ask, check, cost, hint, pace, quiz, reveal, shared_cluster
from course_lib.cluster import recv, send, start
from course_lib.layouts import DocumentCut
from course_lib.meter import Timeline, metered
from course_lib.parallel.context import (
    all_to_all_attention,
    document_mask,
    join_positions,
    own_positions,
    ring_attention,
)
from course_lib.plot import gantt
from course_lib.rounding import agree

import torch
import torch.distributed as dist
import torch.nn.functional as F

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## Several documents, one sequence
#
# A model is trained with sequences of one length, say 8192 tokens. Most documents are shorter. If each sequence held
# one document and padding, most of it would be wasted.
#
# <!-- word: packed sequence | also: packing, sequence packing -->
# A **packed sequence** holds several documents, one after the other, so that no place in it is empty.
#
# The documents are independent, and a token should look at its own document alone.
#
# <!-- word: block-causal mask | also: document mask, intra-document mask -->
# A **block-causal mask** lets a query look at the keys of its own document that are not after it, and at no others.
#
# ![A mask of sixteen queries and sixteen keys. A document of ten tokens makes a large triangle, three documents of two
# tokens make a small one each; all other squares are empty](../assets/10_packed.png)
#
# Here is a packed sequence of 64 tokens, and its pairs:

# %%
LENGTHS = [40, 8, 8, 8]
mask = document_mask(LENGTHS)  # mask[query, key]
print("pairs of one document of 64 tokens:", int(torch.ones(64, 64).tril().sum()))
print("pairs of these four documents:     ", int(mask.sum()))
print("pairs of each document:            ", [length * (length + 1) // 2 for length in LENGTHS])

# %% [markdown]
# Here the mask leaves less than half of the arithmetic. Which ranks compute it? Part 2 dealt out one document in zigzag
# order. Four ranks cut 64 tokens into eight parts, and rank r has part r from the front and part r from the back:

# %%
ZIGZAG = DocumentCut.by_order(LENGTHS, 4, "zigzag")
for rank in range(4):
    front, back = ZIGZAG.owned[rank][:8], ZIGZAG.owned[rank][8:]
    print(f"rank {rank}: tokens {front[0]:>2} to {front[-1]:>2}, and {back[0]} to {back[-1]}")

# %% [markdown]
# With one document all ranks had equal work. Now there are four documents. Count work in pairs. **Divide the busiest
# rank's pairs by the mean of all ranks. Which number do you get?** (1 means that all ranks have the same.)

# %%
### BEGIN SOLUTION
### STUB ask("10.packed")
ask("10.packed").commit(1)  # "zigzag is even"
### END SOLUTION

# %% [markdown]
# The next cells run this cut on four ranks. `ring_attention` is the ring of part 1. A `DocumentCut` says which rank has
# which positions, and to which document each belongs. A pair of tiles from two documents is not computed. `pair_counts`
# receives the number of pairs that a rank has computed, step by step.

# %%
random = torch.Generator().manual_seed(0)
WHOLE = [
    torch.randn(1, heads, 64, 8, generator=random).double() for heads in (8, 4, 4, 8)
]  # q, k, v, grad of out


def ring(me, cut, skip_unseen=False):
    """Of this rank: its output and the gradients of its q, k and v; and its pairs in each step."""
    q, k, v, grad_out = (own_positions(cut, me.rank, x, dim=2).to(me.device) for x in WHOLE)
    leaves, pairs = [x.requires_grad_() for x in (q, k, v)], []
    out = ring_attention(me, *leaves, cut, skip_unseen=skip_unseen, pair_counts=pairs)
    out.backward(grad_out)
    return [x.detach().cpu() for x in (out, *(leaf.grad for leaf in leaves))], pairs


# %%
def one_process(lengths):
    """Output and gradients by PyTorch's attention, with the whole mask, on one device."""
    leaves = [x.clone().requires_grad_() for x in WHOLE[:3]]
    out = F.scaled_dot_product_attention(*leaves, attn_mask=document_mask(lengths), enable_gqa=True)
    out.backward(WHOLE[3])
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def is_right(cut, ranks):
    """Whether the ranks' output and gradients are those of one process, to 1e-10."""
    by_kind = zip(*(tensors for tensors, _ in ranks), strict=True)
    joined = [join_positions(cut, list(parts), dim=2) for parts in by_kind]
    return all(agree(a, b, within=1e-10) for a, b in zip(joined, one_process(cut.lengths), strict=True))


# %%
ranks = four.run(ring, ZIGZAG)
work = [sum(pairs) for _, pairs in ranks]
print("output and gradients as in one process:", is_right(ZIGZAG, ranks))
print("pairs of ranks 0 to 3:", work)
reveal("10.packed", work, ZIGZAG)

# %% [markdown]
# ## Bytes that no rank needs
#
# The ring still sends every block of keys and values all the way round, to three ranks. But many ranks need nothing in
# a block. A key is sent *in vain* if neither the rank that receives it nor any later rank on its way looks at it.
# **Forward, what share of the ring's bytes is sent in vain?**

# %%
### BEGIN SOLUTION
### STUB ask("10.unused")
ask("10.unused").commit(40)  # "what belongs to the short documents"
### END SOLUTION

# %% [markdown]
# All ranks know the lengths, so each can compute which rank needs which keys, without a message. With `skip_unseen` the
# ring leaves out the keys that would be sent in vain. The meter counts bytes with it and without it:


# %%
def forward(me, cut, skip_unseen):
    q, k, v = (own_positions(cut, me.rank, x, dim=2).to(me.device) for x in WHOLE[:3])
    return ring_attention(me, q, k, v, cut, skip_unseen=skip_unseen).cpu()


def forward_bytes(cut, skip_unseen):
    """Bytes that all ranks send together, by the meter."""
    run = metered(four, forward, cut, skip_unseen)
    return sum(run.communication.sent_bytes(rank) for rank in range(4))


# %%
in_full, needed = (forward_bytes(ZIGZAG, skip_unseen) for skip_unseen in (False, True))
print(f"all blocks all the way: {in_full:,} bytes; only what is needed: {needed:,}")
ranks = four.run(ring, ZIGZAG, True)
print("output and gradients still right:", is_right(ZIGZAG, ranks))
print("pairs of ranks 0 to 3:", [sum(pairs) for _, pairs in ranks])
reveal("10.unused", in_full, needed, ZIGZAG)

# %% [markdown]
# So bytes are easy to save. Work is not: the busiest rank has as many pairs as before, and the others wait for it.
#
# ## First way: hand out blocks by their work
#
# Cut the sequence into small blocks, here of 4 tokens. Sort them by their pairs. Begin with the block that has the most
# pairs. Give each block to the rank that has the fewest pairs so far and still has room for tokens. (The limit keeps
# the numbers of tokens even.) This is a *greedy* method, known from planning jobs on machines. The next cell uses it
# for two long documents and two short ones:

# %%
TWO_LONG = [24, 8, 24, 8]
BY_WORK = DocumentCut.by_order(TWO_LONG, 4, "by_work")
ranks = four.run(ring, BY_WORK)
print("right:", is_right(BY_WORK, ranks), "- tokens:", BY_WORK.sizes)
print("pairs of ranks 0 to 3:", [sum(pairs) for _, pairs in ranks])
for step, by_rank in enumerate(zip(*(pairs for _, pairs in ranks), strict=True)):
    print(f"  in step {step}: {list(by_rank)}")

# %% [markdown]
# In sum all ranks have the same number of pairs. In single steps some have far more than others, and a ring works step
# by step. In each step but the last, a rank sends its block to the next rank, and gets one from the rank before. It
# continues when it has computed and both messages are complete. A lap ends when the last rank is done. Suppose that
# messages take no time. **What share of the four ranks' time in a lap is computing?**

# %%
### BEGIN SOLUTION
### STUB ask("10.ahead")
ask("10.ahead").commit(47)  # "each step lasts as long as its busiest rank"
### END SOLUTION

# %% [markdown]
# The next cells measure a lap as in part 2. Messages are real, and short compared with the computing. The computing is
# *paced*: a timed wait of 1 ms for each pair, with the pairs printed above.


# %%
def paced_lap(me, steps):
    """The spans of three laps in which this rank computes; ``steps[step][rank]``: how many pairs."""
    block, laps = torch.zeros(2, 4, 16, 8, device=me.device), []
    come = torch.empty_like(block)
    for _ in range(3):
        timeline = Timeline(me.rank)
        dist.barrier()
        for step, pairs in enumerate(steps):
            on_the_way = [send(block, (me.rank + 1) % 4), recv(come, (me.rank - 1) % 4)]
            wait = start(on_the_way if step < 3 else [])
            if pairs[me.rank]:
                with timeline.span(f"step {step}"):
                    pace(me, 1e-3 * pairs[me.rank])
            wait()
        laps.append(timeline)
    return laps


# %% tags=["nbval-ignore-output"]
def lap_of(cut):
    """The quickest of three laps, and the share of it in which ranks compute."""
    with four.shaped(links=Links()):  # on the CPU, where `wait()` returns when the message is there
        by_rank = four.run(paced_lap, cost.ring_pairs(cut))
    best = min((Timeline.join(laps) for laps in zip(*by_rank, strict=True)), key=lambda lap: lap.wall_s)
    return best, sum(span.time_s for span in best.spans) / (4 * best.wall_s)


lap, share = lap_of(BY_WORK)
reveal("10.ahead", share, BY_WORK)

# %% tags=["nbval-ignore-output"]
zigzag_lap, zigzag_share = lap_of(DocumentCut.by_order(TWO_LONG, 4, "zigzag"))
print(f"zigzag:  {zigzag_lap.wall_s * 1e3:.0f} ms, computing {zigzag_share:.0%} of it (paced)")
print(f"by work: {lap.wall_s * 1e3:.0f} ms, computing {share:.0%} of it (paced)")
gantt(lap, title="A lap with blocks handed out by work (paced): gaps are waiting")

# %% [markdown]
# If keys and values come by one all-gather before attention begins, there are no steps, and only the sums matter.
# Handing out blocks by their work has three costs. The positions of a rank are scattered in blocks. A block has to be
# as large as a kernel's tile, often 128 tokens. And with few blocks the sums are not as even as here.
#
# ## Second way: zigzag in each document
#
# The work of a query depends on its place in its own document. So deal out each document by itself. Cut it into eight
# parts, and give rank r part r from its front and part r from its back. The lengths 40 and 8 are divisible by eight.
# The next cell runs this cut:

# %%
PER_DOCUMENT = DocumentCut.by_order(LENGTHS, 4, "per_document")
ranks = four.run(ring, PER_DOCUMENT)
print("right:", is_right(PER_DOCUMENT, ranks), "- tokens:", PER_DOCUMENT.sizes)
for step, by_rank in enumerate(zip(*(pairs for _, pairs in ranks), strict=True)):
    print(f"  in step {step}: {list(by_rank)}")
print(f"bytes, all ranks: {in_full:,} in full; only what is needed: {forward_bytes(PER_DOCUMENT, True):,}")

# %% [markdown]
# The work is even in sum, and in each step. But now seven eighths of the bytes are needed: each document lies on all
# ranks, the short ones too. So the even work costs bytes.
#
# But in real data few lengths are divisible. `per_document` then makes the first parts of each document one token
# longer. Take 21 documents of 3 tokens and one of 1 token, 64 in all. **How many tokens does rank 3 have?**

# %%
### BEGIN SOLUTION
### STUB ask("10.short")
ask("10.short").commit(16)  # "a quarter"
### END SOLUTION

# %%
SHORT = [3] * 21 + [1]
sizes = DocumentCut.by_order(SHORT, 4, "per_document").sizes
print("tokens of ranks 0 to 3:", sizes)
reveal("10.short", sizes[3], SHORT, 4)

# %% [markdown]
# PyTorch's own class for this refuses such lengths. A training program then pads each document to a multiple of
# twice the number of ranks: 3 tokens become 8.
#
# ### Build: even for any lengths
#
# You can avoid padding. Write a function that says which positions a rank has, for any documents. The check judges
# sums, and not steps; the table further down shows how even your cut is in each step.


# %%
def positions_of(rank, num_ranks, lengths):
    """The positions of a rank in the packed sequence: a list of whole numbers, rising. For all ranks together:

    - each of the positions 0 to sum(lengths) - 1 has one owner,
    - the numbers of tokens of two ranks differ by at most 1,
    - no rank is more than max(lengths) pairs above the mean of all ranks,
    - the positions of a rank make at most 4 * len(lengths) stretches without a gap.

    lengths: tokens of each document, in the order in which they are packed; one document or more, of 1 token or more.
    Lengths need not be multiples of 2 * num_ranks, and a rank may have no positions at all.
    A query has as many pairs as there are tokens in its document up to itself.
    """
    ### BEGIN SOLUTION
    own, rest, begin = [], [], 0
    for length in lengths:
        size, over = divmod(length, 2 * num_ranks)
        rest += [(offset, begin + offset) for offset in range(over)]  # the cheapest: dealt out below
        for part in (rank, 2 * num_ranks - 1 - rank):
            own += range(begin + over + part * size, begin + over + (part + 1) * size)
        begin += length
    return sorted(own + [position for _, position in sorted(rest)[rank::num_ranks]])
    ### END SOLUTION


# %%
positions_verdict = check("10.documents", positions_of)

# %%
# hint("10.documents")

# %% [markdown]
# Now the ring runs on your cut (or on the course's, until yours has passed), with four packings of 64 tokens:

# %%
PACKINGS = {"one long": LENGTHS, "two long": TWO_LONG, "short ones": SHORT, "mixed": [23, 1, 17, 5, 9, 9]}


def your_cut(lengths):
    if not positions_verdict.passed:
        return DocumentCut.by_order(lengths, 4, "even")
    return DocumentCut(lengths, [list(positions_of(rank, 4, list(lengths))) for rank in range(4)])


for name, lengths in PACKINGS.items():
    cut = your_cut(lengths)
    ranks = four.run(ring, cut, True)
    work = [sum(pairs) for _, pairs in ranks]
    print(f"{name:<11} right: {is_right(cut, ranks)}, tokens {list(cut.sizes)}, pairs {work}")

# %% [markdown]
# ## All cuts, side by side
#
# For each packing and cut the table has the fewest and the most tokens of a rank. The column `busiest` has the busiest
# rank's pairs, divided by the mean. The table also has the share of a lap that is computing, and the share of the bytes
# that is needed. Pairs and bytes come from runs. The share of computing comes from the model that you have just met,
# `cost.ring_lap_balance`.


# %%
def row(cut):
    work = [sum(pairs) for _, pairs in four.run(ring, cut)]
    needed = forward_bytes(cut, True) / forward_bytes(cut, False)
    tokens = f"{min(cut.sizes)} to {max(cut.sizes)}"
    busiest, computing = 4 * max(work) / sum(work), cost.ring_lap_balance(cut)
    return f"{tokens:>10}{busiest:>11.2f}{100 * computing:>11.0f} %{100 * needed:>9.0f} %"


print(f"{'':<26}{'tokens':>10}{'busiest':>11}{'computing':>13}{'needed':>11}")
whose = "yours" if positions_verdict.passed else "the course's"
for name, lengths in PACKINGS.items():
    for order in ("zigzag", "by_work", "per_document"):
        print(f"{name:<12}{order:<14}{row(DocumentCut.by_order(lengths, 4, order))}")
    print(f"{name:<12}{whose:<14}{row(your_cut(lengths))}")

# %% [markdown]
# Look at the rows of the short documents. There zigzag over the whole sequence is nearly even, and needs the fewest
# bytes. Each document is shorter than one of the eight parts, and most lie on one rank. Cutting each of them costs
# bytes and gains little. You can also mix: keep short documents whole, and cut the long ones.
#
# ## Attention by heads
#
# Attention by heads (part 2) gives each rank all positions of some heads. Each head has the whole mask, so all ranks
# have equal work, whatever the documents are, in any order of positions:


# %%
def by_heads(me, cut):
    q, k, v = (own_positions(cut, me.rank, x, dim=2).to(me.device) for x in WHOLE[:3])
    return all_to_all_attention(me, q, k, v, cut).cpu()


IN_ORDER = DocumentCut.by_order(LENGTHS, 4, "contiguous")
run = metered(four, by_heads, IN_ORDER)
out = join_positions(IN_ORDER, list(run), dim=2)
print("right:", agree(out, one_process(LENGTHS)[0], within=1e-10))
pairs = int(mask.sum())
print(f"pairs of each rank, counted in the mask: 2 heads of 8, {pairs} in each: {2 * pairs}")
print(f"the ring, evened out: 8 heads, {pairs // 4} in each: {8 * pairs // 4}")
print(
    f"bytes, all ranks: {sum(run.communication.sent_bytes(rank) for rank in range(4)):,}; the ring {in_full:,}"
)

# %% [markdown]
# This way sends q, k, v and the output, whatever the mask hides, and can skip nothing. Its limits are those of part 2:
# it has no more ranks than heads of keys and values, and ranks wait for its messages.
#
# ## In production
#
# PyTorch 2.13 has these ways as private classes, all of them prototypes. `_PerDocumentHeadTailLoadBalancer` is zigzag
# in each document; lengths must be divisible by twice the number of ranks. `_PTRRLoadBalancer` sorts blocks by their
# work and deals them out back and forth, for `flex_attention`, whose keys and values come by an all-gather. You pass
# such a class to `_context_parallel_shard`; `context_parallel` itself, from part 2, uses plain zigzag. The next cell
# compares your cut with PyTorch's:


# %% tags=["nbval-ignore-output"]
def pytorchs(lengths):
    """The positions of four ranks by PyTorch's balancer: it deals out document by document."""
    from torch.distributed.tensor.experimental._context_parallel import _load_balancer

    indices = _load_balancer._PerDocumentHeadTailLoadBalancer([lengths], 4, "cpu")._generate_indices()[0]
    documents = [document.chunk(4) for document in indices.split(lengths)]
    return [sorted(int(p) for document in documents for p in document[rank]) for rank in range(4)]


try:
    theirs = pytorchs(LENGTHS)
except Exception as error:  # another PyTorch may have other private classes
    print("this PyTorch's private class is another:", type(error).__name__)
else:
    print(f"same as {whose} for {LENGTHS}:", theirs == [list(own) for own in your_cut(LENGTHS).owned])
    try:
        print("short documents:", pytorchs(SHORT))
    except Exception as error:
        print("short documents: refused, with", type(error).__name__)

# %% [markdown]
# `False` does not mean that your cut is wrong: other cuts are even, too.
#
# NVIDIA's TransformerEngine, which Megatron-Core uses, cuts packed sequences in the same way, and has
# `pad_thd_sequences_for_cp` to pad each document. Llama 3 gathers keys and values before it computes, which makes any
# mask easy.
#
# With every cut, positions travel with their tokens, as in part 2. So do the targets, the angles of rotary embeddings,
# and the number of the document.
#
# ## Two questions

# %%
quiz("10g")

# %% [markdown]
# ## What you can do now
#
# You have seen that packing makes a balanced ring uneven, and that most of its bytes were sent in vain. You have dealt
# out positions for any lengths without padding, and seen how far a rank can run ahead. You can say what each way costs:
# bytes, scattered positions, padding, or a limit by heads.
#
# **The limit that remains.** Each packed sequence has other lengths, so each batch needs its own cut, made before its
# tokens are sent to the ranks. And one cut makes the work for one sequence even. Other data-parallel groups have other
# sequences at the same time, with more pairs or fewer. All groups wait for the slowest one when gradients are added.
#
# **Further reading.** Llama Team, [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783) (2024), section 3.3.2:
# context parallelism by all-gather, and why. PyTorch, `torch/distributed/tensor/experimental/_context_parallel/`
# `_load_balancer.py`: three balancers, with drawn masks. Liu et al., [Ring
# Attention](https://arxiv.org/abs/2310.01889) (2023). Jacobs et al., [DeepSpeed
# Ulysses](https://arxiv.org/abs/2309.14509) (2023), section 3.
