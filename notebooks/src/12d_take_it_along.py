# %% [markdown]
# # 12d · Beyond one machine: take it along
#
# You get four things for a real cluster. You try out the first three here. They are a script that starts a job, a table
# of variables, and a program that checks a cluster before you use it. The fourth is a list of projects with other
# solutions.
#
# **50 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 4 of 6 · [1: two nodes](12a_two_nodes.ipynb) · [2: when ranks die](12b_when_ranks_die.ipynb) · [3: thousands of
# GPUs](12c_thousands.ipynb) · [5: wrong numbers](12e_wrong_numbers.ipynb) · [6: build a job that outlives its
# ranks](12f_build_a_job.ipynb)
#
# This part builds on [02b: time, trees and groups](02b_time_trees_and_groups.ipynb), [04c: drift, checkpoints and the
# real thing](04c_drift_and_production.ipynb) and [12a: two nodes](12a_two_nodes.ipynb). Have you done them? `from
# course_lib import start; start("12d")` says whether you have.
#
# At the end you can
#
# - say how many processes a Slurm script starts, on which nodes, and which process starts which;
# - let a job save its state before its time is up, and put it back in the queue;
# - find a bad card among good ones, and compare a link with its data sheet;
# - choose the variable that answers a question about NCCL, and remove it again.
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
# ## Which process starts which
#
# ![Left sbatch and below it the queue, from which an arrow leads to a script on node 1. From the script arrows called
# srun lead to torchrun on both nodes, and from each torchrun one leads to ranks. The numbers of tasks and of ranks are
# question marks](../assets/12_slurm.png)
#
# <!-- word: batch scheduler | also: workload manager, Slurm | sentences: 2 -->
# On a cluster you do not log in to a node and type `torchrun`. You submit a script, and a **batch scheduler** such as
# Slurm keeps it in a queue until enough nodes are free. Then it runs the script there, and ends it when its time is up.
# With Slurm, you submit the script by `sbatch`. Lines that begin with `#SBATCH` say what the job needs, and the script
# itself runs on the first of the nodes. In the script, `srun` starts a command once for each *task*, on all nodes.
#
# The course has such a script for you, `course_lib/examples/launch/slurm.sbatch`. The next cell prints what it asks
# for:

# %%
script = launch_file("slurm.sbatch").read_text()
print(*(line for line in script.splitlines() if line.startswith("#SBATCH")), sep="\n")

# %% [markdown]
# The next cell prints what the script does then (the lines that set variables are left out):

# %%
print(script[script.index("agent='") : script.index("step=$!")])

# %% [markdown]
# `$SLURM_NNODES` is the number of nodes. Earlier lines set `$RANKS_PER_NODE` to the number of GPUs of a node, and
# `$ENDPOINT` to the first node's name and a port. **How many torchruns and how many ranks start in all?**

# %%
### BEGIN SOLUTION
### STUB ask("12.started")
ask("12.started").commit("1 torchrun, 16 ranks")  # "sbatch runs the script once"
### END SOLUTION

# %% [markdown]
# There is no Slurm here, but a *dry run* is enough. The script runs as it is, in bash, and finds stand-ins for
# `scontrol`, `srun` and `torchrun` on its path. The stand-in for torchrun starts nothing and notes its arguments.
# `reveal` reads these arguments with torchrun's own parser and counts the ranks. So you find a wrong option now, and
# not after hours in the queue.

# %%
program = ["-m", "train_ddp", "--out", "/shared/runs/1"]
as_it_is = dry_run_sbatch(script, program)
print(as_it_is)
reveal("12.started", as_it_is)

