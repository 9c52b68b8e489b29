"""A signal that asks to stop: what hears it, every wait and long stage that looks, a terminal that closes."""

import dataclasses
import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import jax
import pytest
from processes import PATIENCE
from tiny_models import QWEN3

from spicejax import configs, interrupt, sharding
from spicejax.data import sources
from spicejax.data.corpus import open_corpus
from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.stops import stop_machine
from spicejax.interrupt import Interrupt, Stopped
from spicejax.models import transformer
from spicejax.run.build import Run
from spicejax.run.host.lock import Lock
from spicejax.score.pool import Pool
from spicejax.score.verifiers import Verifier
from spicejax.types import Task
from spicejax.worlds.nano import maker


@pytest.fixture
def asked():
    """A process that was asked to stop."""
    with Interrupt() as stop:
        stop.requested = True
        yield stop


def test_nobody_is_stopped_who_was_not_asked_or_has_left():
    interrupt.check("no")
    with Interrupt() as stop:
        interrupt.check("no")
        interrupt.wait(0.01, "no")
        stop.requested = True
        with pytest.raises(Stopped, match="kept"):
            interrupt.check("kept")
    interrupt.check("no")


def test_a_wait_ends_when_a_signal_comes():
    with Interrupt() as stop:
        timer = threading.Timer(0.1, setattr, (stop, "requested", True))
        timer.start()
        with pytest.raises(Stopped, match="kept"):
            interrupt.wait(PATIENCE, "kept")
        timer.join()


def test_a_lock_of_another_machine_is_not_waited_for(asked, tmp_path):
    (tmp_path / "lock.json").write_text(json.dumps({"pid": 1, "host": "elsewhere", "token": "x", "beats": 0}))
    with pytest.raises(Stopped, match="locked; nothing was begun"):
        Lock(tmp_path, stale_seconds=PATIENCE)


def test_a_corpus_is_not_read_on(asked, tmp_path):
    """Neither after a document, nor within one that is cut."""
    (tmp_path / "corpus.jsonl").write_text('{"text": "one two three"}\n' * 3)
    with pytest.raises(Stopped, match="stopped after 1 documents of .*corpus.jsonl; the same command reads them again"):
        list(sources.Reader().documents(str(tmp_path / "corpus.jsonl")))

    def encode(text):
        asked.requested = True
        return list(text.encode())

    asked.requested = False
    with pytest.raises(Stopped, match="stopped after 1 documents"):
        open_corpus(str(tmp_path / "corpus.jsonl"), encode=encode, max_tokens=5, min_chars=1)


def test_a_warm_start_stops_before_its_next_step(asked):
    nano = configs.load("spice_nano").nano
    batches = [(None, 1)] * 7  # no step is taken
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "warm_batches", lambda *_: batches)
        with pytest.raises(Stopped, match="in the warm start, before step 1 of 7; the same command begins it anew"):
            maker.warm_start(nano, None, 0)


def test_a_model_stops_between_two_calls_of_the_device():
    cfg = dataclasses.replace(QWEN3, vocab_size=61, num_layers=1)
    mesh, letters = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1]), SimpleNamespace(decode=str)
    with Interrupt() as stop:

        def count(done, total):
            stop.requested = done > 0
            calls.append(done)

        player = Player(
            cfg, transformer.init(cfg, jax.random.key(0)), letters, stop_machine(61, ()), Buckets((16,), 2), mesh,
            progress=count,
        )  # fmt: skip
        calls = []
        with pytest.raises(Stopped):
            asked = {"samples": 2, "first_row": [0, 2, 4], "key": jax.random.key(1), "max_new": 4}
            player.respond([[1, 2], [3, 4], [5, 6]], settings=SamplerConfig(), **asked)
    assert calls == [0, 2], "of six responses two were written"


def test_answers_are_not_judged_on(asked):
    """Workers are not even started, and nobody takes what was left out for a verdict."""
    with Verifier(workers=1) as verifier:
        run = SimpleNamespace(verifier=verifier, clock={"checking": 0.0})
        with pytest.raises(Stopped):
            Run.check(run, [(f"\\frac{{{n}}}{{x}}", Task("?", "\\frac{1}{y}", "Expression")) for n in range(9)])
        assert not verifier.pool.workers
    assert [v.how for v in Pool(1).judge([("a", "b")], cpu=1.0, max_timeouts=1)] == ["breaker"]


@pytest.fixture
def usual_interrupt():
    """Python's own SIGINT handler: a shell starts background jobs with the signal ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, previous)


def test_second_signal_acts_at_once(usual_interrupt):
    with pytest.raises(KeyboardInterrupt), Interrupt() as interrupt:
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.requested
        signal.raise_signal(signal.SIGINT)
        time.sleep(30)
    assert signal.getsignal(signal.SIGINT) is usual_interrupt


def test_an_interrupt_that_the_parent_has_ignored_is_not_heard(usual_interrupt):
    """A notebook, a shell's background: Ctrl-C reaches the group, and they send SIGTERM themselves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert not interrupt.requested
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.requested
        signal.raise_signal(signal.SIGINT)  # nor does it stop the run at once
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


HANGUP = textwrap.dedent(
    """
    import os, signal, sys, time
    from pathlib import Path
    from spicejax.interrupt import Interrupt
    with Interrupt() as stop:
        print("ready", flush=True)
        while not stop.requested:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGHUP)  # as a shell does that is ended itself
        print("said to nobody", flush=True)
        print("nor this", file=sys.stderr, flush=True)
        Path(sys.argv[1]).write_text("saved")
    sys.exit(75)
    """
)


def test_a_terminal_that_closes_lets_a_run_save(tmp_path):
    ours, theirs = pty.openpty()
    lead = "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    lead += "signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # the tests may run under nohup
    lead += f"exec({HANGUP!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", lead, str(tmp_path / "file")], stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b"ready" not in said:
        said += os.read(ours, 1024)
    os.close(ours)  # the kernel sends SIGHUP
    assert process.wait(PATIENCE) == 75 and (tmp_path / "file").read_text() == "saved"


def test_nohup_is_kept():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)
