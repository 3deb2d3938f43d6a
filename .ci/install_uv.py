"""Put uv into .tools, without root and without touching the machine's Python, for `make` where uv is missing.

Runs with nothing but the standard library, since a fresh Debian has neither pip nor venv: pip is used where there is
one, because it knows the machine's mirrors; else the wheel is fetched from the index and checked by its hash.
"""

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

VERSION = "0.13.9"
TOOLS = Path(__file__).resolve().parents[1] / ".tools"
INDEX = "https://pypi.org/simple"
TIMEOUT = 120


def main() -> int:
    """Install uv and return the exit code."""
    faults = []
    for way in (by_pip, by_wheel):
        try:
            way(TOOLS)
        except Exception as error:  # noqa: BLE001 - whatever fails, the other way is tried, and both are told
            faults.append(f"{way.__name__}: {' '.join(str(error).split())[-300:]}")
        else:
            return 0
    sys.stderr.write(f"uv cannot be installed ({'; '.join(faults)}): put uv {VERSION} on PATH and try again\n")
    return 1


def by_pip(tools: Path) -> None:
    """Let pip unpack it; --target is allowed where the machine's Python is externally managed."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(tools)]
    done = subprocess.run([*command, f"uv=={VERSION}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr or "pip failed")


def by_wheel(tools: Path, fetch: Callable[[str], bytes] | None = None) -> None:
    """Take the program out of its wheel; ``fetch`` stands for the network."""
    fetch = fetch or _fetch
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or INDEX
    listed = json.loads(fetch(f"{index.rstrip('/')}/uv/"))["files"]
    wheel = next((file for file in listed if file["filename"] == wheel_name()), None)
    if wheel is None:
        raise RuntimeError(f"{index} has no {wheel_name()}")
    content = fetch(wheel["url"])
    if hashlib.sha256(content).hexdigest() != wheel["hashes"]["sha256"]:
        raise RuntimeError(f"{wheel['filename']} does not have the hash that the index names")
    program = tools / "bin" / "uv"
    program.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        program.write_bytes(archive.read(f"uv-{VERSION}.data/scripts/uv"))
    program.chmod(0o755)


def _fetch(url: str) -> bytes:
    if not url.startswith("https://"):
        raise RuntimeError(f"{url} is no https:// address")
    request = urllib.request.Request(url, headers={"Accept": "application/vnd.pypi.simple.v1+json, */*"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - https only, see above
        return bytes(answer.read())


def wheel_name() -> str:
    """Name the wheel of this machine."""
    machine = platform.machine().lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
    if sys.platform == "darwin":
        system = f"macosx_10_12_{machine}" if machine == "x86_64" else "macosx_11_0_arm64"
    elif machine == "aarch64":
        system = "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"
    else:
        system = f"manylinux_2_17_{machine}.manylinux2014_{machine}"
    return f"uv-{VERSION}-py3-none-{system}.whl"


if __name__ == "__main__":
    sys.exit(main())