# %% [markdown]
# Read one line of the dry run, from left to right. `c10d` is the rendezvous of 12a. Its port depends on the job's
# number, so that two jobs on one node do not meet each other. `is_host` says which agent opens the store, since a
# node's name in Slurm may differ from the name that the node uses itself. `--numa-binding` keeps each rank on the cores
# near its GPU. And `--cpus-per-task` gives *all* cores of a node to its one task. Without that line eight ranks would
# usually share a single core, and the GPUs would wait.
#
# ### Eight tasks and eight GPUs
#
# A colleague also has nodes of eight GPUs. He thinks that eight GPUs need eight tasks. So he writes
# `--ntasks-per-node=8`, gives each task a share of the cores (`--cpus-per-task=12`), and changes nothing else. **How
# many ranks would start on each node?**

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
# There is another good way: one task for each GPU, and no torchrun. Then `srun` starts `python -m train_ddp`. The
# script has to set RANK, LOCAL_RANK and WORLD_SIZE from SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS, and MASTER_ADDR
# and MASTER_PORT as above. This way has no restarts by torchrun: a dead rank ends the job.
#
# ## Clinic: a day without a checkpoint
#
# A job may run for 24 hours, and training takes a week. The script asks for a signal five minutes before its time is up
# (`--signal=B:USR1@300`). Then the ranks should save and end, and the job goes back into the queue. `train_ddp` does
# its part on SIGTERM: it finishes its step, saves, and ends with exit code 143 ([04c](04c_drift_and_production.ipynb)).
#
# *Symptom.* A colleague has written the end of his script himself. His job is put back in the queue each day, as it
# should be. But each day it begins with the checkpoint that its program writes at midnight, which is half a day old.
#
# *Evidence.* The next cells print the end of his script, and the log of a short try on a real Slurm.

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
# Change one line. Slurm's own command that reaches the processes of a job is `scancel`. Without an option it ends the
# job; with `--signal` it sends a signal instead. The job's number is `$SLURM_JOB_ID`. (Change the text; the dry run
# then shows what happens to a job whose time is nearly up.)

# %%
### BEGIN SOLUTION
### STUB mended = his  # .replace("the old line", "the new line")
mended = his.replace('kill -TERM "$step"', 'scancel --signal=TERM "$SLURM_JOB_ID"')
### END SOLUTION
print(*dry_run_limit(mended), sep="\n")

# %% [markdown]
# torchrun passes SIGTERM on, and gives its ranks 30 seconds before it kills them. (Newer versions have
# `--shutdown-timeout`.) If a checkpoint takes longer, write checkpoints during training as well: 12c says how often.
#
# ## The same on Kubernetes, and by ssh
#
# <!-- word: gang scheduling | also: all-or-nothing scheduling, co-scheduling -->
# Kubernetes was made for services, whose copies may come and go one by one. A training job needs **gang scheduling**:
# all its nodes at the same time, or none, since each waits for the others. For that you need a queue or a scheduler in
# addition to Kubernetes' own: Kueue, Volcano, or the Coscheduling plugin. Kubeflow Trainer starts the ranks, and leaves
# gang scheduling to one of these. A job there is a `TrainJob`, such as `course_lib/examples/launch/trainjob.yaml`. The
# next cell prints its middle:

# %%
trainjob = launch_file("trainjob.yaml").read_text()
middle = trainjob[trainjob.index("  trainer:") : trainjob.index("    env:")]
print(*(line for line in middle.splitlines() if "#" not in line), sep="\n")

# %% [markdown]
# (At its end are two volumes. By default a pod has 64 MB of `/dev/shm`, which is too little for NCCL. And checkpoints
# belong on a disk that stays when the pod is gone.)
#
# The command is `torchrun -m train_ddp ...`, without options for nodes. **How many nodes does torchrun expect in such a
# pod?**

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
# If a cluster has no scheduler, ssh is enough. `ssh.sh` starts an agent on each machine, and ends all agents when one
# fails or you press Ctrl-C. (It calls `ssh -tt`, with a terminal, so that the remote side notices when the connection
# ends. Otherwise the ranks would go on and keep their GPUs. The same would happen with the ranks of an agent that was
# killed; the script kills these ranks.)

# %% tags=["nbval-ignore-output"]
print(dry_run_ssh(launch_file("ssh.sh").read_text(), ["ant", "bee", "cow"], 8, ["-m", "preflight"]))

