"""``python -m preflight`` and ``torchrun ... -m preflight`` begin here."""

from .check import main

if __name__ == "__main__":
    main()
