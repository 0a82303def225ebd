"""Pipelines whose idle time was published, for tests of the simulator."""

from __future__ import annotations

# Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241. Table 9: stages, micro-batches and the profiled
# times in ms of F, B (our I), W and one message; table 5: bubble rates. Layers are the model's; the first and the
# last stage hold one layer fewer than they would, so interleaved 1F1B has (layers + 2) / stages virtual stages.
PUBLISHED = [
    # p   m     F       I       W       message  layers  1F1B    ZB-H1   interleaved
    (8, 24, 18.522, 18.086, 9.337, 0.601, 22, 0.2431, 0.1585, 0.1055),
    (8, 32, 18.513, 18.086, 9.331, 0.626, 22, 0.1985, 0.1242, 0.0818),
    (8, 24, 29.718, 29.444, 19.927, 0.527, 30, 0.2347, 0.1323, 0.0808),
    (16, 48, 11.347, 11.248, 8.132, 0.377, 46, 0.2552, 0.1397, 0.1104),
]
