"""The repository's own files agree with each other: pins, citation, make targets, set-up, CI.

No test here installs anything or needs the network.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
CONDA_TO_PYPI = {"pytorch": "torch", "matplotlib-base": "matplotlib"}


def _load_install():
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install = _load_install()


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    rows = [line.split("==") for line in lines if line and not line.startswith("#")]
    pins = {canonicalize_name(name): version for name, version in rows}
    assert len(pins) == len(rows), "a package is pinned twice"
    return pins


def _pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _direct_requirements() -> list[Requirement]:
    project = _pyproject()["project"]
    extras = project["optional-dependencies"]
    names = [*project["dependencies"], *extras["dev"], *extras["slurm"]]
    return [Requirement(name) for name in names]


def _make(*arguments: str) -> str:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    # Without what an outer make leaves behind for its children.
    outer = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VENV", "CONFIG"}
    env = {key: value for key, value in os.environ.items() if key not in outer}
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- pins ---


@pytest.mark.parametrize("requirement", _direct_requirements(), ids=str)
def test_pin_of_a_direct_dependency_lies_in_its_range(requirement):
    pins = _pins()
    name = canonicalize_name(requirement.name)
    assert name in pins
    assert Version(pins[name]) in requirement.specifier


def test_constraints_are_exact_public_versions():
    for name, version in _pins().items():
        assert str(Version(version)), name
        assert Version(version).local is None, f"{name}: a local label binds to one build"


def test_environment_yml_has_the_pins_of_constraints():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip_section,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    conda = [entry for entry in dependencies if isinstance(entry, str)]
    assert conda[0] == "python=3.11"
    rows = [*conda[1:], *(entry for entry in pip_section if not entry.startswith("-"))]
    found = {}
    for row in rows:
        name, version = row.split("==")
        found[canonicalize_name(CONDA_TO_PYPI.get(name, name))] = version

    pins = _pins()
    assert found == {name: pins[name] for name in found}
    assert {canonicalize_name(r.name) for r in _direct_requirements()} <= set(found)
    assert {"-c constraints.txt", "-e .[dev,slurm]"} <= set(pip_section)


# --- citation, catalog, hooks ---


def test_citation_has_what_the_format_requires():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"] and citation["title"]
    assert citation["authors"] == [{"name": "The driftlaw authors"}]
    assert citation["license"] == _pyproject()["project"]["license"]
    assert citation["version"] == _pyproject()["project"]["version"]
    cited = set()
    for reference in citation["references"]:
        assert {"authors", "title", "type"} <= set(reference)
        cited |= {identifier["value"] for identifier in reference["identifiers"]}
    assert cited == {"arXiv:2610.01896", "arXiv:2607.01083", "arXiv:2508.02833"}


def test_catalog_file_has_the_keys_that_the_catalog_reads():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["mandatory-flags"]) == {"desc", "flags"}
    assert all(isinstance(value, bool) for value in usage["software-stack-deployment"].values())


def test_hooks_run_what_make_lint_runs():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    entries = {hook["entry"] for hook in repository["hooks"]}
    makefile = (ROOT / "Makefile").read_text()
    parts = re.search(r"^lint: ([a-z -]+?) *##", makefile, flags=re.M)[1].split()
    assert entries == {f"make {part}" for part in parts}


def test_ci_script_is_executable_and_parses():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)


# --- what the repository must not contain ---


def test_no_registry_host_and_no_path_of_one_machine_in_the_repository():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    hosts = ["pypi" + ".org", "python" + "hosted.org", "pytorch" + ".org/whl", "anaconda" + ".org"]
    hosts += ["registry.npm" + "js.org", "download." + "pytorch", "deb." + "debian.org"]
    folders = "|".join(["work", "home", "root", "Users", "opt"])
    # A path is absolute where nothing that belongs to a path or an address stands before it.
    pattern = re.compile("|".join([*map(re.escape, hosts), rf"(?<![\w.~}})*$/-])/(?:{folders})/"]))

    files = [ROOT / name for name in listing.decode().split("\0") if name]
    files = [path for path in files if path.is_file() and not path.is_symlink()]
    assert ROOT / "Makefile" in files
    hits = []
    for path in files:
        text = path.read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.search(line):
                hits.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not hits, "\n".join(hits)


# --- make ---


def test_help_is_the_default_and_lists_every_target():
    shown = _make()
    assert shown == _make("help")
    listed = re.findall(r"^  make (\S+) +\S", shown, flags=re.M)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.M)[1].split()
    assert sorted(listed) == sorted(phony)
    assert {"setup", "smoke", "test", "lint", "bench", "clean", "help"} <= set(listed)


@pytest.mark.parametrize(("target", "then"), [("smoke", "snakemake"), ("test", "pytest")])
def test_smoke_and_test_create_a_missing_environment_first(tmp_path, target, then):
    planned = _make("--dry-run", target, f"VENV={tmp_path / 'fresh'}")
    assert "tools/install.py" in planned
    assert planned.index("tools/install.py") < planned.index(then + " -")


# --- set-up ---

CPU_REPORT = {"install": [{"metadata": {"name": "torch", "version": "2.13.0+cpu"}}]}
CUDA_REPORT = {
    "install": [
        {"metadata": {"name": "torch", "version": "2.13.0"}},
        {"metadata": {"name": "nvidia_cublas", "version": "13.1.1.3"}},
        {"metadata": {"name": "triton", "version": "3.7.1"}},
        {"metadata": {"name": "sympy", "version": "1.14.0"}},
    ]
}


def test_cuda_packages_are_found_by_name_and_by_local_version():
    assert install.cuda_packages(CPU_REPORT) == []
    assert install.cuda_packages({"install": []}) == []
    assert install.cuda_packages(CUDA_REPORT) == ["nvidia-cublas 13.1.1.3", "triton 3.7.1"]
    labelled = {"install": [{"metadata": {"name": "torch", "version": "2.13.0+cu130"}}]}
    assert install.cuda_packages(labelled) == ["torch 2.13.0+cu130"]


def test_cuda_is_refused_only_without_a_gpu_and_without_consent():
    assert install.cuda_refusal(CPU_REPORT, gpu=False, allowed=False) is None
    assert install.cuda_refusal(CUDA_REPORT, gpu=True, allowed=False) is None
    assert install.cuda_refusal(CUDA_REPORT, gpu=False, allowed=True) is None
    refusal = install.cuda_refusal(CUDA_REPORT, gpu=False, allowed=False)
    assert "\n" not in refusal
    assert "TORCH_INDEX=" in refusal and "ALLOW_CUDA=1" in refusal and "nvidia-cublas" in refusal


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (None, False),
        ("echo 'GPU 0: a card (UUID: GPU-1)'", True),
        ("echo 'No devices were found'", False),
        ("echo 'could not talk to the driver' >&2; exit 9", False),
    ],
)
def test_gpu_counts_only_if_nvidia_smi_lists_one(tmp_path, monkeypatch, script, expected):
    if script is not None:
        command = tmp_path / "nvidia-smi"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install.has_nvidia_gpu() is expected


def _fake_setup(tmp_path, monkeypatch, report) -> list[list[str]]:
    """Replace every command of the set-up by a record of it; the dry run answers `report`."""
    commands = []

    def run(command, *, capture=False):
        commands.append(command)
        return install.json.dumps(report) if "--dry-run" in command else "1.0\n"

    monkeypatch.setattr(install, "run", run)
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    (tmp_path / "venv").mkdir()
    return commands


def test_setup_installs_torch_before_the_project_and_stamps_last(tmp_path, monkeypatch):
    commands = _fake_setup(tmp_path, monkeypatch, CPU_REPORT)
    stamp = tmp_path / "venv" / ".installed"
    install.install(tmp_path / "venv", stamp, "", False)
    torch = f"torch=={_pins()['torch']}"
    last_words = [command[-1] for command in commands if "pip" in command]
    assert last_words == ["pip", torch, torch, ".[dev,slurm]"]  # the first torch is the dry run
    assert all(str(ROOT / "constraints.txt") in command for command in commands if "pip" in command)
    assert stamp.read_text() == "torch 1.0, snakemake 1.0\n"


def test_refused_setup_installs_no_torch_and_leaves_no_stamp(tmp_path, monkeypatch):
    commands = _fake_setup(tmp_path, monkeypatch, CUDA_REPORT)
    stamp = tmp_path / "venv" / ".installed"
    with pytest.raises(install.SetupError, match="TORCH_INDEX"):
        install.install(tmp_path / "venv", stamp, "", False)
    assert "--dry-run" in commands[-1]
    assert not stamp.exists()


def test_torch_index_is_passed_for_torch_alone(tmp_path, monkeypatch):
    commands = _fake_setup(tmp_path, monkeypatch, CUDA_REPORT)
    index = "https://wheels.example/cpu"
    install.install(tmp_path / "venv", tmp_path / "venv" / ".installed", index, False)
    with_index = [command for command in commands if index in command]
    (command,) = with_index
    assert command[-4:] == ["--no-deps", "--index-url", index, f"torch=={_pins()['torch']}"]


def test_interrupted_packages_are_installed_again(tmp_path):
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, complete in [("whole-1.0", True), ("half-2.0", False)]:
        info = site / f"{name}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").touch()
        if complete:
            (info / "RECORD").touch()
    (tmp_path / "pyvenv.cfg").touch()
    install.Environment(tmp_path).forget_incomplete()
    assert [info.name for info in site.iterdir()] == ["whole-1.0.dist-info"]


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(install.SetupError, match="no virtual environment"):
        install.Environment(tmp_path).create()
    assert (tmp_path / "notes.txt").read_text() == "mine"
