"""pip's settings reach uv: read by a real pip, translated, and what cannot be said is named."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from course_lib.environment.settings import for_uv, pip_settings


def told(settings: dict[str, str], **env: str):
    return for_uv(settings, env)


def test_indexes() -> None:
    answer = told({"index-url": " https://one/simple ", "extra-index-url": "https://two/simple\nfile:///three"})
    assert answer.variables["UV_DEFAULT_INDEX"] == "https://one/simple"
    assert answer.variables["UV_INDEX"] == "https://two/simple file:///three"
    assert answer.variables["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert answer.arguments == answer.unknown == []


def test_folders_hosts_and_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    settings = {"find-links": "~/wheels https://x/y", "trusted-host": "a b", "constraint": "/c.txt ~/d.txt"}
    variables = told(settings | {"cache-dir": "~/scratch", "timeout": "7.5"}).variables
    assert variables["UV_FIND_LINKS"] == "/home/ada/wheels,https://x/y"
    assert variables["UV_INSECURE_HOST"] == "a b"
    assert variables["UV_CONSTRAINT"] == "/c.txt /home/ada/d.txt"
    assert variables["UV_CACHE_DIR"] == "/home/ada/scratch/uv"
    assert variables["UV_HTTP_TIMEOUT"] == "8"


def test_switches_and_choices() -> None:
    settings = {"no-index": "true", "no-cache-dir": "1", "only-binary": ":all:", "no-binary": "a, b"}
    expected = ["--no-index", "--no-cache", "--only-binary", ":all:", "--no-binary", "a", "--no-binary", "b"]
    assert told(settings).arguments == expected
    assert told({"no-index": "false", "no-cache-dir": "off"}).arguments == []


def test_proxy_and_certificates(tmp_path: Path) -> None:
    variables = told({"proxy": "http://p:1", "cert": "/ca.pem", "client-cert": "/me.pem"}).variables
    assert variables["HTTPS_PROXY"] == variables["http_proxy"] == "http://p:1"
    assert variables["SSL_CERT_FILE"] == "/ca.pem"
    assert variables["SSL_CLIENT_CERT"] == "/me.pem"
    assert told({"cert": str(tmp_path)}).variables["SSL_CERT_DIR"] == str(tmp_path)


def test_certificates_that_only_pip_would_find() -> None:
    assert told({}, REQUESTS_CA_BUNDLE="/r.pem").variables["SSL_CERT_FILE"] == "/r.pem"
    assert told({}, CURL_CA_BUNDLE="/c.pem").variables["SSL_CERT_FILE"] == "/c.pem"
    assert told({"cert": "/ca.pem"}, REQUESTS_CA_BUNDLE="/r.pem").variables["SSL_CERT_FILE"] == "/ca.pem"
    assert "SSL_CERT_FILE" not in told({}, REQUESTS_CA_BUNDLE="/r.pem", SSL_CERT_FILE="/s.pem").variables


def test_what_was_told_to_uv_itself_stands() -> None:
    variables = told({"index-url": "https://one", "cert": "/ca.pem"}, UV_DEFAULT_INDEX="https://mine").variables
    assert "UV_DEFAULT_INDEX" not in variables
    assert variables["SSL_CERT_FILE"] == "/ca.pem"


def test_what_uv_cannot_be_told_is_named() -> None:
    assert told({"require-hashes": "true", "quiet": "1", "user": "yes", "target": "/t"}).unknown == [
        "require-hashes",
        "target",
    ]


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip to ask")
def test_real_pip_is_asked(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://file/simple\ntimeout = 3\nextra-index-url =\n    https://a\n    https://b\n"
        "[install]\nfind-links = /from/the/file\nno-index = false\n[download]\nindex-url = https://other\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    env |= {"PIP_CONFIG_FILE": str(config), "PIP_FIND_LINKS": "/it's here", "PIP_DEFAULT_TIMEOUT": "9"}
    found = pip_settings(sys.executable, cwd=str(tmp_path), env=env)
    assert found is not None
    expected = {
        "index-url": "https://file/simple",
        "timeout": "9",
        "find-links": "/it's here",
        "no-index": "false",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["extra-index-url"].split() == ["https://a", "https://b"]


def test_a_pip_that_cannot_be_asked(tmp_path: Path) -> None:
    assert pip_settings(str(tmp_path / "none"), cwd=str(tmp_path), env={}) is None
    broken = tmp_path / "python"
    broken.write_text('#!/bin/sh\necho "global.index-url=\'half"\n')
    broken.chmod(0o755)
    assert pip_settings(str(broken), cwd=str(tmp_path), env=dict(os.environ)) is None
