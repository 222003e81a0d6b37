"""What starts the processes of a script, and the environment variables by which it tells each which one it is."""

from __future__ import annotations

import ast
from enum import Enum
from functools import cached_property

from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk


class Part(Enum):
    """A number that a process knows of itself and the others, and where an accelerator keeps it."""

    RANK = "process_index"
    LOCAL_RANK = "local_process_index"
    WORLD_SIZE = "num_processes"


OF_LAUNCHERS = {"RANK": Part.RANK, "LOCAL_RANK": Part.LOCAL_RANK, "WORLD_SIZE": Part.WORLD_SIZE}
_OF_CLUSTERS = {  # what `srun` and `mpirun` tell the processes that they start
    "SLURM_PROCID": Part.RANK,
    "SLURM_LOCALID": Part.LOCAL_RANK,
    "SLURM_NTASKS": Part.WORLD_SIZE,
    "SLURM_NPROCS": Part.WORLD_SIZE,
    "OMPI_COMM_WORLD_RANK": Part.RANK,
    "OMPI_COMM_WORLD_LOCAL_RANK": Part.LOCAL_RANK,
    "OMPI_COMM_WORLD_SIZE": Part.WORLD_SIZE,
}
_GPUS_HERE = "SLURM_GPUS_ON_NODE"
_ENVIRONMENT = ("os.environ", "os.getenv")


class Starters:
    """Finds where a script reads what a launcher, `srun` or `mpirun` has told it."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def part(self, node: ast.expr) -> Part | None:
        """The number in an environment variable, if whoever starts the processes sets it.

        What is set on a cluster counts only in scripts that ask no launcher for their rank: in others it is one of
        several ways to come by it.
        """
        name = self._name(node)
        part = _OF_CLUSTERS.get(name)
        return OF_LAUNCHERS.get(name) or (part if part is not None and self._only_on_cluster else None)

    def on_cluster(self, source: ast.expr) -> bool:
        """Whether an expression reads what is set on a cluster."""
        return any(self._name(n) in _OF_CLUSTERS for n in walk(source))

    def counts_gpus(self, node: ast.expr) -> bool:
        """Whether an expression reads how many GPUs this machine has."""
        return self._name(node) == _GPUS_HERE

    def read(self, node: ast.AST) -> bool:
        """Whether a name is that of the environment."""
        return isinstance(node, (ast.Name, ast.Attribute)) and self.resolver.qualified(node) in _ENVIRONMENT

    def _name(self, node: ast.AST) -> str:
        """The name of the environment variable that is read; empty if it is none."""
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and self.resolver.qualified(node.value) == "os.environ":
            key = node.slice
        elif isinstance(node, ast.Call) and self.resolver.qualified(node.func) in ("os.getenv", "os.environ.get"):
            key = self.resolver.argument(node, 0, "key")
        return str(key.value) if isinstance(key, ast.Constant) else ""

    @cached_property
    def _only_on_cluster(self) -> bool:
        return not any(isinstance(n, ast.Constant) and n.value == "RANK" for n in self.resolver.index.parents)
