# %% [markdown]
# # 12b · Beyond one machine: when ranks die
#
# A job on two nodes loses a rank, then a node, and gets the node back. You see how much time that costs, and why some
# programs then train on the same samples twice. You also learn what to read when a job hangs without a crash.
#
# **2 × 50 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 2 of 6 · [1: two nodes](12a_two_nodes.ipynb) · [3: thousands of GPUs](12c_thousands.ipynb) · [4: take it
# along](12d_take_it_along.ipynb) · [5: wrong numbers](12e_wrong_numbers.ipynb) · [6: build a job that outlives its
# ranks](12f_build_a_job.ipynb)
#
# This part builds on [02c: when a job hangs](02c_hangs.ipynb), [04c: drift, checkpoints and the real
# thing](04c_drift_and_production.ipynb) and [12a: two nodes](12a_two_nodes.ipynb). Have you done them? `from
# course_lib import start; start("12b")` says whether you have.
#
# At the end you can
#
# - write a checkpoint of a *whole job*, from which it continues with any number of ranks;
# - say which processes end when a rank dies, and which steps are done twice;
# - find a slow rank, and a rank that is missing in a collective, from evidence;
# - say from the settings of agents which of them will never meet.
#
# You need agents and the rendezvous ([04c](04c_drift_and_production.ipynb), [12a](12a_two_nodes.ipynb)), and the flight
# recorder ([02c](02c_hangs.ipynb)).

# %%
from course_lib import ask, check, hint, pace, reveal, shared_cluster
from course_lib.cluster import black_box, folder_for_ranks
from course_lib.learn import elastic, meetings, own_number
from course_lib.meter import Timeline
from course_lib.nodes import Nodes
from course_lib.parallel.data import load_on_all, save_by_one
from course_lib.plot import gantt

import pickle
import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist

# %% tags=["nbval-ignore-output"]
two, four = shared_cluster(2, backend="gloo"), shared_cluster(4, backend="gloo")

# %% [markdown]
# ## The state of a job
#
# To continue a job, its weights are not enough. The state of a job is all that the next step depends on. It contains
# the weights, the optimizer's states, the generator of random numbers, the step, the epoch, and the *place* in the
# epoch. The next cells define a job so small that you see all of its state. It has a linear model, momentum by hand, 96
# samples, and 12 of them in a global batch.

# %%
NUM, BATCH, EVERY = 96, 12, 5  # samples in an epoch, in a global batch; steps between checkpoints
chance = torch.Generator().manual_seed(0)
X = torch.randn(NUM, 8, generator=chance)
Y = X @ torch.arange(8.0)


def order_of(epoch):
    return torch.randperm(NUM, generator=torch.Generator().manual_seed(epoch)).tolist()


def told_by_0(me, fact):
    """What rank 0 sees; the others may not see its disk, or not at the same moment."""
    word = torch.tensor([int(fact)], device=me.device)
    dist.broadcast(word, src=0)
    return bool(word)


# %%
def load_or_begin(me, folder):
    if told_by_0(me, (folder / "last.pt").exists()):
        return load_on_all(me, folder / "last.pt")
    state = {"weights": torch.zeros(8), "velocity": torch.zeros(8), "step": 0, "epoch": 0, "place": 0}
    return state | {"random": torch.Generator().manual_seed(7).get_state()}


def step_on(me, state, mine):
    """One step of the optimizer; ``mine``: the samples of this rank."""
    random = torch.Generator()
    random.set_state(state["random"])
    noise = torch.randn(NUM, 8, generator=random)  # for all samples: it does not matter who has which
    inputs = X[mine] + 0.1 * noise[mine]
    gradient = (inputs.T @ (inputs @ state["weights"] - Y[mine]) / BATCH).to(me.device)
    dist.all_reduce(gradient)
    state["velocity"].mul_(0.9).add_(gradient.cpu())
    state["weights"].sub_(state["velocity"], alpha=0.01)
    state |= {"step": state["step"] + 1, "random": random.get_state()}


