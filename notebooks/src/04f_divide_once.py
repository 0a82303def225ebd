# %% [markdown]
# # 04f · DistributedDataParallel: divide once
#
# Texts have different lengths, and not every token counts in the loss. A training step makes one loss of all tokens,
# over micro-batches and ranks. You measure what each token weighs in this loss, and write the step in which all weigh
# the same.
#
# **70 minutes · difficulty 3 of 5 · needs: cpu**
#
# Part 6 of 6 · [1: one rule, sent in buckets](04a_distributed_data_parallel.ipynb) · [2: batches, and how much
# faster](04b_batches_and_scaling.ipynb) · [3: drift, checkpoints and the real thing](04c_drift_and_production.ipynb) ·
# [4: build your own](04d_build_ddp.ipynb) · [5: a job on two A100](04e_read_a_trace.ipynb)
#
# This part builds on [04b: batches, and how much faster](04b_batches_and_scaling.ipynb). Have you done it? `from
# course_lib import start; start("04f")` says whether you have.
#
# At the end you can
#
# - say what a token weighs, for any way to cut a batch into micro-batches and ranks;
# - write a step whose gradients are those of one process, with one small message more;
# - say when the mean of means is right, and what its loss curve shows you;
# - say over which ranks tokens are to be counted;
# - find this division in torchtitan, Megatron and Transformers.
#
# From [part 2](04b_batches_and_scaling.ipynb) you need `no_sync`, and its batch of 22 images on four ranks. There one
# batch was uneven. Here every batch is uneven.

# %%
from course_lib import ask, check, hint, quiz, reveal, shared_cluster
from course_lib.parallel.data import IGNORED, backward_per_token
from course_lib.plot import lines
from course_lib.rounding import agree, rounded

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## Which tokens count
#
# A language model reads tokens, and is asked for the next token at every position. The position's *target* is the token
# that it should say there.
#
# <!-- word: valid token | also: label token, loss mask -->
# A **valid token** is a target that counts in the loss. Two kinds do not count. In *fine-tuning* a text model learns to
# answer questions. It is not to learn to ask them, so the targets in the prompt are left out.
#
# <!-- word: padding -->
# And the sequences of a micro-batch must be equally long to be one tensor. **Padding** is what fills up the shorter
# ones, and it belongs to no text.
#
# <!-- word: `ignore_index` -->
# PyTorch's `cross_entropy` leaves out every target that is equal to its `ignore_index`, which is -100 unless you say
# otherwise. `IGNORED` is this number.
#
# Our data are 16 conversations. Each has a prompt of three tokens. Eight have a short answer, `yes .`, and eight have a
# long one, `well`, 30 letters and `.`.

# %%
WORDS = ["?", "yes", "well", ".", *"abcdefghijkl"]
ASK, YES, WELL, END = range(4)


def conversation(number):
    """Prompt and answer, lists of tokens. Those below 8 are short."""
    prompt = [4 + 5 * number % 12, 4 + 7 * number % 12, ASK]
    return prompt, [YES, END] if number < 8 else [WELL, *(4 + (number + i) % 12 for i in range(30)), END]


def micro_batch(numbers):
    """Tokens and targets, (conversations, positions) each: the target is the next token of the answer."""
    pairs = [conversation(number) for number in numbers]
    length = max(len(prompt + answer) for prompt, answer in pairs)
    tokens, targets = (torch.full((len(pairs), length), fill) for fill in (END, IGNORED))
    for row, (prompt, answer) in enumerate(pairs):
        tokens[row, : len(prompt + answer)] = torch.tensor(prompt + answer)
        targets[row, len(prompt) - 1 : len(prompt + answer) - 1] = torch.tensor(answer)
    return tokens, targets


# %% [markdown]
# Here is a micro-batch of a short one and a long one. Padding is printed as `_`, and a target that does not count as
# `-`.

# %%
for number, tokens, targets in zip((0, 8), *micro_batch((0, 8)), strict=True):
    length = sum(map(len, conversation(number)))
    words = [WORDS[token] if place < length else "_" for place, token in enumerate(tokens)]
    print("tokens ", *words[:9], "...")
    print("targets", *("-" if target == IGNORED else WORDS[target] for target in targets[:9]), "...")

