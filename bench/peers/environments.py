"""One virtual environment for each library, so that each gets the versions that it wants."""

from __future__ import annotations

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from bench.peers.catalogue import Contestant

ROOT: Final = Path(__file__).parents[2]
_FOLDER: Final = ROOT / ".venv-peers"


def python_for(contestant: Contestant) -> Path:
    """Tell the interpreter to run a library with, and install the library where it is missing.

    Raises:
        CalledProcessError: the package index did not have it, or was not there.
    """
    if contestant.is_ours:
        return Path(sys.executable)
    digest = sha256("\n".join(contestant.requirements).encode()).hexdigest()[:12]
    folder = _FOLDER / digest
    python = folder / "bin" / "python"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        _install(python, contestant.requirements)
        complete.touch()
    return python


def _install(python: Path, requirements: tuple[str, ...]) -> None:
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
    command = [*pip, "--python", str(python), "install", "--prefer-binary", *requirements]
    subprocess.run(command, check=True, stdout=sys.stderr)