# %% [markdown]
# The next cell has the loop around this step. `share` gives a rank its samples of the next step, and the place after
# that step. One rank writes the checkpoint, beside the last good one, and renames it (`save_by_one`, lesson 04). A
# `Diary` adds a line for each step of each rank: which samples the rank saw. These lines are evidence: the diary of a
# dead rank stays.


# %%
def train(me, folder, share, num_steps=10**9, keep_place=True, pace_s=0.0):
    folder = Path(folder)
    diary, state = elastic.Diary(me, folder), load_or_begin(me, folder)
    state["place"] *= keep_place
    while state["step"] < num_steps:
        mine, state["place"] = share(me, order_of(state["epoch"]), state["place"])
        if not mine:  # the epoch is over
            state |= {"epoch": state["epoch"] + 1, "place": 0}
            if told_by_0(me, (folder / "enough").exists()):
                break
            continue
        pace(me, pace_s)  # computing that takes a while
        step_on(me, state, mine)
        diary.note(state, mine)
        if state["step"] % EVERY == 0:
            save_by_one(me, folder / "last.pt", state)
    return state


# %% [markdown]
# ## The place in the epoch
#
# Four ranks work for six steps and are stopped. Two ranks then find the checkpoint of step 5 and finish the epoch. The
# first program keeps no place, so it begins the epoch again. The second one keeps a place. It deals out samples as
# PyTorch's `DistributedSampler` does, every fourth one to a rank. Its place is the number of samples that a rank has
# had.


