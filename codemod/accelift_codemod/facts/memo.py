"""Remembering what a question about the script was answered: the script does not change."""

from __future__ import annotations

from collections.abc import Callable
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
        answers: _Answers[Question, Answer] = _Answers(self.method, asked)
        remembered = asked.__dict__[self.method.__name__] = answers.__getitem__
        return remembered


class _Answers(dict[Question, Answer]):
    def __init__(self, method: Callable[[Any, Question], Answer], asked: object) -> None:
        super().__init__()
        self.method = method
        self.asked = asked

    def __missing__(self, question: Question) -> Answer:
        answer = self[question] = self.method(self.asked, question)
        return answer
