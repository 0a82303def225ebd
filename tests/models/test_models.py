"""The models: shapes, parameter counts, gradients, cuts, and that they learn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.data import digits, documentation_windows, loader
from course_lib.models import (
    VGG,
    Attention,
    ResNet,
    SmallCNN,
    Transformer,
    TransformerConfig,
    accuracy,
    next_token_loss,
    parameter_count,
    pieces,
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """These models are too small for a second thread to help, and other tests may be using the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


TINY = {"vocab_size": 50, "context_length": 12, "num_layers": 2, "width": 24, "num_heads": 4}


def tiny(**changes: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**(TINY | changes)))  # type: ignore[arg-type]


def images(batch: int = 2, channels: int = 1, size: int = 8) -> torch.Tensor:
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(1))


def tokens(batch: int = 2, length: int = 10) -> torch.Tensor:
    return torch.randint(0, 50, (batch, length), generator=torch.Generator().manual_seed(1))


def every_model() -> list[tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    return [
        (SmallCNN(width=4), images()),
        (SmallCNN(width=4, batch_norm=False), images()),
        (VGG((1, 2), width=4, hidden=8, num_classes=5, image_size=16), images(channels=3, size=16)),
        (ResNet.preset(18, width=4, num_classes=5), images(channels=3, size=32)),
        (ResNet.preset(152, width=4, num_classes=5, small_images=True), images(channels=3, size=16)),
        (tiny(), tokens()),
        (tiny(num_kv_heads=2, tied=True, bias=True), tokens()),
    ]


# Shapes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7, 8, 31])
def test_small_cnn_takes_any_image_size(size: int) -> None:
    model = SmallCNN(7, channels=3, width=4)
    assert model(images(channels=3, size=size)).shape == (2, 7)


@pytest.mark.parametrize(("small_images", "height"), [(False, 16), (True, 64)])
def test_the_stem_of_a_resnet_shrinks_by_four_or_keeps_the_size(small_images: bool, height: int) -> None:
    model = ResNet((1, 1), width=4, small_images=small_images)
    assert model.stem(images(channels=3, size=64)).shape == (2, 4, height, height)


def test_each_later_stage_of_a_resnet_halves_the_image_and_doubles_the_width() -> None:
    model = ResNet((2, 1, 1), width=4, small_images=True)
    x, shapes = model.stem(images(channels=3, size=32)), []
    for block in model.blocks:
        x = block(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 8, 8)]


@pytest.mark.parametrize("length", [1, 5, 12])
def test_transformer_gives_a_score_for_each_token_at_each_position(length: int) -> None:
    assert tiny()(tokens(3, length)).shape == (3, length, 50)


# Parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "count"),
    [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032), (101, 44_549_160), (152, 60_192_808)],
)
def test_resnet_presets_have_the_known_parameter_counts(depth: int, count: int) -> None:
    with torch.device("meta"):  # the layout without its memory
        assert parameter_count(ResNet.preset(depth)) == count


def test_resnet_has_as_many_layers_as_its_name_says() -> None:
    with torch.device("meta"):
        model = ResNet()
    weighted = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    shortcuts = [block.shortcut for block in model.blocks if not isinstance(block.shortcut, nn.Identity)]
    assert len(weighted) - len(shortcuts) == 152
    assert len(model.blocks) == 50


