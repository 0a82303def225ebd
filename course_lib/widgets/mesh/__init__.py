"""The explorer of meshes.

In the order to read:

- ``choice.py``: what the mesh explorer's controls choose, and what the cost model says of the choice
- ``missions.py``: missions for the mesh explorer
- ``explorer.py``: the mesh explorer: who holds what on a mesh, and what a step sends, by the cost model, and on real
  ranks
"""
