"""No process is left behind, whenever the end comes."""

import subprocess
import sys
import threading
import time

from dann.experiments.processes import Processes

SLEEP = [sys.executable, "-c", "import time; time.sleep(20)"]


def test_the_exit_status_is_returned():
    assert Processes().run([sys.executable, "-c", "raise SystemExit(3)"]) == 3


def test_nothing_begins_after_the_end(tmp_path):
    processes = Processes()
    processes.end()
    command = [sys.executable, "-c", "open('begun', 'w')"]
    assert processes.run(command, cwd=tmp_path) == -1
    assert list(tmp_path.iterdir()) == []


def test_an_end_while_a_process_is_started_ends_it_too(monkeypatch):
    starting = threading.Event()

    class Slow(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            starting.set()
            time.sleep(0.2)  # running, and not yet known to its starter

    monkeypatch.setattr(subprocess, "Popen", Slow)
    processes, statuses = Processes(), []
    thread = threading.Thread(target=lambda: statuses.append(processes.run(SLEEP)))
    thread.start()
    starting.wait()
    processes.end()
    thread.join()
    assert statuses == [-15]