# %% [markdown]
# Four ranks take two micro-batches each, of two conversations. The program that deals them out can choose. *By length*
# puts conversations of one length together, so that nothing is padded here. Many data loaders do that to save time.

# %%
BY_LENGTH = [(0, 1), (2, 3), (4, 5), (8, 9), (6, 7), (10, 11), (12, 13), (14, 15)]
ONE_OF_EACH = [(number, number + 8) for number in range(8)]


def own_part(dealt, rank):
    return [micro_batch(numbers) for numbers in dealt[2 * rank : 2 * rank + 2]]


def valid_counts(dealt):
    return [int((micro_batch(numbers)[1] != IGNORED).sum()) for numbers in dealt]


written = sum(len(part) for number in range(16) for part in conversation(number))
for name, dealt in (("by length", BY_LENGTH), ("one of each", ONE_OF_EACH)):
    positions = sum(micro_batch(numbers)[1].numel() for numbers in dealt)
    print(f"{name}: valid tokens {valid_counts(dealt)}")
    print(f"  {positions} positions: {sum(valid_counts(dealt))} are valid, {positions - written} are padding")

# %% [markdown]
# ## What a token weighs
#
# Here is the step that most scripts have, without the optimizer. `cross_entropy` gives the mean over the valid tokens
# of a micro-batch. Dividing by the number of micro-batches makes a mean over these. DDP makes the mean over ranks.
#
# <!-- word: mean of means -->
# So the step has the gradients of a **mean of means**: first each micro-batch is averaged, and then the averages are.


# %%
def usual(me, ddp, micro_batches, loss_of=F.cross_entropy):
    """Forward and backward of one step. Returns this rank's part of the loss that is logged."""
    logged = 0.0
    for index, (tokens, targets) in enumerate(micro_batches):
        is_last = index == len(micro_batches) - 1
        with nullcontext() if is_last else ddp.no_sync():
            mean = loss_of(ddp(tokens).flatten(0, 1), targets.flatten()) / len(micro_batches)
            mean.backward()
        logged = logged + mean.detach() / me.world_size
    return logged


# %% [markdown]
# Dealt by length, rank 0 has two micro-batches of 4 valid tokens, and rank 3 has two of 64. Each token has a weight in
# the gradient. **Divide the weight of a token of rank 0 by that of a token of rank 3. What comes out?**

# %%
### BEGIN SOLUTION
### STUB ask("04.token_weight")
ask("04.token_weight").commit(1)  # "each token is in one mean"
### END SOLUTION

# %% [markdown]
# A weight can be measured. The probe below stands for a model. In each micro-batch the loss of the first token is a
# parameter, and all other losses are 0. The gradient of this parameter is then what the token weighs. `mean_of_means`
# is the arithmetic of `usual` in one line; the next section runs `usual` itself.


