"""What to call in the process of a cell instead of training: ways in which a process can end."""

import os
import signal
import sys
import time

from dhilgt.utils.workers import notify


def kill_itself(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def exit_with_a_message(*_):
    sys.exit("the kernel is not there")


def begin_and_sleep(*_):
    notify("begun")
    time.sleep(60)
