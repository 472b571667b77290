"""`driftlaw <verb>`: every rule of the workflow calls one verb, and every verb works without it.

Exit codes: 0 done (a run may be stable, collapsed or censored) · 1 failed · 2 settings or input that
cannot be used · 128 + signal when interrupted. What goes wrong is one line on standard error. Heavy
imports happen inside the verb that needs them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from driftlaw.config.load import NOTHING, ConfigError, about

app = typer.Typer(
    help="How stale may your rollouts be? Asynchronous GRPO, its estimators and its collapse.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(
    help="Check a study file; print what is derived from it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(config_app, name="config")

Config = Annotated[
    list[Path],
    typer.Option(
        "--config",
        "-c",
        envvar="DRIFTLAW_CONFIG",
        help="Study file; given several times, later ones are laid over.",
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder or file to write.")]


def main() -> None:
    """Entry point: whatever goes wrong becomes one line and an exit code."""
    from driftlaw.errors import one_line

    try:
        code = app(standalone_mode=False)
    except ConfigError as error:
        _leave(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        _leave("interrupted", 130)
    except Exception as error:
        text, code = one_line(error)
        _leave(text, code)
    sys.exit(code if isinstance(code, int) else 0)


def _leave(message: str, code: int) -> None:
    print(f"driftlaw: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@app.command()
def version() -> None:
    """Print the version."""
    import driftlaw

    print(driftlaw.__version__)


# -- config ---------------------------------------------------------------------------------------


@config_app.command("check")
def config_check(
    files: Annotated[list[Path], typer.Argument(help="Study file(s), later ones laid over.")],
) -> None:
    """Check a study and print its runs, updates and predicted core-hours."""
    from driftlaw.config.cost import summary
    from driftlaw.config.study import load_study

    print(summary(load_study(files)))


@config_app.command("path")
def config_path(files: Annotated[list[Path], typer.Argument(help="Study file(s).")]) -> None:
    """Print the path of the study's report; of the laboratory's page where nothing is trained."""
    from driftlaw import layout
    from driftlaw.config.study import load_study

    study = load_study(files)
    print((layout.report if study.runs else layout.lab_page)(study.name))


@config_app.command("runs")
def config_runs(files: Annotated[list[Path], typer.Argument(help="Study file(s).")]) -> None:
    """Print the name of every run of a study, a line each."""
    from driftlaw.config.study import load_study

    print("\n".join(r.run_id for r in load_study(files).runs))


@config_app.command("schema")
def config_schema(
    write: Annotated[
        bool, typer.Option("--write", help="Write workflow/schemas/config.schema.yaml.")
    ] = False,
) -> None:
    """Print the JSON schema of a study file."""
    from driftlaw.config.reference import SCHEMA_FILE, schema_text

    _print_or_write(schema_text(), SCHEMA_FILE, write)


@config_app.command("reference")
def config_reference(
    write: Annotated[
        bool,
        typer.Option("--write", help="Write the tables of config/README.md and docs/tables.md."),
    ] = False,
) -> None:
    """Print the reference table of all settings."""
    from driftlaw.config.reference import REFERENCE_FILE, TABLES_FILE, reference_text, tables_text

    _print_or_write(reference_text(), REFERENCE_FILE, write)
    if write:
        _print_or_write(tables_text(), TABLES_FILE, write)


def _print_or_write(text: str, path: Path, write: bool) -> None:
    if not write:
        print(text, end="")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    _say(f"wrote {path}")


@app.command("objectives")
def list_objectives() -> None:
    """List every objective: parameters with defaults, ranges and units, length factor, mark, source."""
    from driftlaw.objectives.catalog import CATALOG, SHARED, Parameter

    for name, entry in CATALOG.items():
        norm = f"{entry.length_norm} (its own)" if entry.fixed_length_norm else entry.length_norm
        print(f"{name:14s} [{entry.mark}] {entry.source}")
        print(f"{'':14s} length_norm {norm}; advantage {entry.advantage}")
        for key, parameter in entry.own.items():
            default = "-" if parameter.default is None else f"{parameter.default}".lower()
            bounds = (
                f"{parameter.low:g} to {parameter.high:g}"
                if isinstance(parameter, Parameter)
                else "true or false"
            )
            print(f"{'':14s} {key} = {default}  ({bounds}; {parameter.unit})")
    print(f"all take {', '.join(SHARED)}; formulas: docs/method.md")


# -- the phases -----------------------------------------------------------------------------------


@app.command()
def data(
    config: Config,
    out: Out,
    data_id: Annotated[
        str | None, typer.Option("--data", help="Which prompt set (default: the only one).")
    ] = None,
) -> None:
    """Prepare a prompt set: disjoint training and held-out prompts as Parquet, with hashes."""
    from driftlaw.config.study import load_study
    from driftlaw.tasks.prepare import prepare
    from driftlaw.training.run_folder import RunFolder

    study = load_study(config)
    run = study.with_id("data", data_id)
    with about(study.where), RunFolder(out).locked(_say):
        manifest = prepare(run.settings.task, out)
    _say(
        f"{out}: {manifest['train_prompts']} training, {manifest['heldout_prompts']} held-out prompts"
    )


@app.command()
def base(
    config: Config,
    out: Out,
    base_id: Annotated[
        str | None, typer.Option("--base", help="Which base policy (default: the only one).")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Prompt set (default: data/<id>, made if missing).")
    ] = None,
) -> None:
    """Make a base policy with room to improve; an ordinary Hugging Face folder and a manifest."""
    from driftlaw.config.study import load_study
    from driftlaw.training.train import prepare_base, prepare_data

    study = load_study(config)
    run = study.with_id("base", base_id)
    with about(study.where):
        manifest = prepare_base(run, prepare_data(run, data_dir, _say), out, _say)
    _say(f"{out}: held-out pass rate {manifest['pass_rate']:.3f}")


@app.command()
def train(
    config: Config,
    out: Out,
    run_id: Annotated[
        str | None, typer.Option("--run", help="Which run; needed unless the study has one.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Prompt set (default: data/<id>, made if missing).")
    ] = None,
    base_dir: Annotated[
        Path | None, typer.Option(help="Base policy (default: models/<id>, made if missing).")
    ] = None,
    stop_at: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many updates, as censored.")
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            min=1, help="Restart a run whose process was killed, up to this many starts in all."
        ),
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Exit 0 when the run failed and its manifest says so."),
    ] = False,
) -> None:
    """Train one run, resuming from its folder; writes tables, model and manifest."""
    from driftlaw.config.study import load_study

    study = load_study(config)
    run = study.run(run_id)
    if attempts is not None:
        from driftlaw.training.supervise import supervise

        code = supervise(run, study.name, out, attempts, sys.argv[1:], _say)
        raise typer.Exit(
            0 if keep_going and code == 1 and (out / "manifest.json").exists() else code
        )
    from driftlaw.training.interrupts import Interrupted
    from driftlaw.training.progress import progress_bar
    from driftlaw.training.train import train as train_run

    try:
        progress = progress_bar(run.run_id, run.settings.learner.updates, _say)
        with about(study.where), progress as (say, tick):
            train_run(
                run,
                study.name,
                out,
                data_dir=data_dir,
                base_dir=base_dir,
                stop_at=stop_at,
                say=say,
                tick=tick,
            )
    except Interrupted as error:
        _leave(str(error), 128 + error.signal_number)


@app.command()
def status(
    study: Annotated[str, typer.Argument(help="A study file, or the name of a study in config/.")],
) -> None:
    """Show a study's runs by state: last update, time left, why failed; while it runs or after."""
    from driftlaw.status import show_status

    show_status(study)