# %% [markdown]
# ## Before the first job: check the cluster
#
# ![Two nodes with four GPUs each and a network between them. Arrows from questions: the same time? the same
# everywhere? as fast as NVLink is sold? as fast as the card is sold? errors, heat? as fast as the others? Below,
# three verdicts: ok, look, and could not check: why](../assets/12_looked_at.png)
#
# In a synchronous job all ranks wait for the slowest part of the cluster. So check the cluster before you train.
# `preflight`, a folder in `course_lib/examples`, is a program that torchrun starts. It answers the questions of the
# picture. It measures links by messages, one pair of ranks at a time. It compares clocks as the Network Time Protocol
# does. It asks for the time, and assumes that the clock was read halfway between question and answer.
#
# The program runs here as well, on four ranks. For each check that is not possible it prints a line with the reason. A
# program that silently skips such checks would report no problem here.


# %% tags=["nbval-ignore-output"]
def look(me, apart=False):
    args = preflight.parse_arguments(["--message-mb", "0.5"])
    return preflight.examine(args, torch.device("cpu"), node=f"node {me.rank}" if apart else "this machine")


with four.shaped(links=Links()):  # ranks on the CPU, and links as they are
    report, measured = four.run(look)[0]
print(report)

# %% [markdown]
# Checks of GPUs need GPUs, and checks of clocks need a second machine. Without a data sheet no program can say whether
# a rate is good. On a cluster, with `--machine` and `--between-gbit`, most of the lines get a verdict.
#
# (Here the verdict `look` for a link may only mean that another program used the core at that moment: run the cell
# again. On nodes that you use alone it is about the link.)
#
# ### Compare with the data sheet
#
# A cluster was sold with a network card of 400 Gbit/s for each GPU. `preflight --between-gbit 400` measures all-reduces
# between nodes, each with one rank on a node. Say that they run as rings, and that no switch adds up numbers on the
# way. **What is the highest bus bandwidth that the program can find?**

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
# *Symptom.* Four nodes are new, each with one rank. (Here they are four ranks on this machine, and the course shapes
# their links.) An all-reduce takes ten times as long as it should. Each node alone passes every test of its
# manufacturer.
#
# *Evidence.* The next cell measures every pair of ranks, one pair at a time.

# %% tags=["nbval-ignore-output"]
with four.shaped(links=sick_links()):
    found, measured = four.run(look, apart=True)[0]
for (one, other), (latency_s, bytes_per_s) in sorted(measured["links"].items()):
    print(f"rank {one} to rank {other}: {1e6 * latency_s:4.0f} us, {bytes_per_s / 1e6:4.0f} MB/s")
print(f"all-reduce over all, bus bandwidth {measured['all_reduce']['all'][0] / 1e6:.0f} MB/s")

# %% [markdown]
# **What is faulty?**

# %%
### BEGIN SOLUTION
### STUB ask("12.cable")
ask("12.cable").commit("the link between two ranks")  # "some pairs are slow"
### END SOLUTION

# %% tags=["nbval-ignore-output"]
reveal("12.cable", measured["links"])

# %% [markdown]
# The next cell prints the program's own verdict in one line:

# %% tags=["nbval-ignore-output"]
print(found.of("links between nodes").text)

# %% [markdown]
# With a thousand nodes there are too many pairs. Then every rank measures the link to the next one, and groups of nodes
# are halved until the slow half is a single node.
#
# ## Variables
#
# NCCL, gloo, torch and torchrun read more than a hundred variables. Few of them matter. The course sorts these by
# symptom:

# %%
print(*SYMPTOMS, sep="\n")

# %% [markdown]
# A job runs on two nodes with InfiniBand, and sends at a twentieth of the network's speed. With `NCCL_DEBUG=INFO` its
# log says `via NET/Socket`: NCCL sends by TCP. With InfiniBand the log would say `NET/IB`. Perhaps somebody set
# `NCCL_IB_DISABLE=1` to find out whether RDMA was the problem, and forgot to remove it:

# %%
table = variables_for("slow between nodes")
print(table)

