"""What a failed installation tells: the reason that uv or pip gave, in their own recorded words."""

from __future__ import annotations

import pytest

from course_lib.environment.failures import meaning_of

UV_FAILED = "error: No solution found when resolving dependencies"
NO_MATCH = "ERROR: No matching distribution found for"

CASES = {
    "uv, a release for newer Pythons": (
        UV_FAILED + "\n  cause: Because the current Python version (3.11.2) does not satisfy Python>=3.11.5 and "
        "soupsieve==4.1.1 depends on Python>=3.11.5, we can conclude that soupsieve==4.1.1 cannot be used.",
        "soupsieve 4.1.1 needs Python >=3.11.5, and this is Python",
        True,
    ),
    "pip, a release for newer Pythons": (
        "ERROR: Ignored the following versions that require a different python version: 4.0 Requires-Python "
        ">=3.11.5; 4.1.1 Requires-Python >=3.11.5; 4.1.2 Requires-Python >=3.12\n"
        "ERROR: Could not find a version that satisfies the requirement soupsieve==4.1.1 (from versions: 0.4, 2.10)\n"
        f"{NO_MATCH} soupsieve==4.1.1",
        "soupsieve 4.1.1 needs Python >=3.11.5, and this is Python",
        True,
    ),
    "pip, no such release, while others are for newer Pythons": (
        "ERROR: Ignored the following versions that require a different python version: 4.0 Requires-Python "
        f">=3.11.5\nERROR: Could not find a version (from versions: 0.4)\n{NO_MATCH} soupsieve==99.1",
        "No index that was asked has soupsieve==99.1",
        False,
    ),
    "pip, a project for newer Pythons": (
        "ERROR: Package 'tiny' requires a different Python: 3.11.2 not in '>=3.12'",
        "tiny needs Python >=3.12",
        True,
    ),
    "uv, no such release": (
        UV_FAILED + "\n  cause: Because there is no version of soupsieve==99.1 and you require soupsieve==99.1, we",
        "No index that was asked has soupsieve==99.1",
        False,
    ),
    "uv, no such package": (
        UV_FAILED + "\n  cause: Because no-such-brick was not found in the provided package locations and you",
        "No index that was asked has no-such-brick",
        False,
    ),
    "uv, no build": (
        UV_FAILED + "\n  cause: Because torch==2.13.0 has no wheels with a matching platform tag (e.g., "
        "`musllinux_1_2_x86_64`) and you require torch==2.13.0, we can conclude",
        "no build of torch 2.13.0 for this system",
        True,
    ),
    "uv, no network": (
        "error: Request failed after 3 retries in 6.8s\n  cause: Failed to fetch: `https://index.invalid/six/`\n"
        "  cause: client error (Connect)\n  cause: dns error\n"
        "  cause: failed to lookup address information: Name or service not known",
        "is the network up",
        False,
    ),
    "pip, no network": (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...: Failed to "
        "establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/six/\n"
        f"ERROR: Could not find a version (from versions: none)\n{NO_MATCH} six==1.17.0",
        "is the network up",
        False,
    ),
    "pip, a certificate": (
        "WARNING: Retrying after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: "
        f"CERTIFICATE_VERIFY_FAILED] certificate verify failed'))': /simple/six/\n{NO_MATCH} six==1.17.0",
        "certificate is not trusted",
        False,
    ),
    "uv, a certificate": (
        "error: Request failed\n  cause: error sending request\n  cause: invalid peer certificate: UnknownIssuer",
        "certificate is not trusted",
        False,
    ),
    "uv, a password": (
        UV_FAILED + "\n  cause: Because six was not found in the package registry and you require six==1.17.0\n\n"
        "hint: An index URL (http://127.0.0.1/simple) could not be queried due to a lack of valid authentication "
        "credentials (401 Unauthorized)",
        r"refused the request \(401 Unauthorized\)",
        False,
    ),
    "pip, a build that fails": (
        "      error: command 'gcc' failed: No such file\nERROR: Failed building wheel for pyzmq",
        "no ready build of pyzmq",
        False,
    ),
    "pip, somebody else's file": (
        "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/x/.venv/bin/pip'",
        "not yours to write",
        False,
    ),
    "a full disk, whatever else was said": (
        f"OSError: [Errno 28] No space left on device\n{NO_MATCH} torch==2.13.0",
        r"(?s)disk is full.*TMPDIR",
        True,
    ),
}


@pytest.mark.parametrize(("output", "told", "is_final"), CASES.values(), ids=CASES)
def test_reason_is_the_one_that_was_given(output: str, told: str, is_final: bool) -> None:
    meaning = meaning_of(1, output.splitlines())
    assert meaning.text
    with pytest.raises(ValueError, match=told):
        raise ValueError(meaning.text)
    assert meaning.is_final is is_final
    assert ("network up" in meaning.text) is ("network up" in told), "the network is blamed for nothing else"


def test_unknown_output_has_no_meaning() -> None:
    assert meaning_of(3, ["something else"]).text == ""


def test_signal_is_named() -> None:
    meaning = meaning_of(-9, ["Downloading torch"])
    assert "signal 9" in meaning.text
    assert meaning.is_final
