import os
import signal
import threading

import pytest

from dann.training.stop_signals import stop_requests


class EndError(Exception):
    """Stands for the end of the process."""


def test_a_second_ctrl_c_ends_the_process_at_once(monkeypatch):
    statuses = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    with stop_requests() as request:
        assert not request
        os.kill(os.getpid(), signal.SIGINT)
        assert request.signal == signal.SIGINT
        assert statuses == []
        os.kill(os.getpid(), signal.SIGINT)
    assert statuses == [130]


def test_handlers_are_put_back_after_an_error():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(EndError), stop_requests():
        raise EndError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_are_never_asked():
    found = []

    def work():
        with stop_requests() as request:
            found.append(bool(request))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
