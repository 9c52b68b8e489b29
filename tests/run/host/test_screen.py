"""What is shown while a run goes: plain lines in a log, one live line on a terminal."""

import io

from spicejax.run.host.screen import Screen


def drive(screen: Screen) -> None:
    screen.tell("loading")
    screen.tell("compiling decode")
    screen.tell("decode", 7.4)
    screen.tell("add", 0.1)
    screen.tell("loading")
    screen.tell("iteration 1: playing")
    screen.count(3, 8)
    screen.progress("iteration 1/2")
    screen.tell("iteration 2: playing")
    screen.tell("decode", 9.0)
    screen.show("a question\nand its answer")
    screen.progress("iteration 2/2", "  0 ▁█ 1")
    screen.close()


def test_a_log_has_stages_until_the_first_iteration_and_then_a_line_for_each():
    stream = io.StringIO()
    drive(Screen(stream))
    assert stream.getvalue().splitlines() == [
        "loading ...",
        "compiled decode in 7 s",
        "iteration 1: playing ...",
        "iteration 1/2",
        "compiled decode in 9 s",
        "a question",
        "and its answer",
        "iteration 2/2",
    ]


def test_a_log_names_what_takes_long_while_it_does():
    stream, time = io.StringIO(), [0.0]
    screen = Screen(stream, now=lambda: time[0])

    def after(seconds):
        time[0] += seconds
        screen.beat()

    screen.tell("loading")
    after(29)
    after(2)
    screen.tell("iteration 1: playing")
    screen.tell("compiling decode")
    after(4)
    after(2)
    after(1)
    after(31)
    screen.tell("decode", 38.0)
    screen.tell("iteration 1: playing")
    screen.count(0, 200)
    screen.count(40, 200)
    after(20)
    after(11)
    screen.progress("iteration 1/2")
    screen.tell("iteration 2: playing")
    after(31)
    screen.close()
    assert stream.getvalue().splitlines() == [
        "loading ...",
        "loading, 31 s",
        "iteration 1: playing ...",
        "compiling decode ...",
        "compiling decode, 38 s",
        "compiled decode in 38 s",
        "iteration 1: playing, answered 40/200, 69 s",
        "iteration 1/2",
        "iteration 2: playing, 31 s",
    ]


def test_a_command_whose_output_is_kept_tells_no_stages():
    stream = io.StringIO()
    drive(Screen(stream, stages=False))
    assert stream.getvalue().splitlines()[0] == "compiled decode in 7 s"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_live_line_and_keeps_what_is_shown(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    drive(Screen(stream))
    shown = stream.getvalue()
    assert "a question\nand its answer" in shown
    assert shown.rstrip().removesuffix("\x1b[?25h").rstrip().endswith("iteration 2/2  0 ▁█ 1")
    assert "\x1b[2K" in shown  # lines are drawn over


def test_nothing_is_shown_without_a_stream_and_a_closed_one_is_counted():
    silent = Screen(None)
    drive(silent)
    assert silent.failures == 0
    stream = io.StringIO()
    stream.close()
    gone = Screen(stream)
    drive(gone)
    assert gone.failures >= 3


def test_what_models_and_documents_say_does_nothing_to_a_terminal():
    stream = io.StringIO()
    Screen(stream).show("a\tb\nc\x1b]0;title\x07\x9b2J\u202e")
    assert stream.getvalue() == "a\tb\nc ]0;title  2J \n"
