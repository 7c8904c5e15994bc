"""What users get: the wheel, built from the sdist, alone in a fresh environment."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "gotasks_py",
    "gotasks_memstore",
    "gotasks_mongostore",
    "gotasks_dashboard",
    "gotasks_cli",
}
PROBE = """
import importlib, json, sys
files = {name: importlib.import_module(name).__file__ for name in sys.argv[1:]}
print(json.dumps({"files": files, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT)
    return dist


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    # Dependencies come from here. A .pth file adds the folder without reading the .pth files
    # in it, so an editable install of this project stays out of sight.
    site_packages = next(home.glob("lib/python*/site-packages"))
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def names(wheel: Path) -> list[PurePosixPath]:
    with zipfile.ZipFile(wheel) as archive:
        return [PurePosixPath(name) for name in archive.namelist()]


def test_the_wheel_installs_our_packages_and_nothing_else(wheel: Path) -> None:
    top_level = {name.parts[0] for name in names(wheel)}

    assert {name for name in top_level if not name.endswith(".dist-info")} == PACKAGES
    assert len(top_level) == len(PACKAGES) + 1


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_package_in_the_wheel_is_typed(wheel: Path, package: str) -> None:
    assert PurePosixPath(package, "py.typed") in names(wheel)


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    folders = [
        ROOT / "gotasks_py",
        ROOT / "cli/gotasks_cli",
        ROOT / "dashboard/gotasks_dashboard",
        ROOT / "stores/gotasks_memstore",
        ROOT / "stores/gotasks_mongostore",
    ]
    sources = {
        PurePosixPath(path.relative_to(folder.parent))
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name for name in names(wheel) if name.parts[0] in PACKAGES} == sources


def test_the_sdist_holds_sources_only(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        files = [PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()]

    assert PurePosixPath("LICENSE") in files
    assert PurePosixPath("stores/gotasks_mongostore/local.py") in files
    assert PurePosixPath("tests/packaging/test_wheel.py") in files
    unwanted = {".venv", ".git", ".ci", "__pycache__", "dist", ".mypy_cache", ".ruff_cache"}
    assert [file for file in files if unwanted & set(file.parts)] == []


def test_an_installed_wheel_imports_from_its_own_files(python: Path, tmp_path: Path) -> None:
    found = json.loads(run(python, "-I", "-c", PROBE, *sorted(PACKAGES), cwd=tmp_path))

    assert set(found["files"]) == PACKAGES
    for file in found["files"].values():
        assert Path(file).is_relative_to(python.parents[1])


def test_without_its_extra_the_command_line_says_what_to_install(
    python: Path, tmp_path: Path
) -> None:
    hidden = "import sys; sys.modules['typer'] = None; from gotasks_cli import main; main()"
    ended = subprocess.run(
        [python, "-I", "-c", hidden], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 3
    assert ended.stderr == "gotasks: typer is missing: pip install 'gotasks-py[cli]'\n"


def test_core_and_memory_store_load_no_driver(python: Path, tmp_path: Path) -> None:
    found = json.loads(
        run(python, "-I", "-c", PROBE, "gotasks_py", "gotasks_memstore", cwd=tmp_path)
    )

    assert {"pymongo", "bson", "motor", "fastapi", "starlette"} & set(found["modules"]) == set()
