"""Layouts as data: who holds what of a mesh, a sequence, rows or layers. Arithmetic, without torch.

In the order to read:

- ``linear_partition.py``: A row of pieces cut into neighbouring parts that cost about equally much
- ``link.py``: A link: how long a message takes from one rank to another
- ``mesh.py``: A mesh: every rank has a place, given by one number for each axis
- ``row_partition.py``: how rows are dealt out among ranks
- ``mesh_pieces.py``: who holds which piece of a matrix
- ``position_cut.py``: Positions cut among ranks
- ``sequence_cut.py``: A sequence cut among ranks
- ``document_orders.py``: Ways to deal the positions of packed documents out to ranks
- ``document_cut.py``: A packed sequence cut among ranks
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "DocumentCut": "document_cut",
    "Link": "link",
    "Mesh": "mesh",
    "Piece": "mesh_pieces",
    "SequenceCut": "sequence_cut",
    "TilePair": "position_cut",
    "holders_of_pieces": "mesh_pieces",
    "piece_of": "mesh_pieces",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
