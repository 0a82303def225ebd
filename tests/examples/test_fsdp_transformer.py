"""The sharded program's model on one process: held against the formula, and what it keeps for backward."""

from __future__ import annotations

import math

import torch

from course_lib.examples.train_fsdp.transformer import Block, Transformer


def by_hand(block: Block, x: torch.Tensor) -> torch.Tensor:
    """A block written down once more, (B, T, C) to (B, T, C): each byte looks at itself and those before."""

    def norm(x):
        return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()

    size = x.shape[2] // block.heads
    q, k, v = (norm(x) @ block.qkv.weight.T).split(x.shape[2], dim=-1)
    looked = []
    for head in range(block.heads):
        part = slice(head * size, (head + 1) * size)
        scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(size)
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        looked.append(scores.masked_fill(later, -math.inf).softmax(dim=-1) @ v[..., part])
    x = x + torch.cat(looked, dim=-1) @ block.attention_out.weight.T
    hidden = norm(x) @ block.mlp_in.weight.T
    hidden = hidden * 0.5 * (1.0 + torch.erf(hidden / math.sqrt(2.0)))
    return x + hidden @ block.mlp_out.weight.T


def test_a_block_is_what_its_formula_says():
    torch.manual_seed(0)
    block, x = Block(12, 3, recompute=False).double(), torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(block(x), by_hand(block, x), rtol=0.0, atol=1e-12)


def test_no_byte_is_told_by_those_after_it_and_its_place_counts():
    torch.manual_seed(0)
    model, tokens = Transformer(2, 8, 2, 6), torch.tensor([[7, 7, 7, 7, 7, 7]])
    logits, changed = model(tokens), tokens.clone()
    assert logits.shape == (1, 6, 256)
    changed[0, 4] = 9
    assert torch.equal(model(changed)[0, :4], logits[0, :4])
    assert not torch.allclose(model(changed)[0, 4:], logits[0, 4:])
    assert not torch.allclose(logits[0, 0], logits[0, 1])
    assert torch.allclose(model(tokens[:, :3]), logits[:, :3], atol=1e-6)  # fewer than the context work too


def test_the_stream_begins_small_and_layers_that_add_to_it_smaller():
    model = Transformer(8, 8, 2, 6)
    stds = {name: model.first_std(name) for name, _ in model.named_parameters()}
    assert stds["embedding.weight"] == stds["positions.weight"] == stds["blocks.3.qkv.weight"] == 0.02
    assert stds["blocks.3.mlp_out.weight"] == stds["blocks.0.attention_out.weight"] == 0.02 / 4
    assert stds["norm.weight"] is stds["blocks.3.mlp_norm.weight"] is None


def test_recomputing_keeps_less_and_changes_no_bit():
    kept = []
    for recompute in (False, True):
        torch.manual_seed(0)
        block, sizes = Block(8, 2, recompute=recompute), []
        x = torch.randn(2, 4, 8, requires_grad=True)

        def keep(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            out = block(x)
        out.sum().backward()
        kept.append((sum(sizes), x.grad, [p.grad for p in block.parameters()]))
    (much, *gradients), (little, *again) = kept
    assert little < much / 4
    assert torch.equal(gradients[0], again[0])
    assert all(torch.equal(a, b) for a, b in zip(gradients[1], again[1], strict=True))
