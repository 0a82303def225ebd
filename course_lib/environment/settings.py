"""pip's settings, told to uv: people's mirrors, certificates and constraints count, whichever of the two installs.

pip itself is asked for its settings (`pip config list`): it knows its files on every system, and its PIP_* variables.
What uv can be told is translated. A setting that would change what is installed, and that uv cannot be told, is named
in `unknown`: then pip has to do the work.
"""

from __future__ import annotations

import ast
import math
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ForUv", "for_uv", "pip_settings"]

_ASK_LIMIT_S = 120

# pip's option, uv's variable, and what stands between the values of a list there (None: one value).
_VARIABLES: dict[str, tuple[str, str | None]] = {
    "index-url": ("UV_DEFAULT_INDEX", None),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "constraint": ("UV_CONSTRAINT", " "),
    "cert": ("SSL_CERT_FILE", None),
    "client-cert": ("SSL_CLIENT_CERT", None),
}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_SWITCHES = {"no-index": "--no-index", "no-cache-dir": "--no-cache"}
_CHOICES = {"only-binary": "--only-binary", "no-binary": "--no-binary"}
# They say how pip talks, waits and writes, or are set by the course itself: nothing of it changes what is installed.
_WITHOUT_EFFECT = [
    "break-system-packages",
    "compile",
    "config-file",
    "debug",
    "disable-pip-version-check",
    "exists-action",
    "format",
    "keyring-provider",
    "log",
    "no-color",
    "no-compile",
    "no-input",
    "no-python-version-warning",
    "no-warn-conflicts",
    "no-warn-script-location",
    "prefer-binary",
    "progress-bar",
    "quiet",
    "require-virtualenv",
    "resume-retries",
    "retries",
    "root-user-action",
    "src",
    "upgrade",
    "upgrade-strategy",
    "use-deprecated",
    "use-feature",
    "use-pep517",
    "user",
    "verbose",
]


@dataclass
class ForUv:
    """What uv is told: variables of its environment, arguments of `uv pip install`, and what could not be said."""

    variables: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def pip_settings(python: str, *, cwd: str, env: Mapping[str, str]) -> dict[str, str] | None:
    """pip's settings for an installation, as the pip of `python` sees them: option -> text. None: it cannot tell."""
    try:
        done = subprocess.run(
            [python, "-m", "pip", "config", "list"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_LIMIT_S,
            cwd=cwd,
            env=dict(env),
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    by_section: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        found = re.fullmatch(r"(global|install|:env:)\.([\w-]+)=(.+)", line.strip())
        if found is None:
            continue
        try:
            value = str(ast.literal_eval(found[3]))
        except (ValueError, SyntaxError):
            return None
        by_section[found[1]][found[2].removeprefix("default-")] = value
    merged = by_section["global"] | by_section["install"] | by_section[":env:"]  # the later wins, as in pip
    return {option: text for option, text in merged.items() if text.strip()}


def for_uv(settings: Mapping[str, str], env: Mapping[str, str]) -> ForUv:
    """The same settings for uv. What the learner has told uv itself, by UV_* variables in `env`, stands."""
    told = ForUv()
    for option, text in settings.items():
        if option in _VARIABLES:
            name, between = _VARIABLES[option]
            values = [_as_path(value) for value in (text.split() if between else [text.strip()])]
            told.variables[name] = (between or "").join(values)
        elif option == "timeout":
            told.variables["UV_HTTP_TIMEOUT"] = _seconds(text)
        elif option == "cache-dir":
            told.variables["UV_CACHE_DIR"] = os.path.join(os.path.expanduser(text.strip()), "uv")
        elif option == "proxy":
            told.variables |= dict.fromkeys(_PROXIES, text.strip())
        elif option in _SWITCHES:
            told.arguments += [_SWITCHES[option]] if _is_on(text) else []
        elif option in _CHOICES:
            for value in re.split(r"[\s,]+", text.strip()):
                told.arguments += [_CHOICES[option], value]
        elif option not in _WITHOUT_EFFECT:
            told.unknown.append(option)
    _add_certificates(told, env)
    # Every index counts, and the newest release that fits is taken wherever it lies: as pip does it.
    told.variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    told.variables["UV_PYTHON_DOWNLOADS"] = "never"
    told.variables = {
        name: value for name, value in told.variables.items() if not (name.startswith("UV_") and env.get(name))
    }
    return told


def _add_certificates(told: ForUv, env: Mapping[str, str]) -> None:
    """pip finds certificates by two variables that uv does not read."""
    given = env.get("REQUESTS_CA_BUNDLE") or env.get("CURL_CA_BUNDLE")
    if given and not env.get("SSL_CERT_FILE"):
        told.variables.setdefault("SSL_CERT_FILE", given)
    file = told.variables.get("SSL_CERT_FILE")
    if file and os.path.isdir(file):
        told.variables["SSL_CERT_DIR"] = told.variables.pop("SSL_CERT_FILE")


def _as_path(value: str) -> str:
    return value if "://" in value else os.path.expanduser(value)


def _seconds(text: str) -> str:
    """Whole seconds, as uv wants them; what is no number goes on as it is, and uv says so."""
    try:
        return str(max(1, math.ceil(float(text))))
    except (ValueError, OverflowError):
        return text.strip()


def _is_on(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "y", "t")
