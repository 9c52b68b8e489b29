"""spicejax doctor and spicejax configs."""

import json
import re
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from processes import ROOT

from spicejax import commands, configs
from spicejax.commands import doctor
from spicejax.text import tokens


def test_the_doctor_says_what_a_run_would_find(tmp_path, capsys):
    assert commands.run("doctor", [f"--workdir={tmp_path}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packages"]["jax"][0].isdigit() and set(found["extras"].values()) <= {True, False}
    assert "compiled and ran" in found["a program"] and "GiB free" in found["disk"]
    timed = r"float32 \d+, bfloat16 \d+ GFLOP/s with \d+ rows: (.*float32 is faster|bfloat16 is about as fast).*"
    assert re.fullmatch(timed, found["products"])
    assert found["sandbox"].startswith("tier") and "comes back as it was" in found["tokenizer"]
    assert "can be written and renamed" in found["disk"] and not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    assert commands.run("doctor", [f"--workdir={tmp_path / 'file'}"]) == 1
    assert "disk       failed: NotADirectoryError" in capsys.readouterr().out


def test_every_extra_is_looked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(doctor.EXTRAS.values()) == set(project["optional-dependencies"]) - {"dev", "tpu", "gpu"}


@pytest.mark.parametrize(
    ("missing", "here"), [(None, ModuleSpec("a folder of that name", None)), (next(iter(doctor.EXTRAS)), None)]
)
def test_an_extra_may_be_missing(missing, here, tmp_path, monkeypatch, capsys):
    for name in ("_compute", "_products", "_sandbox", "_round_trip"):
        monkeypatch.setattr(doctor, name, str)  # the same whatever is installed
    there = ModuleSpec("there", None, origin="file")
    monkeypatch.setattr(doctor, "find_spec", lambda name: there if missing not in (None, name) else here)
    assert commands.run("doctor", [f"--workdir={tmp_path}", "--json"]) == 0
    extras = json.loads(capsys.readouterr().out)["extras"]
    assert [extra for extra, found in extras.items() if not found] == (
        [doctor.EXTRAS[missing]] if missing else list(doctor.EXTRAS.values())
    )


def test_what_cannot_be_written_or_read_back_is_told(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise OSError("this file system renames no folders")

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr(tokens.Tokenizer, "decode", lambda self, ids: "?")
    assert commands.run("doctor", [f"--workdir={tmp_path}"]) == 1
    said = capsys.readouterr().out
    assert "disk       failed: OSError: this file system renames no folders" in said
    assert "tokenizer  failed: ValueError: sentencepiece makes '?' of" in said


@pytest.mark.parametrize(("half", "told"), [(1.0, "float32 is faster"), (0.5, "bfloat16 is about as fast or faster")])
def test_the_faster_type_is_told_by_time(half, told, monkeypatch):
    now = [0.0]
    spent = {"float32": 0.5, "bfloat16": half}
    monkeypatch.setattr(doctor.time, "perf_counter", lambda: now[0])

    def multiply(x, _matrix):
        now[0] += spent[x.dtype.name]
        return x

    monkeypatch.setattr(jax, "jit", lambda _: multiply)
    assert told in doctor._products()
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert doctor._products().startswith("not timed")


def test_devices_are_told_by_their_platform_which_their_kind_does_not_say(monkeypatch, capsys):
    count, kind, platform = 8, "TPU v5 lite", "tpu"
    device = SimpleNamespace(device_kind=kind, platform=platform)
    monkeypatch.setattr(jax, "devices", lambda: [device] * count)
    commands.run("doctor", ["--json"])
    told = json.loads(capsys.readouterr().out)["devices"]
    assert told == {"count": count, "kind": kind, "platform": platform, "hosts": 1}
    commands.run("doctor", [])
    assert f"devices    {count} {kind} ({platform}), of 1 hosts\n" in capsys.readouterr().out


def test_every_recipe_is_listed_with_what_it_is(capsys):
    assert commands.run("configs", ["--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert list(listed) == configs.names() and all(len(text) > 20 for text in listed.values())
    assert commands.run("configs", ["acesearcher_nano", "--json"]) == 0
    assert [stage["name"] for stage in json.loads(capsys.readouterr().out)][0] == "acesearcher_nano_sft"
    assert commands.run("configs", ["spice_nano"]) == 0
    assert "launch/tpu_run.py --config=spice_nano" in capsys.readouterr().out
    assert commands.run("configs", ["spice_nono"]) == 2
