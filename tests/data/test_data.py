"""Digits, documentation text, generated images: what they hold, and that they can be learnt."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

from course_lib.data import (
    ByteTokenizer,
    TextWindows,
    digits,
    documentation_text,
    documentation_windows,
    generated_images,
    loader,
)
from course_lib.models import SmallCNN, accuracy

digits_module = importlib.import_module("course_lib.data.digits")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def everything(dataset) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = zip(*(dataset[i] for i in range(len(dataset))), strict=True)
    return torch.stack(x), torch.as_tensor(y)


# Digits -----------------------------------------------------------------------------------------------


def test_digits_are_all_there_once_and_scaled() -> None:
    train, test = digits()
    assert len(train) == 1438
    assert len(test) == 359
    x, y = train.tensors
    assert x.shape == (1438, 1, 8, 8)
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64
    assert x.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert x.std().item() == pytest.approx(1.0, abs=1e-5)
    counts = torch.cat([y, test.tensors[1]]).bincount(minlength=10)
    # As scikit-learn describes them.
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    images, labels = digits_module._read()
    expected_images, expected_labels = load_digits(return_X_y=True)
    assert torch.equal(images.flatten(1), torch.from_numpy(expected_images).float())
    assert torch.equal(labels, torch.from_numpy(expected_labels))


def test_digits_are_found_when_scikit_learn_moves_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = digits_module._read()
    monkeypatch.setattr(digits_module.Path, "is_file", lambda _: False)
    again = digits_module._read()
    assert torch.equal(again[0], images)
    assert torch.equal(again[1], labels)


def test_the_seed_cuts_the_digits_the_same_way_each_time_and_another_seed_another_way() -> None:
    one, two, other = digits(), digits(), digits(seed=1)
    assert torch.equal(one.train.tensors[0], two.train.tensors[0])
    assert torch.equal(one.test.tensors[1], two.test.tensors[1])
    assert not torch.equal(one.train.tensors[1], other.train.tensors[1])


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0, 0.0001, 0.9999])
def test_a_share_that_leaves_a_part_of_the_digits_empty_is_told(share: float) -> None:
    with pytest.raises(ValueError, match=rf"test_share={share} leaves no digits.*usual value is 0\.2"):
        digits(test_share=share)


def test_missing_scikit_learn_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits_module, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="pip install scikit-learn"):
        digits()


# Text -------------------------------------------------------------------------------------------------


def test_documentation_text_is_the_same_for_every_python() -> None:
    text = documentation_text()
    assert 'The "assert" statement' in text
    assert text.index('The "assert" statement') < text.index('The "with" statement')  # ordered by topic
    digest = hashlib.sha256(text.encode()).hexdigest()  # the losses on the pages are those on this text
    assert digest == "2a95af4ac93f5b719944030ce3769070ddf827d847cba42192afa8da989e5dc4"


def test_documentation_text_needs_no_documentation_of_the_running_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    documentation_text.cache_clear()
    assert len(documentation_text()) == 465_048


@pytest.mark.parametrize("text", ["", "plain", "Zürich → 東京 🙂\n\t\x00"])
def test_tokenizer_gives_back_any_text(text: str) -> None:
    tokenizer = ByteTokenizer()
    tokens = tokenizer.encode(text)
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == list(text.encode())
    assert tokenizer.decode(tokens) == text


def test_tokenizer_gives_back_the_documentation_and_shows_broken_letters() -> None:
    tokenizer, text = ByteTokenizer(), documentation_text()
    tokens = tokenizer.encode(text)
    assert tokens.max() < tokenizer.vocab_size == 256
    assert tokenizer.decode(tokens) == text
    assert tokenizer.decode(torch.tensor([65, 255, 66])) == "A\ufffdB"


@pytest.mark.parametrize(
    ("num_tokens", "length", "stride", "starts"),
    [
        (9, 4, None, [0, 4]),  # 9 = 2 windows of 4 and the last target
        (8, 4, None, [0]),  # the second window would lack its last target
        (5, 4, None, [0]),
        (9, 4, 2, [0, 2, 4]),
        (9, 4, 1, [0, 1, 2, 3, 4]),
        (9, 2, 5, [0, 5]),
    ],
)
def test_windows_show_each_token_and_the_one_after(num_tokens, length, stride, starts) -> None:
    windows = TextWindows(torch.arange(num_tokens), length, stride=stride)
    assert len(windows) == len(starts)
    for i, start in enumerate(starts):
        x, y = windows[i]
        assert x.tolist() == list(range(start, start + length))
        assert y.tolist() == list(range(start + 1, start + length + 1))
    assert torch.equal(windows[-1][0], windows[len(windows) - 1][0])
    with pytest.raises(IndexError, match=f"no window {len(windows)}"):
        windows[len(windows)]


def test_documentation_windows_keep_the_test_part_apart() -> None:
    train, test = documentation_windows(50)
    whole = ByteTokenizer().encode(documentation_text())
    assert torch.equal(torch.cat([train.tokens, test.tokens]), whole)
    assert len(test.tokens) / len(whole) == pytest.approx(0.1, abs=0.001)
    assert len(train) == (len(train.tokens) - 1) // 50


def test_windows_that_cannot_be_made_are_told() -> None:
    with pytest.raises(ValueError, match=r"needs 5 of them.*has 4\. The longest window is 3\."):
        TextWindows(torch.arange(4), 4)
    with pytest.raises(ValueError, match=r"length=0 does not work"):
        TextWindows(torch.arange(4), 0)
    with pytest.raises(ValueError, match=r"stride=0 does not work"):
        TextWindows(torch.arange(4), 2, stride=0)
    with pytest.raises(ValueError, match=r"test_share=0\.0 with windows of 64"):
        documentation_windows(64, test_share=0.0)
    with pytest.raises(ValueError, match=r"windows of 400000 tokens leaves one of the two parts"):
        documentation_windows(400_000)


# Generated images -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "channels"), [(1, 1), (8, 1), (33, 3), (224, 4)])
def test_generated_images_come_in_any_size(size: int, channels: int) -> None:
    image, label = generated_images(3, size, channels=channels)[2]
    assert image.shape == (channels, size, size)
    assert image.dtype == torch.float32
    assert isinstance(label, int)


def test_a_generated_image_depends_on_seed_and_index_alone() -> None:
    data = generated_images(20, 16)
    backwards = {i: data[i] for i in reversed(range(20))}
    torch.manual_seed(99)
    again = generated_images(1000, 16)  # a longer set begins with the same images
    for i, (image, label) in backwards.items():
        assert torch.equal(again[i][0], image)
        assert again[i][1] == label
    assert torch.equal(data[-1][0], data[19][0])
    assert not torch.equal(data[0][0], data[1][0])
    assert not torch.equal(data[0][0], generated_images(20, 16, seed=1)[0][0])


def test_generated_images_are_scaled_and_their_classes_balanced() -> None:
    x, y = everything(generated_images(1000, 16))
    assert x.mean().item() == pytest.approx(0.0, abs=0.05)
    assert x.std().item() == pytest.approx(1.0, abs=0.1)
    counts = y.bincount(minlength=10)
    assert len(counts) == 10
    assert counts.min() > 60


@pytest.mark.long
def test_generated_images_can_be_learnt_and_only_by_their_stripes() -> None:
    torch.manual_seed(0)
    model = SmallCNN(channels=3, width=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x, y in loader(generated_images(3200, 16), 64, shuffle=False):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    x, y = everything(generated_images(300, 16, seed=1))
    model.eval()
    with torch.no_grad():
        assert accuracy(model(x), y) > 0.8
        pixels = torch.randperm(16 * 16, generator=torch.Generator().manual_seed(0))
        mixed = x.flatten(2)[:, :, pixels].view_as(x)  # same colours, no stripes
        assert accuracy(model(mixed), y) < 0.25


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_images": 0}, r"num_images=0 does not work.*works is 1\."),
        ({"num_images": 4, "size": 0}, r"size=0 does not work"),
        ({"num_images": 4, "num_classes": 0}, r"num_classes=0 does not work"),
        ({"num_images": 4, "channels": 0}, r"channels=0 does not work"),
        ({"num_images": 4, "seed": -1}, r"seed=-1 does not work.*works is 0\."),
    ],
)
def test_generated_images_that_cannot_be_made_are_told(settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        generated_images(**settings)
    with pytest.raises(IndexError, match="numbered 0 to 3"):
        generated_images(4)[4]
