"""Which namespaces have changed: by the version that CPython keeps in a dict, or by their values."""

from __future__ import annotations

import gc
import sys

import pytest

from course_lib.cluster.state.dict_versions import Tables, _has_versions

WAYS = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(not _has_versions(), reason="this Python has none")),
]


class EqualToAll:
    def __eq__(self, other):
        return True

    __hash__ = None


class RaisesWhenCompared:
    def __eq__(self, other):
        raise RuntimeError("never asked")

    __hash__ = None


def clear_and_fill(names):
    values = dict(names)
    names.clear()
    names.update(values | {"size": 0})


CHANGES = {
    "another value": lambda names: names.update(size=object()),
    "a value that equals all": lambda names: names.update(size=EqualToAll()),
    "a name more": lambda names: names.update(more=1),
    "a name less": lambda names: names.pop("size"),
    "a name for a name": lambda names: names.update(other=names.pop("size")),
    "many names": lambda names: names.update({f"name_{number}": 0 for number in range(1000)}),
    "emptied": lambda names: names.clear(),
    "emptied and filled": clear_and_fill,
}


def namespaces():
    return [{"first": 1}, {"size": 8, "odd": RaisesWhenCompared()}, {}]


@pytest.mark.parametrize("by_version", WAYS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_once(by_version, change):
    names = namespaces()
    tables = Tables(names, by_version=by_version)
    assert tables.changed() == []
    change(names[1])
    assert tables.changed() == [1]
    assert tables.changed() == []


@pytest.mark.parametrize("by_version", WAYS)
def test_each_changed_namespace_is_named(by_version):
    names = namespaces()
    tables = Tables(names, by_version=by_version)
    names[0]["first"] = 2
    names[2]["new"] = None
    assert tables.changed() == [0, 2]


@pytest.mark.parametrize("by_version", WAYS)
def test_the_same_value_set_again_is_no_change(by_version):
    names = namespaces()
    tables = Tables(names, by_version=by_version)
    names[1]["odd"] = names[1]["odd"]
    assert tables.changed() == []


@pytest.mark.parametrize("by_version", WAYS)
def test_attributes_of_a_class_and_names_of_a_module_count(by_version):
    kind = type("Kind", (), {"value": 1})
    module = type(sys)("module")
    of_kind = next(one for one in gc.get_referents(vars(kind)) if isinstance(one, dict))
    tables = Tables([of_kind, vars(module)], by_version=by_version)
    kind.value = 2
    assert tables.changed() == [0]
    module.name = 1
    assert tables.changed() == [1]


def test_versions_are_used_where_a_python_has_them():
    if sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 14):
        assert _has_versions()
