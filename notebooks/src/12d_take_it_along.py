# %% [markdown]
# # 12d · Beyond one machine: take it along
#
# You leave with four things for a real cluster, each tried out here. They are a script that starts a job, a table of
# variables, and a program that looks a cluster over before you use it. The fourth are the names of those who have tried
# other ways.
#
# **50 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 4 of 6 · [1: two nodes](12a_two_nodes.ipynb) · [2: when ranks die](12b_when_ranks_die.ipynb) · [3: thousands of
# GPUs](12c_thousands.ipynb) · [5: wrong numbers](12e_wrong_numbers.ipynb) · [6: build a job that outlives its
# ranks](12f_build_a_job.ipynb)
#
# This part builds on [02b: time, trees and groups](02b_time_trees_and_groups.ipynb), [04c: drift, checkpoints and the
# real thing](04c_drift_and_production.ipynb) and [12a: two nodes](12a_two_nodes.ipynb). Have you done them? `from
# course_lib import start; start("12d")` says so.
#
# At the end you can
#
# - say how many processes a Slurm script starts, on which node, and who starts whom;
# - have a job saved before its time is up, and put back in the queue;
# - find a bad card among good ones, and hold a link against its data sheet;
# - choose the variable that answers a question about NCCL, and take it out again.
#
# You need agents and the rendezvous ([04c](04c_drift_and_production.ipynb), [12a](12a_two_nodes.ipynb)) and bus
# bandwidth ([02b](02b_time_trees_and_groups.ipynb)).

# %%
from course_lib import Links, ask, problems, quiz, reveal, shared_cluster
from course_lib.examples.preflight import check as preflight
from course_lib.take_along import (
    LOG,
    SYMPTOMS,
    dry_run_limit,
    dry_run_sbatch,
    dry_run_ssh,
    his_script,
    launch_file,
    pod_environment,
    sick_links,
    variables_for,
)

import os
from unittest import mock

import torch
from torch.distributed.run import get_args_parser

# %% tags=["nbval-ignore-output"]
four = shared_cluster(4)

# %% [markdown]
# ## Who starts whom
#
# ![Left sbatch and below it the queue, from which an arrow leads to a script on node 1. From the script arrows
# called srun lead to torchrun on both nodes, and from each torchrun one leads to ranks. How many tasks and how many
# ranks there are stands as a question](../assets/12_slurm.png)
#
# <!-- word: batch scheduler | also: workload manager, Slurm | sentences: 2 -->
# On a cluster you do not log in to a node and type `torchrun`. You hand a script in, and a **batch scheduler** such as
# Slurm keeps it in a queue until enough nodes are free. Then it runs the script there, and ends it when its time is up.
# With Slurm, `sbatch` hands in, lines that begin with `#SBATCH` ask for things, and the script itself runs on the first
# of the nodes. Within it `srun` starts a command as often as there are *tasks*, on all nodes.
#
# The course has such a script for you, `course_lib/examples/launch/slurm.sbatch`. What it asks for:

# %%
script = launch_file("slurm.sbatch").read_text()
print(*(line for line in script.splitlines() if line.startswith("#SBATCH")), sep="\n")

# %% [markdown]
# And what it does with it (the lines that set variables are left out):

# %%
print(script[script.index("agent='") : script.index("step=$!")])

# %% [markdown]
# `$SLURM_NNODES` is the number of nodes. `$RANKS_PER_NODE` was set, above, to the GPUs of a node, and `$ENDPOINT`
# to the first node's name and a port. **What starts in all?**

# %%
### BEGIN SOLUTION
### STUB ask("12.started")
ask("12.started").commit("1 torchrun, 16 ranks")  # "sbatch runs the script once"
### END SOLUTION

# %% [markdown]
# There is no Slurm here, but a *dry run* will do. The script runs as it is, in bash, and finds stand-ins for
# `scontrol`, `srun` and `torchrun` on its path. The last one starts nothing and notes its arguments. When `reveal`
# counts its ranks, each such line is read by torchrun's own parser. So an option that does not exist is found here and
# not in the queue.

# %%
program = ["-m", "train_ddp", "--out", "/shared/runs/1"]
as_it_is = dry_run_sbatch(script, program)
print(as_it_is)
reveal("12.started", as_it_is)

# %% [markdown]
# Read one of the lines, from left to right. `c10d` is the rendezvous of 12a, on a port that depends on the job's
# number: two jobs on one node would else meet each other. `is_host` says outright who opens the store, since a node's
# name in Slurm need not be its own name for itself. `--numa-binding` keeps each rank on the cores beside its GPU. And
# each node has *all* its cores for its one task, by `--cpus-per-task`. Without that line eight ranks would, as a rule,
# share a single core, and the GPUs would wait.
#
# ### Eight and eight
#
# A colleague has nodes of eight GPUs too. Eight GPUs, he says, so eight tasks: he writes `--ntasks-per-node=8`, gives
# each a share of the cores (`--cpus-per-task=12`), and leaves the rest as it is. **How many ranks want to start on each
# node?**

