"""The partition of a model into units: which parameters are unsharded together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.at_rest import ShardedParameter
from course_lib.parallel.sharded.unit import Unit

__all__ = ["Units", "divide"]

Units = Sequence[nn.Module | Sequence[nn.Module]]


def divide(members: Members, model: nn.Module, units: Units | None, **options: Any) -> list[Unit]:
    """Cut every parameter of ``model`` into shards, and return its units; the first is what no other unit has.

    A parameter belongs to the innermost unit around it. ``ValueError`` where a unit is no part of the model or is
    named twice, and where a parameter belongs to two units.
    """
    groups = [[model], *_groups(model, default_units(model) if units is None else units)]
    group_of = _owners(model, groups)
    names = {module: name for name, module in model.named_modules()}

    holders_of: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for attribute, parameter in module._parameters.items():
            if parameter is not None:
                holders_of.setdefault(parameter, []).append((module, attribute))
    members_of: dict[int, list[ShardedParameter]] = {}
    for parameter, holders in holders_of.items():
        owners = {group_of[module] for module, _ in holders}
        holder_names = [f"{names[module]}.{attribute}".lstrip(".") for module, attribute in holders]
        if len(owners) > 1:
            raise ValueError(
                f"{' and '.join(holder_names)} are one tied parameter in {len(owners)} units. Each unit would gather "
                "a copy of its own, and the copies would differ. Put the modules that share it into one unit: "
                f"units=[[{', '.join('model.' + names[module] for module, _ in holders)}], ...]."
            )
        sharded = ShardedParameter(members, holder_names[0], parameter, holders)
        members_of.setdefault(owners.pop(), []).append(sharded)
    return [Unit(members, _name_of(groups[i], names), groups[i], members_of[i], **options) for i in sorted(members_of)]


def default_units(model: nn.Module) -> list[nn.Module]:
    """The members of the model's outermost lists of modules: the blocks of a transformer, the layers of a
    Sequential."""
    if isinstance(model, nn.ModuleList | nn.Sequential):
        return list(model)
    return [unit for child in model.children() for unit in default_units(child)]


def _groups(model: nn.Module, units: Units) -> list[list[nn.Module]]:
    groups = [[unit] if isinstance(unit, nn.Module) else list(unit) for unit in units]
    inside = set(model.modules())
    seen: set[nn.Module] = set()
    for module in (module for group in groups for module in group):
        if not isinstance(module, nn.Module) or module not in inside:
            raise ValueError(
                f"units has a {type(module).__name__} that is no part of the model. A unit is a module of the model "
                "or a list of modules, such as list(model.blocks)"
            )
        if module in seen:
            raise ValueError(f"units has the same {type(module).__name__} twice; once is enough")
        seen.add(module)
    return [group for group in groups if group and model not in group]


def _owners(model: nn.Module, groups: list[list[nn.Module]]) -> dict[nn.Module, int]:
    """For every module the innermost group around it."""
    group_of_unit = {module: i for i, group in enumerate(groups) for module in group}
    owners: dict[nn.Module, int] = {}

    def visit(module: nn.Module, owner: int) -> None:
        owner = group_of_unit.get(module, owner)
        if module in owners:
            return
        owners[module] = owner
        for child in module.children():
            visit(child, owner)

    visit(model, 0)
    return owners


def _name_of(group: list[nn.Module], names: dict[nn.Module, str]) -> str:
    return " and ".join(names[module] for module in group) or "the model itself"
