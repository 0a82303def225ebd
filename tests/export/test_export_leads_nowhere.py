"""The exported page neither fetches nor leads away, whatever stands in a cell, an output, a name or an answer."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import threading
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.export.page import page_of
from course_lib.export.work import LearnerWork

SVG = (
    "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink'>"
    "<script>fetch('{at}/s1')</script><image xlink:href='{at}/s2'/><image href='{at}/s3'/>"
    "<use href='{at}/s4#a'/><style>@import '{at}/s5';</style><foreignObject><iframe src='{at}/s6'>"
    "</iframe></foreignObject><a xlink:href='{at}/s7'><text>words</text></a>"
    "</svg>"
)
HOSTILE = [
    "<meta http-equiv=refresh content='0;url={at}/1'>",
    "<META HTTP-EQUIV='Refresh' CONTENT='0; URL={at}/2'>",
    "<base href='{at}/'><img src=3.png>",
    "<form action='{at}/4'><input name=a><button formaction='{at}/5'>b</button></form>",
    "<iframe src='{at}/6'></iframe>",
    "<iframe srcdoc=\"<meta http-equiv=refresh content='0;url={at}/7'>\"></iframe>",
    "<object data='{at}/8'></object>",
    "<embed src='{at}/9'>",
    "<link rel=stylesheet href='{at}/10'>",
    "<link rel=prefetch href='{at}/11'>",
    "<link rel=dns-prefetch href='{at}'>",
    SVG,
    "<style>body {{ background: url({at}/12) }} @import '{at}/13';</style>",
    "<div style='background:url({at}/14)'>x</div>",
    "<div style='background:u\\72l({at}/15)'>x</div>",
    "<div style='background:image-set(\"{at}/16\" 1x)'>x</div>",
    "<img src='{at}/17' srcset='{at}/18 1x, {at}/19 2x'>",
    "<picture><source srcset='{at}/20'><img src=x></picture>",
    "<video src='{at}/21' poster='{at}/22' autoplay></video>",
    "<audio src='{at}/23' autoplay></audio>",
    "<video><source src='{at}/24'><track src='{at}/25'></video>",
    "<a href='javascript:fetch(\"{at}/26\")'>x</a>",
    "<a href='java&#115;cript:1'>x</a>",
    "<a href=' java\tscript:1'>x</a>",
    "<a href='jAvascript:1'>x</a>",
    "<a href='data:text/html,<script>1</script>'>x</a>",
    "<a href='vbscript:1'>x</a>",
    "<a href='file:///etc/passwd'>x</a>",
    "<a href='{at}/27' target=_top ping='{at}/28' onclick='fetch(\"{at}/29\")' download>x</a>",
    "<a href='//127.0.0.1/30'>x</a>",
    "<img src=x onerror='fetch(\"{at}/31\")'>",
    "<svg onload='fetch(\"{at}/32\")'>",
    "<body onload='fetch(\"{at}/33\")'>",
    "<details open ontoggle='fetch(\"{at}/34\")'>x</details>",
    "<math><mtext href='{at}/35' xlink:href='{at}/36'>x</mtext></math>",
    "<math><mtext><table><mglyph><style><img src='{at}/37'>",
    "<noscript><p title=\"</noscript><img src='{at}/38'>\">",
    "<table background='{at}/39'><tr><td background='{at}/40'>x</table>",
    "<body background='{at}/41'>",
    "<input type=image src='{at}/42'>",
    "<frameset><frame src='{at}/43'></frameset>",
    "<applet code='{at}/44'></applet>",
    "<!--><img src='{at}/45'>-->",
    "<![CDATA[<img src='{at}/46'>]]>",
    "<?xml-stylesheet href='{at}/47'?>",
    "</main></body></html><meta http-equiv=refresh content='0;url={at}/48'>",
    "<plaintext>",
    "<textarea><img src='{at}/49'>",
    "<template><img src='{at}/50'></template>",
    "<img src='data:text/html,<script>1</script>'>",
    "<area href='{at}/51' ping='{at}/52'>",
    "<div style='position:fixed;inset:0;z-index:9'><a href='{at}/53'>over all</a></div>",
    "<style><!--</style><script>fetch('{at}/54')</script>",
    "<script src='{at}/55'></script>",
    "<script>location='{at}/56'</script>",
    "<portal src='{at}/57'></portal>",
    "<div style='list-style:url({at}/58);cursor:url({at}/59),auto;content:url({at}/60)'>x</div>",
]
TAGS = set("""
    html head meta title style body main section div span p a img pre code em strong ul ol li h1 h2 h3 h4 table thead
    tbody tr td th details summary b del caption
