"""An answer put into the text of a module: added, or in the place of an earlier one; nothing else is touched."""

from __future__ import annotations

import ast

from course_lib.mine.source.piece import AnswerSource, NotKeptError, SourcePart
from course_lib.mine.source.statements import Statement, lines_of, slice_of, statements_of

__all__ = ["merged"]

_REPLACED = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def merged(text: str, piece: AnswerSource, name: str, *, file: str) -> tuple[str, bool]:
    """The text with ``piece`` in it under ``name``, and whether something that stood there was replaced.

    Helpers of the one that it replaces are replaced too, where nothing else in the file reads them.

    Raises:
        NotKeptError: The text is no Python, or has another thing under a name that the piece needs.
    """
    try:
        statements_of(text)
    except SyntaxError as error:
        raise NotKeptError(
            f"{file} has a syntax error on line {error.lineno}, and nothing is written over. Mend the file or move it "
            "away, then run this check again."
        ) from None
    parts = list(piece.parts)
    if piece.answer != name:
        parts.append(SourcePart(name, f"{name} = {piece.answer}"))
    replaced = False
    for part in parts:
        text, changed = _put(text, part, {piece.answer, name}, name, file)
        replaced |= changed
    ast.parse(text)
    return text, replaced


def _put(text: str, part: SourcePart, answers: set[str], name: str, file: str) -> tuple[str, bool]:
    every = statements_of(text)
    there = [one for one in every if part.name in one.binds]
    if any(_same(one, part) for one in there) and len(there) == 1:
        return text, False
    if not there:
        return _added(text, part, every, name), False
    if part.name not in answers:
        _need_free(part, every, there, answers, file)
    one = there[-1]
    if len(there) > 1 or not isinstance(one.node, _REPLACED) or one.binds != {part.name}:
        raise NotKeptError(
            f"`{part.name}` is made in {file} in a way that is not touched here (line {one.first}). Move that away, "
            "then run this check again."
        )
    lines = lines_of(text)
    lines[one.first - 1 : one.last] = lines_of(part.text)
    return "\n".join(lines) + "\n", True


def _same(one: Statement, part: SourcePart) -> bool:
    """Whether a statement of the file binds the name to the same thing."""
    if not part.is_import:
        return _lines(one.text) == _lines(part.text)
    if not isinstance(one.node, ast.Import | ast.ImportFrom):
        return False
    wanted = ast.parse(part.text).body[0]
    return _bound_to(wanted, part.name) == _bound_to(one.node, part.name)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _bound_to(node: ast.stmt, name: str) -> tuple[str, ...]:
    """What an import binds to a name: the module, and the name within it."""
    assert isinstance(node, ast.Import | ast.ImportFrom)
    for alias in node.names:
        if (alias.asname or alias.name.partition(".")[0]) == name:
            if isinstance(node, ast.ImportFrom):
                return "." * node.level + (node.module or ""), alias.name
            return (alias.name,)
    return ()


def _need_free(
    part: SourcePart, every: tuple[Statement, ...], there: list[Statement], answers: set[str], file: str
) -> None:
    """Raise where something else than the answer that is replaced reads what stands under this name."""
    its_own = set(slice_of(every, answers))
    others = [one for one in every if one not in its_own]
    readers = [one for one in others if not set(there).isdisjoint(slice_of(every, one.binds))]
    if readers or not any(one in its_own for one in there):
        whose = "something else there uses" if readers else "is no part of the answer that yours replaces"
        raise NotKeptError(
            f"{file} has another `{part.name}`, which {whose}. Call yours by another name in the "
            "cell, run the cell, then run this check again."
        )


def _added(text: str, part: SourcePart, every: tuple[Statement, ...], name: str) -> str:
    """Imports after the last import, or after what says what the file is; helpers before the answer; or at the end."""
    lines = lines_of(text)
    if part.is_import:
        imports = [one.last for one in every if isinstance(one.node, ast.Import | ast.ImportFrom)]
        head = every[0].last if every and isinstance(every[0].node, ast.Expr) else 0
        at = imports[-1] if imports else head
        own = lines_of(part.text) if imports or not head else ["", *lines_of(part.text)]
        lines[at:at] = own
        return "\n".join(lines) + "\n"
    own = lines_of(part.text)
    answer = next((one for one in every if name in one.binds and part.name != name), None)
    if answer is not None:
        lines[answer.first - 1 : answer.first - 1] = [*own, "", ""]
        return "\n".join(lines) + "\n"
    while lines and not lines[-1].strip():
        lines.pop()
    return "\n".join([*lines, "", "", *own]) + "\n"
