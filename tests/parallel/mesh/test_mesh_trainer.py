"""A whole training step on a mesh: losses and norms of one process, before a checkpoint and after it elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.cluster import RankError
from course_lib.layouts.mesh import Mesh
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.mesh import MeshGroups, MeshTrainer

pytestmark = [
    pytest.mark.xdist_group("mesh"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

CONFIG = TransformerConfig(vocab_size=13, context_length=5, num_layers=2, width=8, num_heads=2, hidden=11, tied=True)
TOKENS = torch.randint(13, (4, 5, 6), generator=torch.Generator().manual_seed(2))
BEFORE, LIMIT = 2, 0.5
FROZEN = ("blocks.0", "stem.positions")


def model_of(seed):
    torch.manual_seed(seed)
    model = Transformer(CONFIG).double()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(FROZEN))
    return model


def alone():
    model, told = model_of(0), []
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for tokens in TOKENS:
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        optimizer.step()
        told.append((loss.item(), norm.item()))
    return told


def begun(me, axes, seed):
    groups = MeshGroups(me, Mesh.parse(axes))
    return MeshTrainer(me, groups, model_of(seed).to(me.device), torch.optim.AdamW, 2, lr=0.05), groups


def from_mesh_to_mesh(me, first, second, folder):
    trainer, groups = begun(me, first, 0)
    told = [trainer.step(one[:, :-1], one[:, 1:], LIMIT) for one in TOKENS[:BEFORE]]
    trainer.save(folder)
    groups.close()
    trainer, groups = begun(me, second, 9)
    trainer.load(folder)
    told += [trainer.step(one[:, :-1], one[:, 1:], LIMIT) for one in TOKENS[BEFORE:]]
    groups.close()
    return told


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pp=2 dp_shard=1 tp=2", "tp=1 dp_shard=2 pp=2"),
        ("dp_shard=2 tp=2 pp=1", "pp=4 dp_shard=1 tp=1"),
    ],
)
def test_it_goes_on_as_one_process_on_another_mesh(clusters, tmp_path, first, second):
    for told in clusters(4).call(from_mesh_to_mesh, (first, second, tmp_path), show=False):
        want, have = (torch.tensor(one, dtype=torch.float64) for one in (alone(), told))
        torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-9)


def load_from(me, folder):
    trainer, groups = begun(me, "pp=1 dp_shard=1 tp=1", 0)
    try:
        trainer.load(folder)
    finally:
        groups.close()


def test_an_empty_folder_is_told(clusters, tmp_path):
    with pytest.raises(RankError, match="holds no checkpoint"):
        clusters(1).call(load_from, (tmp_path,), show=False)
