"""Create the virtual environment and install the pinned packages into it; the Makefile calls this.

The order matters: pip at its pinned version, then torch alone (so that its build is decided before
anything else can pull it in), then the project with its extras, and the stamp file last. After an
interruption the next call goes on: nothing that is already installed is fetched again.

Without an NVIDIA GPU no CUDA build is installed unless it is asked for. pip resolves torch first in
a dry run that reads the metadata of the wheels and not the wheels themselves, and the set-up stops
if the answer holds CUDA packages.

Only the standard library is used: this runs before anything is installed.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 -- reached by whatever `python3` the user has
    sys.exit(
        f"setup: driftlaw needs Python 3.11 or newer, and {sys.executable} is "
        f"{sys.version.split()[0]}; name another one with `make setup PYTHON=python3.11`"
    )

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PROJECT = ".[dev,slurm]"
CUDA_NAME = re.compile(r"(nvidia|cuda|triton|pytorch-triton)(-|$)")


class SetupError(Exception):
    """A reason to stop that fits on one line."""


def pinned(name: str, constraints: str) -> str:
    """The version that `constraints` (the text of a constraints file) pins `name` to."""
    match = re.search(rf"^{re.escape(name)}==(\S+)$", constraints, flags=re.M | re.I)
    if match is None:
        raise SetupError(f"constraints.txt has no line `{name}==...`")
    return match[1]


def has_nvidia_gpu() -> bool:
    """Whether nvidia-smi is there and lists at least one GPU."""
    if shutil.which("nvidia-smi") is None:
        return False
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listing.returncode == 0 and listing.stdout.startswith("GPU ")


def cuda_packages(report: dict) -> list[str]:
    """CUDA packages among those that a pip installation report would install.

    A package counts by its name (nvidia-*, cuda-*, triton) or by a local version such as +cu130.
    """
    found = []
    for item in report["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        version = item["metadata"]["version"]
        if CUDA_NAME.match(name) or re.search(r"\+cu\d", version):
            found.append(f"{name} {version}")
    return found


def cuda_refusal(report: dict, *, gpu: bool, allowed: bool) -> str | None:
    """Why what `report` lists must not be installed on this machine, or None if it may be."""
    cuda = cuda_packages(report)
    if gpu or allowed or not cuda:
        return None
    return (
        f"this machine has no working NVIDIA GPU, but pip would install {len(cuda)} CUDA packages "
        f"here ({', '.join(cuda[:3])}, ...); use `make setup TORCH_INDEX=<URL of PyTorch's CPU "
        "wheel index>`, or `make setup ALLOW_CUDA=1` to install them all the same"
    )


def run(command: list[str], *, capture: bool = False) -> str:
    """Run `command` in the repository's root; return its output if `capture`, else let it show."""
    stdout = subprocess.PIPE if capture else None
    done = subprocess.run(command, cwd=ROOT, stdout=stdout, text=True, check=False)
    if done.returncode != 0:
        short = " ".join(command[2:5] if command[1:2] == ["-m"] else command[:3])
        raise SetupError(
            f"`{short} ...` failed with exit code {done.returncode} (its own message is above); "
            "`make setup` goes on from there"
        )
    return done.stdout or ""


def say(message: str) -> None:
    print(f"setup: {message}", flush=True)


class Environment:
    """One Python environment in a folder: a virtual environment, or an activated conda one."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.python = str(folder / "bin" / "python")

    def pip(self, *arguments: str, capture: bool = False) -> str:
        common = ["--disable-pip-version-check", "--no-input", "--constraint", str(CONSTRAINTS)]
        command = [self.python, "-m", "pip", "install", *common, *arguments]
        return run(command, capture=capture)

    def works(self) -> bool:
        """Whether the environment has a Python that starts and a pip that starts."""
        if not Path(self.python).exists():
            return False
        probe = [self.python, "-m", "pip", "--version"]
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

    def create(self) -> None:
        """Create the folder, or create it anew where an earlier attempt broke off half-way."""
        foreign = self.folder.exists() and any(self.folder.iterdir())
        if foreign and not (self.folder / "pyvenv.cfg").exists():
            raise SetupError(f"{self.folder} is not empty and is no virtual environment: move it")
        say(f"creating {self.folder} with Python {sys.version.split()[0]}")
        run([sys.executable, "-m", "venv", "--clear", str(self.folder)])

    def forget_incomplete(self) -> None:
        """Drop the records of packages whose installation was interrupted, so that pip repeats it.

        pip writes RECORD last; to pip itself a dist-info folder without one already counts as
        installed, although the package's commands may be missing.
        """
        if not (self.folder / "pyvenv.cfg").exists():
            return  # a conda environment: its packages are recorded elsewhere
        for info in self.folder.glob("lib/python*/site-packages/*.dist-info"):
            if not (info / "RECORD").exists():
                say(f"installing {info.name.removesuffix('.dist-info')} again: it was interrupted")
                shutil.rmtree(info)

    def version(self, name: str) -> str:
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        return run([self.python, "-c", code], capture=True).strip()


def install(folder: Path, stamp: Path, torch_index: str, allow_cuda: bool) -> None:
    """Bring the environment in `folder` to what constraints.txt says and write `stamp`."""
    begin = time.monotonic()
    text = CONSTRAINTS.read_text(encoding="utf-8")
    torch = f"torch=={pinned('torch', text)}"

    environment = Environment(folder)
    if not environment.works():
        environment.create()
    environment.forget_incomplete()

    # Older versions of pip fetch every wheel in a dry run, several GB of CUDA among them.
    say(f"pip {pinned('pip', text)}")
    environment.pip("--quiet", "pip")

    gpu = has_nvidia_gpu()
    if not (gpu or torch_index or allow_cuda):
        say("no NVIDIA GPU here: looking up which build of torch pip would install")
        dry_run = ["--dry-run", "-qq", "--use-feature=fast-deps", "--report", "-", torch]
        report = json.loads(environment.pip(*dry_run, capture=True))
        refusal = cuda_refusal(report, gpu=gpu, allowed=allow_cuda)
        if refusal:
            raise SetupError(refusal)

    say(torch + (f" from {torch_index}" if torch_index else ""))
    # The dependencies come with the project below, from the default index and at their pins: an
    # index of torch builds need not have them.
    environment.pip("--no-deps", *(["--index-url", torch_index] if torch_index else []), torch)

    say(f"{PROJECT} with its dependencies (one to three minutes)")
    build = ["--build-constraint", str(CONSTRAINTS)]
    environment.pip("--quiet", *build, "--editable", PROJECT)

    ready = f"torch {environment.version('torch')}, snakemake {environment.version('snakemake')}"
    unfinished = stamp.with_name(stamp.name + ".part")
    unfinished.write_text(ready + "\n", encoding="utf-8")
    unfinished.replace(stamp)
    say(f"{folder} is ready after {time.monotonic() - begin:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--venv", type=Path, required=True, help="folder of the environment")
    parser.add_argument("--stamp", type=Path, required=True, help="file that is written last")
    parser.add_argument("--torch-index", default="", help="package index for torch alone")
    parser.add_argument("--allow-cuda", action="store_true", help="CUDA packages without a GPU")
    arguments = parser.parse_args()
    try:
        install(
            arguments.venv.absolute(),
            arguments.stamp.absolute(),
            arguments.torch_index,
            arguments.allow_cuda,
        )
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
