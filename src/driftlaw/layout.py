"""Where everything lies, relative to the working directory: the one place that knows the folders."""

from __future__ import annotations

from pathlib import Path

DATA, BASES, RESULTS = Path("data"), Path("models"), Path("results")


def data_dir(data_id: str) -> Path:
    return DATA / data_id


def base_dir(base_id: str) -> Path:
    return BASES / base_id


def study_dir(study: str) -> Path:
    return RESULTS / study


def run_dir(study: str, run_id: str) -> Path:
    return study_dir(study) / "runs" / run_id


def report(study: str) -> Path:
    return study_dir(study) / "report.html"


def lab_dir(study: str) -> Path:
    return study_dir(study) / "lab"


def lab_page(study: str) -> Path:
    return lab_dir(study) / "estimators.md"
