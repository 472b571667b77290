"""A data set of reasoning-gym, scored by its own verifier."""

import json

import pytest

from driftlaw.config.load import ConfigError
from driftlaw.config.settings import ReasoningGymTask
from driftlaw.tasks import Grade, build


def settings(**changes):
    values = {
        "name": "reasoning_gym",
        "dataset": "chain_sum",
        "options": {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 2},
        "train_prompts": 40,
        "heldout_prompts": 10,
        "seed": 5,
    }
    return ReasoningGymTask(**(values | changes))


@pytest.fixture(scope="module")
def made():
    task = build(settings())
    return task, *task.problems()


def test_own_answers_are_right_and_others_wrong(made):
    task, train, heldout = made
    for problem in train + heldout:
        assert task.grade(problem, problem.answer, False) == Grade(1.0, True)
        assert task.grade(problem, f" {problem.answer}\n", False) == Grade(1.0, True)
        assert task.grade(problem, problem.demonstration, False).score == 1.0
        assert task.grade(problem, str(int(problem.answer) + 1), False) == Grade(0.0, True)
        assert task.grade(problem, problem.answer, True) == Grade(0.0, False)
        assert task.grade(problem, "  ", False) == Grade(0.0, False)


def test_answers_are_those_of_the_questions(made):
    _, train, _ = made
    for problem in train:
        expression = json.loads(problem.entry)["metadata"]["expression"]
        assert expression in problem.prompt
        # Only digits, spaces, + and -: safe to compute.
        assert set(expression) <= set("0123456789 +-")
        assert eval(expression) == int(problem.answer)


def test_a_consolation_score_is_no_success():
    """A verifier may give a wrong but readable answer a little; a success it is not."""
    task = build(settings())
    train, _ = task.problems()
    task._dataset.score_answer = lambda *_: 0.99
    assert task.grade(train[0], "7", False) == Grade(0.0, True)


def test_sets_are_disjoint_and_a_function_of_the_settings(made):
    _, train, heldout = made
    assert (len(train), len(heldout)) == (40, 10)
    assert len({p.prompt_id for p in train + heldout}) == 50
    assert build(settings()).problems() == (train, heldout)
    assert build(settings(seed=6)).problems() != (train, heldout)


def test_options_reach_the_data_set():
    task = build(settings(options={"min_terms": 5, "max_terms": 5}, train_prompts=3))
    train, _ = task.problems()
    for problem in train:
        expression = json.loads(problem.entry)["metadata"]["expression"]
        assert expression.count("+") + expression.count("-") == 4


def test_too_few_distinct_prompts():
    # Sums of two one-digit numbers: at most 2 x 90.
    small = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    task = build(settings(options=small, train_prompts=400, heldout_prompts=1))
    with pytest.raises(ConfigError, match=r"task\.train_prompts: 400: with held-out prompts") as e:
        task.problems()
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "options", [{"no_such_option": 1}, {"min_terms": 5, "max_terms": 2}, {"min_terms": -1}]
)
def test_options_that_the_data_set_refuses(options):
    with pytest.raises(ConfigError, match=r"task\.options: .*chain_sum says: ") as error:
        build(settings(options=options))
    assert "\n" not in str(error.value)