# %%
### BEGIN SOLUTION
### STUB ask("12.tasks")
ask("12.tasks").commit(8)  # "eight tasks, eight GPUs, eight ranks"
### END SOLUTION

# %%
eight = script.replace("--ntasks-per-node=1", "--ntasks-per-node=8")
his_tasks = dry_run_sbatch(eight.replace("--cpus-per-task=96", "--cpus-per-task=12"), program)
for host in dict.fromkeys(agent.host for agent in his_tasks.agents):
    agents = [agent for agent in his_tasks.agents if agent.host == host]
    print(f"{host}: {len(agents)} times torchrun --nproc-per-node {agents[0].read.nproc_per_node}")
reveal("12.tasks", his_tasks)

# %% [markdown]
# The other way is as good: a task for each GPU, and no torchrun. Then `srun` starts `python -m train_ddp`, and RANK,
# LOCAL_RANK and WORLD_SIZE have to be set from SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS, with MASTER_ADDR and
# MASTER_PORT as above. What is lost are torchrun's restarts: a dead rank then ends the job.
#
# ## Clinic: a day that nobody saved
#
# A job has 24 hours, and training takes a week. The script asks for a signal five minutes before its time is up
# (`--signal=B:USR1@300`). Then the ranks shall save and leave, and the job gets in line again. `train_ddp` does that on
# SIGTERM: it finishes its step, saves, and ends with exit code 143 ([04c](04c_drift_and_production.ipynb)).
#
# *Symptom.* A colleague has written the end of his script himself. His job is requeued each day as it should be. But
# each day it begins with the checkpoint that its program writes at midnight, half a day old.
#
# *Evidence.* The end of his script, and the log of a short try, on a real Slurm.

# %%
his = his_script()
print(his[his.index("srun --kill") :])

# %% tags=["computed-time"]
print(LOG)

# %% [markdown]
# **What ended the ranks before they could save?**

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB ask("12.killed")
# or "a checkpoint takes long"
ask("12.killed").commit("torchrun: it gives ranks 30 seconds, and they take longer")
### END SOLUTION

# %% tags=["computed-time"]
steps = dry_run_limit(his)  # with stand-ins that treat signals as Slurm does
print(*steps, sep="\n")
reveal("12.killed", steps)

# %% [markdown]
# ### Mend it
#
# One line. Slurm's own command that reaches the processes of a job is `scancel`. By itself it ends the job; with
# `--signal` it sends a signal instead. The job's number is `$SLURM_JOB_ID`. (Change the text, and see what becomes of a
# job whose time is nearly up.)

# %%
### BEGIN SOLUTION
### STUB mended = his  # .replace("the old line", "the new line")
mended = his.replace('kill -TERM "$step"', 'scancel --signal=TERM "$SLURM_JOB_ID"')
### END SOLUTION
print(*dry_run_limit(mended), sep="\n")

# %% [markdown]
# torchrun hands SIGTERM on and gives its ranks 30 seconds before it kills them (newer ones: `--shutdown-timeout`).
# Where a checkpoint takes longer, save beforehand: 12c says how often.
#
# ## The same on Kubernetes, and by ssh
#
# <!-- word: gang scheduling | also: all-or-nothing scheduling, co-scheduling -->
# Kubernetes was made for services, whose copies may come and go one by one. A training job wants **gang scheduling**:
# all its nodes at the same time, or none, since each waits for the others. That takes a queue or a scheduler beside
# Kubernetes' own: Kueue, Volcano, or the Coscheduling plugin. Kubeflow Trainer starts the ranks, and leaves the gang to
# one of these. A job there is a `TrainJob`, in `course_lib/examples/launch/trainjob.yaml`. Its middle:

# %%
trainjob = launch_file("trainjob.yaml").read_text()
middle = trainjob[trainjob.index("  trainer:") : trainjob.index("    env:")]
print(*(line for line in middle.splitlines() if "#" not in line), sep="\n")

# %% [markdown]
# (At its end stand two volumes. A pod has 64 MB of `/dev/shm` by itself, which is too little for NCCL; and checkpoints
# belong on a disk that outlives the pod.)
#
# The command is `torchrun -m train_ddp ...`, with no word about nodes. **How many nodes does torchrun count on in
# such a pod?**

# %%
### BEGIN SOLUTION
### STUB ask("12.unsaid")
ask("12.unsaid").commit("1")  # "one is the default of --nnodes"
### END SOLUTION