# %%
def by_rank(me, order, place):
    own = order[me.rank :: me.world_size]
    mine = own[place : place + BATCH // me.world_size]
    return mine, place + len(mine)


def stopped_and_resumed(share, before, after, keep_place=True):
    """Samples of the epoch that the weights have not seen, and that they have seen more than once."""
    with folder_for_ranks(before) as folder:
        before.run(train, folder, share, 6)
        (Path(folder) / "enough").touch()  # at the end of this epoch
        after.run(train, folder, share, keep_place=keep_place)
        return elastic.dealt(elastic.kept(elastic.read_diaries(folder)), NUM)[0]


lost, twice = stopped_and_resumed(by_rank, four, two, keep_place=False)
print(f"the epoch begun again: {lost} samples lost, {twice} seen twice")

# %% [markdown]
# No error or warning shows that. (A step after the checkpoint that the resumed run repeats does not count here, since
# its change of the weights was lost.) Now put the place in the checkpoint. At step 5 each of four ranks has had 15
# samples. **How many samples have been seen twice, when two ranks have finished the epoch?**

# %%
### BEGIN SOLUTION
### STUB ask("12.dealt")
ask("12.dealt").commit(0)  # "the place is kept"
### END SOLUTION

# %%
lost, twice = stopped_and_resumed(by_rank, four, two)
print(f"two ranks resume: {lost} samples lost, {twice} seen twice")
print("four ranks resume: {} lost, {} seen twice".format(*stopped_and_resumed(by_rank, four, four)))
reveal("12.dealt", twice, 5 * BATCH, 4, 2)

# %% [markdown]
# On the same number of ranks it works. So a test that resumes on the same number of ranks does not find the fault.
# Write a `share` whose place does not depend on the number of ranks.


# %%
def together(me, order, place):
    """This rank's samples of the next global batch, and the place after it. No samples: the epoch is over."""
    ### BEGIN SOLUTION
    ### STUB own = order[me.rank :: me.world_size]  # as before: mend it
    ### STUB mine = own[place : place + BATCH // me.world_size]
    ### STUB return mine, place + len(mine)
    batch = order[place : place + BATCH]  # the place counts what all ranks have had together
    return batch[me.rank :: me.world_size], place + len(batch)
    ### END SOLUTION


# %%
for before, after in ((four, two), (two, four), (four, four)):
    ways = f"{before.world_size} ranks, then {after.world_size}"
    print(ways, "-> {} lost, {} seen twice".format(*stopped_and_resumed(together, before, after)))

# %% [markdown]
# When all six numbers are 0, you have mended it. From here on the page uses the course's `next_share`, which does the
# same.
#
# ## Two nodes, and what happens to them
#
# <!-- word: elastic -->
# A job is **elastic** if it can continue with another number of ranks than it began with. Now run a real job: two
# agents of torchrun, with two ranks each. torchrun may start the ranks again (`--max-restarts`), and may continue with
# one node (`--nnodes 1:2`). One job goes through all of the following. First one rank is killed; which rank differs
# from learner to learner. Then node 1 is killed, agent and ranks. Then node 1 is started again and joins. At the end
# the four ranks do one more thing, which a later section uses.
#
# **One rank is killed by SIGKILL. When the job continues, how many of its four processes are new?**

# %%
### BEGIN SOLUTION
### STUB ask("12.restarted")
ask("12.restarted").commit(1)  # "it starts that rank again"
### END SOLUTION


# %%
def share(me, order, place):
    mine = elastic.next_share(me, order, place, BATCH)
    return mine, place + (BATCH if mine else 0)


def stall(me, folder, stuck):
    """A gradient is summed within each node, and then between nodes, four times."""
    within = [dist.new_group(r, group_desc=f"within {r}") for r in ([0, 1], [2, 3])][me.rank // 2]
    between = [dist.new_group(r, group_desc=f"between {r}") for r in ([0, 2], [1, 3])][me.rank % 2]
    gradient = torch.ones(1024)
    with black_box(me, folder, quiet_s=1.0, frames=False):
        for step in range(4):
            if (me.rank, step) == stuck:  # held up, until all recorders have been written
                elastic.wait_for_files(folder, "rank_*", me.world_size)
            dist.all_reduce(gradient, group=within)
            dist.all_reduce(gradient, group=between)


PACE_S = 0.15  # of a step's computing


def the_job(me, folder, stuck):
    state = train(me, folder, share, pace_s=PACE_S)
    stall(me, folder, stuck)
    return state


# %% tags=["nbval-ignore-output"]
dead = own_number("12.dead", 4)  # drawn once for you, and kept with your progress
stuck = own_number("12.missing", 4), 1 + own_number("12.missing, step", 3)  # somewhere
kept_folder = tempfile.TemporaryDirectory()
folder = Path(kept_folder.name)
with Nodes(2, ranks_per_node=2) as nodes:
    print(nodes)
    job = nodes.torchrun(the_job, folder, stuck, max_restarts=5, min_nodes=1)
    until = partial(elastic.wait_for, folder, job=job)
    begun = [until(world_size=4, steps=8)]
    job.kill(rank=dead)
    begun += [until(world_size=4, steps=4, after=begun[-1])]
    job.kill(node=1)
    begun += [until(world_size=2, steps=2, after=begun[-1])]
    job.start_node(1)
    begun += [until(world_size=4, steps=2, after=begun[-1])]
    (folder / "enough").touch()
    job.wait(timeout_s=90)
    events, results = job.events, job.results


# %% tags=["nbval-ignore-output"]
def shown(events, first, last):
    for event in events:
        if first <= event.time_s < last and event.what != "failed":
            print(event)


notes = elastic.read_diaries(folder)
starts = [start for start in elastic.starts_of(notes) if start.number in begun]
lost_rank, lost_node, came_back = pairwise(starts)
killed = [event.time_s for event in events if event.what == "killed"]
again = next(event.time_s for event in events if event.text.endswith("started again"))
shown(events, 0, killed[1])
for start in lost_rank:
    print(f"start {start.number}: processes {start.processes}")
reveal("12.restarted", *(start.processes for start in lost_rank))

# %% [markdown]
# What happened to the other ranks, on both nodes? These ended by an error of their own:

# %% tags=["nbval-ignore-output"]
print(*(e.text for e in events if e.what == "failed" and e.time_s < killed[1]), sep="\n")

# %% [markdown]
# With gloo the surviving ranks notice at once: a connection was closed, and that is an error. A rank that is not on the
# list was ended before it could report an error. An agent checks its processes ten times a second. When one has died,
# it ends the other ranks of its node. Ranks of other nodes then fail, or their agents end them when they learn of a new
# rendezvous. With NCCL a surviving rank may not notice by itself: a collective whose partner has gone waits on the GPU.
# Usually its agent ends it. Else PyTorch's watchdog ends it after its time-out, ten minutes unless you set another time
# (`TORCH_NCCL_ASYNC_ERROR_HANDLING`, on by default).
#
# ## Steps that are done twice
#
# The ranks began again at the last checkpoint; there is one after every fifth step.

# %% tags=["nbval-ignore-output"]
for name, (before, _) in ((f"rank {dead} was killed", lost_rank), ("node 1 was killed", lost_node)):
    print(f"the last step that all ranks did before {name}: {before.last}")
before, after = lost_rank
print(f"after rank {dead} was killed the ranks continued with step {after.first}")
print("steps done twice:", before.last - after.first + 1)

# %% [markdown]
# ![A line of steps with checkpoints; a rank dies between two of them, and the line begins again at the earlier
# one](../assets/12_redone.png)
#
# With more checkpoints a kill loses fewer steps, but writing takes more time. [Part 3](12c_thousands.ipynb) finds the
# best interval. Here the kill itself cost more time than these steps, as you will see.
#
# ## One node less
#
# Then node 1 died, and its agent with it. So no process on node 1 can report it.

# %% tags=["nbval-ignore-output"]
shown(events, killed[1], again)
before, after = lost_node
print(f"start {before.number}: {before.world_size} ranks; start {after.number}: {after.world_size} ranks")

# %% [markdown]
# The agent of node 0 notices at once that its own ranks fail, as before. But it does not yet know that node 1 will not
# come back. It learns that a few seconds later.
#
# <!-- word: keep-alive | also: heartbeat | sentences: 2 -->
# A **keep-alive** is a message that an agent sends to the rendezvous at intervals, to show that it is alive. An agent
# that has sent none for a while is removed from the list. Here that takes 3 s. Then comes 1 s of *last call*, in which
# others may still join. PyTorch's defaults are three times 5 s, and up to 30 s. `--nnodes 1:2` says that one node is
# enough. With `--nnodes 2` the agent would wait ten minutes for a second node, and then give up.
#
# (If node 0 dies, the whole job ends, because its agent holds the store of the rendezvous. So a job that must survive
# this puts the store on a separate machine. Here that would be `nodes.torchrun(..., rendezvous="apart")`.)
#
# Two ranks now do the work of four. There are two ways to choose the batch. In the first, each rank keeps its three
# samples. Then the global batch is half as large, and the learning rate should be half as large too, by the rule of
# [04b](04b_batches_and_scaling.ipynb). In the second, which is used here, the global batch stays the same, and each
# rank has six samples. A step takes longer on real devices, and nothing else has to change. **How do the weights at the
# end compare with those of an undisturbed job on four ranks?**

# %%
### BEGIN SOLUTION
### STUB ask("12.same")
ask("12.same").commit("it is another model")  # "other ranks, other batches"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
state = results[0]
with folder_for_ranks(four) as quiet:
    undisturbed = four.run(train, quiet, share, state["step"])[0]
for name, one in (("killed and restarted", state), ("undisturbed", undisturbed)):
    print(f"{name:<21} step {one['step']}:", *(f"{weight:.6f}" for weight in one["weights"][:4].tolist()))
reveal("12.same", (state["weights"] - undisturbed["weights"]).abs().max().item())

# %% [markdown]
# ### A good place to stop
#
# A first sitting can end here. What you have predicted and built is kept. When you come back, run all cells above this
# one. In the second sitting a node comes back, and then a job hangs without a crash.

# %% [markdown]
# ## One node more
#
# Node 1 is started again and joins the rendezvous, while two ranks work on node 0. No rank can be added to a process
# group that exists. So, as after the kill, all ranks are ended, and four new processes begin.

# %% tags=["nbval-ignore-output"]
shown(events, again, float("inf"))
for start in came_back:
    print(f"start {start.number}: steps {start.first} to {start.last}, processes {start.processes}")

# %% [markdown]
# <!-- word: membership change -->
# A **membership change** is a node that joins a job or leaves it: all ranks are ended and begin anew, with another
# world size. An agent uses up one of its `--max-restarts` when one of its own ranks fails. It uses up none when another
# agent only waits to join. An agent may learn of a failure on *another* node in either way first, so the restart counts
# above can differ from run to run. But a join costs time, too. The next cell prints the time of each of the three
# changes, from the last step before it to the first step after it:

# %% tags=["nbval-ignore-output"]
for name, (before, after) in (("rank", lost_rank), ("node", lost_node), ("join", came_back)):
    gap_s, redone = after.first_s - before.last_s, before.last - after.first + 1
    print(f"{name}: {gap_s:4.1f} s without a step, steps done twice: {redone} (of {PACE_S} s)")

# %% [markdown]
# Most of this time is the start: new processes import torch, meet, and load the checkpoint. On thousands of GPUs add
# the time to read a large checkpoint, and to compile. The next cell checks whether any sample was lost or seen twice:

# %%
deals = elastic.dealt(elastic.kept(notes), NUM)
print("epochs in which a sample was lost or seen twice:", [n for n, deal in deals.items() if deal != (0, 0)])

# %% [markdown]
# The list is empty: no sample was lost, and none was seen twice, first on four ranks, then on two, and then on four
# again. The diaries of all ranks show that, also those of the dead ones.
#
# ![Four boxes that a checkpoint of a job holds: weights, optimizer, random numbers, place; beside each what goes wrong
# without it](../assets/12_state.png)
#
# ## Slow, not dead
#
# An agent finds a rank that dies. No program here finds a slow rank by itself. In the next cell four ranks do the same
# work and then an all-reduce, and one device is slower. The cell prints how long each rank spent *in the all-reduce*,
# on average. **Which device is the slow one?**


# %%
def work(me, slow, steps=6):
    timeline = Timeline(rank=me.rank)
    for _ in range(steps):
        with timeline.span("step"):
            pace(me, 0.045 if me.rank == slow else 0.03)
        with timeline.span("all-reduce", kind="collective"):
            dist.all_reduce(torch.ones(8, device=me.device))
    return timeline


def mean_ms(timeline, name):
    times_s = [span.time_s for span in timeline.spans if span.name == name]
    return 1e3 * sum(times_s) / len(times_s)


# %% tags=["nbval-ignore-output"]
slow = own_number("12.slow", 4)
timelines = list(four.run(work, slow))
for rank, timeline in enumerate(timelines):
    print(f"rank {rank}: {mean_ms(timeline, 'all-reduce'):5.1f} ms in the all-reduce")

# %%
### BEGIN SOLUTION
### STUB ask("12.slow")
ask("12.slow").commit("rank 0")  # "it waits longest"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
waits, steps = ([mean_ms(timeline, name) for timeline in timelines] for name in ("all-reduce", "step"))
gantt(Timeline.join(timelines), title="Six steps: computing above, the all-reduce below")
reveal("12.slow", waits, steps)

# %% [markdown]
# One slow device of four makes the steps of all four 1.5 times as long. If no device is *always* slow, but each is slow
# at times, a step still takes as long as its slowest rank. The more ranks there are, the more often one of them is
# slow. So large jobs record for every step which rank came last, and look for a rank that is last too often.
#
# ## Not dead, not slow: missing
#
# At the end of the job on two nodes each rank summed a gradient twice in a step. First it did so within its node, then
# with the rank that has the same local rank on the other node. (This is half of the hierarchical all-reduce of [part
# 1](12a_two_nodes.ipynb).) One rank was delayed, as if it waited for a file. `black_box` writes the flight recorder's
# dump when a rank has called no collective for a second. (With NCCL PyTorch writes it after the watchdog's time-out:
# `TORCH_NCCL_DUMP_ON_TIMEOUT`, with `TORCH_FR_BUFFER_SIZE` entries.) The next cell prints the last two entries of each
# rank's dump:

# %% tags=["nbval-ignore-output"]
dumps = [pickle.loads((folder / f"rank_{rank}").read_bytes()) for rank in range(4)]
for rank, dump in enumerate(dumps):
    for entry in dump["entries"][-2:]:
        group, number = entry["process_group"][1], entry["collective_seq_id"]
        print(f"rank {rank}: all-reduce {number} {group:<14} {'over' if entry['retired'] else 'waits'}")

# %% [markdown]
# **Which rank is missing?** Several ranks wait, and not all in the same group.

# %%
### BEGIN SOLUTION
### STUB ask("12.missing")
ask("12.missing").commit("rank 0")
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("12.missing", dumps)

# %% [markdown]
# For four ranks this is easy by hand. For many ranks use a rule. In each group take the newest collective that any rank
# has entered, and list the ranks that have not entered it. A rank on such a list that waits in no collective itself is
# the missing one. The others are on a list because they wait in another group. `torchfrtrace` ([02c](02c_hangs.ipynb))
# compares dumps in this way.
#
# ## Clinic: a rendezvous that never completes
#
# *Symptom.* There are two nodes, with an agent on each. Both agents wait; after ten minutes both give up. The network
# works, and yesterday the same job started. The next cell runs PyTorch's own rendezvous handlers with the same
# settings, without ranks, and with a time-out of three seconds. It prints what each agent says, and what is in the
# store while they wait:

# %% tags=["nbval-ignore-output"]
never = meetings.meet(meetings.UNMET)
print(never)

# %% [markdown]
# **Why does this rendezvous not complete?**

# %%
### BEGIN SOLUTION
### STUB ask("12.never")
ask("12.never").commit("one agent has another rdzv_id")  # "they do not see each other"
### END SOLUTION

# %%
reveal("12.never", never)

# %% [markdown]
# Why did it work yesterday? Yesterday the same agents came in the other order:

# %% tags=["nbval-ignore-output"]
print(meetings.meet(meetings.UNMET[::-1]))

# %% [markdown]
# Each agent has a greatest number of its *own*. When that many agents have joined, it declares the round complete, for
# all on the list. So the agent that comes last decides. If a job starts only at some tries, look for settings that
# differ. These are other faults that you will meet:
#
# | what differs | what happens |
# | --- | --- |
# | `--rdzv-id` | each agent waits on a list of its own, in the same store |
# | `--rdzv-endpoint`, the port | one agent finds no store, and gives up with a `RendezvousConnectionError` |
# | the endpoint's host is `localhost` or another loopback address | each node opens a store of its own |
# | an endpoint at a node that is not there | no agent opens a store |
# | `--nnodes` larger than the number of nodes that come | all wait |
# | the same `--node-rank` on two agents (with `--master-addr`, *static*) | one number never comes; all wait for it |
#
# There is a fault similar to the third one of the table. On many Linux machines `/etc/hosts` gives the address
# 127.0.1.1 for the machine's own name. Then the agents meet. But gloo's ranks look up their own name, and do not find
# each other. `GLOO_SOCKET_IFNAME` names the interface to use instead.
#
# ### Build: which agents never meet
#
# ![Three nodes with their settings; two go to the store on node 0, and one goes to a store on its own
# node](../assets/12_meeting.png)
#
# You get the settings of all agents, before any is started, and say for each agent what will happen. (Count agents that
# differ in `nnodes` alone as separate, since there the order decides.)


# %%
def why_not_complete(agents):
    """What happens to each agent of a c10d rendezvous: a dict from its "node" to a word.

    agents: a list of dicts of strings, in the order in which they come. No two have the same "node" or
    "address". "endpoint" is "host:port", or "host", which means port 29400. The host is an
    address; "localhost" and "127.0.0.1" mean the agent's own node. "rdzv_id" is any text; "nnodes" is
    "2" for exactly two, or "1:4" for one to four ("2:2" is the same as "2").

    "no store"   at the agent's host and port no store is open. A store is opened by an agent whose own
                 node is the host of its endpoint, at the port of its endpoint, and serves every rdzv_id.
    Agents meet if they go to the same open store with the same rdzv_id and the same nnodes.
    "too few"    fewer than the least number meet: all of them wait in vain.
    "complete"   enough meet, and this one is among the first, up to the greatest number.
    "too many"   enough meet, and the greatest number came before it.
    """

    ### BEGIN SOLUTION
    places, words, met = {}, {}, {}
    for agent in agents:
        host, _, port = agent["endpoint"].partition(":")
        own = host in ("localhost", "127.0.0.1")
        places[agent["node"]] = agent["address"] if own else host, port or "29400"
    stores = {places[agent["node"]] for agent in agents if places[agent["node"]][0] == agent["address"]}
    for agent in agents:
        node, (least, _, most) = agent["node"], agent["nnodes"].partition(":")
        words[node] = "no store"
        if places[node] in stores:
            met.setdefault((places[node], agent["rdzv_id"], int(least), int(most or least)), []).append(node)
    for (_, _, least, most), nodes in met.items():
        for number, node in enumerate(nodes):
            words[node] = "too few" if len(nodes) < least else "complete" if number < most else "too many"
    return words
    ### END SOLUTION


# %%
rendezvous_verdict = check("12.rendezvous", why_not_complete)

# %%
# hint("12.rendezvous")

# %% [markdown]
# The next cell compares your function with PyTorch's handlers, on three jobs that share a store. (Until your function
# has passed, the course's own stands in.)

# %% tags=["nbval-ignore-output"]
rows = [("a", "2"), ("a", "2"), ("a", "2"), ("b", "1:3"), ("b", "1:3"), ("c", "3"), ("c", "3")]
agents = [
    {
        "node": f"n{number}",
        "address": f"10.0.0.{number}",
        "endpoint": "10.0.0.0",
        "rdzv_id": job,
        "nnodes": nnodes,
    }
    for number, (job, nnodes) in enumerate(rows)
]
words = (why_not_complete if rendezvous_verdict.passed else meetings.fates)(agents)
said = meetings.meet(agents, join_timeout_s=4).said
for agent in agents:
    node = agent["node"]
    print(
        f"{node}  job {agent['rdzv_id']}, nnodes {agent['nnodes']:<4} {words[node]:<9}  PyTorch: {said[node]}"
    )

# %% [markdown]
# ## In production
#
# | what dies | who notices, and when | what it costs |
# | --- | --- | --- |
# | a rank | its agent, at once; with gloo other ranks too | steps since the checkpoint, a start of all, one restart |
# | a node | its partners as above; the rendezvous, when keep-alives are missing | the same, and that wait |
# | the node with the store | all agents | the job; the scheduler must start it again |
# | nothing, a node joins | agents that find it waiting | steps since the checkpoint, a start of all ranks |
# | nothing, a device is slow | a program that compares ranks | a share of every step |
#
# - `course_lib/examples/train_ddp` ([04c](04c_drift_and_production.ipynb)) is a program to take home that keeps a whole
#   job's state as you have seen here. Rank 0 writes and renames, and the place counts *global* batches. The random crop
#   of an image depends only on seed, epoch and image. The program resumes on any number of ranks that divides the
#   batch. `train_fsdp` and `train_mesh` do the same with checkpoints in pieces.
# - torchrun sends SIGTERM to ranks before it ends them. A program that handles SIGTERM and saves loses no step when a
#   node joins or a scheduler needs the machines. After SIGKILL only the last checkpoint is left.
# - Random numbers by rank (dropout) cannot be the same on another number of ranks. But the samples of each global batch
#   can.
#
# ## What you can do now
#
# You can write a checkpoint from which a job continues with more or fewer ranks, and prove by diaries that no sample
# was lost. You know what torchrun does when a rank dies, when a node dies, and when a node joins. You find the slow
# rank and the missing one. And you can say which agents will never meet.
#
# **The limit.** Here ranks died when you killed them. On thousands of GPUs something fails every few hours, and each
# time all ranks begin again. [Part 3](12c_thousands.ipynb) asks how often they should save, and how much of the time is
# left for training.
#
# You can also write such a job yourself, from an empty class: [part 6](12f_build_a_job.ipynb).
#
# **Further reading.** PyTorch on [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), with its failure
# modes and membership changes, and on the
# [rendezvous](https://docs.pytorch.org/docs/stable/elastic/rendezvous.html). PyTorch's tutorial on the
# [flight recorder](https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html).
