"""`driftlaw report`: one HTML file that opens from disk, with everything in it and no network.

Equal inputs give equal bytes: no clock is read, and what differs between machines comes from the
runs' manifests alone.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import driftlaw
from driftlaw import layout
from driftlaw.collect import TABLES
from driftlaw.config.study import LoadedStudy
from driftlaw.figures import NAMES
from driftlaw.figures.data import read
from driftlaw.figures.scores import LEVEL
from driftlaw.files import read_json, write_text
from driftlaw.report import results
from driftlaw.report.fits import SOURCE, fit_groups

TEMPLATE = "report.html.j2"


def write_report(
    study: LoadedStudy,
    tables: Path,
    laws: Path,
    figures: Path,
    out: Path,
    lab: Path | None = None,
) -> None:
    """Write the report of a study to `out`.

    tables: folder of `driftlaw collect`. laws: the file `fit.json` of `driftlaw fit`.
    figures: folder of `driftlaw figures`. lab: folder `estimators` of `driftlaw lab`. The runs'
    manifests are read from where `driftlaw.layout` has them.
    Raises FileNotFoundError for an input that is not there.
    """
    data = read(study, tables)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = study.settings.model_dump(mode="json", exclude={"grid", "description"})
    html = environment.get_template(TEMPLATE).render(
        study=study.name,
        description=study.settings.description,
        summary=results.summary(data),
        caveats=results.caveats(data),
        counts=results.counts(data.runs),
        scores=results.score_rows(data),
        differences=results.differences(data),
        reference=results.reference(data),
        groups=results.run_rows(data),
        level=f"{LEVEL:.0%}",
        fits=fit_groups(read_json(laws)),
        source=SOURCE,
        figures=_figures(figures, NAMES),
        lab=_laboratory(lab) if lab else None,
        settings=yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        grid=yaml.safe_dump(study.settings.grid, sort_keys=False, allow_unicode=True),
        tables={f"{tables.name}/{name}": columns for name, columns in TABLES.items()},
        provenance=_provenance(study),
        version=driftlaw.__version__,
    )
    write_text(out, html)


def _figures(folder: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """Those figures with their captions, their PNG as text."""
    captions = read_json(folder / "captions.json")
    return [
        {
            **captions[name],
            "name": name,
            "png": base64.b64encode((folder / f"{name}.png").read_bytes()).decode("ascii"),
        }
        for name in names
    ]


def _laboratory(folder: Path) -> dict[str, Any]:
    """The laboratory's claims and figures."""
    return {
        "claims": read_json(folder / "claims.json"),
        "figures": _figures(folder, sorted(read_json(folder / "captions.json"))),
    }


def _provenance(study: LoadedStudy) -> list[tuple[str, list[str]]]:
    """What the runs' manifests say of code, packages, machines and inputs: distinct values."""
    paths = [layout.run_dir(study.name, run.run_id) / "manifest.json" for run in study.runs]
    manifests = [read_json(path) for path in paths if path.exists()]
    found: dict[str, set[str]] = {}

    def add(label: str, value: Any) -> None:
        found.setdefault(label, set())
        if value is not None:
            found[label].add(str(value))

    times = []
    for manifest in manifests:
        p, identity = manifest["provenance"], manifest["identity"]
        add("driftlaw", p["driftlaw"])
        add("code", _commit(p["git"]))
        add("Python", p["python"])
        add("packages", ", ".join(f"{k} {v}" for k, v in sorted(p["packages"].items())))
        add("hosts", f"{p['host']} ({p['cpus']} CPUs, {p['cpu'] or p['machine']})")
        add("prompt sets", _hashed(identity["data_id"], identity.get("data_hash")))
        add("base policies", _hashed(identity["base_id"], identity.get("base_hash")))
        times += [t for t in (p.get("started_unix_s"), p.get("written_unix_s")) if t is not None]
    if times:
        add("trained", f"{_utc(min(times))} to {_utc(max(times))}")
    if len(manifests) < len(paths):
        add("missing", f"{len(paths) - len(manifests)} of {len(paths)} manifests were not found")
    return [(label, sorted(values)) for label, values in found.items()]


def _commit(git: dict[str, Any] | None) -> str:
    if git is None:
        return "not a git checkout"
    return f"commit {git['commit']}" + (" with uncommitted changes" if git["dirty"] else ", clean")


def _hashed(name: str, digest: str | None) -> str:
    return f"{name} (sha256 {digest})" if digest else name


def _utc(unix_s: float) -> str:
    moment = datetime.datetime.fromtimestamp(unix_s, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
