"""Remembering what a question about the script was answered: the script does not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class memoised(Generic[Question, Answer]):
    """A method of one argument that is worked out once for each of its arguments, on each object.

    Callers must not change what they are given. It is asked very often: what an object answers with takes the method's
    place on it, and finds what is known without running any Python.
    """

    def __init__(self, method: Callable[[Any, Question], Answer]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, asked: object, owner: type | None = None) -> Callable[[Question], Answer]:
        answers: Answers[Question, Answer] = Answers(partial(self.method, asked))
        remembered = asked.__dict__[self.method.__name__] = answers.__getitem__
        return remembered


def kept(function: Callable[[Any, Question], Answer]) -> Callable[[Any, Question], Answer]:
    """A function of an object and an argument that is worked out once for each of these and kept by the object."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def asked(keeper: Any, question: Question) -> Answer:
        answers: dict[Question, Answer] | None = keeper.__dict__.get(name)
        if answers is None:
            answers = keeper.__dict__[name] = {}
        if question not in answers:
            answers[question] = function(keeper, question)
        return answers[question]

    return asked


class Answers(dict[Question, Answer]):
    """What a function gives, worked out once for each of its arguments; of some it may be known before."""

    def __init__(self, function: Callable[[Question], Answer], known: Mapping[Question, Answer] | None = None) -> None:
        super().__init__(known or ())
        self.function = function

    def __missing__(self, question: Question) -> Answer:
        answer = self[question] = self.function(question)
        return answer
