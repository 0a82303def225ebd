"""Train a transformer in shards (FSDP): weights, gradients and moments cut among ranks, on a laptop or on many GPUs.

It stands alone: copy this folder to where you work. It needs torch, 2.11 or newer, and nothing of the course. ::

    cp -r course_lib/examples/train_fsdp ~/my_project/ && cd ~/my_project

    python -m train_fsdp                                            # one process, on the text of Python's help()
    torchrun --standalone --nproc-per-node 2 -m train_fsdp          # two: on two GPUs, or on the CPU
    torchrun --standalone --nproc-per-node 8 -m train_fsdp --data /data/books --layers 24 --width 2048 --heads 16 \\
        --context 2048 --batch-size 256 --accumulate 4 --steps 20000 --warmup 500 --lr 3e-4 --bf16 --recompute \\
        --save-every 500 --out runs/1

On four machines of eight GPUs, with a disk that all of them share::

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1                     # start.py says why
    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:PORT --max-restarts 3 \\
        -m train_fsdp --data /data/books ... --out /shared/runs/1

``--batch-size`` is the global batch: the sequences of one step on all ranks together. A step sees the same text on any
number of ranks, and first weights depend on the seed and on nothing else. So a run may be resumed on more or fewer:
on as many ranks it goes on bit for bit on the CPU, on others up to the order in which floats are added.

With ``--out`` a run keeps its last two checkpoints in that folder, ``step-00000500`` and so on, and its numbers in
``log.jsonl``. A checkpoint is written while training goes on, and gets its name when it is whole. A run that finds one
goes on from it: after torchrun restarted it because a rank died, after a crash, and after SIGTERM or Ctrl-C, when all
ranks finish the step, save, and leave. Exit codes: 0 done, 128 + the number of the signal that stopped it (143 for
SIGTERM), 2 for a setting that argparse refuses, 1 for any other error.

All ranks write to the checkpoint. For one file, with the names of the model as it was written::

    python -m torch.distributed.checkpoint.format_utils dcp_to_torch runs/1/step-00020000 whole.pt

The files, in the order in which to read them: ``train.py`` (the steps), ``shards.py`` (from shapes to parts of a
model), ``saving.py`` (checkpoints, beside the training), ``keeping.py`` (which of them count), ``text.py`` (who gets
which text), ``transformer.py``, ``start.py`` (ranks, devices, signals), ``settings.py``.
"""
