"""``course test portable``: the solved notebooks in other arithmetic, and by other Pythons and versions of torch.

Read ``kinds`` (processors, real and pretended), ``environments`` (Pythons and torch), ``trial`` (one run of nbval, and
what it says), ``report`` (the table and the record), ``command`` (the options, and all of it together).
"""

from __future__ import annotations

__all__: list[str] = []
