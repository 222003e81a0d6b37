"""Remembering what a question about the script was answered: the script does not change."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Self = TypeVar("Self")
Question = TypeVar("Question")
Answer = TypeVar("Answer")

_MISSING: Any = object()


def memoised(method: Callable[[Self, Question], Answer]) -> Callable[[Self, Question], Answer]:
    """A method of one argument that is worked out once for each of its arguments, on each object.

    Callers must not change what they are given.
    """
    name = f"_answers_of_{method.__name__}"

    @wraps(method)
    def remembered(self: Self, question: Question) -> Answer:
        answers = self.__dict__.get(name)
        if answers is None:
            answers = self.__dict__[name] = {}
        answer: Answer = answers.get(question, _MISSING)
        if answer is _MISSING:
            answer = answers[question] = method(self, question)
        return answer

    return remembered
