"""The whole model cut among ranks against one process, and its checkpoints."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster import Rank, RankFailed
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.tensor import (
    Replicate,
    Shard,
    gather_logits,
    gather_state,
    join_states,
    load_unsplit,
    parameter_placements,
    split_transformer,
    vocab_parallel_cross_entropy,
)

# Neither 13 nor 22 divides by 4.
CONFIG = TransformerConfig(vocab_size=13, context_length=8, num_layers=2, width=16, num_heads=4, hidden=22, bias=True)
CONFIGS = {
    "plain": replace(CONFIG, bias=False),
    "biases, tied": replace(CONFIG, tied=True),
    "shared key/value heads": replace(CONFIG, num_heads=8, num_kv_heads=4),
}
WAYS = {
    "": {},
    "sequence parallel": {"sequence_parallel": True},
    "gathered anew": {"sequence_parallel": True, "regather": True},
}


def double(config: TransformerConfig, seed: int = 0) -> Transformer:
    """In float64, with biases and norms that are not at 0 and 1."""
    torch.manual_seed(seed)
    model = Transformer(config).double()
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            nn.init.normal_(parameter, mean=float("norm" in name), std=0.3)
    return model


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    tokens = [torch.randint(13, (2, 9), generator=generator) for _ in range(count)]
    return [(one[:, :-1], one[:, 1:]) for one in tokens]


def five_steps(me: Rank, config: TransformerConfig, way: dict | None, optimizer_name: str) -> dict:
    """What training tells: losses, logits and gradients of the first step, weights after the fifth.

    ``way`` None is one process with the unsplit model and PyTorch's own loss.
    """
    model = double(config)
    model.blocks[0].mlp.w_up.weight.requires_grad_(False)  # frozen
    whole = copy.deepcopy(model)
    if way is not None:
        split_transformer(me, model, **way)
    learned = [p for p in model.parameters() if p.requires_grad]
    if optimizer_name == "AdamW":
        optimizer = torch.optim.AdamW(learned, lr=1e-2, weight_decay=0.1)
    else:
        optimizer = torch.optim.SGD(learned, lr=0.5, momentum=0.9)
    seen: dict = {"losses": []}
    for step, (tokens, targets) in enumerate(batches(5)):
        logits = model(tokens)
        if way is None:
            loss = next_token_loss(logits, targets)
        else:
            loss = vocab_parallel_cross_entropy(me, logits, targets, vocab_size=13)
        optimizer.zero_grad()
        if step == 0:
            (loss / 2).backward(retain_graph=True)
            (loss / 2).backward()  # gradients that are accumulated add up
            seen["logits"] = logits if way is None else gather_logits(me, logits, vocab_size=13)
            grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            seen["gradients"] = grads if way is None else unsplit(me, model, grads)
        else:
            loss.backward()
        optimizer.step()
        seen["losses"].append(loss.item())
    assert not any(p.grad is not None for p in whole.parameters())
    seen["weights"] = model.state_dict() if way is None else gather_state(me, model)
    return {key: as_lists(value) for key, value in seen.items()}


def unsplit(me: Rank, model: nn.Module, grads: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gradients gathered as the parameters are: they go where the parameters were, for a moment."""
    kept = {name: p.detach().clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(grads.get(name, torch.zeros_like(parameter)))
        whole = gather_state(me, model)
        for name, parameter in model.named_parameters():
            parameter.copy_(kept[name])
    return {name: whole[name] for name in grads}


def as_lists(value):
    if isinstance(value, dict):
        return {key: as_lists(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value


def assert_same(seen, wanted) -> None:
    """Lists, or mappings of lists, to 1e-10."""
    pairs = {name: (seen[name], wanted[name]) for name in wanted} if isinstance(wanted, dict) else {"": (seen, wanted)}
    for name, pair in pairs.items():
        got, expected = map(torch.tensor, pair)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "way", "optimizer", "world_sizes"),
    [
        ("plain", "", "AdamW", (1, 2, 4)),
        ("plain", "sequence parallel", "SGD", (2,)),
        ("biases, tied", "", "AdamW", (2, 4)),
        ("biases, tied", "sequence parallel", "AdamW", (1, 2, 4)),
        ("biases, tied", "gathered anew", "AdamW", (4,)),
        ("shared key/value heads", "", "SGD", (4,)),
        ("shared key/value heads", "sequence parallel", "AdamW", (2, 4)),
    ],
)
def test_training_equals_one_process(clusters, name, way, optimizer, world_sizes):
    (alone,) = clusters(1).call(five_steps, (CONFIGS[name], None, optimizer))
    for world_size in world_sizes:
        for seen in clusters(world_size).call(five_steps, (CONFIGS[name], WAYS[way], optimizer)):
            for what, wanted in alone.items():
                assert_same(seen[what], wanted)


def in_pairs(me: Rank) -> bool:
    """Ranks 0 and 1 share one model, 2 and 3 another: the rows of a mesh."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[me.rank // 2]
    whole = double(CONFIG, seed=me.rank // 2)
    (tokens, targets), state = batches(1)[0], whole.state_dict()
    wanted = whole(tokens).detach()
    model = split_transformer(me, copy.deepcopy(whole), group=mine, sequence_parallel=True)
    logits = model(tokens)
    vocab_parallel_cross_entropy(me, logits, targets, vocab_size=13, group=mine).backward()
    back = gather_state(me, model, group=mine)
    load_unsplit(me, model, state, group=mine)
    got = gather_logits(me, logits, vocab_size=13, group=mine)
    dist.destroy_process_group(mine)
    return torch.allclose(got, wanted, rtol=0, atol=1e-10) and all(torch.equal(back[n], state[n]) for n in state)


def test_a_group_of_ranks_may_share_a_model(cluster4):
    assert all(cluster4.call(in_pairs))


# -- checkpoints ----------------------------------------------------------------------------------------------


def gathered(me: Rank, way: dict) -> dict:
    """The split model's own state, its placements, and the state gathered to the unsplit form."""
    model = split_transformer(me, double(CONFIG), **way)
    return {
        "own": {name: value.clone() for name, value in model.state_dict().items()},
        "placements": parameter_placements(model),
        "whole": gather_state(me, model),
    }


def loaded(me: Rank, state: dict) -> bool:
    model = split_transformer(me, double(CONFIG, seed=9))
    load_unsplit(me, model, state)
    back = gather_state(me, model)
    return back.keys() == state.keys() and all(torch.equal(back[name], state[name]) for name in state)


@pytest.mark.parametrize("way", ["", "sequence parallel"])
def test_checkpoints_move_between_splits(clusters, way):
    unsplit_state = double(CONFIG).state_dict()
    from_two = list(clusters(2).call(gathered, (WAYS[way],)))
    joined = join_states([one["own"] for one in from_two], from_two[0]["placements"])
    for state in (from_two[0]["whole"], from_two[1]["whole"], joined):
        assert state.keys() == unsplit_state.keys()
        assert all(torch.equal(state[name], unsplit_state[name]) for name in unsplit_state)
    Transformer(CONFIG).double().load_state_dict(joined)  # the unsplit model takes it
    for cluster in map(clusters, (1, 2, 4)):
        assert all(cluster.call(loaded, (joined,)))
    placements = from_two[0]["placements"]
    assert placements["blocks.0.attention.w_q.weight"] == placements["stem.tokens.weight"] == Shard(0)
    assert placements["blocks.1.mlp.w_down.weight"] == Shard(1)
    assert placements["blocks.1.mlp.w_down.bias"] == placements["stem.positions.weight"] == Replicate()


# -- bad input ------------------------------------------------------------------------------------------------


def forward_once(me: Rank, num_tokens: int, config: TransformerConfig = CONFIG, **way) -> None:
    split_transformer(me, double(config), **way)(torch.zeros(1, num_tokens, dtype=torch.int64))


def test_bad_input_gets_a_sentence(cluster2, cluster4):
    with pytest.raises(RankFailed, match=r"(?s)size 7.*does not divide among 2 ranks.*nearest.*is 8"):
        cluster2.run(forward_once, 7, sequence_parallel=True)
    with pytest.raises(RankFailed, match=r"(?s)A sequence of 9 tokens is longer than context_length=8"):
        cluster2.run(forward_once, 9)
    with pytest.raises(RankFailed, match=r"(?s)2 key/value heads do not divide among 4 ranks.*Take 2 ranks"):
        cluster4.run(forward_once, 8, replace(CONFIG, num_kv_heads=2))