""".split())  # noqa: SIM905  # fmt: skip
NAMED = set("""
    class id style title lang role alt scope name content http-equiv charset href src rel type tabindex width height
    open colspan align
""".split())  # noqa: SIM905  # fmt: skip
DATA = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,")


class Looks(HTMLParser):
    """What in a page could fetch, run or lead away."""

    def __init__(self):
        super().__init__()
        self.wrong, self.links = [], []

    def handle_starttag(self, tag, attributes):
        held = dict(attributes)
        policy = "Content-Security-Policy"
        if tag not in TAGS or (tag == "meta" and held.get("http-equiv", policy) != policy):
            self.wrong.append((tag, held))
        for name, value in held.items():
            named = name in NAMED or name[:5] in ("aria-", "data-")
            if not named or (name == "src" and not DATA.match(value or "")):
                self.wrong.append((tag, name, value))
            if name == "style" and re.search(r"url|import|image|\\", value or "", re.I):
                self.wrong.append((tag, name, value))
            if name == "href":
                self.links.append(value)


def page(*cells):
    return page_of(work_of(*cells), on="today")


def work_of(*cells):
    from course_lib.base.paths import project_root

    return LearnerWork(project_root() / "notebooks", (("04a_mine", new_notebook(cells=list(cells))),))


def output(**data):
    metadata = data.pop("metadata", {})
    bundle = {
        key.replace("__", "/").replace("_xml", "+xml").replace("_dot_", "."): value for key, value in data.items()
    }
    return new_output("display_data", data=bundle, metadata=metadata)


def everywhere(text):
    """A hostile text in every place of a notebook that somebody can write into."""
    ran = lambda *outputs: new_code_cell(text, execution_count=1, outputs=list(outputs))  # noqa: E731
    return [
        new_markdown_cell(f"{text}\n\nwords, then {text} and after"),
        new_markdown_cell("![words](a.png){0} [words]({0})".format(text.replace(" ", ""))),
        ran(
            output(text__html=text),
            output(text__markdown=text),
            output(text__plain=text),
            output(text__latex=text),
        ),
        ran(output(image__svg_xml=text), new_output("stream", text=text), output(text__vnd_dot_mermaid=text)),
        ran(output(image__png="AAAA", metadata={"image/png": {"width": f"1 {text}", "height": "1 onload=x"}})),
        ran(output(image__png='AA">' + text, metadata={"filenames": {"image/png": f"x {text}"}})),
        ran(new_output("error", ename=text, evalue=text, traceback=[text])),
        new_markdown_cell("x", metadata={"tags": [text.replace(",", "")], "name": text}),
    ]


def hostile(at):
    return [one for text in HOSTILE for one in everywhere(text.format(at=at))]


@pytest.mark.long
def test_nothing_in_the_page_fetches_or_leads_away():
    looked = Looks()
    html = page(*hostile("http://127.0.0.1:9/away"))
    looked.feed(
        re.sub(r"<style>.*?</style>", "", html.partition("<body")[0], flags=re.S) + "<body" + html.partition("<body")[2]
    )
    assert not looked.wrong
    assert {link[:1] for link in looked.links} == {"#"}
    assert html.count("<main>") == html.count("</body>") == html.count("</html>") == 1
    assert "form-action 'none'; base-uri 'none'" in html


def test_the_style_sheets_of_the_page_fetch_nothing():
    head = page().partition("<body")[0]
    assert {found[:5] for found in re.findall(r"url\(\s*[\"']?([^)]*)", head)} == {"data:"}
    assert "@import" not in head


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("html", [text.format(at="http://127.0.0.1:9") for text in HOSTILE])
def test_what_one_output_leaves_open_ends_with_it(html):
    shown = page(new_code_cell("1", outputs=[output(text__html=html)]), new_markdown_cell("The *next* cell."))
    assert "<p>The <em>next</em> cell.</p>" in shown


def test_a_link_of_the_lessons_stays_and_any_other_is_text():
    html = page(
        new_markdown_cell(
            "[ZeRO](https://arxiv.org/abs/1910.02054) [good](https://bad.example/?a=1&b=2) <https://shown.example/x>"
        ),
        new_code_cell("1", outputs=[output(text__html="<a href='mailto:me@x.example'>write</a>")]),
    )
    assert '<a href="https://arxiv.org/abs/1910.02054" rel="noreferrer noopener">ZeRO</a>' in html
    assert "<a>good (https://bad.example/?a=1&amp;b=2)</a>" in html
    assert "<a>https://shown.example/x</a>" in html
    assert "<a>write (mailto:me@x.example)</a>" in html


def test_what_is_honest_looks_as_before():
    cell = "<th scope='col' style='color:#123;padding:2px 4px'>a</th>"
    table = f"<table style='border-collapse:collapse'><tr>{cell}</tr></table>"
    svg = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()
    html = page(
        new_code_cell("1", outputs=[output(text__html=f"{table}<img alt='p' src='data:image/svg+xml;base64,{svg}'>")])
    )
    assert 'style="border-collapse:collapse;"' in html
    assert 'scope="col" style="color:#123;padding:2px 4px;"' in html
    assert f'src="data:image/svg+xml;base64,{svg}"' in html


def test_signs_that_turn_the_writing_are_shown_as_such(tmp_path, monkeypatch):
    text = "a\u202eb\x1b[2Jc&#x202e;d&#8238;e&rlm;f"
    html = page(*everywhere(text), new_markdown_cell(f"<b title='{text}'>x</b>"))
    assert not re.search("[\u202e\u200f\x1b]|&#x202e;|&#8238;|&rlm;", html.replace("&amp;", "and "))


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_picture_that_is_no_plain_file_keeps_nobody_waiting(tmp_path, kind):
    import os

    folder = tmp_path / "notebooks"
    folder.mkdir()
    os.mkfifo(folder / "a.png") if kind == "pipe" else (folder / "a.png").symlink_to("/dev/zero")
    work = LearnerWork(
        folder, (("04a_mine", new_notebook(cells=[new_markdown_cell("![words](a.png) <img src='a.png'>")])),)
    )
    assert page_of(work, on="today").count("A picture that is not in this page") == 2


def test_a_pipe_among_the_notebooks_is_told(tmp_path):
    import os

    from course_lib.export.work import work_in

    nbformat.write(new_notebook(cells=[new_markdown_cell("mine")]), tmp_path / "04a_mine.ipynb")
    os.mkfifo(tmp_path / "04b_pipe.ipynb")
    (tmp_path / "04c_deep.ipynb").write_text("[" * 300_000)
    found = work_in(tmp_path)
    assert [stem for stem, _ in found.notebooks] == ["04a_mine"]
    assert dict(found.skipped)["04b_pipe.ipynb"] == "it is a pipe, and only plain files are read"
    assert "04c_deep.ipynb" in dict(found.skipped)


# -- in a browser ---------------------------------------------------------------------------------------------------

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Heard(ThreadingHTTPServer):
    """A server that notes what it is asked for."""

    def __enter__(self):
        super().__enter__()
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(204)
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, *_):
        pass


def opened(path, tmp_path):
    """What headless Chromium makes of a page."""
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
    ]
    command += [
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=3000",
        "--dump-dom",
        path.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=180).stdout


@pytest.mark.long
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("has_policy", [True, False])
def test_a_browser_asks_nobody_for_anything(tmp_path, has_policy):
    with Heard(("127.0.0.1", 0), Handler) as server:
        at = f"http://127.0.0.1:{server.server_port}"
        html = page(*hostile(at), new_markdown_cell("The last cell."))
        if not has_policy:
            html = re.sub(r"<meta http-equiv=[^>]*>", "", html)
        (tmp_path / "page.html").write_text(html)
        assert "The last cell." in opened(tmp_path / "page.html", tmp_path)
        assert not server.asked
        (tmp_path / "raw.html").write_text("<body>" + "".join(text.format(at=at) for text in HOSTILE[2:11]))
        opened(tmp_path / "raw.html", tmp_path)
        assert server.asked, "the same server hears a page that was not made safe"
