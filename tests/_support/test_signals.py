import os
import signal
import subprocess
import time

import pytest

from rince._support.signals import children_without_interrupts

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has other interrupts")


def test_children_do_not_hear_an_interrupt_and_end_when_they_are_told():
    with children_without_interrupts():
        child = subprocess.Popen(["sleep", "30"])
    other = subprocess.Popen(["sleep", "30"])
    for process in (child, other):
        process.send_signal(signal.SIGINT)
    assert other.wait(10) == -signal.SIGINT and child.poll() is None
    child.terminate()
    assert child.wait(10) == -signal.SIGTERM


def test_an_interrupt_waits_until_the_children_are_started():
    started = False
    with pytest.raises(KeyboardInterrupt):
        with children_without_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            started = True
        time.sleep(10)
    assert started and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
