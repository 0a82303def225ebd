"""Pipelines whose idle time was published, for tests of the simulator."""

from __future__ import annotations

import pytest

# Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241. Table 9: stages, micro-batches and the profiled
# times in ms of F, B (our I), W and one message; table 5: bubble rates. Layers are the model's; the first and the
# last stage hold one layer fewer than they would, so interleaved 1F1B has (layers + 2) / stages virtual stages. The
# last column is a s / h of table 3, heads x sequence length / hidden size: by table 1 a W needs 32 / (34 + 5 a s / h)
# of the activations that a B does.
PUBLISHED = [
    # p   m     F       I       W       message  layers  1F1B    ZB-H1   interleaved  ZB-H2  ZB-1p  ZB-2p  a s / h
    (8, 24, 18.522, 18.086, 9.337, 0.601, 22, 0.2431, 0.1585, 0.1055, 0.1083, 0.1585, 0.0433, 32 / 3),
    (8, 32, 18.513, 18.086, 9.331, 0.626, 22, 0.1985, 0.1242, 0.0818, 0.0837, 0.1242, 0.0039, 32 / 3),
    (8, 64, 18.546, 18.097, 9.321, 0.762, 22, 0.124, 0.0674, 0.0443, 0.0444, 0.0674, 0.0026, 32 / 3),
    (8, 24, 29.718, 29.444, 19.927, 0.527, 30, 0.2347, 0.1323, 0.0808, 0.0698, 0.1323, 0.0029, 8),
    (8, 32, 29.802, 29.428, 19.53, 0.577, 30, 0.1898, 0.1045, 0.0628, 0.0559, 0.1045, 0.0022, 8),
    (8, 64, 29.935, 29.621, 19.388, 0.535, 30, 0.1091, 0.0554, 0.032, 0.0294, 0.0554, 0.001, 8),
    (16, 48, 11.347, 11.248, 8.132, 0.377, 46, 0.2552, 0.1397, 0.1104, 0.0672, 0.1397, 0.0066, 8),
    (16, 64, 11.307, 11.254, 8.101, 0.379, 46, 0.2082, 0.1088, 0.0852, 0.0516, 0.1088, 0.0054, 8),
    (16, 128, 11.325, 11.308, 8.109, 0.378, 46, 0.1251, 0.0576, 0.0445, 0.0266, 0.0576, 0.0028, 8),
    (32, 96, 10.419, 10.207, 7.715, 0.408, 62, 0.2646, 0.1421, 0.1493, 0.0641, 0.1421, 0.0038, 8),
    (32, 128, 10.408, 10.204, 7.703, 0.408, 62, 0.2168, 0.1106, 0.1164, 0.049, 0.1106, 0.0029, 8),
    (32, 256, 10.402, 10.248, 7.698, 0.46, 62, 0.1352, 0.0594, 0.0624, 0.0257, 0.0594, 0.0018, 8),
]


def rows_of(num_columns: int | None = None) -> list[object]:
    """The rows as parameters of a test; those that take seconds wait for ``--long``."""
    found = []
    for row in PUBLISHED:
        columns = row[:num_columns]
        value = columns if num_columns else (row,)
        found.append(pytest.param(*value, marks=[pytest.mark.long] if row[0] * row[1] > 1000 else []))
    return found
