"""Train a transformer on any mesh: data, shards, pipeline and tensor parallelism at once, all by PyTorch's own parts.

It stands alone: copy this folder to where you work. It needs torch, 2.11 or newer, and nothing of the course. ::

    cp -r course_lib/examples/train_mesh ~/my_project/ && cd ~/my_project

    python -m train_mesh                                            # one process, on the text of Python's help()
    torchrun --standalone --nproc-per-node 4 -m train_mesh --pp 2 --tp 2      # four: on four GPUs, or on the CPU
    torchrun --standalone --nproc-per-node 8 -m train_mesh --shard 2 --pp 2 --tp 2 --data /data/books --layers 24 \\
        --width 2048 --heads 16 --context 2048 --batch-size 256 --accumulate 16 --steps 20000 --warmup 500 --lr 3e-4 \\
        --precision bf16 --recompute --save-every 500 --peak-tflops 989 --out runs/1

On four machines of eight GPUs, with a disk that all of them share::

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1                     # start.py says why
    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:PORT --max-restarts 3 \\
        -m train_mesh --dp 2 --pp 2 --tp 4 --data /data/books ... --out /shared/runs/1

The axes, from the one whose neighbours are farthest apart: ``--pp`` stages, ``--dp`` copies, ``--shard`` parts of what
each copy keeps, ``--tp`` parts of every product. Their product is the number of processes; without ``--shard`` that
axis takes what the others leave. A mesh that cannot be is refused at the start, with the nearest one that can.

``--batch-size`` is the global batch: the sequences of one step on all ranks together. A step sees the same text on any
mesh, and first weights depend on the seed and on nothing else. So a run may be resumed on another mesh, or by one
process: on the same mesh it goes on bit for bit on the CPU, on others up to the order in which floats are added.

A line of the log ends with the share of the peak (MFU): what the model's arithmetic comes to, beside what the devices
could compute, by ``--peak-tflops``, or else by a product of matrices that is measured at the start.

With ``--out`` a run keeps its last two checkpoints in that folder, ``step-00000500`` and so on, and its numbers in
``log.jsonl``. A checkpoint is written while training goes on, and gets its name when it is whole. A run that finds one
goes on from it: after torchrun restarted it because a rank died, after a crash, and after SIGTERM or Ctrl-C, when all
ranks finish the step, save, and leave. Exit codes: 0 done, 128 + the number of the signal that stopped it (143 for
SIGTERM), 2 for a setting that argparse refuses, 1 for any other error.

All ranks write to the checkpoint. For one file, with the names of the model as it was written::

    python -m torch.distributed.checkpoint.format_utils dcp_to_torch runs/1/step-00020000 whole.pt

The files, in the order in which to read them: ``axes.py`` and ``mesh.py`` (which meshes there are, and a rank's
place), ``transformer.py`` (the model, or a stage of it), ``cutting.py`` (this rank's part of it), ``passes.py``
(forward and backward), ``clipping.py``, ``train.py`` (the steps), ``speed.py`` (the share of the peak), ``text.py``
(who gets which text), ``saving.py`` (checkpoints, beside the training), ``keeping.py`` (which of them count),
``start.py`` (ranks, devices, signals), ``settings.py``.
"""
