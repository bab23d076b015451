import signal

import pytest

from dann.config.interruption import stopped_by_signals


def test_ctrl_c_of_a_training_becomes_the_exit_status_130_and_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(SystemExit) as stop, stopped_by_signals(lambda: None):
        raise KeyboardInterrupt
    assert stop.value.code == 130
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
