"""A class of the learner's: kept as source with what it needs, used as the course's is, sent to ranks."""

from __future__ import annotations

import pytest
import torch
from own_library import Notebook
from torch import nn

from course_lib.cluster import Cluster
from course_lib.mine import courses, table
from course_lib.mine.files import put
from course_lib.mine.own_class import OwnClass
from course_lib.mine.source.gather import gathered
from course_lib.mine.source.load import made
from course_lib.mine.source.package import version_of
from course_lib.mine.source.piece import NotKeptError
from course_lib.mine.table import LibraryEntry

HELPERS = """
from dataclasses import dataclass
import torch
from torch import nn

SCALE = 2.0


@dataclass
class Bucket:
    size: int = 3


class Base(nn.Module):
    def factor(self):
        return SCALE
"""
SCALER = """
class Scaler(Base):
    '''Scales.'''

    shared = Bucket()

    def __init__(self, model: nn.Module, size: int = 3):
        super().__init__()
        self.model, self.bucket = model, Bucket(size)

    @torch.no_grad()
    def forward(self, x):
        return self.factor() * self.model(x) + self.count

    @property
    def count(self):
        return self.bucket.size

    @staticmethod
    def none():
        return None

    @classmethod
    def of(cls, model):
        return cls(model)
"""


class Scaler(nn.Module):
    """The course's, for these tests."""

    def __init__(self, model, bucket_size=3):
        super().__init__()
        self.model, self.bucket_size = model, bucket_size


@pytest.fixture
def entry(monkeypatch):
    one = LibraryEntry("10.zigzag", "Scaler", "scaling", "scales")
    monkeypatch.setattr(table, "ENTRIES", (*table.ENTRIES, one))
    monkeypatch.setattr(courses, "Scaler", Scaler, raising=False)
    return one


def answer(text=HELPERS + SCALER, name="Scaler"):
    notebook = Notebook()
    notebook.cell(text)
    return notebook[name]


def loaded(folder, entry, own):
    put(folder, entry, gathered(own))
    return made(version_of(folder, entry.module, entry.name))


def test_helpers_bases_and_generated_methods_come_along(entry, tmp_path):
    piece = gathered(answer())
    assert [part.name for part in piece.parts][-1] == "Scaler"
    assert {"Base", "Bucket", "SCALE", "nn", "torch", "dataclass"} <= {part.name for part in piece.parts}
    own = loaded(tmp_path / "mine", entry, answer())
    assert own(nn.Identity(), 1)(torch.ones(2)).tolist() == [3.0, 3.0]
    assert own.of(nn.Identity()).bucket.size == 3


def test_its_helpers_may_stand_in_other_cells(entry, tmp_path):
    notebook = Notebook()
    for text in (HELPERS.replace("size: int = 3", "size: int = 3\n    def twice(self):\n        return 2"), SCALER):
        notebook.cell(text)
    own = loaded(tmp_path / "mine", entry, notebook["Scaler"])
    assert own(nn.Identity())(torch.ones(1)).item() == 5.0


def test_a_newer_class_takes_the_place_of_the_kept_one_which_stays_beside(entry, tmp_path):
    folder = tmp_path / "mine"
    loaded(folder, entry, answer())
    newer = answer(HELPERS + SCALER.replace("+ self.count", "- self.count"))
    copy = put(folder, entry, gathered(newer))
    assert "+ self.count" in (folder / copy).read_text()
    own = made(version_of(folder, entry.module, entry.name))
    assert own(nn.Identity(), 1)(torch.ones(1)).item() == 1.0


def patched():
    own = answer()
    own.forward = answer("def forward(self, x):\n    return x", "forward")
    return own


def patched_by_a_lambda():
    notebook = Notebook()
    notebook.cell(HELPERS + SCALER)
    notebook.cell("Scaler.count = property(lambda self: 7)")
    return notebook["Scaler"]


def patched_helper():
    notebook = Notebook()
    notebook.cell(HELPERS + SCALER)
    notebook.cell("Base.factor = lambda self: 7")
    return notebook["Scaler"]


def within_a_function():
    body = (HELPERS + SCALER).replace("\n", "\n    ")
    return answer(f"def make():{body}\n    return Scaler\nScaler = make()")


def without_a_text():
    space = {"__name__": "__main__"}
    exec("class Scaler:\n    def f(self):\n        return 1", space)
    return space["Scaler"]


def without_methods():
    return answer("class Scaler:\n    size = 3")


def with_a_tensor():
    return answer("import torch\nW = torch.ones(2)\nclass Scaler:\n    def f(self):\n        return W")


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (patched, "`forward` was put into it after it was defined. Write it into the class"),
        (patched_by_a_lambda, "`count` was put into it after it was defined"),
        (patched_helper, "`factor` was put into its helper `Base` after it was defined"),
        (within_a_function, "made within a function. Define it at the top of a cell"),
        (without_a_text, r"no method of its own|text of it is not there any more"),
        (without_methods, "no method of its own. Write it as a class with methods"),
        (with_a_tensor, "`W` of the notebook, a Tensor, which cannot be written down"),
    ],
)
def test_a_class_that_cannot_be_kept_is_told_why(own, says):
    with pytest.raises(NotKeptError, match=says):
        gathered(own())


# -- as lessons use it -----------------------------------------------------------------------------------------------


@pytest.fixture
def own_class(entry, tmp_path):
    return OwnClass("Scaler", loaded(tmp_path / "mine", entry, answer()))


def test_it_is_made_with_the_parameters_of_the_courses(own_class):
    """The learner calls the second one `size`."""
    assert own_class(nn.Identity(), bucket_size=1).bucket.size == 1
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        own_class(nn.Identity(), size=1)


def test_it_can_be_asked_by_isinstance_and_derived_from(own_class):
    one = own_class(nn.Identity())
    assert isinstance(one, own_class)
    assert not isinstance(3, own_class)
    assert own_class.none() is None
    assert own_class.__doc__ == "Scales."

    class Wider(own_class):
        def factor(self):
            return 1.0

    assert issubclass(Wider, own_class)
    assert Wider(nn.Identity())(torch.ones(1)).item() == 4.0
    with pytest.raises(AttributeError, match="no attribute 'all'"):
        _ = own_class.all


def test_what_it_raises_names_whose_it_is(own_class):
    with pytest.raises(TypeError) as told:
        own_class(nn.Identity(), 1, 2)
    assert any("mine.Scaler is yours (mine/scaling.py)" in note for note in told.value.__notes__)


def test_it_goes_to_ranks_by_value(tmp_path):
    """Under a name that ranks have in their table too."""
    one = LibraryEntry("10.zigzag", "ring_all_reduce", "scaling", "scales")
    notebook = Notebook()
    notebook.cell(HELPERS + SCALER.replace("Scaler", "ring_all_reduce"))
    own = OwnClass("ring_all_reduce", loaded(tmp_path / "mine", one, notebook["ring_all_reduce"]))
    with Cluster(2) as cluster:
        run = cluster.run(lambda me, own: own(nn.Identity(), me.rank)(torch.ones(1)).item(), own)
    assert run.results == {0: 2.0, 1: 3.0}