# %% [markdown]
# A variable with a star answers a question; it is not a setting to keep. People copy a setting from script to script
# for years, though it was right for one version of NCCL on one cluster. `preflight` lists the settings that it finds,
# and those that differ between ranks.
#
# Try other symptoms: `print(variables_for("hangs later"))`. The course's tests compare the names that torch reads with
# its source. The texts about NCCL's variables follow NVIDIA's
# [documentation](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
#
# ## Other projects
#
# ![Four small pictures. Parameter server: five ranks around weights, arrows both ways. Ring: six ranks, each with
# an arrow to the next. Replicas that may leave: three boxes with two ranks each below a quorum, one of the boxes is
# dashed. One controller: your program above six ranks, arrows down](../assets/12_family.png)
#
# **Parameter servers** (Google's DistBelief, 2012; Li et al., 2014) kept the weights on machines of their own. Workers
# fetched weights and sent gradients whenever they were ready. No worker waited for another, or (Li et al.) only for
# those too far behind. But gradients for old weights can cost accuracy, and the servers' links became the bottleneck.
# For dense models synchronous all-reduce took their place. Parameter servers are still used where weights are huge
# tables and a batch uses few rows: in recommender systems.
#
# **Horovod** (Uber, 2017) made a library from Baidu's ring all-reduce for TensorFlow; a program needs a few lines for
# it. MPI starts it, and it soon worked with PyTorch as well. Horovod made "wrap the optimizer" well known. PyTorch's
# own DDP and torchrun do the same, so few new projects begin with Horovod.
#
# **MirroredStrategy** is TensorFlow's way to have a replica on each GPU of one machine. Similar strategies exist for
# many machines and for TPUs. MirroredStrategy hides ranks behind a scope. It still works; Google, which makes it, now
# does much of its large work in JAX.
#
# **Ray Train** starts ranks as actors of Ray, on any cluster that Ray runs on, and restarts them from checkpoints.
# Inside them DDP or FSDP trains as you know it. So Ray Train takes the place of torchrun, and not of NCCL. Ray's
# cluster may itself run on Slurm or Kubernetes.
#
# **torchft** (Meta) lets single replicas fail. In each step the replicas agree on which of them take part, the
# *quorum*. When one dies, that step is thrown away, and the others continue without it. A replica that comes back gets
# its weights from another one while training continues. (In 12b and 12c all ranks stop when one dies; torchft avoids
# that.) It is a young project.
#
# **Monarch** (PyTorch, announced in 2025) does not start the same program on every rank. One program, on one machine,
# controls meshes of processes and calls them as if they were local. So an exception on rank 4,711 becomes an exception
# in your program, which may catch it. It is young as well. It is interesting for jobs in which different programs run
# at once, as in reinforcement learning.
#
# **Kubernetes** is different from all of these: it gives out machines. At first each library had its own operator
# (PyTorchJob, MPIJob). Kubeflow Trainer's TrainJob, built on JobSet, replaces them.
#
# ## Five questions about parts 1 to 4

# %% tags=["quiz"]
quiz("12")

# %% [markdown]
# ## What you can do now
#
# You can start a job on a cluster, and know before it starts how many ranks it will have, and what happens at its end.
# You can check a cluster, compare it with its data sheet, and say which part is bad. And you know where to look when a
# job hangs: at interfaces, at the store, at the flight recorder.
#
# **The limit.** You have run none of this on two real machines, and a stand-in does only what the real program was seen
# to do. So run `preflight` as the first job on a new cluster, and as the second one a run of ten minutes that you kill.
# None of these checks finds a GPU that computes wrongly: that is [part 5](12e_wrong_numbers.ipynb).
#
# **Further reading.** The manuals of [sbatch](https://slurm.schedmd.com/sbatch.html) and
# [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html). Li et al., *Scaling Distributed Machine
# Learning with the Parameter Server* (OSDI 2014). Sergeev and Del Balso,
# [Horovod](https://arxiv.org/abs/1802.05799) (2018). [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783)
# (2024), section 3.3.4: what fails on 16,384 GPUs, and how it is found.

# %% [markdown]
# ## Another day: problems on paper
#
# The runs of this lesson were real, but small. Here are problems of the size of real jobs, on real chips, for a pencil
# and a calculator. Each needs one number as its answer; 5 % more or less is right. The numbers are drawn for you, and
# new ones for each further try. When a problem is over, you see the way step by step, and where each constant comes
# from.

# %% tags=["computed-time"]
### BEGIN SOLUTION
### STUB problems("12")
problems("12", ways=True)
### END SOLUTION
