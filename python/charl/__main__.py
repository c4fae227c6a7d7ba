"""python -m charl COMMAND is charl COMMAND."""

from ._programs import charl

charl()
