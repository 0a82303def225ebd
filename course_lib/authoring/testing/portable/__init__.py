"""``course test portable``: the solved notebooks in other arithmetic, and by other Pythons and versions of torch.

Read ``kinds`` (processors, real and pretended), ``environments`` (Pythons and torch), ``trial`` (one run of nbval, and
what it says), ``report`` (the table and the record), ``command`` (the options, and all of it together).

In the order to read:

- ``environments.py``: pythons, and versions of torch
- ``variable.py``: the environment variable by which ``other_arithmetic`` is told what to do
- ``kinds.py``: kinds of arithmetic: what the libraries below torch would do on processors that this machine may not be
- ``other_arithmetic.py``: imported by the kernels and ranks of ``course test portable``
- ``trial.py``: one run of nbval over solved notebooks, in one combination, and which cells it found to differ
- ``report.py``: what all runs together have found
- ``command.py``: the options of ``course test portable``, and all of its runs one after another
"""

from __future__ import annotations

__all__: list[str] = []
