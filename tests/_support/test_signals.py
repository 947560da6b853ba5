import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rince._support.signals import children_without_interrupts

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has other interrupts")


def test_children_ignore_interrupts_and_end_on_request():
    with children_without_interrupts():
        child = subprocess.Popen(["sleep", "30"])
    other = subprocess.Popen(["sleep", "30"])
    for process in (child, other):
        process.send_signal(signal.SIGINT)
    assert other.wait(10) == -signal.SIGINT and child.poll() is None
    child.terminate()
    assert child.wait(10) == -signal.SIGTERM


def test_multiprocessing_tracker_ignores_interrupts():
    """It starts a process of its own before, and unblocks the signal then."""
    code = (
        "import multiprocessing, os, signal, sys, time\n"
        "from rince._support.signals import children_without_interrupts\n"
        "with children_without_interrupts():\n"
        "    one = multiprocessing.get_context('spawn').Process(target=time.sleep, args=(30,))\n"
        "    one.start()\n"
        "os.kill(one.pid, signal.SIGINT)\n"
        "one.join(0.3)\n"
        "alive = one.is_alive()\n"
        "one.terminate()\n"
        "sys.exit(0 if alive else 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("threads", [0, 3])
def test_an_interrupt_waits_until_the_children_are_started(threads):
    """Also where another thread takes the signal, whose mask is not that of this one."""
    over, started = threading.Event(), False
    for _ in range(threads):
        threading.Thread(target=over.wait, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        with children_without_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            started = True
        time.sleep(10)
    over.set()
    assert started and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