@app.command()
def retry(
    study: Annotated[str, typer.Argument(help="A study file, or the name of a study in config/.")],
) -> None:
    """Forget the failed runs of a study, so that the next call of the workflow tries them again."""
    from driftlaw.status import forget_failed

    for run_id in forget_failed(study):
        print(run_id)


# -- after training -------------------------------------------------------------------------------


@app.command()
def collect(config: Config, out: Out) -> None:
    """Collect a study's runs into tables: runs.csv, curves.parquet, updates.parquet."""
    from driftlaw.collect import collect as collect_runs
    from driftlaw.config.study import load_study

    _say(collect_runs(load_study(config), out))


@app.command()
def fit(
    runs: Annotated[
        Path, typer.Argument(help="Run table with S, lr, seed, status, collapse_update, horizon.")
    ],
    out: Out,
    level: Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")] = 0.9,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Reported horizon, updates (default: the longest).")
    ] = None,
) -> None:
    """Fit stability boundary and collapse time to a run table, ours or anybody's; writes fit.json."""
    from driftlaw.files import write_json
    from driftlaw.laws.fit import fit_file
    from driftlaw.laws.run_table import RunTableError

    if not runs.is_file():
        raise ConfigError(runs, "", NOTHING, "no such file")
    try:
        found = fit_file(runs, level, horizon)
    except RunTableError as error:
        raise ConfigError("", "", NOTHING, str(error)) from None
    write_json(out / "fit.json", found)
    _say(f"wrote {out / 'fit.json'}")


