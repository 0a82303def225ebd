"""03.dp_flat: tensors in one piece."""

from __future__ import annotations

from answer_table import Row, pieces

ROWS = pieces("lesson_03/pieces/data_parallel.py").rows(Row, "flat")