def test_transformer_parameters_follow_the_formula() -> None:
    vocabulary, context, layers, width, hidden = 50, 12, 3, 24, 40
    config = TransformerConfig(**(TINY | {"num_layers": layers, "num_kv_heads": 2, "hidden": hidden}))  # type: ignore[arg-type]
    kv_width = 2 * (width // 4)
    attention = 2 * width * width + 2 * width * kv_width
    block = attention + 2 * width * hidden + 2 * width  # two norms without bias
    expected = vocabulary * width + context * width + layers * block + width + vocabulary * width
    assert parameter_count(Transformer(config)) == expected


def test_parameter_count_counts_shared_tensors_once_and_can_leave_out_frozen_ones() -> None:
    model = tiny()
    assert parameter_count(model) - parameter_count(tiny(tied=True)) == 50 * 24
    model.stem.requires_grad_(False)
    assert parameter_count(model) - parameter_count(model, trainable_only=True) == (50 + 12) * 24


def test_tied_weights_stay_one_tensor_through_training_and_state_dict() -> None:
    model = tiny(tied=True)
    assert model.head.w_vocab.weight is model.stem.tokens.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    next_token_loss(model(tokens()), tokens()).backward()
    optimizer.step()
    assert torch.equal(model.head.w_vocab.weight, model.stem.tokens.weight)

    other = tiny(tied=True)
    other.load_state_dict(model.state_dict())
    assert other.head.w_vocab.weight is other.stem.tokens.weight
    assert torch.equal(other(tokens()), model(tokens()))


def test_the_gradient_of_tied_weights_is_the_sum_of_both_uses() -> None:
    tied, untied = tiny(tied=True), tiny()
    untied.load_state_dict(tied.state_dict())
    for model in (tied, untied):
        next_token_loss(model(tokens()), tokens()).backward()
    both = untied.stem.tokens.weight.grad + untied.head.w_vocab.weight.grad
    torch.testing.assert_close(tied.stem.tokens.weight.grad, both)


@pytest.mark.parametrize("index", range(6))
def test_every_parameter_gets_a_gradient(index: int) -> None:
    model, x = every_model()[index]
    y = model(x)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(2)))
    if isinstance(model, Transformer):  # a position that no token stood on learns nothing
        assert not model.stem.positions.weight.grad[10:].any()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


@pytest.mark.parametrize("index", range(6))
def test_the_same_seed_gives_the_same_weights_and_init_weights_draws_others(index: int) -> None:
    (one, _), (two, _) = every_model()[index], every_model()[index]
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    if hasattr(two, "init_weights"):
        two.init_weights()
        assert not torch.equal(next(one.parameters()), next(two.parameters()))


@pytest.mark.parametrize("build", [tiny, lambda: ResNet((1, 1), width=4, num_classes=5)])
def test_a_model_made_on_meta_can_be_filled_in_later(build) -> None:
    with torch.device("meta"):
        model = build()
    model.to_empty(device="cpu")
    for p in model.parameters():
        p.data.fill_(float("nan"))
    model.init_weights()
    assert all(p.isfinite().all() for p in model.parameters())


def test_the_layers_that_add_to_the_stream_start_narrower() -> None:
    model = tiny(num_layers=8, width=64, bias=True)
    for name, p in model.named_parameters():
        if name.endswith(("w_out.weight", "w_down.weight")):
            assert p.std().item() == pytest.approx(0.02 / 4, rel=0.1)  # 16 additions to the stream
        elif "w_" in name and name.endswith("weight"):
            assert p.std().item() == pytest.approx(0.02, rel=0.1)
        elif "w_" in name:
            assert not p.any()


# Cuts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(6))
def test_pieces_chained_are_the_model(index: int) -> None:
    model, x = every_model()[index]
    model.eval()  # BatchNorm would keep statistics of the first call
    row = pieces(model)
    assert torch.equal(nn.Sequential(*row.values())(x), model(x))
    assert next(iter(row)) == "stem"
    assert list(row)[-1] == "head"
    names = [f"{piece}.{name}" for piece, module in row.items() for name in module.state_dict()]
    assert names == list(model.state_dict())


def test_pieces_are_the_models_own_modules_so_a_cut_in_two_gives_the_same_gradients() -> None:
    model, x = every_model()[3]
    modules = list(pieces(model).values())
    first, second = nn.Sequential(*modules[:20]), nn.Sequential(*modules[20:])
    second(first(x)).square().sum().backward()
    cut = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(cut, model.parameters(), strict=True))


def test_pieces_of_a_model_without_the_outline_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match=r"Linear cannot be listed in pieces.*stem, blocks"):
        pieces(nn.Linear(2, 2))


