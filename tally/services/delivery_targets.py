"""The file of delivery targets: read, checked, or refused with all its faults.

Each key of the file names a target; docs/reference/delivery.md says what it holds. The file holds no secret: it names
the environment variable or the file that does, and no message says what was found there.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from pricing.yaml_nodes import Faults, Members, Reader, compose
from tally.domain.delivery import Destination, Target
from tally.domain.errors import InvalidInput
from tally.domain.period import BillingPeriod
from tally.settings import is_loopback, text_of
from tally.store.targets.directory import Directory
from tally.store.targets.object_storage import ObjectStorage
from tally.store.targets.webhook import Webhook, read_secret

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_PREFIX = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/?)*", re.ASCII)
_REGION = re.compile(r"[A-Za-z0-9-]{1,50}", re.ASCII)
_MOST_SECRET_BYTES = 4096
_TIMEOUT_SECONDS = 30
_LONGEST_TIMEOUT = 300

_KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "directory": (("path",), ()),
    "webhook": (("url", "secret"), ("timeout_seconds",)),
    "object_storage": (("url",), ("endpoint", "region", "access_key", "secret_key", "overwrite")),
}


def read_targets(path: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[Destination, ...]:
    """Read the file that TALLY_DELIVERY_TARGETS names; without one there are no targets.

    Raises:
        InvalidInput: if it cannot be read, or with the lines of everything that is wrong with it.
    """
    if path is None:
        return ()
    return parse_targets(text_of("TALLY_DELIVERY_TARGETS", path), str(path), environment)


def parse_targets(text: str, name: str, environment: Mapping[str, str]) -> tuple[Destination, ...]:
    """Read the text of a file of targets; ``name`` says in errors which one it is.

    Raises:
        InvalidInput: with the lines of everything that is wrong with it.
    """
    root = compose(text, name)
    faults = Faults(name)
    reader = _TargetReader(faults, environment)
    found = [reader.destination(key, node) for key, node in reader.entries(root, "the file of targets")]
    faults.raise_all()
    return tuple(destination for destination in found if destination is not None)


def named(destinations: Sequence[Destination], name: str | None) -> Sequence[Destination]:
    """All targets, or the one of a name.

    Raises:
        InvalidInput: if there is none.
    """
    if not destinations:
        raise InvalidInput("there is no target to deliver to; TALLY_DELIVERY_TARGETS names the file of targets")
    chosen = [destination for destination in destinations if name in (None, destination.name)]
    if not chosen:
        known = ", ".join(destination.name for destination in destinations)
        raise InvalidInput(f"{name!r} is no target; there are {known}")
    return chosen


class _TargetReader(Reader):
    def __init__(self, faults: Faults, environment: Mapping[str, str]) -> None:
        super().__init__(faults)
        self._environment = environment

    def destination(self, name: str, node: yaml.Node) -> Destination | None:
        if not _NAME.fullmatch(name):
            self.faults.add(node, f"{name[:70]!r} is no name of a target: small letters, digits and dashes")
        kind = self._kind(name, node)
        if kind is None:
            return None
        required, optional = _KEYS[kind]
        keys = self.fields(node, name, ("type", "from", *required), optional)
        first = self.parsed(keys["from"], f"{name}: from", _month) if "from" in keys else None
        build = {"directory": self._directory, "webhook": self._webhook, "object_storage": self._object_storage}[kind]
        target = build(keys, name)
        if self.faults or first is None or target is None:
            return None
        return Destination(name, first, target)

    def _kind(self, name: str, node: yaml.Node) -> str | None:
        members = self.members(node, name)
        kind = self.text(members["type"], f"{name}: type") if "type" in members else ""
        if kind is not None and kind not in _KEYS:
            self.faults.add(node, f"{name} has no type that is known: {', '.join(_KEYS)}")
        return kind if kind in _KEYS else None

    def _directory(self, keys: Members, name: str) -> Target | None:
        path = self.parsed(keys["path"], f"{name}: path", _absolute) if "path" in keys else None
        return Directory(Path(path)) if path else None

    def _webhook(self, keys: Members, name: str) -> Target | None:
        url = self._checked(keys, "url", name, _web_address)
        secret = self._checked(keys, "secret", name, _secret)
        seconds = self._seconds(keys, name)
        return Webhook(url, read_secret(secret), seconds) if url and secret else None

    def _object_storage(self, keys: Members, name: str) -> Target | None:
        url = self.parsed(keys["url"], f"{name}: url", _bucket_address) if "url" in keys else None
        endpoint = self._checked(keys, "endpoint", name, _web_address)
        region = self.parsed(keys["region"], f"{name}: region", _region) if "region" in keys else None
        access_key, secret_key = (self._checked(keys, key, name, str) for key in ("access_key", "secret_key"))
        overwrite = self.parsed(keys["overwrite"], f"{name}: overwrite", _switch) if "overwrite" in keys else "false"
        if ("access_key" in keys) != ("secret_key" in keys):
            self.faults.add(keys["url"], f"{name}: access_key and secret_key come together")
        if url is None:
            return None
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        return ObjectStorage(
            bucket,
            prefix,
            endpoint=endpoint,
            region=region,
            access_key=access_key,
            secret_key=secret_key,
            overwrite=overwrite == "true",
        )

    def _checked(self, keys: Members, key: str, name: str, check: Callable[[str], object]) -> str | None:
        """Read a text, or what a variable or file in its place holds; what is wrong is said without it."""
        if key not in keys:
            return None
        node, what = keys[key], f"{name}: {key}"
        secret = key in {"secret", "access_key", "secret_key"}
        if secret and not isinstance(node, yaml.MappingNode):
            self.faults.add(node, f"{what} does not stand in this file; write {{env: NAME}} or {{file: PATH}}")
            return None
        text = self._kept(node, what) if isinstance(node, yaml.MappingNode) else self.text(node, what)
        if text is None:
            return None
        try:
            return str(check(text))
        except InvalidInput as error:
            self.faults.add(node, f"{what}: {error}")
            return None

    def _kept(self, node: yaml.Node, what: str) -> str | None:
        found = self.fields(node, what, (), ("env", "file"))
        if len(found) != 1:
            self.faults.add(node, f"{what} names one place: {{env: NAME}} or {{file: PATH}}")
            return None
        ((kind, place_node),) = found.items()
        place = self.text(place_node, f"{what}/{kind}")
        if place is None:
            return None
        text = self._environment.get(place, "") if kind == "env" else _file(place)
        if not text.strip() or not text.strip().isprintable():
            where = f"the environment variable {place}" if kind == "env" else f"the file {place}"
            self.faults.add(node, f"{what}: {where} holds no text")
            return None
        return text.strip()

    def _seconds(self, keys: Members, name: str) -> float:
        if "timeout_seconds" not in keys:
            return _TIMEOUT_SECONDS
        text = self.text(keys["timeout_seconds"], f"{name}: timeout_seconds") or ""
        seconds = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(_LONGEST_TIMEOUT)) else 0
        if not 0 < seconds <= _LONGEST_TIMEOUT:
            what = f"{name}: timeout_seconds is no whole number from 1 to {_LONGEST_TIMEOUT}"
            self.faults.add(keys["timeout_seconds"], what)
        return seconds


def _file(place: str) -> str:
    try:
        with Path(place).open(encoding="utf-8") as file:
            return file.read(_MOST_SECRET_BYTES)
    except (OSError, ValueError):
        return ""


def _month(text: str) -> str:
    return str(BillingPeriod.parse(text))


def _absolute(text: str) -> str:
    if not Path(text).is_absolute():
        raise InvalidInput("not an absolute path")
    return text


def _secret(text: str) -> str:
    read_secret(text)
    return text


def _web_address(text: str) -> str:
    """Accept https, or http to the machine itself. The address may hold a secret: what is wrong is said without it."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if not host or parts.username or parts.password or parts.fragment or not text.isprintable() or " " in text:
        raise InvalidInput("not a URL such as https://erp.example.com/tally, without user and password")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise InvalidInput("it has to begin with https://; http:// is for the machine itself alone")
    return text


def _bucket_address(text: str) -> str:
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    if not text.startswith("s3://") or not _BUCKET.fullmatch(bucket) or not _PREFIX.fullmatch(prefix):
        raise InvalidInput("not a URL such as s3://bucket/prefix")
    return text


def _region(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise InvalidInput("not a name of a region")
    return text


def _switch(text: str) -> str:
    if text not in {"true", "false"}:
        raise InvalidInput("write true or false")
    return text
