"""03.dp_awkward: awkward models and inputs."""

from __future__ import annotations

from answer_table import Row, pieces

ROWS = pieces("lesson_03/pieces/data_parallel.py").rows(Row, "awkward")