# Attention --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_kv_heads", [None, 2, 1])
def test_a_later_token_changes_no_earlier_logit_and_its_own(num_kv_heads: int | None) -> None:
    model = tiny(num_kv_heads=num_kv_heads)
    one = tokens()
    for changed in range(10):
        two = one.clone()
        two[:, changed] = (two[:, changed] + 1) % 50
        a, b = model(one), model(two)
        torch.testing.assert_close(a[:, :changed], b[:, :changed], rtol=0, atol=1e-6)
        assert ((a - b).abs().amax(dim=-1)[:, changed:] > 1e-5).all()  # all later positions look back at it


def test_attention_equals_the_textbook_formula() -> None:
    attention, x = tiny(num_kv_heads=2).blocks[0].attention, torch.randn(2, 7, 24)
    q = attention.w_q(x).view(2, 7, 4, 6)
    k = attention.w_k(x).view(2, 7, 2, 6).repeat_interleave(2, dim=2)  # heads 0 and 1 share the first
    v = attention.w_v(x).view(2, 7, 2, 6).repeat_interleave(2, dim=2)
    scores = torch.einsum("bthk,bshk->bhts", q, k) / math.sqrt(6)
    scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    y = torch.einsum("bhts,bshk->bthk", scores.softmax(-1), v).reshape(2, 7, 24)
    torch.testing.assert_close(attention(x), attention.w_out(y))


def test_grouped_heads_with_one_group_for_each_head_are_plain_attention() -> None:
    plain, grouped = tiny(), tiny(num_kv_heads=4)
    assert torch.equal(plain(tokens()), grouped(tokens()))


def test_repeating_shared_key_value_heads_gives_plain_attention() -> None:
    grouped, plain = tiny(num_kv_heads=2), tiny()
    weights = grouped.state_dict()
    for name in [n for n in weights if "w_k." in n or "w_v." in n]:
        weights[name] = weights[name].unflatten(0, (2, 6)).repeat_interleave(2, dim=0).flatten(0, 1)
    plain.load_state_dict(weights)
    torch.testing.assert_close(plain(tokens()), grouped(tokens()))


@pytest.mark.parametrize("num_kv_heads", [4, 2])
def test_attention_on_shares_of_the_heads_adds_up_to_the_whole(num_kv_heads: int) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(**(TINY | {"num_kv_heads": num_kv_heads}))  # type: ignore[arg-type]
    whole, x = Attention(config), torch.randn(2, 7, 24)
    total = torch.zeros(2, 7, 24)
    for share in range(2):  # heads 0, 1 and heads 2, 3, as two ranks would hold them
        part = Attention(config)
        for name, dim in (("w_q", 0), ("w_k", 0), ("w_v", 0), ("w_out", 1)):
            weight = getattr(whole, name).weight.chunk(2, dim=dim)[share]
            getattr(part, name).weight = nn.Parameter(weight.clone())
        total += part(x)
    torch.testing.assert_close(total, whole(x))


