"""`python -m dhilgt` in this process: what it prints, whatever modules it is made of."""

import contextlib
import io
import runpy
import signal
import sys
from unittest import mock


def command(*args):
    """Return the standard output of a command that succeeds."""
    code, out, err = ended(*args)
    assert code == 0, f"{out}\n{err}"
    return out


def ended(*args):
    """Return the exit status of a command, its output and its messages."""
    out, err = io.StringIO(), io.StringIO()
    at_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        with (
            mock.patch.object(sys, "argv", ["dhilgt", *map(str, args)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            runpy.run_module("dhilgt", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        signal.signal(signal.SIGTERM, at_sigterm)  # the command line sets its own
    return code, out.getvalue(), err.getvalue()
