"""``python -m train_fsdp`` and ``torchrun ... -m train_fsdp`` begin here."""

from .train import main

if __name__ == "__main__":
    main()
