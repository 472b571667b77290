"""A Snakemake logger plugin: a line a job, and one clear line for a study file that cannot be read.

Snakemake reads `--configfile` before it reads a Snakefile, and answers a missing file with a traceback
and broken YAML without saying where. Plugins are imported before that, so the check stands here: when
the command is `snakemake` and a file it is given cannot be read, the line of `driftlaw config check`
is printed and the exit code is 2. Files that can be read are left to Snakemake and to the workflow.

`snakemake --logger driftlaw` prints one line a finished or failed job, and nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from logging import LogRecord
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

__all__ = ["LogHandler"]


def config_files(arguments: Sequence[str]) -> list[str]:
    """The files that `--configfile` or `--configfiles` names on a command line of Snakemake."""
    files: list[str] = []
    inside = False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if option in ("--configfile", "--configfiles"):
            inside = not equals
            files += [value] if equals else []
        elif argument.startswith("-"):
            inside = False
        elif inside:
            files.append(argument)
    return files


def check_command_line(argv: Sequence[str]) -> None:
    """Leave with one line and exit code 2 if a study file of this Snakemake call cannot be read."""
    from driftlaw.config.load import ConfigError, read_yaml

    command = Path(argv[0])  # `snakemake`, or snakemake/__main__.py under `python -m snakemake`
    if "snakemake" not in (command.name, command.parent.name):
        return
    try:
        for file in config_files(argv[1:]):
            read_yaml(file)
    except ConfigError as error:
        print(f"driftlaw: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # Snakemake would add lines of its own


class LogHandler(LogHandlerBase):
    """One line a finished or failed job on standard error."""

    def emit(self, record: LogRecord) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_FINISHED:
            print(f"finished: job {getattr(record, 'job_id', '?')}", file=sys.stderr, flush=True)
        elif event in (LogEvent.JOB_ERROR, LogEvent.ERROR):
            print(" ".join(str(record.getMessage()).split()), file=sys.stderr, flush=True)

    @property
    def writes_to_stream(self) -> bool:
        return True

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return False

    @property
    def has_formatter(self) -> bool:
        return False

    @property
    def needs_rulegraph(self) -> bool:
        return False


check_command_line(sys.argv)
