"""Environments inside blocks, kept at some of their statements: what is asked of later ones goes on from there."""

from __future__ import annotations

import ast
from collections.abc import Callable

from accelift_codemod.facts.layout.algebra import Shape

_MOST = 512  # places of a block at which environments are kept, besides the one that was asked for last


class Prefixes:
    """Runs the first statements of blocks, each of them once or a few times however often that is asked."""

    def __init__(self, step: Callable[[ast.stmt, dict[str, Shape]], None]) -> None:
        self._step = step
        self._kept: dict[tuple[ast.stmt, ast.stmt], dict[int, dict[str, Shape]]] = {}  # by a block's ends, by place
        self._last: dict[tuple[ast.stmt, ast.stmt], int] = {}

    def forget(self) -> None:
        """Run everything anew from now on: what statements do besides is wanted again."""
        self._kept = {}

    def run(self, statements: list[ast.stmt], number: int, env: dict[str, Shape]) -> None:
        """Update the environment in which a block begins to that after a number of its statements."""
        block = (statements[0], statements[-1])
        stride = -(-len(statements) // _MOST)
        kept = self._kept.get(block)
        if kept is None or kept[0] != env:
            kept = self._kept[block] = {0: dict(env)}
            self._last[block] = 0
        last = self._last[block]
        first = number - number % stride
        while first not in kept:
            first -= stride
        first = max(first, last if last <= number else 0)
        env.clear()
        env.update(kept[first])
        for place in range(first, number):
            if place % stride == 0 and place not in kept:
                kept[place] = dict(env)
            self._step(statements[place], env)
        if last % stride:
            del kept[last]
        kept[number] = dict(env)
        self._last[block] = number
