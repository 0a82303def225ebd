"""10.once_a_node: which tokens go to which node, each once."""

from __future__ import annotations

import numpy as np
import torch
from answer_table import Row


def a_table_of_yes_and_no(chosen, num_experts, num_nodes):
    nodes = chosen // (num_experts // num_nodes)
    goes = torch.zeros(len(chosen), num_nodes, dtype=torch.bool).scatter(1, nodes, True)
    return goes.T.nonzero()[:, 1], goes.sum(0).tolist()


def node_by_node(chosen, num_experts, num_nodes):
    per_node = num_experts // num_nodes
    tokens, sizes = [], []
    for node in range(num_nodes):
        own = [t for t, experts in enumerate(chosen.tolist()) if any(e // per_node == node for e in experts)]
        tokens += own
        sizes.append(len(own))
    return tokens, sizes


def by_masks(chosen, num_experts, num_nodes):
    nodes = chosen // (num_experts // num_nodes)
    found = [(nodes == node).any(dim=1).nonzero().flatten() for node in range(num_nodes)]
    return torch.cat(found), [len(one) for one in found]


def unique_numbers(chosen, num_experts, num_nodes):
    n = len(chosen)
    keys = (chosen // (num_experts // num_nodes)) * n + torch.arange(n)[:, None]
    keys = keys.unique()
    if n == 0:
        return keys, [0] * num_nodes
    return keys % n, torch.bincount(keys // n, minlength=num_nodes)


def in_numpy(chosen, num_experts, num_nodes):
    nodes = chosen.numpy() // (num_experts // num_nodes)
    goes = (nodes[:, :, None] == np.arange(num_nodes)).any(1)
    return np.nonzero(goes.T)[1], tuple(goes.sum(0))


def set_of_pairs(chosen, num_experts, num_nodes):
    per_node = num_experts // num_nodes
    pairs = sorted({(int(e) // per_node, t) for t, row in enumerate(chosen) for e in row})
    return [t for _, t in pairs], [sum(node == at for at, _ in pairs) for node in range(num_nodes)]


def a_tensor_of_a_list(chosen, num_experts, num_nodes):
    tokens, sizes = node_by_node(chosen, num_experts, num_nodes)
    return torch.tensor(tokens), torch.tensor(sizes)


def one_hot(chosen, num_experts, num_nodes):
    goes = torch.nn.functional.one_hot(chosen // (num_experts // num_nodes), num_nodes).amax(1)
    return torch.where(goes.T > 0)[1], goes.sum(0).tolist()


seen: list = []


def keeps_the_tokens(chosen, num_experts, num_nodes):
    tokens, sizes = node_by_node(chosen, num_experts, num_nodes)
    seen.extend(tokens)
    return seen, sizes


def divides_in_place(chosen, num_experts, num_nodes):
    chosen //= num_experts // num_nodes
    return by_masks(chosen, num_nodes, num_nodes)


def sizes_first(chosen, num_experts, num_nodes):
    tokens, sizes = node_by_node(chosen, num_experts, num_nodes)
    return sizes, tokens


def as_floats(chosen, num_experts, num_nodes):
    tokens, sizes = node_by_node(chosen, num_experts, num_nodes)
    return torch.tensor(tokens, dtype=torch.float32), sizes


def tokens_alone(chosen, num_experts, num_nodes):
    return by_masks(chosen, num_experts, num_nodes)[0]


def bincount_without_length(chosen, num_experts, num_nodes):
    tokens, sizes = node_by_node(chosen, num_experts, num_nodes)
    nodes = torch.arange(num_nodes).repeat_interleave(torch.tensor(sizes))
    return tokens, torch.bincount(nodes).tolist()


def neighbours_only(chosen, num_experts, num_nodes):
    nodes = chosen // (num_experts // num_nodes)
    pairs = sorted((int(n), t) for t, row in enumerate(nodes) for n in row.unique_consecutive())
    return [t for _, t in pairs], [sum(node == at for at, _ in pairs) for node in range(num_nodes)]


def not_the_first_node(chosen, num_experts, num_nodes):
    tokens, sizes = node_by_node(chosen, num_experts, num_nodes)
    return tokens[sizes[0] :], [0, *sizes[1:]]


def every_token_everywhere(chosen, num_experts, num_nodes):
    return list(range(len(chosen))) * num_nodes, [len(chosen)] * num_nodes


def as_a_dictionary(chosen, num_experts, num_nodes):
    tokens, sizes = node_by_node(chosen, num_experts, num_nodes)
    return {"tokens": tokens, "sizes": sizes}


def a_column(chosen, num_experts, num_nodes):
    nodes = chosen // (num_experts // num_nodes)
    found = [(nodes == node).any(dim=1).nonzero() for node in range(num_nodes)]
    return torch.cat(found), [len(one) for one in found]


kept: dict = {}


def kept_by_shape(chosen, num_experts, num_nodes):
    key = (tuple(chosen.shape), num_experts, num_nodes)
    if key not in kept:
        kept[key] = node_by_node(chosen, num_experts, num_nodes)
    return kept[key]


def experts_that_were_chosen(chosen, num_experts, num_nodes):
    highest = int(chosen.max()) + 1 if len(chosen) else num_experts
    return by_masks(chosen, -(-highest // num_nodes) * num_nodes, num_nodes)


def by_a_shift(chosen, num_experts, num_nodes):
    shift = (num_experts // num_nodes).bit_length() - 1
    return by_masks(chosen >> shift, num_nodes, num_nodes)


def four_nodes_at_most(chosen, num_experts, num_nodes):
    return by_masks(chosen, num_experts, min(num_nodes, 4))


def tokens_in_a_byte(chosen, num_experts, num_nodes):
    tokens, sizes = by_masks(chosen, num_experts, num_nodes)
    return tokens.to(torch.uint8), sizes


def tokens_in_seven_bits(chosen, num_experts, num_nodes):
    tokens, sizes = by_masks(chosen, num_experts, num_nodes)
    return tokens.to(torch.int8), sizes


def experts_in_a_byte(chosen, num_experts, num_nodes):
    return by_masks(chosen.to(torch.uint8) // (num_experts // num_nodes), num_nodes, num_nodes)


def experts_in_bfloat16(chosen, num_experts, num_nodes):
    return by_masks((chosen.bfloat16() / (num_experts // num_nodes)).long(), num_nodes, num_nodes)


def int32_tokens(chosen, num_experts, num_nodes):
    tokens, sizes = by_masks(chosen, num_experts, num_nodes)
    return tokens.to(torch.int32), [torch.tensor(one) for one in sizes]


ROWS = [
    Row(answer=a_table_of_yes_and_no, verdict="passed", why="a table of tokens and nodes, read column after column"),
    Row(answer=node_by_node, verdict="passed", why="lists of Python"),
    Row(answer=by_masks, verdict="passed", why="a mask for each node; joined tensors"),
    Row(answer=unique_numbers, verdict="passed", why="pairs as one number, made unique; sizes as a tensor"),
    Row(answer=in_numpy, verdict="passed", why="NumPy's whole numbers are whole numbers"),
    Row(answer=set_of_pairs, verdict="passed", why="a sorted set of node and token"),
    Row(answer=a_tensor_of_a_list, verdict="passed", why="torch.tensor([]) has float32 where nothing is in it"),
    Row(answer=one_hot, verdict="passed", why="one-hot, and the largest over the choices"),
    Row(answer=int32_tokens, verdict="passed", why="whole numbers of 32 bits; sizes as tensors of no dims"),
    Row(answer=keeps_the_tokens, verdict="not yet", why="a second batch meets the first one's tokens"),
    Row(
        answer=divides_in_place,
        verdict="not yet",
        words=("changed what it was given",),
        why="the experts are needed afterwards",
    ),
    Row(answer=sizes_first, verdict="not yet", why="tokens come first"),
    Row(answer=as_floats, verdict="not yet", words=("whole numbers",), why="a row is taken by a whole number"),
    Row(answer=tokens_alone, verdict="not yet", words=("tokens and sizes",), why="nobody knows where a node ends"),
    Row(answer=bincount_without_length, verdict="not yet", words=("there are",), why="the last nodes may get nothing"),
    Row(
        answer=neighbours_only,
        verdict="not yet",
        mistake="neighbours-only",
        why="two experts on one node need not stand side by side",
    ),
    Row(
        answer=not_the_first_node,
        verdict="not yet",
        mistake="not-the-first-node",
        why="the own node, or the first, is a node as well",
    ),
    Row(answer=kept_by_shape, verdict="not yet", why="other choices of the same shape"),
    Row(answer=experts_that_were_chosen, verdict="not yet", why="nobody may choose the last node's experts"),
    Row(answer=by_a_shift, verdict="not yet", why="a node may have 20 experts"),
    Row(answer=four_nodes_at_most, verdict="not yet", why="there may be eight nodes"),
    Row(answer=tokens_in_a_byte, verdict="not yet", why="there are more than 256 tokens"),
    Row(answer=tokens_in_seven_bits, verdict="not yet", why="there are more than 128 tokens"),
    Row(answer=experts_in_a_byte, verdict="not yet", why="there may be more than 256 experts"),
    Row(answer=experts_in_bfloat16, verdict="not yet", why="bfloat16 knows few whole numbers above 256"),
    Row(answer=every_token_everywhere, verdict="not yet", why="an all-gather of tokens"),
    Row(answer=as_a_dictionary, verdict="not yet", words=("tokens and sizes",), why="two things, in order"),
    Row(answer=a_column, verdict="not yet", words=("one row",), why="rows taken by a column have a dim more"),
]
