"""The FLOP formulas against torch's own counter, to the last operation."""

import pytest
import torch
import torch.nn.functional as F
from shape_reader import layer_shapes
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop, sdpa_flop

from course_lib.cost import Flops, flops, hardware_flops, mfu, six_n_flops, transformer_layers
from course_lib.cost.single_device.layer_shapes import Attention, Conv2d, Linear
from course_lib.models import TransformerConfig


def counted(step, **options):
    """Forward and backward FLOPs of ``step()``, which returns a loss, as torch counts them."""
    with FlopCounterMode(display=False, **options) as counter:
        loss = step()
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False, **options) as counter:
        loss.backward()
    return Flops(forward, counter.get_total_flops())


class Attend(nn.Module):
    """One attention with its projections; the key and value heads may be fewer than the query heads."""

    def __init__(self, width=24, heads=4, kv_heads=4):
        super().__init__()
        self.head_dim = width // heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.gqa = kv_heads != heads

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.gqa)
        return y.transpose(1, 2).flatten(2)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 5, (3, 1), stride=2),
        nn.Flatten(),
        nn.LazyLinear(7),
    )


@pytest.mark.parametrize("frozen", [(), (0,), (0, 3), (3,), (5,)])
def test_a_conv_net_agrees_with_torch(frozen):
    model, images = conv_net(), torch.randn(4, 3, 9, 7)
    model(images)
    for index in frozen:
        model[index].requires_grad_(False)
    expected = counted(lambda: model(images).sum())
    assert flops(layer_shapes(model, images)) == expected
    assert expected.backward > 0


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_attention_agrees_with_torch_where_torch_counts_it(kv_heads):
    model, x = Attend(kv_heads=kv_heads), torch.randn(2, 10, 24, requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        expected = counted(lambda: model(x).sum())
    assert flops(layer_shapes(model, x)) == expected


def test_a_fused_attention_computes_its_scores_twice():
    model, x = Attend(), torch.randn(2, 10, 24)
    aten = torch.ops.aten
    counts = {  # the fused CPU kernel is missing from torch's table; count it as torch counts the CUDA one
        aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *a, **o: sdpa_flop(q, k, v),
        aten._scaled_dot_product_flash_attention_for_cpu_backward: (
            lambda g, q, k, v, *a, **o: sdpa_backward_flop(g, q, k, v)
        ),
    }
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        expected = counted(lambda: model(x).sum(), custom_mapping=counts)
    assert flops(layer_shapes(model, x), attention_recomputed=True) == expected


def test_torch_counts_no_fused_attention_on_the_cpu_or_all_of_it():
    """None up to torch 2.14, all from 2.15 on: lesson 01 says so."""
    q = torch.randn(1, 2, 8, 4, requires_grad=True)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), FlopCounterMode(display=False) as counter:
        F.scaled_dot_product_attention(q, q, q)
    assert counter.get_total_flops() in (0, sdpa_flop(q.shape, q.shape, q.shape))


def test_reading_shapes_leaves_the_model_and_the_generator_alone():
    model, images = nn.Sequential(conv_net(), nn.Dropout(0.5)), torch.randn(4, 3, 9, 7)
    model(images)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    layers = layer_shapes(model, images)
    assert [layer.name for layer in layers] == ["0.0", "0.3", "0.5"]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_failing_model_leaves_no_hooks_behind():
    model = conv_net()
    model(torch.randn(1, 3, 9, 7))
    with pytest.raises(RuntimeError):
        layer_shapes(model, torch.randn(1, 4, 9, 7))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


class BareMatmul(nn.Module):
    def forward(self, x):
        return x @ x.T


@pytest.mark.parametrize(
    ("model", "x", "words"),
    [
        (BareMatmul(), torch.randn(3, 3), "calls matmul"),
        (nn.Conv2d(4, 4, 3, groups=2), torch.randn(1, 4, 5, 5), "2 groups"),
        (nn.Conv1d(4, 4, 3), torch.randn(1, 4, 5), "calls conv1d"),
    ],
)
def test_work_without_a_record_is_refused_and_not_left_out(model, x, words):
    with pytest.raises(ValueError, match=words):
        layer_shapes(model, x)


def test_flops_adds_over_layers_and_takes_one():
    linear, conv = Linear("a", 2, 3, 5), Conv2d("b", 1, 2, 3, (3, 3), (4, 4), input_grad=False)
    assert flops(linear) == Flops(60, 120)
    assert flops(conv) == Flops(1728, 1728)
    assert flops([linear, conv, Attention("c", 1, 1, 2, 2, 4)]).total == 180 + 3456 + 6 * 32
    assert flops([]) == Flops(0, 0)


@pytest.mark.parametrize(
    ("num_layers", "width", "heads", "batch_size"),
    [(105, 20480, 128, 2240), (105, 20480, 128, 2520), (128, 25600, 160, 3072)],
    ids=["530B", "530B, 2520 sequences", "1T"],
)
def test_steps_of_the_largest_published_jobs_take_more_than_64_bits(num_layers, width, heads, batch_size):
    """Narayanan et al., 2021, appendix: 72 B s l h^2 (1 + s/6h + V/12lh), which nothing is recomputed in."""
    tokens, vocab = 2048, 51200
    config = TransformerConfig(
        vocab_size=vocab, context_length=tokens, num_layers=num_layers, width=width, num_heads=heads
    )
    layers = transformer_layers(config, batch_size=batch_size)
    blocks = 72 * batch_size * tokens * num_layers * width**2
    published = blocks + blocks * tokens // (6 * width) + blocks * vocab // (12 * num_layers * width)
    step = flops(layers)
    assert step.total == published > 2**63
    assert hardware_flops(layers, recomputed=layers).total == step.total + step.forward
    assert 0 < mfu(step.total, step_time_s=100.0, peak_flops_per_s=3072 * 312e12) < 1


def test_mfu_is_a_share_of_the_rate():
    assert mfu(3e9, step_time_s=2.0, peak_flops_per_s=6e9) == pytest.approx(0.25)
    assert six_n_flops(10, 7) == 420
    for wrong in ({"step_time_s": 0, "peak_flops_per_s": 1}, {"step_time_s": 1, "peak_flops_per_s": -1}):
        with pytest.raises(ValueError, match="must be above zero"):
            mfu(1, **wrong)


@pytest.mark.parametrize("num_checkpointed", [0, 1, 3])
def test_what_the_machine_executes_with_checkpoints_is_what_torch_counts(num_checkpointed):
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6)) for _ in range(3))
    x = torch.randn(5, 6, requires_grad=True)
    layers = [
        [
            Linear("up", rows=5, in_features=6, out_features=8),
            Linear("down", rows=5, in_features=8, out_features=6),
        ]
        for _ in blocks
    ]

    def step():
        y = x
        for i, block in enumerate(blocks):
            y = checkpoint(block, y, use_reentrant=False) if i < num_checkpointed else block(y)
        return y.sum()

    with set_checkpoint_early_stop(False):
        executed = counted(step)
    every = [layer for block in layers for layer in block]
    again = [layer for block in layers[:num_checkpointed] for layer in block]
    assert hardware_flops(every, recomputed=again) == executed
    assert hardware_flops(every) == flops(every)


def test_full_recomputation_is_a_third_more():
    layers = [Linear("a", 4, 3, 2), Attention("b", 1, 2, 4, 4, 3)]
    assert hardware_flops(layers, recomputed=layers).total * 3 == flops(layers).total * 4