# %%
class Probe(nn.Module):
    """From {number of a micro-batch: its valid tokens} to the losses of the tokens, a tensor for each micro-batch."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(8, dtype=torch.float64))

    def forward(self, own):
        rest = self.first.new_zeros
        return [torch.cat([self.first[i : i + 1], rest(count - 1)]) for i, count in own.items()]


def weights(me, counts, loss_of):
    """What a token of each micro-batch weighs on four ranks; 1 is what it weighs in one process."""
    ddp = TorchDDP(Probe())
    own = {number: count for number, count in enumerate(counts) if number // 2 == me.rank}
    loss_of(ddp(own), sum(counts)).backward()
    return ddp.module.first.grad * sum(counts)


# %%
def mean_of_means(losses, num_valid):
    return sum(one.mean() for one in losses) / len(losses)


by_length = four.run(weights, valid_counts(BY_LENGTH), mean_of_means)[0]
print("of rank     ", [number // 2 for number in range(8)])
print("valid tokens", valid_counts(BY_LENGTH))
print("weight      ", rounded(by_length, 2, apart=1e-9))
reveal("04.token_weight", by_length[0].item(), by_length[-1].item(), 64 / 4)

# %% [markdown]
# ## Beside one process
#
# Now take a model, the smallest language model there is: a table with a row of scores for each token that was read. One
# process takes all 16 conversations as one batch, with the loss per token. Then the four ranks take the usual step.
#
# <!-- word: loss per token | also: per-token loss, token-level loss -->
# The **loss per token** is the sum of the losses of all valid tokens of a step, divided by their number.


# %%
def make_model():
    torch.manual_seed(0)
    return nn.Embedding(len(WORDS), len(WORDS)).double()


def loss_per_token(model):
    """Of all 16 conversations, in one process."""
    tokens, targets = micro_batch(range(16))
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def gradient(me, step, dealt):
    ddp = TorchDDP(make_model())
    part = step(me, ddp, own_part(dealt, me.rank))
    dist.all_reduce(part)  # the loss that a log would show
    return ddp.module.weight.grad, part.item()


# %%
def beside_one_process(step, dealt):
    alone = make_model()
    loss = loss_per_token(alone)
    loss.backward()
    right = alone.weight.grad
    found, logged = four.run(gradient, step, dealt)[0]
    if agree(found, right, within=1e-6):
        return f"the gradient of one process; loss {rounded(logged, 2)} for {rounded(loss.item(), 2)}"
    off, length = (found - right).norm() / right.norm(), found.norm() / right.norm()
    angle = torch.rad2deg(torch.arccos((found * right).sum() / found.norm() / right.norm()))
    numbers = f"{rounded(length, 1)} times as long, turned by {rounded(angle, 0)} degrees"
    return f"{numbers}, off by {rounded(100 * off, 0)} %; loss {rounded(logged, 2)} for {rounded(loss.item(), 2)}"


print("by length:  ", beside_one_process(usual, BY_LENGTH))
print("one of each:", beside_one_process(usual, ONE_OF_EACH))

# %% [markdown]
# Both lines have the same model and the same conversations, dealt to micro-batches in two ways. If each micro-batch
# gets one of each, all micro-batches have equally many valid tokens, and then the mean of means *is* the mean. It is
# right with **equally many micro-batches on each rank, and equal counts in all of them**. Training on plain text that
# is cut into full rows has equal counts. Fine-tuning has not.
#
# Is the loss per token the right one? That is your choice. You may want each *answer* to weigh the same, and then you
# divide by the number of answers. In both choices, the data alone say what a token weighs. In the mean of means, a
# token's weight depends on the other tokens of its micro-batch. It changes when the same data are cut into
# micro-batches in another way.
#
# ## Two cures
#
# You find two repairs in training scripts. Both add losses up, and divide once.
#
# - *Own count*: each rank divides its sum by the valid tokens of all *its* micro-batches.
# - *Count of all*: each rank divides its sum by the valid tokens of *all* ranks.
#
# **Under DDP, which of them gives the gradients of one process?**

# %%
### BEGIN SOLUTION
### STUB ask("04.token_cure")
ask("04.token_cure").commit("the second")  # "all tokens, one division"
### END SOLUTION


# %%
def own_count(losses, num_valid):
    return sum(one.sum() for one in losses) / sum(map(len, losses))


def count_of_all(losses, num_valid):
    return sum(one.sum() for one in losses) / num_valid


cures = {cure: four.run(weights, valid_counts(BY_LENGTH), cure)[0] for cure in (own_count, count_of_all)}
print("valid tokens  ", valid_counts(BY_LENGTH))
for cure, found in cures.items():
    print(f"{cure.__name__:<14}", rounded(found, 2, apart=1e-9))
reveal("04.token_cure", *(found.tolist() for found in cures.values()), 4)

# %% [markdown]
# ## A micro-batch in which nothing counts
#
# A prompt may be so long that no room is left for its answer. Then a micro-batch may have no valid token at all. Many
# scripts make the mean by hand, with a mask of zeros and ones:


# %%
def masked_mean(scores, targets):
    mask = targets != IGNORED
    losses = F.cross_entropy(
        scores, targets.clamp(min=0), reduction="none"
    )  # -100 is no class; the mask drops it
    return (losses * mask).sum() / mask.sum()


# %% [markdown]
# On rank 0 the first of the two micro-batches has no valid token. All ranks take the usual step, with `masked_mean`,
# and then a step of SGD. **On which ranks are there weights that are NaN?**

# %%
### BEGIN SOLUTION
### STUB ask("04.token_nan")
ask("04.token_nan").commit("on rank 0")  # "the others had tokens"
### END SOLUTION


# %%
def with_nothing_valid(me, loss_of):
    """Whether the loss of this rank is NaN, and whether a weight is, after a step."""
    ddp, micro_batches = TorchDDP(make_model()), own_part(BY_LENGTH, me.rank)
    if me.rank == 0:
        micro_batches[0][1].fill_(IGNORED)
    part = usual(me, ddp, micro_batches, loss_of)
    torch.optim.SGD(ddp.parameters(), lr=0.1).step()
    return part.isnan().item(), ddp.module.weight.isnan().any().item()


by_mask, by_index = (four.run(with_nothing_valid, loss_of) for loss_of in (masked_mean, F.cross_entropy))
for name, found in (("masked_mean", by_mask), ("cross_entropy", by_index)):
    loss_is_nan, weight_is_nan = zip(*found, strict=True)
    print(f"{name:<13} loss is NaN, by rank: {loss_is_nan}; a weight is NaN: {weight_is_nan}")
reveal("04.token_nan", [weight for _, weight in by_mask], [weight for _, weight in by_index])

# %% [markdown]
# ## Build: the loss per token
#
# Write the step whose gradients are those of one process. It works for any mask, any number of ranks, and any number of
# micro-batches, which may differ from rank to rank.
#
# - `ddp` is PyTorch's `DistributedDataParallel`, and its gradients are cleared. `micro_batches` has one pair of tokens
#   and targets or more. The step leaves the gradients in `.grad`; the optimizer is the caller's.
# - Gradients are sent once. Beside them your step may make *one* more call, of a few bytes.
# - Go forward and backward with one micro-batch at a time, as always.
# - A micro-batch or a rank may have no valid token. If no rank has one, gradients and loss are 0.
# - Return this rank's *part* of the loss, without a graph: the parts of all ranks add up to the loss per token. The
#   code that writes the log may add them up.


# %%
def step_per_token(me, ddp, micro_batches):
    """Forward and backward of one step. Returns this rank's part of the loss per token, a tensor of one number."""
    ### BEGIN SOLUTION
    count = sum((y != IGNORED).sum() for _, y in micro_batches)
    dist.all_reduce(count)
    count = count.clamp(min=1)
    total, last = 0.0, len(micro_batches) - 1
    for place, (x, y) in enumerate(micro_batches):
        with nullcontext() if place == last else ddp.no_sync():
            summed = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten(), reduction="sum")
            (summed / count * me.world_size).backward()
        total = total + summed.detach()
    return total / count
    ### END SOLUTION


