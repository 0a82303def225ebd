"""A version of a function made to run: its statements, and those of its package that it needs, and nothing else.

The modules that come of it stand in no ``sys.modules``, so cloudpickle sends them by value: the function comes to the
ranks with its helpers.
"""

from __future__ import annotations
import __future__

import ast
import builtins
from types import ModuleType
from typing import Any

from course_lib.learn.sandbox.sandbox import TimeIsUp, kept_state, time_limit
from course_lib.mine.source.package import CannotLoadError, Version
from course_lib.mine.source.statements import Statement, own_module

__all__ = ["made"]

_LIMIT_S = 10.0  # for definitions; the imports among them are not counted


def made(version: Version) -> Any:
    """What the name of this version stands for. This runs the learner's definitions; ask before whether it may.

    Raises ``CannotLoadError`` where they fail, or take over 10 s.
    """
    modules: dict[str, ModuleType] = {}
    try:
        with kept_state(), time_limit(_LIMIT_S):
            return vars(_module(version, version.module, modules))[version.name]
    except CannotLoadError:
        raise
    except TimeIsUp:
        raise CannotLoadError(f"mine/{version.module}.py takes over {_LIMIT_S:g} s to define it") from None
    except (Exception, SystemExit) as error:
        raise CannotLoadError(
            f"mine/{version.module}.py fails where it defines it ({type(error).__name__}: {error})"
        ) from None


def _module(version: Version, name: str, modules: dict[str, ModuleType]) -> ModuleType:
    if name in modules:
        return modules[name]
    module = modules[name] = ModuleType(f"_mine.{name}")
    path = str(version.folder / f"{name}.py")
    space = vars(module)
    space |= {"__file__": path, "__builtins__": builtins}
    flags = _flags(version.needed[name])
    for statement in version.needed[name]:
        if own_module(statement.node) is not None:
            _bind(version, statement, space, modules)
        elif not statement.is_future:
            tree = ast.Module([statement.node], type_ignores=[])
            exec(compile(tree, path, "exec", flags=flags, dont_inherit=True), space)
    return module


def _bind(version: Version, statement: Statement, space: dict[str, Any], modules: dict[str, ModuleType]) -> None:
    """Do what an import of the own package asks for, from the version's own text."""
    node = statement.node
    assert isinstance(node, ast.Import | ast.ImportFrom)
    source = own_module(node)
    for alias in node.names:
        if isinstance(node, ast.Import) or not source:
            wanted = source or alias.name
            space[alias.asname or wanted] = _module(version, wanted, modules)
        else:
            found = vars(_module(version, source, modules))
            if alias.name not in found:
                raise CannotLoadError(f"mine/{source}.py has no {alias.name} yet where it is imported: in a circle?")
            space[alias.asname or alias.name] = found[alias.name]


def _flags(statements: tuple[Statement, ...]) -> int:
    """Of the compiler, by the ``from __future__ import`` lines."""
    names = {alias.name for one in statements if one.is_future for alias in getattr(one.node, "names", ())}
    flags = 0
    for name in names & set(__future__.all_feature_names):
        flags |= getattr(__future__, name).compiler_flag
    return flags