@app.command()
def figures(
    config: Config,
    out: Out,
    tables: Annotated[Path, typer.Option(help="Folder that `driftlaw collect` wrote.")],
) -> None:
    """Draw a study's figures, PNG and SVG, each with a caption that names its table."""
    from driftlaw.config.study import load_study
    from driftlaw.figures.draw import draw_all

    for path in draw_all(load_study(config), tables, out):
        _say(f"wrote {path}")


@app.command()
def report(
    config: Config,
    out: Out,
    tables: Annotated[Path, typer.Option(help="Folder that `driftlaw collect` wrote.")],
    laws: Annotated[Path, typer.Option(help="fit.json that `driftlaw fit` wrote.")],
    figures: Annotated[Path, typer.Option(help="Folder that `driftlaw figures` wrote.")],
    lab: Annotated[
        Path | None, typer.Option(help="Folder `estimators` that `driftlaw lab` wrote.")
    ] = None,
) -> None:
    """Write a study's HTML report: one file that opens from disk with no network."""
    from driftlaw.config.study import load_study
    from driftlaw.report.html import write_report

    write_report(load_study(config), tables, laws, figures, out, lab)
    _say(f"wrote {out}")


# -- the laboratory -------------------------------------------------------------------------------


@app.command()
def lab(
    config: Config,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder (default: results/<study>/lab).")
    ] = None,
    section: Annotated[
        list[str] | None, typer.Option(help="Run this section alone; may be repeated.")
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Sections at the same time.")] = 1,
    with_page: Annotated[
        bool, typer.Option("--page/--no-page", help="Write claims, figures and page at the end.")
    ] = True,
) -> None:
    """Measure every estimator against exact gradients: tables, figures and a page, claim by claim.

    Sections that are complete with the same settings are not run again.
    """
    from driftlaw import layout
    from driftlaw.config.study import load_study
    from driftlaw.theory.lab import finish, run

    study = load_study(config)
    settings = study.settings.lab
    if settings is None:
        raise ConfigError(study.where, "lab", NOTHING, "the study has no laboratory")
    chosen = list(settings.chosen())
    for name in section or []:
        if name not in chosen:
            raise ConfigError(study.where, "--section", name, f"must be one of {', '.join(chosen)}")
    folder = out or layout.lab_dir(study.name)
    run(settings, folder, section or chosen, cores, _say)
    if with_page:
        finish(settings, folder, _say)
