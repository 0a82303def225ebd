"""Train a ResNet by data parallelism: the same program on a laptop, on a GPU, and on many machines full of GPUs.

It stands alone: copy this folder to where you work. It needs torch; for your own images Pillow (``pip install
pillow``); for torchvision's weights and its stronger augmentation torchvision. Nothing of the course. ::

    cp -r course_lib/examples/train_ddp ~/my_project/ && cd ~/my_project

    python -m train_ddp                                             # one process, images made on the spot
    torchrun --standalone --nproc-per-node 2 -m train_ddp           # two: on two GPUs, or on the CPU
    torchrun --standalone --nproc-per-node 8 -m train_ddp --data /data/flowers --layers 50 --width 64 \\
        --weights IMAGENET1K_V2 --augment crops --epochs 20 --lr 0.01 --bf16 --channels-last --workers 8 --out runs/1

ImageNet on four machines of eight GPUs, after Goyal et al. (2017)::

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1                     # start.py says why
    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:PORT --max-restarts 3 \\
        -m train_ddp --data /data/imagenet --layers 50 --width 64 --augment crops --batch-size 1024 --lr 0.1 \\
        --lr-batch-size 256 --warmup 6255 --epochs 90 --bf16 --channels-last --workers 8 --out runs/imagenet

``--batch-size`` is the global batch: the images of one step on all ranks together. An epoch leaves out a last batch
that is not full. How an image is cut and mirrored depends on the seed, the epoch and the image, and on nothing else.
So a step sees the same pixels on any number of ranks, and a run may be resumed on more or fewer.

With ``--out`` a run keeps ``last.pt`` and ``best.pt`` in that folder, and its numbers in ``log.jsonl``. A run that
finds ``last.pt`` goes on from it: after torchrun restarted it because a rank died, after a crash, and after SIGTERM
or Ctrl-C, when all ranks finish the step, save, and leave. Exit codes: 0 done, 128 + the number of the signal that
stopped it (143 for SIGTERM), 2 for a setting that argparse refuses, 1 for any other error.

The files, in the order in which to read them: ``train.py`` (the steps), ``start.py`` (ranks, devices, signals),
``loading.py`` (who gets which image), ``images.py``, ``resnet.py``, ``beginning.py`` (first weights), ``keeping.py``
(checkpoints), ``settings.py``.
"""
