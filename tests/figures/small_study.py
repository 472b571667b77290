"""Studies written by hand: real schemas, made-up runs, every number known to the test."""

from pathlib import Path

from driftlaw import layout
from driftlaw.config.study import LoadedStudy, Run, load_study
from driftlaw.files import write_json, write_table
from driftlaw.training import ledger

FILL = {"int64": 0, "double": 0.5, "bool": True, "string": "", "list<int32>": [], "list<float>": []}


def load(text: str, folder: Path = Path()) -> LoadedStudy:
    """The study of a YAML text, saved in `folder`."""
    path = folder / "study.yaml"
    path.write_text(text)
    return load_study(path)


def rows(name: str, **columns):
    """Rows of a run's table: the given columns, and a neutral value in every other."""
    n = len(next(iter(columns.values())))
    filled = {c.name: [FILL[c.type]] * n for c in ledger.TABLES[name]} | columns
    return ledger.table(name, [{k: v[i] for k, v in filled.items()} for i in range(n)])


def write_run(
    study: LoadedStudy,
    run: Run,
    scores: dict[int, float],
    status: str = "stable",
    collapse: tuple[int, int] | None = None,
    reason: str = "reached the horizon",
    se: float = 0.02,
    base: float | None = 0.25,
    ledger_columns: dict[str, list] | None = None,
    **manifest,
) -> Path:
    """The folder of a run that ended as told. scores: held-out score by updates done; the last key
    is the number of updates done. collapse: (event time, detected at)."""
    folder, done = layout.run_dir(study.name, run.run_id), max(scores, default=0)
    updates = {"update": list(range(done)), "applied": [True] * done}
    if scores:
        curve = {
            "update": list(scores),
            "avg_at_k": list(scores.values()),
            "se": [se] * len(scores),
        }
        write_table(folder / "eval.parquet", rows("eval", **curve))
        write_table(folder / "ledger.parquet", rows("ledger", **updates, **(ledger_columns or {})))
    failed = status == "failed"
    write_json(
        folder / "manifest.json",
        {
            "status": status,
            "reason": reason,
            "collapse_update": collapse[0] if collapse else None,
            "collapse_detected_at": collapse[1] if collapse else None,
            "collapse_bracket": [0, collapse[0]] if collapse else None,
            "updates": None if failed else done,
            "base_pass_rate": None if failed else base,
            "final_score": None if failed or not scores else list(scores.values())[-1],
            "identity": {
                "run_id": run.run_id,
                "base_id": run.base_id,
                "data_id": run.data_id,
                "data_hash": "d" * 64,
                "base_hash": "b" * 64,
            },
            "provenance": {
                "driftlaw": "0.1.0",
                "git": {"commit": "c0ffee" * 6 + "abcd", "dirty": True},
                "python": "3.11.0",
                "packages": {"torch": "2.9.0"},
                "host": "node7",
                "machine": "x86_64",
                "cpu": "a processor",
                "cpus": 2,
                "started_unix_s": 1_700_000_000.0,
                "written_unix_s": 1_700_000_060.0,
            },
            "settings": run.settings.model_dump(mode="json"),
            "study": study.name,
            **manifest,
        },
    )
    return folder