# %%
verdict = check("04.valid_tokens", step_per_token)

# %%
# hint("04.valid_tokens")

# %% [markdown]
# (Until your function has passed, the course's `backward_per_token` is used below.)

# %%
per_token = step_per_token if verdict.passed else backward_per_token
print("by length:  ", beside_one_process(per_token, BY_LENGTH))
print("one of each:", beside_one_process(per_token, ONE_OF_EACH))

# %% [markdown]
# ## Two runs
#
# Now both steps train, 100 steps each, on the conversations dealt by length. Half of the answers begin with `yes`.
# After `?`, the table of scores says how often the model answers `yes`. **How often does the model answer `yes` after
# the usual steps, in per cent?**

# %%
### BEGIN SOLUTION
### STUB ask("04.token_share")
ask("04.token_share").commit(50)  # "half of the answers do"
### END SOLUTION


# %%
def train(me, step, dealt, num_steps=100):
    """The losses of the log, and the model's table."""
    ddp = TorchDDP(make_model())
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.2)
    micro_batches, log = own_part(dealt, me.rank), []
    for _ in range(num_steps):
        optimizer.zero_grad()
        part = step(me, ddp, micro_batches)
        dist.all_reduce(part)
        log.append(part.item())
        optimizer.step()
    return log, ddp.module.weight.detach()


# %%
def both_losses(table):
    """The loss per token and the mean of means that a model has, in one process."""
    model = nn.Embedding.from_pretrained(table)
    means = [
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in map(micro_batch, BY_LENGTH)
    ]
    return loss_per_token(model).item(), sum(means) / len(means)


# %%
runs, shares, losses = {}, {}, {}
for name, step in (("usual", usual), ("per token", per_token)):
    runs[name], table = four.run(train, step, BY_LENGTH)[0]
    shares[name] = 100 * table[ASK].softmax(0)[YES].item()
    losses[name] = both_losses(table)
