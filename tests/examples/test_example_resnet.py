"""The program's own ResNet: the course's other one computes the same, and torchvision's weights fit."""

from __future__ import annotations

import pytest
import torch

from course_lib.examples.train_ddp.beginning import begin_with
from course_lib.examples.train_ddp.resnet import ResNet
from course_lib.examples.train_ddp.settings import SettingsError
from course_lib.models import ResNet as CourseResNet


@pytest.mark.parametrize(("layers", "num_parameters"), [(18, 11_689_512), (50, 25_557_032), (152, 60_192_808)])
def test_as_many_parameters_as_published(layers, num_parameters):
    with torch.device("meta"):
        model = ResNet(layers, num_classes=1000)
    assert sum(p.numel() for p in model.parameters()) == num_parameters


@pytest.mark.parametrize("layers", [18, 50])
@pytest.mark.parametrize("small_images", [True, False])
def test_it_computes_what_the_courses_network_computes(layers, small_images):
    torch.manual_seed(0)
    model = ResNet(layers, num_classes=7, width=4, small_images=small_images).double()
    other = CourseResNet.preset(layers, num_classes=7, width=4, small_images=small_images).double()
    weights = zip(other.state_dict(), model.state_dict().values(), strict=True)  # they stand in the same order
    other.load_state_dict(dict(weights))
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(model(x), other(x))
    torch.testing.assert_close(model.bn1.running_mean, other.stem[1].running_mean)


def test_its_names_are_those_of_torchvision():
    names = list(ResNet(50, num_classes=1000, width=2).state_dict())
    for name in (
        "conv1.weight", "bn1.running_var", "layer1.0.conv3.weight", "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.num_batches_tracked", "layer3.5.bn2.bias", "fc.weight", "fc.bias",
    ):  # fmt: skip
        assert name in names
    torchvision = pytest.importorskip("torchvision")
    assert names == list(torchvision.models.resnet50().state_dict())


# -- weights to begin with ----------------------------------------------------------------------------------------


def small(num_classes: int = 3, width: int = 2, seed: int = 0) -> ResNet:
    torch.manual_seed(seed)
    return ResNet(18, num_classes=num_classes, width=width, small_images=True)


def test_weights_of_a_file_are_taken_over(tmp_path):
    source, path = small(seed=1), str(tmp_path / "weights.pth")
    for saved in (source.state_dict(), {"model": source.state_dict(), "epoch": 3}):
        torch.save(saved, path)
        model = small()
        assert begin_with(model, path, 18) == f"Begins with {path}."
        assert all(torch.equal(tensor, source.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_other_classes_get_a_new_classifier(tmp_path):
    source, path, model = small(num_classes=1000, seed=1), str(tmp_path / "weights.pth"), small()
    torch.save(source.state_dict(), path)
    own = model.fc.weight.detach().clone()
    assert begin_with(model, path, 18).endswith("and a new classifier.")
    assert torch.equal(model.fc.weight, own)
    assert torch.equal(model.layer4[1].conv2.weight, source.layer4[1].conv2.weight)


def test_weights_that_do_not_fit(tmp_path, monkeypatch):
    path = tmp_path / "weights.pth"
    torch.save(small(width=4).state_dict(), path)
    with pytest.raises(SettingsError, match=r"does not fit: conv1.weight is \(2, 3, 3, 3\) here, \(4, 3, 3, 3\) there"):
        begin_with(small(), str(path), 18)
    torch.save({"something": torch.ones(1)}, path)
    with pytest.raises(SettingsError, match=r"conv1.weight is \(2, 3, 3, 3\) here, nothing there"):
        begin_with(small(), str(path), 18)
    path.write_bytes(b"half a file")
    with pytest.raises(SettingsError, match="is no checkpoint, or was cut off, or damaged"):
        begin_with(small(), str(path), 18)
    monkeypatch.setitem(__import__("sys").modules, "torchvision.models", None)
    with pytest.raises(
        SettingsError, match="there is no such file, and torchvision, which has weights by name, cannot"
    ):
        begin_with(small(), "IMAGENET1K_V2", 18)


def test_names_that_torchvision_does_not_know():
    pytest.importorskip("torchvision")
    with pytest.raises(
        SettingsError, match=r"there is no such file, and torchvision has IMAGENET1K_V1, .*for 18 layers"
    ):
        begin_with(small(), "IMAGENET22K", 18)
