"""What nbgrader is told of the course: the text of ``nbgrader_config.py`` in the folder of assignments."""

from __future__ import annotations

__all__ = ["CONFIG"]

CONFIG = '''\
"""Settings of nbgrader for assignments of "One Model, Many GPUs", written by `course build --nbgrader`.

Run nbgrader in this folder, with the Python that runs the course.
"""

c = get_config()  # noqa: F821 - nbgrader defines it

c.CourseDirectory.course_id = "one-model-many-gpus"

# The learner's copy gets the stubs of the course; the rest of this list and of the next is nbgrader's own.
c.GenerateAssignment.preprocessors = [
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "nbgrader.preprocessors.LockCells",
    "course_lib.authoring.notebooks.assignments.steps.CourseStubs",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# A check that somebody has deleted is put back, and scores as any other; a copy of one is a plain cell.
c.Autograde.sanitize_preprocessors = [
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "course_lib.authoring.notebooks.assignments.steps.RestoredCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.OverwriteCells.add_missing_cells = True

# Points come from errors alone: what a library writes to stderr costs nothing.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = ".*"

# Against cells that hang, in seconds; a check gives up before. A busy machine needs the time.
c.Execute.timeout = 600
c.Execute.startup_timeout = 600
c.Execute.iopub_timeout = 60

# A file named like a module, handed in beside a notebook, is not imported in its place.
c.Execute.extra_arguments = ["--HistoryManager.hist_file=:memory:", "--IPKernelApp.ignore_cwd=True"]
'''