reveal("04.token_share", shares["usual"], shares["per token"], 100 * 16 / 17)

# %% [markdown]
# **Would the log have shown it?** Here are both logs: each run's own loss, as it reports it.

# %%
lines(
    {name: (range(0, 100, 3), log[::3]) for name, log in runs.items()},
    x_label="step",
    y_label="loss that the run reports",
    title="Two healthy runs",
    log_y=True,
)

# %%
for name, (of_tokens, of_means) in losses.items():
    print(
        f"{name:<10} reports {rounded(runs[name][-1], 2)}; loss per token {rounded(of_tokens, 2)}, mean of means "
        f"{rounded(of_means, 2)}; 'yes' in {rounded(shares[name], 0)} % of the answers"
    )

# %% [markdown]
# Both curves fall and flatten. The usual run even reports the *lower* loss, because it counts the easy, short answers
# for more. Both models were then measured by both losses. By the loss per token the usual run's model is the worse one,
# and by the mean of means it is the better one. Each is better by the loss that its run made small. So decide first
# which loss you want. Then compute this one for all runs, however they train.
#
# ## With more axes
#
# A model may be cut in other ways too (lessons 07 to 10). Ranks then form a grid, and each way to cut is one *axis* of
# it (lesson 09). The rule stays: every valid token is counted once.
#
# | axis | what its ranks read | the count |
# |---|---|---|
# | data parallel, replicas or shards | other sequences | is added up over it |
# | context parallel (lesson 10) | other parts of the same sequences | is added up over it, if counted after the cut |
# | tensor parallel (lesson 08) | the same tokens | is not added up: it would be n times too large |
# | pipeline parallel (lesson 07) | the same tokens, layer by layer | is not added up; the last stage has the loss |
#
# With context parallelism, look at where the targets are counted. If you count before the sequences are cut, every
# context rank counts whole sequences: add up over the data-parallel axis alone. If you count after the cut, add up over
# both axes. The factor that makes up for the mean is the number of ranks over which gradients are averaged. With both
# axes that is the product of their sizes.
#
# ## In production
#
# - **torchtitan** counts the valid labels of all micro-batches before the first forward pass, and adds them up over
#   ranks: `global_valid_tokens`. Each loss is a sum, divided by it. Its FSDP modules get
#   `set_gradient_divide_factor(1.0)`, so that gradients are added and not averaged.
# - **Megatron** with `--calculate-per-token-loss` adds gradients and counts on the way. At the end of the step it adds
#   the counts up over ranks and scales the gradients. Without the option it takes means of means.
# - **Transformers**: its `Trainer` gives the loss function `num_items_in_batch`, the count of all micro-batches.
#   `average_tokens_across_devices` says whether this is the count of all ranks.
#
# torchtitan counts first and scales the loss; Megatron counts last and scales the gradients. Both give the same result,
# and both need one small message. `set_gradient_divide_factor` is a method of every module that PyTorch's `fully_shard`
# has wrapped (lesson 05). DDP has no such switch, only a communication hook that you would have to write. So with DDP
# you multiply the loss by the number of ranks.
#
# ## Two questions

# %%
quiz("04f")

# %% [markdown]
# ## What you can do now
#
# You can say what each token weighs in a step, and make all of them weigh the same, however the batch is cut. You can
# test whether a script computes the loss per token. Take texts of unequal lengths, in float64. Run one step with the
# whole batch as *one* micro-batch on one rank, and one with it cut up on four ranks, and compare gradients. (With the
# same micro-batches in both, a mean of means looks right, too.)
#
# **The limit.** Tokens now weigh the same, and ranks still do not *work* the same. The rank with the long answers
# computes longest, and the others wait for it. [Lesson 10](10b_equal_work.ipynb) shares work out evenly.
#
# **Further reading.** Hugging Face, [Fixing Gradient Accumulation](https://huggingface.co/blog/gradient_accumulation)
# (2024): how this error was found in a widely used library. Yu et al., [DAPO](https://arxiv.org/abs/2503.14476) (2025),
# section 3.3: long and short answers in reinforcement learning. Liu et al., [Understanding R1-Zero-Like
# Training](https://arxiv.org/abs/2503.20783) (2025), section 3: the same division, and how it makes answers longer.