def test_dropout_acts_in_training_alone() -> None:
    model = tiny(dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(model(tokens()), model(tokens()))
    model.eval()
    assert torch.equal(model(tokens()), model(tokens()))
    assert torch.equal(model(tokens()), tiny().eval()(tokens()))


def test_without_batch_norm_the_images_of_a_batch_do_not_see_each_other() -> None:
    x = images(6)
    free, bound = SmallCNN(width=4, batch_norm=False), SmallCNN(width=4)
    torch.testing.assert_close(torch.cat([free(x[:2]), free(x[2:])]), free(x))
    assert not torch.allclose(torch.cat([bound(x[:2]), bound(x[2:])]), bound(x), atol=1e-2)


# Loss and learning ------------------------------------------------------------------------------------


def test_next_token_loss_is_the_mean_over_all_positions() -> None:
    logits, targets = torch.randn(3, 4, 5), torch.randint(0, 5, (3, 4))
    picked = logits.log_softmax(-1).gather(-1, targets[..., None])
    torch.testing.assert_close(next_token_loss(logits, targets), -picked.mean())
    torch.testing.assert_close(next_token_loss(logits, targets, reduction="sum"), -picked.sum())
    knows_nothing = next_token_loss(torch.zeros(1, 2, 256), torch.tensor([[7, 8]]))
    assert knows_nothing.item() == pytest.approx(math.log(256))


def test_accuracy_is_the_share_of_right_answers() -> None:
    logits = torch.tensor([[0.0, 1.0], [3.0, 1.0], [0.0, 2.0], [0.0, 9.0]])
    assert accuracy(logits, torch.tensor([1, 0, 1, 0])) == 0.75


def train_on_digits(model: nn.Module, num_steps: int, lr: float) -> float:
    """Accuracy on the test digits after ``num_steps`` batches of 64."""
    train, test = digits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for x, y in itertools.islice(itertools.cycle(loader(train, 64)), num_steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return accuracy(model(test.tensors[0]), test.tensors[1])


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("batch_norm", [True, False])
def test_small_cnn_learns_the_digits(batch_norm: bool) -> None:
    torch.manual_seed(0)
    model = SmallCNN(width=16, batch_norm=batch_norm)
    assert train_on_digits(model, 0, lr=1e-2) < 0.3
    model.train()
    assert train_on_digits(model, 40, lr=1e-2) > 0.9


@pytest.mark.long
def test_a_small_resnet_learns_the_digits() -> None:
    torch.manual_seed(0)
    model = ResNet((1, 1, 1), width=8, num_classes=10, channels=1, small_images=True)
    assert train_on_digits(model, 40, lr=1e-2) > 0.9


@pytest.mark.long
def test_transformer_learns_the_text() -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(context_length=32, num_layers=2, width=64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    train, test = documentation_windows(32)
    # From all over the text, which is another one in each Python: single pages are harder than others.
    x_test, y_test = (torch.stack(part) for part in zip(*[test[i] for i in range(0, len(test), 20)], strict=True))
    assert next_token_loss(model(x_test), y_test).item() == pytest.approx(math.log(256), abs=0.3)
    for x, y in itertools.islice(loader(train, 32), 100):
        optimizer.zero_grad()
        next_token_loss(model(x), y).backward()
        optimizer.step()
    letters = y_test.flatten().bincount(minlength=256) / y_test.numel()
    by_frequency = -(letters[letters > 0] * letters[letters > 0].log()).sum().item()
    after = next_token_loss(model(x_test), y_test).item()
    assert after < by_frequency - 0.2  # more than how often each letter occurs: it uses what came before


# What cannot work -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"width": 130}, r"width=130 is not a multiple of num_heads=4.*nearest width is 132\."),
        ({"width": 2}, r"nearest width is 4\."),
        ({"num_heads": 8, "num_kv_heads": 3}, r"num_kv_heads=3 does not divide num_heads=8.*works is 2\."),
        ({"num_kv_heads": 8}, r"num_kv_heads=8 does not divide num_heads=4.*works is 4\."),
        ({"num_layers": 0}, r"num_layers=0 does not work.*at least 1.*works is 1\."),
        ({"vocab_size": 2.6}, r"vocab_size=2\.6 does not work.*works is 3\."),
        ({"num_heads": True}, r"num_heads=True does not work"),
        ({"hidden": -3}, r"hidden=-3 does not work"),
        ({"dropout": 1.0}, r"dropout=1\.0 is not a share.*Try 0\.9\."),
        ({"dropout": -0.1}, r"Try 0\.0\."),
    ],
)
def test_transformer_sizes_that_cannot_work_are_told(settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TransformerConfig(**settings)


def test_a_sequence_longer_than_the_context_is_told() -> None:
    with pytest.raises(ValueError, match=r"13 tokens is longer than context_length=12\. Cut it to 12"):
        tiny()(tokens(1, 13))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: SmallCNN(width=0), r"width=0 does not work.*works is 1\."),
        (lambda: SmallCNN(0), r"num_classes=0"),
        (lambda: ResNet.preset(60), r"no preset of 60 layers: the paper has 18, 34, 50, 101, 152\..*is 50;"),
        (lambda: ResNet(()), r"at least one stage"),
        (lambda: ResNet((1, 0)), r"layers\[1\]=0 does not work"),
    ],
)
def test_convolutional_sizes_that_cannot_work_are_told(build, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()
