"""Processes that train together: they meet, agree, and stop together when one of them ends."""

import atexit
import contextlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from dann.training.run_settings import differences

PATIENCE_SECONDS = 300.0  # a cluster may start its processes one after the other
BEAT_SECONDS = 5.0  # from one sign of life to the next
SILENCE_SECONDS = 20.0  # after which a process counts as gone
_SHOWN = 5  # settings that differ

_joined: "ProcessGroup | None" = None
_last_calls: list[Callable[[], Any]] = []


class ProcessGroup:
    """The processes of a training on several machines, as one of them sees them.

    Each process keeps a connection to process 0. A process that ends tells why, or the operating
    system closes its connection, or its machine stays silent for 20 seconds. All others then print
    one line with the reason and end with an exit status that is not 0, wherever they are, for a
    step that waits for the others cannot be called back.

    Messages are lines of JSON; nothing in them is run.

    Args:
        coordinator: Address of process 0, `host:port`.
        num_processes: Number of processes, at least 1.
        process_id: Which of them this is, from 0.
        settings: What all must share, by names; process 0 refuses one that has others. Defaults to
            `None`: nothing.
    """

    def __init__(
        self,
        coordinator: str,
        num_processes: int,
        process_id: int,
        settings: Mapping[str, Any] | None = None,
    ):
        host, _, port = coordinator.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        self.num_processes, self.process_id = num_processes, process_id
        self.settings = dict(settings or {})
        self.leads = process_id == 0
        self._peers: dict[int, _Peer] = {}
        self._unlike: list[str] = []
        self._said: queue.Queue = queue.Queue()
        self._here: queue.Queue = queue.Queue()
        self._ending = threading.Lock()
        self._left = threading.Event()
        self._status: int | None = None

    def connect(self, patience: float) -> None:
        """Waits until all processes are there, and watches them from then on.

        Args:
            patience: Seconds to wait.

        Raises:
            ConnectionError: If some are not there by then, or one expects other numbers or has
                other settings.
        """
        global _joined
        until = time.monotonic() + patience
        if self.leads:
            self._accept_all(until, patience)
        else:
            self._peers[0] = self._call_first(until, patience)
        _joined = self
        atexit.register(self._at_exit)
        for number, peer in self._peers.items():
            threading.Thread(target=self._listen, args=(number, peer), daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def first_says(self, value: Any) -> Any:
        """Returns the value, as JSON takes it, that process 0 has given, in every process.

        Processes call it the same number of times; the others wait for process 0, however long.
        """
        if not self.leads:
            return self._said.get()
        self._send_all({"say": value})
        return value

    def meet(self) -> None:
        """Waits, without a time limit, until all processes have come this far."""
        if self.leads:
            for _ in self._peers:
                self._here.get()
        else:
            self._send_all({"here": True})
        self.first_says(None)

    def ask_to_stop(self, number: int) -> None:
        """Passes a signal on to process 0, which stops the training for all."""
        self._send_all({"signal": number})

    def leave(self) -> None:
        """Ends the watch, once all processes have come here; process 0 may be long in coming."""
        self.meet()
        self._left.set()
        self._send_all({"left": True})

    def fail(self, reason: str, status: int = 1) -> None:
        """Tells all others why this process ends; they end with the same exit status."""
        with self._ending:
            if self._status is None and not self._left.is_set():
                self._status = status
                self._send_all({"end": f"process {self.process_id}: {reason}", "status": status})

    @contextlib.contextmanager
    def reasons_first(self) -> Iterator[None]:
        """Lets an error of JAX within the block wait for the end of another process to be told.

        If there is such an end, then this process ends, too, with that as the reason.
        """
        try:
            yield
        except Exception as error:
            if type(error).__name__ == "JaxRuntimeError":
                time.sleep(SILENCE_SECONDS + 1)
            raise

    def _accept_all(self, until, patience):
        try:
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            server = socket.create_server(("", self.port), family=family, dualstack_ipv6=both)
        except OSError as error:
            raise ConnectionError(
                "distribution.coordinator must name a free port of process 0. "
                f"Received: port {self.port}, {error.strerror}"
            ) from error
        with server:
            while len(self._peers) < self.num_processes - 1:
                server.settimeout(max(0.01, until - time.monotonic()))
                try:
                    peer = _Peer(server.accept()[0])
                    greeting = peer.receive() or {}
                except (TimeoutError, OSError, ValueError):
                    if time.monotonic() < until:
                        continue
                    missing = sorted(set(range(1, self.num_processes)) - set(self._peers))
                    self._refuse(
                        f"Expected {self.num_processes} processes within {patience:g} seconds. "
                        f"Received: nothing from process {', '.join(map(str, missing))}"
                    )
                self._welcome(peer, greeting)
        if self._unlike:  # all are there now, and all are told
            self._refuse(
                "Expected the same settings in all processes. Received, from process 0 and "
                f"{', and from process 0 and '.join(self._unlike)}"
            )

    def _welcome(self, peer, greeting):
        number = greeting.get("process_id")
        if not isinstance(number, int):
            return  # something else that looks for an open port
        count = greeting.get("num_processes")
        told = f"process {number} of {count}, {greeting.get('host')}"
        if count != self.num_processes or not 0 < number < self.num_processes:
            wrong = f"Expected one of {self.num_processes} processes. Received: {told}"
        elif number in self._peers:
            wrong = f"Expected each process_id once. Received: {told}, twice"
        else:
            peer.name = f"process {number} on {greeting.get('host')}"
            self._peers[number] = peer
            different = differences(self.settings, greeting.get("settings", {}))
            if different:
                self._unlike.append(f"process {number}: {_told(different)}")
            return
        self._refuse(wrong, peer)

    def _refuse(self, wrong: str, *newcomers: "_Peer") -> NoReturn:
        for peer in (*newcomers, *self._peers.values()):
            with contextlib.suppress(OSError):
                peer.send({"end": wrong, "status": 1})
        raise ConnectionError(wrong)

    def _call_first(self, until, patience):
        while True:
            try:
                connection = socket.create_connection((self.host, self.port), timeout=5)
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise ConnectionError(
                        f"Expected process 0 at {self.host}:{self.port} within {patience:g} "
                        f"seconds. Received: {error.strerror or error}"
                    ) from error
                time.sleep(0.2)
        peer = _Peer(connection)
        peer.name = f"process 0 on {self.host}"
        mine = {"process_id": self.process_id, "num_processes": self.num_processes}
        peer.send({**mine, "host": socket.gethostname(), "settings": self.settings})
        return peer

    def _listen(self, number, peer):
        while True:
            try:
                message = peer.receive()
            except TimeoutError:
                self._end(f"{peer.name} has been silent for {SILENCE_SECONDS:g} seconds")
            except (OSError, ValueError):
                message = None
            if message is None and self._left.is_set():
                return
            if message is None:
                self._end(f"{peer.name} has ended without a reason, as if it had been killed")
            if "end" in message:
                self._end(str(message["end"]), int(message.get("status", 1)))
            if "left" in message:
                return
            if "say" in message:
                self._said.put(message["say"])
            if "here" in message:
                self._here.put(number)
            if message.get("signal") in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), message["signal"])

    def _end(self, reason: str, status: int = 1) -> NoReturn:
        """Ends this process because another one has ended."""
        with self._ending:
            if self._status is not None:  # it is ending for a reason of its own
                threading.Event().wait()
            self._send_all({"end": reason, "status": status})
            print(f"error: All processes stop: {reason}", file=sys.stderr, flush=True)
            _exit(status)

    def _beat(self):
        while not self._left.wait(BEAT_SECONDS):
            self._send_all({})

    def _send_all(self, message):
        for peer in self._peers.values():
            with contextlib.suppress(OSError):  # its listener tells of it
                peer.send(message)

    def _at_exit(self):
        # JAX would wait at its exit for processes that have ended.
        if self._status is not None:
            _exit(self._status)


