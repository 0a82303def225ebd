"""Addresses: where a tag of the course can be read, and how each host is asked to open a notebook of it.

Colab, Kaggle and Codespaces open notebooks of GitHub alone; Binder opens those of any git repository. The forms of
their addresses are those that their own "share" buttons give; ``docs/hosted.md`` names the pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from course_lib.lessons.info import LessonError

__all__ = ["HOSTS", "Badge", "Repository", "need_tag", "need_wheel", "repository_at"]

HOSTS = ("Colab", "Kaggle", "Binder", "Codespaces")
_IMAGES = {
    "Colab": "https://colab.research.google.com/assets/colab-badge.svg",
    "Kaggle": "https://kaggle.com/static/images/open-in-kaggle.svg",
    "Binder": "https://mybinder.org/badge_logo.svg",
    "Codespaces": "https://github.com/codespaces/badge.svg",
}
_EXAMPLE = "https://github.com/OWNER/NAME"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of an owner, a group, a repository, a tag
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
_MOST_CHARACTERS = 100  # of a tag: more than any tag has, and few enough for every host's addresses


@dataclass(frozen=True)
class Badge:
    """A picture that is a link: to ``address``, which opens one notebook at ``host``."""

    host: str
    address: str

    @property
    def markdown(self) -> str:
        words = "Launch on Binder" if self.host == "Binder" else f"Open in {self.host}"
        return f"[![{words}]({_IMAGES[self.host]})]({self.address})"


@dataclass(frozen=True)
class Repository:
    """A tag of a git repository that holds the course. ``pictures`` is the address of its ``assets``."""

    address: str  # https://github.com/OWNER/NAME, without .git and a slash at its end
    tag: str
    pictures: str

    @property
    def is_on_github(self) -> bool:
        return urlsplit(self.address).hostname == "github.com"

    @property
    def _path(self) -> str:
        return urlsplit(self.address).path.strip("/")

    def page_of(self, path: str) -> str:
        """Where a file of the repository is shown to readers; empty where the form of its address is not known."""
        return "" if (made := _blob(self.address)) is None else f"{made}/{self.tag}/{path}"

    def badges(self, path: str) -> list[Badge]:
        """Each host that can open the notebook at ``path`` within the repository, in the order of HOSTS."""
        found = [Badge("Binder", f"{self._binder()}?labpath={quote(path, safe='')}")]
        if self.is_on_github:
            at = f"{self._path}/blob/{self.tag}/{path}"
            colab = Badge("Colab", f"https://colab.research.google.com/github/{at}")
            kaggle = Badge("Kaggle", f"https://kaggle.com/kernels/welcome?src=https://github.com/{at}")
            # A codespace belongs to a branch, and a tag is none: this is the default branch.
            spaces = Badge("Codespaces", f"https://codespaces.new/{self._path}?quickstart=1")
            found = [colab, kaggle, *found, spaces]
        return found

    def _binder(self) -> str:
        if self.is_on_github:
            return f"https://mybinder.org/v2/gh/{self._path}/{self.tag}"
        if urlsplit(self.address).hostname == "gitlab.com":
            return f"https://mybinder.org/v2/gl/{quote(self._path, safe='')}/{self.tag}"
        return f"https://mybinder.org/v2/git/{quote(self.address, safe='')}/{self.tag}"


def repository_at(address: str, tag: str, pictures: str = "") -> Repository:
    """The repository that somebody typed; LessonError says what is wrong with an address or a tag, and what works.

    ``pictures`` is needed where the host is neither GitHub nor a GitLab, whose addresses of plain files are known.
    """
    address = _need_repository(address.strip())
    need_tag(tag)
    if pictures:
        pictures = _need_web_address("--pictures", pictures.strip(), "https://example.org/assets").rstrip("/")
    else:
        pictures = _raw(address, tag)
    return Repository(address, tag, pictures)


def need_tag(tag: str) -> None:
    """LessonError for a tag that git, pip or an address would read otherwise."""
    fits = _NAME.fullmatch(tag) and ".." not in tag and not tag.endswith((".", ".lock"))
    if fits and len(tag) <= _MOST_CHARACTERS:
        return
    nearest = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._]+", "-", tag))[:_MOST_CHARACTERS]
    nearest = nearest.removesuffix(".lock").strip(".-_") or "v1.0"
    raise LessonError(
        f"--tag is {_shown(tag)}; a tag here is letters, digits, '.', '_' and '-', of which the first is a letter or "
        f"a digit, and at most {_MOST_CHARACTERS} of them. The nearest that works is {nearest}"
    )


def need_wheel(address: str) -> str:
    """The address of a wheel of the course; LessonError where it is none."""
    address, name = address.strip(), "one_model_many_gpus-0.1.1-py3-none-any.whl"
    example = f"https://example.org/{name}"
    if urlsplit(address).scheme != "file":
        _need_web_address("--wheel", address, example)
    file = urlsplit(address).path.rpartition("/")[2]
    if not re.fullmatch(r"one_model_many_gpus-[A-Za-z0-9._+-]+\.whl", file) or re.search(r"\s", address):
        raise LessonError(f"--wheel is {_shown(address)}; it is the address of a wheel of the course, as {example}")
    return address


def _need_repository(address: str) -> str:
    _need_web_address("--repository", address, _EXAMPLE)
    parts = urlsplit(address)
    names = parts.path.strip("/").removesuffix(".git").split("/")
    plain = f"https://{parts.netloc.lower()}/{'/'.join(names)}"
    if not all(map(_NAME.fullmatch, names)):
        raise LessonError(
            f"--repository is {_shown(address)}; after the host it names an owner and a repository, as {_EXAMPLE}"
        )
    if parts.hostname == "github.com" and len(names) != 2:
        short = f"https://github.com/{'/'.join(names[:2])}" if len(names) > 2 else _EXAMPLE
        raise LessonError(f"--repository is {_shown(address)}; on GitHub it is an owner and a name, as {short}")
    return plain


def _need_web_address(option: str, address: str, example: str) -> str:
    """The address, if a browser could open it and nothing in it is secret or meant for a server's scripts."""
    try:
        parts = urlsplit(address)
        named = parts.scheme == "https" and bool(_HOST.fullmatch(parts.hostname or ""))
        secret = parts.username is not None or parts.password is not None
        plain = named and (parts.port or 443) > 0 and not re.search(r"[\s<>\"'`\\()\[\]{}|^]", address)
    except ValueError:  # a port that is no number, brackets that do not close
        named, secret, plain = False, False, False
    if secret:
        raise LessonError(
            f"{option} holds a name or a password before '@', and every reader of a notebook would see it; "
            f"give the address alone, as {example}"
        )
    if not plain or parts.query or parts.fragment:
        raise LessonError(f"{option} is {_shown(address)}; it is an address of the web, as {example}")
    return address


def _raw(address: str, tag: str) -> str:
    host, path = urlsplit(address).hostname or "", urlsplit(address).path.strip("/")
    if host == "github.com":
        return f"https://raw.githubusercontent.com/{path}/{tag}/assets"
    if "gitlab" in host.split("."):
        return f"{address}/-/raw/{tag}/assets"
    raise LessonError(
        f"--repository is at {host}, and how its plain files are addressed is known for GitHub and GitLab alone; "
        "give --pictures ADDRESS, where a browser finds the files of the folder assets"
    )


def _blob(address: str) -> str | None:
    host = urlsplit(address).hostname or ""
    if host == "github.com":
        return f"{address}/blob"
    return f"{address}/-/blob" if "gitlab" in host.split(".") else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
