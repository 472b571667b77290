# The study that this call is about, checked before anything is planned; names that all rules share.
import json
import os
import shlex
import sys
from pathlib import Path

from snakemake.utils import validate

ROOT = Path(str(workflow.current_basedir)).parent.parent
sys.path.insert(0, str(ROOT / "src"))

from driftlaw.config.load import ConfigError
from driftlaw.config.study import digest, load_study
from driftlaw.figures import NAMES as FIGURES


def load_config():
    """The study of --configfile, or the smoke study; a mistake in it is one line and exit code 2."""
    # Not a `configfile:` directive: that would be merged under a file given on the command line.
    files = [os.path.relpath(f) for f in workflow.configfiles] or [
        ROOT / "config/smoke.yaml"
    ]
    try:
        return load_study(files, workflow.config_settings.config)
    except ConfigError as error:
        print(f"driftlaw: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # past Snakemake, which would add lines of its own


def check_folders():
    """Folders that cannot be written are one line before anything runs, not a failure in every job."""
    for name in ("data", "models", "results", "logs", ".snakemake"):
        place = next(p for p in [Path(name), Path(".")] if p.exists())
        if not os.access(place, os.W_OK):
            print(
                f"driftlaw: {place.resolve()}: cannot be written",
                file=sys.stderr,
                flush=True,
            )
            os._exit(1)


STUDY = load_config()
if not workflow.dryrun:
    check_folders()
config.clear()
config.update(STUDY.settings.model_dump(mode="json", exclude_unset=True))
validate(config, str(ROOT / "workflow/schemas/config.schema.yaml"), set_default=False)


def write_study():
    """The study as one file, whatever files and options it was put together from."""
    text = json.dumps(config, indent=2, sort_keys=True)
    path = Path(f".snakemake/driftlaw/{STUDY.name}-{digest(config)}.yaml")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(text)
        temporary.replace(path)
    return path


# Jobs run the code that belongs to this workflow, installed or not, and find the study by a variable:
# as an input or a parameter it would make Snakemake repeat every run when one setting changes.
shell.prefix(
    "set -euo pipefail; "
    f"export PYTHONPATH={shlex.quote(str(ROOT / 'src'))} "
    f"DRIFTLAW_CONFIG={shlex.quote(str(write_study()))}; "
)
RESULTS = f"results/{STUDY.name}"
RUNS = {run.run_id: run for run in STUDY.runs}
# The laboratory's sections and their settings; none in a study without a `lab`.
LAB = STUDY.settings.lab.chosen() if STUDY.settings.lab else {}
BASES = {run.base_id: run for run in STUDY.runs}
ENVIRONMENT = str(ROOT / "workflow/envs/driftlaw.yaml")


wildcard_constraints:
    data=r"[\w.-]+",
    base=r"[\w.-]+",
    run=r"[\w.+-]+",
    section=r"\w+",
