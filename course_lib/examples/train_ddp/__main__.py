"""``python -m train_ddp`` and ``torchrun ... -m train_ddp`` begin here."""

from .train import main

if __name__ == "__main__":  # a loader's workers may import this file too (spawn)
    main()
