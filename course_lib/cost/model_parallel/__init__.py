"""What a split model costs: pipelines, tensor, context and expert parallelism.

In the order to read:

- ``context.py``: what attention costs over a sequence that is cut among ranks
- ``context_memory.py``: what a rank keeps in memory of a sequence that is cut among ranks, and what travels past it
- ``distinct_groups.py``: on how many ranks, or nodes, a token's experts lie
- ``experts.py``: what a mixture of experts costs on n ranks
- ``experts_memory.py``: what a layer of experts keeps for the backward pass on one rank
- ``pipeline.py``: when a pipeline's actions start and end
- ``tensor_parallel.py``: what tensor parallelism sends, and how long that takes
- ``tensor_parallel_memory.py``: what a rank keeps of a transformer block for the backward pass
"""
