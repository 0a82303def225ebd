"""The whole page: a first page, a list of what is in it, and the notebooks one below the other."""

from __future__ import annotations

from html import escape

from course_lib.base.foreign_text import on_a_page
from course_lib.export.bodies import body_of, style
from course_lib.export.in_page import anchor
from course_lib.export.work import LearnerWork

__all__ = ["page_of"]

_STYLE = """<style>
body { max-width: 62rem; margin: 0 auto; padding: 1rem; }
.first { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #1f2328; }
.first h1 { font-size: 1.6rem; margin: 0.5rem 0; } .first h2 { font-size: 1.15rem; margin: 1.5rem 0 0.3rem; }
.first table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
.first th, .first td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0;
  border-bottom: 1px solid #d4d8dd; }
.first tbody th { font-weight: 500; min-width: 9rem; max-width: 28rem; }
.jp-InputPrompt, .jp-OutputPrompt { color: #5c6066 !important; opacity: 1 !important; }
main a { text-decoration: underline !important; }
.sideways { overflow-x: auto; }
main > section { border-top: 3px solid #0072b2; margin-top: 3rem; padding-top: 1rem; }
img { max-width: 100%; height: auto; }
img.formula { display: inline; max-width: none; }
.formula-block { margin: 0.8em 0; text-align: center; overflow-x: auto; font-size: 1.1em; }
.jp-InputArea-editor { background: #fff !important; }
.jp-InputArea-editor, .jp-OutputArea-output { overflow-x: auto; }
@media print { main > section { break-before: page; } }
</style>"""


def page_of(work: LearnerWork, *, on: str) -> str:
    """One HTML text of the work, dated ``on``. Nothing in it asks for another file, and no script runs."""
    from course_lib import __version__
    from course_lib.export.first_page import first_page
    from course_lib.learn.records.store import store

    names = [stem for stem, _ in work.notebooks]
    bodies, skipped = [], list(work.skipped)
    for stem, notebook in work.notebooks:
        try:
            bodies.append(body_of(stem, notebook, work.folder, names))
        except Exception as error:  # whatever one notebook does to nbconvert, the others are to be had
            skipped.append((f"{stem}.ipynb", f"it could not be shown ({type(error).__name__}: {error})"))
            bodies.append(f"<section id='{anchor(stem)}'><p>{escape(skipped[-1][1])}</p></section>")
    links = "".join(f"<li><a href='#{anchor(stem)}'>{escape(_title(stem))}</a></li>" for stem in names)
    left_out = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in skipped)
    # A second lock: whatever came past `safe`, a browser fetches nothing for it, runs nothing and sends nothing.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="course export">\n'
        f"<title>One Model, Many GPUs: my work, {escape(on)}</title>\n{style()}\n{_STYLE}\n</head>\n"
    )
    first = (
        f"<h1>One Model, Many GPUs: my work</h1><p>{escape(on)}, course {__version__}.</p>{first_page(store())}"
        f"<h2>Notebooks</h2><ul>{links}</ul>" + (f"<h2>Left out</h2><ul>{left_out}</ul>" if left_out else "")
    )
    body = '<body class="jp-Notebook" data-jp-theme-light="true" data-jp-theme-name="JupyterLab Light">'
    return on_a_page(
        f"{head}{body}\n<main>\n<div class='first'>{first}</div>\n{''.join(bodies)}\n</main>\n</body>\n</html>\n"
    )


def _title(stem: str) -> str:
    label, _, words = stem.partition("_")
    return f"{label} {words.replace('_', ' ')}".strip()
