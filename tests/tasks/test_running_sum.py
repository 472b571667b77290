"""The running-sum task: prompts and answers by hand, disjoint sets, and what is graded as right."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftlaw.config.settings import RunningSumTask
from driftlaw.models.tiny import build_tokenizer
from driftlaw.tasks import Grade, Problem, build
from driftlaw.tasks.matching import last_number
from driftlaw.tasks.running_sum import LEVELS, problem, prompt_space, response_tokens


# The index is the digits of the prompt, read as one number.
@pytest.mark.parametrize(
    ("level", "index", "prompt", "demonstration", "answer"),
    [
        (1, 95, "9+5=", "14", "14"),
        (1, 7, "0+7=", "07", "7"),
        (2, 3705, "37+05=", "042", "42"),
        (2, 9999, "99+99=", "198", "198"),
        (3, 370588, "37+05+88=", "042,130", "130"),
        (4, 99999999, "99+99+99+99=", "198,297,396", "396"),
        (4, 1020304, "01+02+03+04=", "003,006,010", "10"),
        (5, 999_999_999_999, "999+999+999+999=", "1998,2997,3996", "3996"),
        (5, 1_000_002_003, "001+000+002+003=", "0001,0003,0006", "6"),
        (2, 0, "00+00=", "000", "0"),
    ],
)
def test_problems_by_hand(level, index, prompt, demonstration, answer):
    made = problem(level, index)
    assert (made.prompt, made.demonstration, made.answer) == (prompt, demonstration, answer)


@pytest.mark.parametrize(
    ("level", "space", "tokens"),
    # Digits of a sum: one more than of a term; a comma between sums; end-of-text.
    [(1, 10**2, 3), (2, 10**4, 4), (3, 10**6, 8), (4, 10**8, 12), (5, 10**12, 15)],
)
def test_sizes_of_a_level(level, space, tokens):
    assert prompt_space(level) == space
    assert response_tokens(level) == tokens


@settings(max_examples=200, deadline=None)
@given(level=st.sampled_from(sorted(LEVELS)), data=st.data())
def test_every_problem_is_right_and_of_one_length(level, data):
    made = problem(level, data.draw(st.integers(0, prompt_space(level) - 1)))
    terms = [int(x) for x in made.prompt.rstrip("=").split("+")]
    sums = [int(x) for x in made.demonstration.split(",")]
    assert sums == [sum(terms[:k]) for k in range(2, len(terms) + 1)]
    assert int(made.answer) == sum(terms)
    assert len(made.demonstration) + 1 == response_tokens(level)
    assert len(made.prompt) == len(problem(level, 0).prompt)
    task = build(RunningSumTask(level=level))
    assert task.grade(made, made.demonstration, False) == Grade(1.0, True)


def test_a_character_is_a_token():
    tokenizer = build_tokenizer()
    for level in LEVELS:
        made = problem(level, prompt_space(level) // 3)
        ids = tokenizer.encode(made.demonstration, add_special_tokens=False)
        assert len([*ids, tokenizer.eos_token_id]) == response_tokens(level)


def test_level_one_enumerated():
    prompts = {problem(1, i).prompt for i in range(100)}
    assert prompts == {f"{a}+{b}=" for a in range(10) for b in range(10)}


@pytest.mark.parametrize("level", [1, 2, 5])
def test_training_and_heldout_share_no_prompt(level):
    size = {1: (60, 40)}.get(level, (300, 50))
    chosen = RunningSumTask(level=level, train_prompts=size[0], heldout_prompts=size[1], seed=3)
    train, heldout = build(chosen).problems()
    assert (len(train), len(heldout)) == size
    ids = [p.prompt_id for p in train + heldout]
    assert len(set(ids)) == sum(size)
    assert build(chosen).problems() == (train, heldout)
    assert build(chosen.model_copy(update={"seed": 4})).problems() != (train, heldout)


def test_heldout_set_does_not_grow_into_training_when_more_is_asked_for():
    small = RunningSumTask(level=2, train_prompts=10, heldout_prompts=20)
    train, heldout = build(small).problems()
    assert not {p.prompt for p in train} & {p.prompt for p in heldout}


def test_prompt_id_is_a_hash_of_the_prompt_alone():
    # printf '37+05=' | sha256sum | cut -c1-16
    assert Problem("37+05=", "42", "042").prompt_id == "3b6f86716146aae3"
    assert Problem("37+05=", "9", "").prompt_id == Problem("37+05=", "42", "042", "x").prompt_id


@pytest.mark.parametrize(
    ("response", "score", "parsed"),
    [
        ("042", 1, True),
        ("42", 1, True),
        ("0000042", 1, True),
        ("042,042", 1, True),
        ("7 then 42", 1, True),
        ("42.", 1, True),
        ("42.0", 1, True),
        ("+42", 1, True),
        ("042\n", 1, True),
        ("42,7", 0, True),  # the last number counts
        ("42 7", 0, True),
        ("-42", 0, True),
        ("42.5", 0, True),
        ("4 2", 0, True),
        ("420", 0, True),
        ("1e42x", 1, True),  # no exponents: 1, then 42
        ("", 0, False),
        ("   ", 0, False),
        ("forty-two", 0, False),
        ("=+,", 0, False),
        ("٤٢", 0, False),  # Arabic-Indic digits
        ("४२", 0, False),  # Devanagari
        ("⁴²", 0, False),
        ("４２", 0, False),  # full width
        ("9" * 64, 0, True),
        ("9" * 65, 0, False),  # longer than any answer: noise, not a number
        ("0" * 100 + "42", 0, False),
        ("9" * 100_000, 0, False),
        ("9" * 100 + " 42", 1, True),
        ("nan", 0, False),
        ("inf", 0, False),
    ],
)
def test_grading(response, score, parsed):
    task = build(RunningSumTask())
    target = problem(2, 3705)
    assert task.grade(target, response, False) == Grade(float(score), parsed)
    # Cut off: nothing counts, whatever stands there.
    assert task.grade(target, response, True) == Grade(0.0, False)


@pytest.mark.parametrize("response", ["0", "000", "-0", "0.0", "+0"])
def test_zero_is_an_answer(response):
    assert build(RunningSumTask()).grade(problem(2, 0), response, False) == Grade(1.0, True)


@pytest.mark.parametrize(
    ("text", "number"),
    [("-12.50", "-12.5"), ("x=.5", "0.5"), ("3-4", "-4"), ("1,234", "234"), ("1 000", "0")],
)
def test_last_number(text, number):
    assert str(last_number(text).normalize()) == number


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=80))
def test_any_text_can_be_graded(text):
    grade = build(RunningSumTask()).grade(problem(2, 3705), text, False)
    assert grade.score in (0.0, 1.0)
    assert grade.parsed == (last_number(text) is not None)
