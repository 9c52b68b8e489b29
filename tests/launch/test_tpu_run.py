"""launch/tpu_run.py: its own options beside the fields of a configuration."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("tpu_run", Path(__file__).parents[2] / "launch" / "tpu_run.py")
tpu_run = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tpu_run)
NANO = "--config=spice_nano"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--confg=x"], "error: unknown option --confg; did you mean --config?"),
        (["--config", "nope"], "error: unknown config 'nope'; choose from "),
        (["--config"], "error: argument --config: expected one argument"),
        ([NANO, "--workdir="], "error: --workdir needs a value: --workdir=..."),
        ([NANO, "--workdr", "x"], "error: unknown option --workdr; did you mean --workdir?"),
        ([NANO, "--json=3"], "error: argument --json: ignored explicit argument '3'"),
        ([NANO, "--num_processes=x"], "error: argument --num_processes: invalid int value: 'x'"),
        ([NANO, "--dry-run", "--programs=a"], "error: --topology=SLICE, --programs and --json belong to"),
        ([NANO, "--corpus.sorce=x"], "launch/tpu_run.py: unknown field `corpus.sorce`; did you mean `corpus.source`"),
        ([NANO, "--show_every", "-x"], "launch/tpu_run.py: bad value for `show_every`: '-x'; allowed: whole number"),
    ],
)
def test_a_wrong_option_is_one_line(words, message, capsys):
    try:
        code = tpu_run.main(words)
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and err.startswith(message) and err.count("\n") == 1


def test_help_of_both(capsys):
    assert tpu_run.main(["--help"]) == 0 and tpu_run.main([]) == 2
    assert "spice_nano" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        tpu_run.main(["--config", "spice_nano", "--help"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0 and "--topology SLICE" in out and "  spice.group_size=8 " in out
