"""``python -m train_mesh`` and ``torchrun ... -m train_mesh`` begin here."""

from .train import main

if __name__ == "__main__":
    main()
