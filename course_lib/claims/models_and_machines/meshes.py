"""Trials of what is said about several kinds of parallelism at once."""

from __future__ import annotations

import torch

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.failures.errors import RankError
from course_lib.layouts.mesh import Mesh
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.mesh import OnMesh
from course_lib.schedules import gpipe

__all__: list[str] = []

# Two heads, three pieces (stem, block, head), three samples: no axis alone has work for four ranks.
_CONFIG = TransformerConfig(vocab_size=16, context_length=8, num_layers=1, width=8, num_heads=2)
_NUM_ROWS, _NUM_STEPS, _LR = 3, 3, 0.1
_ALONE = {"slices (tp=4)": "tp=4", "stages (pp=4)": "pp=4", "shares of the batch (dp_shard=4)": "dp_shard=4"}
_TOGETHER = {
    "stages x slices": "pp=2 tp=2",
    "shares x slices": "dp_shard=2 tp=2",
    "shares x stages": "dp_shard=2 pp=2",
}


def _model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(_CONFIG).double()


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(16, (_NUM_ROWS, 9), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1], tokens[:, 1:]


def _losses_alone() -> list[float]:
    model, (x, y), found = _model(), _batch(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=_LR)
    for _ in range(_NUM_STEPS):
        optimizer.zero_grad()
        loss = next_token_loss(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def _losses(me: Rank, axes: str) -> list[float]:
    mesh = Mesh.parse(axes)
    schedule = gpipe(mesh.size("pp"), 1) if mesh.size("pp") > 1 else None
    model, found = OnMesh(me, mesh, _model(), schedule=schedule), []
    optimizer = torch.optim.SGD(model.parameters(), lr=_LR)
    for _ in range(_NUM_STEPS):
        optimizer.zero_grad()
        found.append(model.step(*model.data.deal(*_batch())).item())
        optimizer.step()
    model.close()
    return found


@tries("A12")
def data_and_model_parallelism_are_combined(ranks: Ranks) -> Evidence:
    """Four ranks along one axis each, and as two times two; the model has three pieces, two heads, three samples."""
    right, facts, reach = _losses_alone(), {}, {}
    for name, axes in (_ALONE | _TOGETHER).items():
        try:
            found = ranks(4).run(_losses, axes)[0]
            apart = max(abs(a - b) for a, b in zip(found, right, strict=True))
            reach[name] = apart < 1e-12
            facts[name] = "the losses of one device" if reach[name] else f"other losses, by {apart:.1e}"
        except RankError as error:
            if "ValueError" not in str(error):
                raise
            reach[name] = False
            facts[name] = "refused: too few heads, pieces or samples"
    alone, together = any(reach[name] for name in _ALONE), all(reach[name] for name in _TOGETHER)
    return Evidence(
        "false" if not together else "misleading" if alone else "holds",
        facts,
        because="no single axis has work for each of four ranks here. Two axes of two ranks have, and they train the "
        "same model",
        turns_if="one axis had room for all ranks: as many heads, pieces or samples as there are ranks",
    )
