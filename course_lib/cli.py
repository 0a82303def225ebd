"""The command `course`: one verb, handed on to the module that does it, which is imported only then."""

from __future__ import annotations

import difflib
import importlib
import os
import select
import sys
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["VERBS", "Verb", "help_text", "main", "verb_of"]

# Here the standard library is all there is: ./course reads this module before anything is installed.


@dataclass(frozen=True)
class Verb:
    """A verb: where its `main(argv) -> int` lives, and one line on what it does."""

    home: str
    summary: str


VERBS = {
    "lab": Verb("course_lib.lab", "open JupyterLab at the first lesson, reachable from this machine alone"),
    "find": Verb("course_lib.search", "say where lessons, glossary, docs and the library speak of something"),
    "start": Verb("course_lib.start_page", "say what you have done, what comes next, and what to answer again"),
    "test": Verb("course_lib.authoring.testing", "run every check: lint, types, unit tests, notebooks"),
    "doctor": Verb("course_lib.doctor", "say what this machine can run, and what to do about the rest"),
    "build": Verb("course_lib.authoring.notebooks.cli", "make the notebooks from their sources in notebooks/src"),
    "plan": Verb("course_lib.plan_command", "list every way to cut a model onto GPUs, ranked, and why not the others"),
    "trace": Verb("course_lib.traces", "say where a job's time went, by its traces of torch.profiler"),
    "nodes": Verb("course_lib.cluster.nodes.command", "have the ranks of your notebooks on other machines too, by ssh"),
    "class": Verb("course_lib.classroom", "for an instructor with a class on one machine, and for those in it"),
    "mine": Verb(
        "course_lib.mine.terminal.command", "show your own library: what you have built, and what of it passes"
    ),
    "export": Verb("course_lib.export", "put your work into one page of HTML, with what you predicted and passed"),
    "site": Verb("course_lib.authoring.site", "make the course a folder of pages for reading, answers folded"),
    "bench": Verb("course_lib.authoring.bench", "measure the library itself, as in `course bench launch`"),
    "new": Verb("course_lib.authoring.new", "write what can be written of a new exercise or lesson part"),
    "pictures": Verb("course_lib.authoring.pictures", "draw the pictures of the lessons, again"),
}
_HELP = {"-h", "--help", "help"}


def help_text() -> str:
    """What `course --help` prints."""
    width = max(map(len, VERBS))
    lines = [f"    course {name:<{width}}  {verb.summary}" for name, verb in VERBS.items()]
    head = "One Model, Many GPUs: a course in notebooks. In a clone of it, type ./course in place of course."
    tail = "`course VERB --help` tells the options of one of them; `course --version` tells the version."
    return "\n".join([head, "", *lines, "", tail])


def verb_of(argv: Sequence[str]) -> str | None:
    """The verb that a command line asks for; None for help, the version, or a word that is no verb."""
    return argv[0] if argv and argv[0] in VERBS else None


def _unknown(word: str) -> str:
    near = difflib.get_close_matches(word.lower().lstrip("-"), VERBS, n=1, cutoff=0.5)
    guess = f" Did you mean `course {near[0]}`?" if near else ""
    return f"course: there is no verb {word!r}; there are {', '.join(VERBS)}.{guess}"


def _last_file(error: BaseException) -> str:
    """The file whose line has raised it."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        trace, found = trace.tb_next, trace.tb_frame.f_code.co_filename
    return found


def _again() -> str:
    """How to have the packages: where ./course has made the environment, it says that all is there."""
    from course_lib.base import paths

    if paths.is_installed():
        return f"Install what the course asks for: {sys.executable} -m pip install {paths.PACKAGE}"
    if os.path.exists(os.path.join(sys.prefix, "course-ready")):
        return f"Where requirements.txt lists it, part of it has gone: delete {sys.prefix}; ./course makes it again."
    return "Install the packages with `python -m pip install -r requirements.txt`, or use ./course, which does it."


def _reader_has_left() -> bool:
    """Whether nobody reads standard output any more, as after `| head`: then Python has nothing to say at exit."""
    try:
        stdout = sys.stdout.fileno()
        poll = select.poll()
    except (AttributeError, OSError, ValueError):  # no file, or a system that has no poll
        return False
    poll.register(stdout, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)
        return True
    return False


def _run(verb: str, argv: list[str]) -> int:
    """Import the verb's module and run it; turn a missing package and Ctrl-C into sentences."""
    home = VERBS[verb].home
    try:
        code = int(importlib.import_module(home).main(argv) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        if not _reader_has_left():
            raise
        return 0
    except ModuleNotFoundError as error:
        name = error.name or "?"
        if name.split(".")[0] == "course_lib":
            raise
        print(
            f"course {verb} needs the package {name!r}, which {sys.executable} does not have. {_again()}",
            file=sys.stderr,
        )
        return 1
    except ImportError as error:  # a file of a package has gone, and others still ask for it
        asking = _last_file(error)
        within = asking.removeprefix(sys.prefix + os.sep)
        if within == asking or "course_lib" in within:
            raise
        print(f"course {verb}: a package is not whole: {error}. {_again()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\ncourse {verb}: stopped.", file=sys.stderr)
        return 130
    except ValueError as error:  # of ours, one that a sentence tells and a stack would only bury
        if not hasattr(error, "_render_traceback_"):
            raise
        print(f"course {verb}: {error}", file=sys.stderr)
        return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 for success, 2 for a command line that says nothing known."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) > 1 and words[0] in _HELP:
        words = [words[1], "--help"]  # `course help lab`
    verb = verb_of(words)
    if verb is not None:
        return _run(verb, words[1:])
    if words == ["--version"]:
        from course_lib import __version__

        print(__version__)
        return 0
    if not words or words[0] in _HELP:
        print(help_text())
        return 0
    print(_unknown(words[0]), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
