"""Prompts from local files: three formats, one content; one clear line for whatever is wrong."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driftlaw.config.settings import FileTask
from driftlaw.tasks import Grade, Problem, build
from driftlaw.tasks.local_file import FileFormatError, read_rows

ROWS = [
    {"prompt": 'Say "7", then\nstop: ', "answer": "7", "demonstration": "it is 7"},
    {"prompt": "2+2=", "answer": "4", "demonstration": ""},
    {"prompt": "ü, ½ and 三?", "answer": "3", "demonstration": ""},
]
PROBLEMS = [
    Problem('Say "7", then\nstop: ', "7", "it is 7"),
    Problem("2+2=", "4", "4"),  # without a demonstration the answer serves as one
    Problem("ü, ½ and 三?", "3", "3"),
]


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


every_format = pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])


@every_format
def test_one_content_in_every_format(tmp_path, suffix):
    assert read_rows(write(tmp_path / f"rows{suffix}", ROWS)) == PROBLEMS


@every_format
def test_a_repeated_prompt_counts_once(tmp_path, suffix):
    assert read_rows(write(tmp_path / f"rows{suffix}", [*ROWS, *ROWS])) == PROBLEMS


@every_format
def test_demonstrations_are_optional(tmp_path, suffix):
    rows = [{"prompt": r["prompt"], "answer": r["answer"], "other": "x"} for r in ROWS]
    found = read_rows(write(tmp_path / f"rows{suffix}", rows))
    assert [p.demonstration for p in found] == ["7", "4", "3"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_whole_numbers_are_text_too(tmp_path, suffix):
    rows = [{"prompt": "2+2=", "answer": 4}, {"prompt": "1-1=", "answer": 0}]
    found = read_rows(write(tmp_path / f"rows{suffix}", rows))
    assert [p.answer for p in found] == ["4", "0"]


@every_format
def test_missing_column(tmp_path, suffix):
    path = write(tmp_path / f"rows{suffix}", [{"prompt": "2+2=", "solution": "4"}])
    with pytest.raises(FileFormatError) as error:
        read_rows(path)
    assert str(error.value) == "row 1: `answer` must be text that is not empty"


@every_format
def test_empty_value(tmp_path, suffix):
    path = write(tmp_path / f"rows{suffix}", [ROWS[0], ROWS[1] | {"prompt": " "}])
    with pytest.raises(FileFormatError) as error:
        read_rows(path)
    assert str(error.value) == "row 2: `prompt` must be text that is not empty"


GOOD = '{"prompt": "a", "answer": "1"}\n'


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.jsonl", b"", "holds no rows; needs at least two with `prompt` and `answer`"),
        ("rows.jsonl", b"\n\n", "holds no rows; needs at least two with `prompt` and `answer`"),
        ("rows.csv", b"", "holds no rows; needs at least two with `prompt` and `answer`"),
        ("rows.csv", b"prompt,answer\n", "holds no rows;"),
        ("rows.jsonl", (GOOD + "{oops}\n").encode(), "row 2: not JSON: "),
        ("rows.jsonl", (GOOD + "\n\n[1, 2]\n").encode(), "row 4: must be a JSON object"),
        ("rows.jsonl", b'{"prompt": "a", "answer": null}', "row 1: `answer` must be text"),
        ("rows.jsonl", b'{"prompt": "a", "answer": ["1"]}', "row 1: `answer` must be text"),
        ("rows.jsonl", b'{"prompt": "a", "answer": true}', "row 1: `answer` must be text"),
        ("rows.jsonl", b'{"prompt": "\xff", "answer": "1"}', "cannot be read: "),
        ("rows.csv", b"prompt,answer\na\n", "row 1: `answer` must be text"),
        ("rows.csv", b"prompt,answer\n\xff,1\n", "cannot be read: "),
        ("rows.csv", b"prompt,answer\n" + b"a" * 200_000 + b",1\n", "cannot be read: "),
        ("rows.parquet", b"", "not parquet: "),
        ("rows.parquet", b"PAR1 this is not it PAR1", "not parquet: "),
        ("rows.txt", GOOD.encode(), "must end in .jsonl, .csv, .parquet"),
        ("rows", GOOD.encode(), "must end in .jsonl, .csv, .parquet"),
        ("rows.jsonl", None, "no such file"),
    ],
)
def test_unusable_files_are_refused_in_one_line(tmp_path, name, content, says):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileFormatError) as error:
        read_rows(path)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(FileFormatError, match="no such file"):
        read_rows(tmp_path / "rows.csv")


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path, name):
    """Spreadsheets save CSV with one."""
    path = write(tmp_path / name, ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_rows(path) == PROBLEMS


def task_of(tmp_path, **changes):
    rows = [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(30)]
    path = write(tmp_path / "rows.jsonl", rows)
    return build(FileTask(**({"name": "file", "path": str(path), "heldout_prompts": 10} | changes)))


def test_split_is_disjoint_complete_and_seeded(tmp_path):
    train, heldout = task_of(tmp_path).problems()
    assert (len(train), len(heldout)) == (20, 10)
    assert {p.prompt for p in train + heldout} == {f"{i}+1=" for i in range(30)}
    assert task_of(tmp_path).problems() == (train, heldout)
    assert task_of(tmp_path, seed=1).problems() != (train, heldout)


@pytest.mark.parametrize(
    ("match", "answer", "response", "expected"),
    [
        ("last_number", "42", "so 7, then 042.0", (1, True)),
        ("last_number", "the sum is 42", "42", (1, True)),
        ("last_number", "42", "41", (0, True)),
        ("last_number", "42", "none", (0, False)),
        ("last_number", "none", "42", (0, True)),
        ("last_number", "none", "none", (0, False)),
        ("exact", "a b", " a b\n", (1, True)),
        ("exact", " a b ", "a b", (1, True)),
        ("exact", "a b", "a  b", (0, True)),
        ("exact", "42", "042", (0, True)),
        ("exact", "42", "", (0, False)),
    ],
)
def test_grading(tmp_path, match, answer, response, expected):
    task = task_of(tmp_path, match=match)
    problem = Problem("?", answer, answer)
    assert task.grade(problem, response, False) == Grade(float(expected[0]), expected[1])
    assert task.grade(problem, response, True).score == 0.0


@pytest.mark.parametrize("match", ["last_number", "exact"])
def test_a_truncated_response_counts_as_unparsed_in_every_match(tmp_path, match):
    grade = task_of(tmp_path, match=match).grade(Problem("?", "42", "42"), "42", True)
    assert grade == Grade(0.0, False)
