"""A kernel behind a web address, as the page of a notebook uses it: a session of the API, and a web socket."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import websocket  # jupyter_server brings it

LIMIT_S = 300
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy


@dataclass
class Server:
    """A Jupyter server: its address without the last "/", and a token that it takes."""

    url: str
    token: str = field(repr=False)

    def asked(self, path: str, method: str = "GET", body: object = None) -> Any:
        """The JSON that the API answers with; ``AssertionError`` with its words where it refuses."""
        request = urllib.request.Request(
            f"{self.url}/{path}", method=method, headers={"Authorization": f"token {self.token}"},
            data=None if body is None else json.dumps(body).encode(),
        )  # fmt: skip
        try:
            with _direct.open(request, timeout=LIMIT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {request.full_url}: {error.code} {error.read()[:2000]!r}") from None
        return json.loads(text) if text else None

    def notebook(self, path: str) -> dict[str, Any]:
        """A notebook of the learner's, as the page gets it."""
        return self.asked(f"api/contents/{urllib.parse.quote(path)}?type=notebook")["content"]


def first_cells(notebook: Mapping[str, Any], with_ranks: int = 2) -> list[str]:
    """The code of a lesson up to the cell that is the so manieth to begin with %%ranks."""
    cells, met = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            text = "".join(cell["source"])
            cells.append(text)
            met += text.startswith("%%ranks")
            if met == with_ranks:
                return cells
    raise AssertionError(f"the lesson has {met} cells with %%ranks, and {with_ranks} are looked for")


@contextlib.contextmanager
def kernel_of(server: Server, path: str) -> Iterator[WebKernel]:
    """The kernel that a page with this notebook starts; ended with the block."""
    body = {"path": path, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    session = server.asked("api/sessions", "POST", body)
    address = f"{server.url.replace('http', 'ws', 1)}/api/kernels/{session['kernel']['id']}/channels"
    socket = websocket.create_connection(address, header=[f"Authorization: token {server.token}"], timeout=LIMIT_S)
    try:
        yield WebKernel(socket)
    finally:
        socket.close()
        server.asked(f"api/sessions/{session['id']}", "DELETE")


@dataclass
class WebKernel:
    """Runs cells one after the other."""

    socket: websocket.WebSocket

    def run(self, code: str) -> str:
        """All text that the cell shows; ``AssertionError`` with the traceback of one that fails."""
        number = uuid.uuid4().hex
        content = {
            "code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False,
            "stop_on_error": True,
        }  # fmt: skip
        header = {
            "msg_id": number,
            "msg_type": "execute_request",
            "username": "",
            "session": number,
            "version": "5.3",
        }
        sent = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self.socket.send(json.dumps(sent))
        shown: list[str] = []
        waits_for = {"execute_reply", "idle"}  # the last of them says that all has come
        while waits_for:
            message = json.loads(self.socket.recv())
            if message.get("parent_header", {}).get("msg_id") != number:
                continue
            kind, said = message["header"]["msg_type"], message["content"]
            if kind == "stream":
                shown.append(said["text"])
            elif kind in ("execute_result", "display_data", "update_display_data"):
                shown.append(str(said["data"].get("text/plain", "")))
            elif kind == "error":
                raise AssertionError(f"{code}\n" + "\n".join(said["traceback"]))
            waits_for -= {kind} | ({said["execution_state"]} if kind == "status" else set())
        return "".join(shown)
