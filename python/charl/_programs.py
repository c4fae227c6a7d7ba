"""The programs of the wheel as commands."""

import os
import sys

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def _run(name: str) -> None:
    program = os.path.join(PROGRAMS, name)
    os.execv(program, [program, *sys.argv[1:]])


def charl() -> None:
    """The command charl."""
    _run("charl")


def charl_train() -> None:
    """The command charl-train."""
    _run("charl-train")
