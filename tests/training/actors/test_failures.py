"""When a run ends because of its actors, and when it goes on."""

import pytest

from gtrxl.training.actors.failures import FORGIVEN, Failures
from gtrxl.training.actors.packets import Failure, Kind


def failure(actor=0, *, at="at step 3", said="raised KeyError: 1", kind: Kind = "raised"):
    message = f"gym:Bad, actor {actor}, stream 0, {at}: {said}"
    return Failure(actor, kind, message, when_made=at == "when made")


def unmade(actor=0, **others):
    return failure(actor, at="when made", **others)


def test_an_actor_that_never_gets_through_an_unroll_ends_the_run():
    book = Failures(2, restarts=3)
    assert [book.add(1, failure(1)) for _ in range(3)] == [None] * 3
    ending = book.add(1, failure(1))
    assert ending is not None
    assert ending.startswith("actor 1 failed 4 times without a whole unroll in between; the last time: gym:Bad, actor 1")


@pytest.mark.parametrize("between", [1, 5, FORGIVEN - 1])
def test_an_actor_that_dies_again_and_again_ends_the_run_whatever_comes_in_between(between):
    """A Lab may die at every episode's second picture and give a whole unroll each time."""
    book, died = Failures(1, restarts=3), 0
    while book.add(0, failure(kind="died")) is None:
        died += 1
        for _ in range(between):
            book.unrolled(0)
        assert died < 1000, "it went on for ever"
    assert died >= 6
    assert between > 1 or died < 8


def test_a_rare_failure_never_ends_a_run():
    book = Failures(2, restarts=3)
    for _ in range(1000):
        assert book.add(0, failure()) is None
        for _ in range(FORGIVEN):
            book.unrolled(0)


def test_a_task_that_cannot_be_made_ends_the_run_the_second_time():
    """Whoever tries; not after ten tries of each of sixty actors."""
    book = Failures(60, restarts=10)
    assert book.add(7, unmade(7)) is None
    assert book.add(8, unmade(8, said="raised OSError: 2")) is None, "another trouble"
    ending = book.add(30, unmade(30))
    assert ending == "its task cannot be made, tried twice: gym:Bad, actor 30, stream 0, when made: raised KeyError: 1"


def test_a_process_that_dies_when_its_task_is_made_is_started_once_more():
    """Perhaps there was no memory for all at once."""
    book = Failures(60, restarts=10)
    assert [book.add(actor, unmade(actor, kind="died")) for actor in range(60)] == [None] * 60
    assert book.add(0, unmade(0, kind="died")) is not None


def test_a_task_that_was_made_in_between_may_fail_again():
    book = Failures(2, restarts=10)
    for _ in range(5):
        assert book.add(0, unmade(0)) is None
        book.unrolled(0)
