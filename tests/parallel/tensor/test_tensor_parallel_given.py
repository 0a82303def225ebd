"""A split transformer that leaves the given model as it is: parts by the model's names, and the loss of one process."""

from __future__ import annotations

import copy

import pytest
import torch

from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.tensor import GivenTransformer

pytestmark = pytest.mark.xdist_group("tensor")

CONFIG = TransformerConfig(vocab_size=14, context_length=8, num_layers=1, width=16, num_heads=4, bias=True, tied=True)


def whole_model():
    torch.manual_seed(0)
    return Transformer(CONFIG).double()


def batch():
    tokens = torch.randint(14, (3, 9), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1], tokens[:, 1:]


def one_step(me, sequence):
    model = whole_model()
    before = copy.deepcopy(model.state_dict())
    split = GivenTransformer(me, model, sequence=sequence)
    loss = split.loss(*batch())
    loss.backward()
    is_as_it_was = all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    is_one = split.parts["stem.tokens.weight"] is split.parts["head.w_vocab.weight"]
    return loss.item(), {name: part.grad for name, part in split.parts.items()}, is_as_it_was, is_one


@pytest.mark.parametrize("sequence", [False, True])
def test_loss_and_gradients_are_those_of_one_process(cluster2, sequence):
    model = whole_model()
    loss = next_token_loss(model(batch()[0]), batch()[1])
    loss.backward()
    run = cluster2.run(one_step, sequence)
    for found, grads, is_as_it_was, is_one in run:
        assert found == pytest.approx(loss.item(), rel=1e-12)
        assert is_as_it_was
        assert is_one, "a tied matrix is one part under both names"
        assert grads.keys() == dict(model.named_parameters(remove_duplicate=False)).keys()
    for name, dim in (("stem.tokens.weight", 0), ("blocks.0.mlp.w_down.weight", 1), ("blocks.0.mlp.w_up.bias", 0)):
        joined = torch.cat([grads[name] for _, grads, *_ in run], dim)
        torch.testing.assert_close(joined, model.get_parameter(name).grad, rtol=1e-9, atol=1e-12)
