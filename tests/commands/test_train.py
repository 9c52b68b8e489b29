"""spicejax train: its own options beside the fields of a configuration."""

import pytest

from spicejax import commands

NANO = "--config=spice_nano"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--confg=x"], "error: unknown option --confg; did you mean --config?"),
        (["--config", "nope"], "error: unknown config 'nope'; choose from: acesearcher_llama8b, "),
        (["--config=spice_qwen4"], "error: unknown config 'spice_qwen4'; did you mean spice_qwen4b? All: "),
        (["--config=no.py"], "error: --config=no.py: FileNotFoundError: "),
        ([], "error: --config=NAME is missing; one of: acesearcher_llama8b, "),
        (["--config"], "error: argument --config: expected one argument"),
        ([NANO, "--workdir="], "error: --workdir needs a value: --workdir=..."),
        ([NANO, "--workdr", "x"], "error: unknown option --workdr; did you mean --workdir?"),
        ([NANO, "--json=3"], "error: argument --json: ignored explicit argument '3'"),
        ([NANO, "--num_processes=x"], "error: argument --num_processes: invalid int value: 'x'"),
        ([NANO, "--dry-run", "--programs=a"], "error: --topology=SLICE, --programs and --json belong to"),
        ([NANO, "--corpus.sorce=x"], "error: unknown field `corpus.sorce`; did you mean `corpus.source`"),
        ([NANO, "--show_every", "-x"], "error: bad value for `show_every`: '-x'; allowed: whole number"),
    ],
)
def test_a_wrong_option_is_one_line(words, message, capsys):
    assert commands.run("train", words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(message) and err.count("\n") == 1


def test_help_of_both(capsys):
    assert commands.run("train", ["--help"]) == 0
    assert "spice_nano" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        commands.run("train", ["--config", "spice_nano", "--help"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0 and "--topology SLICE" in out and "  spice.group_size=8 " in out


def test_a_recipe_of_your_own_is_a_file(tmp_path, capsys):
    own = tmp_path / "mine.py"
    own.write_text("CONFIG = 5\n")
    assert commands.run("train", [f"--config={own}"]) == 2
    assert capsys.readouterr().err == (
        f"error: --config={own}: define CONFIG there, a RunConfig or a tuple of them, as configs/ does\n"
    )
    own.write_text(
        "import dataclasses\nfrom spicejax.configs.spice_nano import CONFIG\n"
        "CONFIG = dataclasses.replace(CONFIG, name='mine', iterations=7)\n"
    )
    with pytest.raises(SystemExit):
        commands.run("train", ["--config", str(own), "--help"])
    assert "  iterations=7 " in capsys.readouterr().out