class _Peer:
    """A connection that carries JSON, one message a line."""

    def __init__(self, connection: socket.socket):
        connection.settimeout(SILENCE_SECONDS)
        self.name = "a process"
        self._connection = connection
        self._lines = connection.makefile("r", encoding="utf-8")
        self._sending = threading.Lock()

    def send(self, message: Any) -> None:
        with self._sending:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        """The next message, or `None` if there will be none; each is a dict."""
        line = self._lines.readline()
        message = json.loads(line) if line else None
        if not isinstance(message, dict | None):
            raise ValueError(f"Expected a message. Received: {line}")
        return message


def _told(different):
    """The first settings that differ, and how many more do."""
    each = [f"{key} {one}, {other}" for key, (one, other) in different.items()]
    more = len(each) - _SHOWN
    return "; ".join(each[:_SHOWN] + ([f"and {more} more"] if more > 0 else []))


def before_exit(call: Callable[[], Any]) -> None:
    """Has a function called before a process of the group ends at once, without `atexit`."""
    _last_calls.append(call)


def _exit(status: int) -> NoReturn:
    for call in (*_last_calls, sys.stdout.flush, sys.stderr.flush):
        with contextlib.suppress(Exception):
            call()
    os._exit(status)


def joined() -> ProcessGroup | None:
    """Returns the group that this process has joined, if it trains with others."""
    return _joined
