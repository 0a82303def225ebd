"""Which cells of a learner's copy are run: those that the solution's run does not stand for."""

from __future__ import annotations

from course_lib.authoring.testing.unsolved import cells_to_run, names_of

STUB = "def ring(me):\n    raise NotImplementedError"
SOLVED = "def ring(me):\n    return me"


def run(*cells: str, solved: dict[int, str]) -> set[int]:
    return cells_to_run(cells, [solved.get(number, cell) for number, cell in enumerate(cells)])


def test_a_stub_runs_with_what_uses_it_and_what_these_need() -> None:
    cells = ("import torch", "x = 3", "y = 4", STUB, "print(x)", "z = ring(x)", "print(y)", "print(z)")
    assert run(*cells, solved={3: SOLVED}) == {0, 1, 3, 5, 7}


def test_a_name_that_is_made_anew_differs_no_more() -> None:
    cells = (STUB, "run = ring(1)", "run = 5", "print(run)", "for run in (1, 2):\n    print(run)")
    assert run(*cells, solved={0: SOLVED}) == {0, 1}


def test_what_a_method_or_an_index_changed_differs() -> None:
    cells = ("found = []", STUB, "found.append(ring(1))", "print(found)")
    assert run(*cells, solved={1: SOLVED}) == {0, 1, 2, 3}
    cells = ("found = {}", STUB, "found[1] = ring(1)", "other = 1", "print(found)")
    assert run(*cells, solved={1: SOLVED}) == {0, 1, 2, 4}


def test_what_an_earlier_cell_changed_is_needed() -> None:
    cells = ("found = []", "found.append(1)", STUB, "ring(found)")
    assert run(*cells, solved={2: SOLVED}) == {0, 1, 2, 3}


def test_what_is_made_anew_before_it_is_used_is_not_needed() -> None:
    cells = ("sizes = [1]", "print(sizes)", "sizes = [2]", STUB, "ring(sizes)")
    assert run(*cells, solved={3: SOLVED}) == {0, 2, 3, 4}
    cells = ("x = 1", "sizes = [1]", "sizes = [*sizes, 2]", STUB, "ring(sizes)")
    assert run(*cells, solved={3: SOLVED}) == {0, 1, 2, 3, 4}


def test_a_cell_on_the_ranks_needs_those_before_it_and_nothing_of_the_notebook() -> None:
    on_ranks = ("x = 1", "%%ranks -n 2\nx = 2", "%%ranks\nx", "print(x)", STUB)
    assert run(*on_ranks, solved={4: SOLVED}) == {0, 4}
    assert run(*on_ranks, "%%ranks\nx + 1", solved={5: "%%ranks\nx + 2"}) == {0, 1, 2, 5}


def test_a_module_is_not_changed_by_a_call_and_cluster_run_leaves_nothing() -> None:
    cells = (
        "import torch",
        "from course_lib import Cluster",
        "cluster = Cluster(2)",
        STUB,
        "torch.manual_seed(0)\ncluster.run(ring)",
        "torch.ones(1)",
        "cluster.run(print)",
    )
    assert run(*cells, solved={3: SOLVED}) == {0, 1, 2, 3, 4}
    cells = (
        "cluster = Cluster(2)",
        "with cluster.shaped():\n    cluster.run(print)",
        STUB,
        "cluster.run(ring)",
    )
    assert run(*cells, solved={2: SOLVED}) == {0, 2, 3}


def test_what_is_kept_by_an_exercises_name_is_used_by_it() -> None:
    cells = (STUB, 'verdict = check("02.ring", ring)', "other = 1", 'hint("02.ring")')
    assert run(*cells, solved={0: SOLVED}) == {0, 1, 3}


def test_a_question_is_no_difference_and_a_bare_call_is() -> None:
    assert run('ask("02.size")', 'reveal("02.size", 3)', solved={0: 'ask("02.size", 4)'}) == {0}
    assert run("# print(1)", "print(2)", solved={0: "print(1)"}) == {0}
    assert run("print(2)", "# print(1)", solved={1: "print(1)"}) == {0, 1}


def test_names_within_a_function_are_its_own_and_those_of_the_cell_are_needed() -> None:
    names = names_of("def f(a):\n    b = a + c\n    return [g(d) for d in b]")
    assert names.makes == {"f"}
    assert names.uses == {"c", "g"}


def test_magics_and_notebooks_that_do_not_match_run_whole() -> None:
    assert run("x = 1", "%pull x", STUB, solved={2: SOLVED}) == {0, 1, 2}
    assert cells_to_run(["x", "y"], ["x"]) == {0, 1}
    assert cells_to_run(["x", "y"], []) == {0, 1}


def test_a_launch_that_the_solution_shows_is_not_repeated_nor_what_reads_its_results() -> None:
    launch = "found = nodes.torchrun(ring).wait()"
    cells = (STUB, "x = ring(1)", launch, "print(found, x)", "print(x)")
    assert run(*cells, solved={0: SOLVED}) == {0, 1, 4}
    asked = (STUB, launch, "print(found)", "own = count(found)")
    assert run(*asked, solved={0: SOLVED, 3: "own = 3"}) == {0, 1, 3}, "a learner's own cell needs it"
    assert run(STUB, "x = 1", launch, solved={0: SOLVED, 2: f"{launch}  # mended"}) == {0, 2}