# %%
words = ["-m", "train_ddp", "--out", "/shared/runs/1"]
here = get_args_parser().parse_args(words)
in_a_pod = pod_environment(trainjob, node=1)  # what Kubeflow Trainer puts there
with mock.patch.dict(os.environ, in_a_pod):
    there = get_args_parser().parse_args(words)
for name, read in {"here": here, "there": there}.items():
    print(
        f"{name:<6} {read.nnodes} x {read.nproc_per_node}, node {read.node_rank}, meets at {read.master_addr}"
    )
reveal("12.unsaid", here, there)

# %% [markdown]
# And where there is no scheduler, three machines and ssh are enough. `ssh.sh` starts an agent on each, and ends all
# when one fails or you press Ctrl-C. (It calls `ssh -tt`, with a terminal: so the far side hears when this end hangs
# up. Without it ranks live on, and hold their GPUs, with nobody to ask them. So would the ranks of an agent that was
# killed; there the script kills them.)

# %% tags=["nbval-ignore-output"]
print(dry_run_ssh(launch_file("ssh.sh").read_text(), ["ant", "bee", "cow"], 8, ["-m", "preflight"]))

# %% [markdown]
# ## Before the first job: look
#
# ![Two nodes with four GPUs each and a network between them. Arrows from questions: the same time? the same
# everywhere? as fast as NVLink is sold? as fast as the card is sold? errors, heat? as fast as the others? Below,
# three verdicts: ok, look, and could not check: why](../assets/12_looked_at.png)
#
# In a synchronous job the slowest part of the cluster sets the pace of all. So look before you train: `preflight`, a
# folder in `course_lib/examples`, is a program for torchrun like any other, and asks what the picture asks. It measures
# by messages, one pair of ranks at a time. It compares clocks as the Network Time Protocol does: it asks for the time,
# and supposes that the answer was half way.
#
# The program runs here as well, on four ranks. What it cannot look at it says, with the reason, in a line of its own. A
# check that leaves out in silence what it cannot see would be all green here.


# %% tags=["nbval-ignore-output"]
def look(me, apart=False):
    args = preflight.parse_arguments(["--message-mb", "0.5"])
    return preflight.examine(args, torch.device("cpu"), node=f"node {me.rank}" if apart else "this machine")


with four.shaped(links=Links()):  # ranks on the CPU, and links as they are
    report, measured = four.run(look)[0]
print(report)

# %% [markdown]
# What is asked of GPUs needs some, clocks need a second machine, and without a data sheet nobody can say whether a rate
# is good. With `--machine` and `--between-gbit`, on a cluster, most of the lines get a verdict.
#
# (A `look` at a link may mean here that another program had the core just then: run the cell again. On nodes that are
# yours alone it means the link.)
#
# ### Against the data sheet
#
# A cluster has been sold with a network card of 400 Gbit/s for each GPU. `preflight --between-gbit 400` measures
# all-reduces between nodes, each with one rank a node. Say that they run as rings, and that no switch adds up on the
# way. **What is the highest bus bandwidth that it can find?**

# %%
### BEGIN SOLUTION
### STUB ask("12.sheet")
ask("12.sheet").commit(400)  # "it says 400"
### END SOLUTION

# %%
reveal("12.sheet", 400)

# %% [markdown]
# ### Clinic: four new nodes
#
# *Symptom.* Four nodes are new, with a rank each (here they are four ranks on this machine, whose links the course has
# shaped). An all-reduce takes ten times as long as it should. Each node alone passes every test of its maker.
#
# *Evidence.* Every pair of ranks, one at a time.

# %% tags=["nbval-ignore-output"]
with four.shaped(links=sick_links()):
    found, measured = four.run(look, apart=True)[0]
for (one, other), (latency_s, bytes_per_s) in sorted(measured["links"].items()):
    print(f"rank {one} to rank {other}: {1e6 * latency_s:4.0f} us, {bytes_per_s / 1e6:4.0f} MB/s")
print(f"all-reduce over all, bus bandwidth {measured['all_reduce']['all'][0] / 1e6:.0f} MB/s")

# %% [markdown]
# **What is sick?**

# %%
### BEGIN SOLUTION
### STUB ask("12.cable")
ask("12.cable").commit("the link between two ranks")  # "some pairs are slow"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("12.cable", measured["links"])

# %% [markdown]
# And what the program says to it, in one line:

# %% tags=["nbval-ignore-output"]
print(found.of("links between nodes").text)

# %% [markdown]
# With a thousand nodes nobody measures each pair. Then every rank measures the next one, and groups of nodes are halved
# until the slow half is a single node.
#
# ## Variables
#
# NCCL, gloo, torch and torchrun read more than a hundred variables. Few matter, and they are best kept by symptom:

# %%
print(*SYMPTOMS, sep="\n")

# %% [markdown]
# A job runs on two nodes that have InfiniBand, at a twentieth of the speed of its network. With `NCCL_DEBUG=INFO` its
# log says `via NET/Socket`: NCCL talks by TCP, where with InfiniBand it would say `NET/IB`. Somebody may have set
# `NCCL_IB_DISABLE=1` to find out whether RDMA was at fault, and left it:

# %%
table = variables_for("slow between nodes")
print(table)

# %% [markdown]
# A row with a star is a question that you ask a system, and no setting. A setting that was right for one version of
# NCCL on one cluster is copied from script to script for years. `preflight` names those that it finds, and those that
# differ between ranks.
#
# Try other symptoms: `print(variables_for("hangs later"))`. The names that torch reads are held against its source by
# the course's tests; what is said of NCCL's is after NVIDIA's
# [documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
#
# ## Ancestors and siblings
#
# ![Four small pictures. Parameter server: five ranks around weights, arrows both ways. Ring: six ranks, each with
# an arrow to the next. Replicas that may leave: three boxes with two ranks each below a quorum, one of the boxes is
# dashed. One controller: your program above six ranks, arrows down](../assets/12_family.png)
#
# **Parameter servers** (Google's DistBelief, 2012; Li et al., 2014) kept the weights on machines of their own. Workers
# fetched weights and sent gradients whenever they were ready, and nobody waited for anybody, or (Li et al.) only for
# those too far behind. But gradients for weights of yesterday can cost accuracy, and the servers' links became the
# bottleneck; for dense models synchronous all-reduce took their place. They live on where weights are huge tables of
# which a batch touches little: in recommender systems.
#
# **Horovod** (Uber, 2017) took up Baidu's ring all-reduce for TensorFlow and made a library of it that needs a few
# lines. MPI starts it, and it soon served PyTorch as well. It made "wrap the optimizer" well known. PyTorch's DDP and
# torchrun do the same without an addition; few new projects begin with Horovod.
#
# **MirroredStrategy** is TensorFlow's replica on each GPU of one machine, with siblings for many machines and for TPUs.
# It hides ranks behind a scope. It works still; at Google, whose it is, much of the large work has gone to JAX.
#
# **Ray Train** starts ranks as actors of Ray, on any cluster that Ray runs on, and restarts them from checkpoints. What
# trains within them is DDP or FSDP as you know it. So Ray Train stands in the place of torchrun, not of NCCL. Ray's
# cluster may itself lie on Slurm or Kubernetes.
#
# **torchft** (Meta) makes a replica the thing that may fail. Replicas agree anew in each step on who takes part, a
# *quorum*. When one dies, that step is thrown away and the others go on without it. One that comes back gets its
# weights from a neighbour while they go on. In 12b and 12c everybody stops when one dies: this is an answer to that. It
# is young.
#
# **Monarch** (PyTorch, announced in 2025) leaves "the same program on every rank". One program, on one machine, holds
# meshes of processes and calls them as if they were local. So an exception on rank 4,711 is an exception in your
# program, which may catch it. It is young as well, and interesting where different things run at once, as in
# reinforcement learning.
#
# **Kubernetes** is none of these: it gives out machines. First came an operator for each library (PyTorchJob, MPIJob);
# Kubeflow Trainer's one TrainJob replaces them, upon JobSet.
#
# ## Five questions about parts 1 to 4

# %% tags=["quiz"]
quiz("12")

# %% [markdown]
# ## What you can do now
#
# You start a job on any cluster, and know before it starts how many ranks it will have, and what happens at its
# end. You look a cluster over, hold it against what was sold, and say which part is bad. And you know where to look
# when it hangs: at interfaces, at a store, at a recorder.
#
# **The limit.** None of this was run on two real machines by you, and a stand-in does what we have seen the real
# program do. So let the first job on a new cluster be `preflight`, and the second one a run of ten minutes that you
# kill. What none of these checks sees is a GPU that computes wrongly: [part 5](12e_wrong_numbers.ipynb).
#
# **Further reading.** The manuals of [sbatch](https://slurm.schedmd.com/sbatch.html) and
# [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html). Li et al., *Scaling Distributed Machine
# Learning with the Parameter Server* (OSDI 2014). Sergeev and Del Balso,
# [Horovod](https://arxiv.org/abs/1802.05799) (2018). [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783)
# (2024), section 3.3.4: what fails on 16,384 GPUs, and how it is found.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were true and small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each asks for one number; 5 % more or less is right. The numbers are drawn for you, and others for
# each further try. When a problem is over, you see the way step by step, and where each constant comes from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("12")
problems("12", ways=True)
### END SOLUTION
