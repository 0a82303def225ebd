"""Files that start a program on several machines: copy the one that your cluster needs, and change its first lines.

======================  =================================================================================
``slurm.sbatch``        ``sbatch slurm.sbatch -m train_ddp --data /data/flowers --out /shared/runs/1``
``trainjob.yaml``       ``kubectl apply --filename trainjob.yaml``, where Kubeflow Trainer is installed
``ssh.sh``              ``./ssh.sh "node1 node2" 8 -m train_ddp --data /data/flowers --out /shared/runs/1``
======================  =================================================================================

What they start is any program that ``torchrun`` can start: ``train_ddp``, ``train_fsdp``, ``train_mesh`` and
``preflight`` lie beside this folder, each to be copied to where you work, on a disk that all machines share. Run
``preflight`` first. Each machine needs the same Python with the same torch; nothing of the course is needed.

Every one of them starts one torchrun a machine, and torchrun starts the ranks. All agree on a place to meet, and end
together when one fails. None of them holds a password or a key.
"""
