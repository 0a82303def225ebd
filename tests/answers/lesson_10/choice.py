"""10.choice: the experts that float64 would choose, with weights in the dtype of x."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from answer_table import Row


def softmax_in_float32(x, router):
    weights, experts = F.linear(x, router).softmax(-1, dtype=torch.float32).topk(2)
    return experts, weights.to(x.dtype)


def scores_rounded_again(x, router):
    weights, experts = F.linear(x.float(), router.float()).to(x.dtype).softmax(-1).topk(2)
    return experts, weights


def shares_rounded_before_the_choice(x, router):
    weights, experts = F.linear(x.float(), router.float()).softmax(-1).to(x.dtype).topk(2)
    return experts, weights


def other_way_round(x, router):
    weights, experts = F.linear(x.float(), router.float()).softmax(-1).topk(2)
    return weights.to(x.dtype), experts


def wider_only(x, router):
    weights, experts = F.linear(x.double(), router.double()).softmax(-1).topk(2)
    return experts, weights.to(x.dtype)


ROWS = [
    Row(answer=softmax_in_float32, verdict="not yet", mistake="rounded-before-the-choice", why="the product rounds"),
    Row(answer=scores_rounded_again, verdict="not yet", mistake="rounded-before-the-choice", why="rounded after it"),
    Row(answer=shares_rounded_before_the_choice, verdict="not yet", why="alike when rounded", words=("softmax",)),
    Row(answer=other_way_round, verdict="not yet", mistake="", why="two tensors in another order", words=("int64",)),
    Row(answer=wider_only, verdict="passed", why="more digits than are needed"),
]
