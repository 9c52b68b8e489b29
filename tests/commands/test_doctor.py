"""spicejax doctor and spicejax configs."""

import json
from types import SimpleNamespace

import jax
import pytest

from spicejax import commands, configs


def test_the_doctor_says_what_a_run_would_find(tmp_path, capsys):
    assert commands.run("doctor", [f"--workdir={tmp_path}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packages"]["jax"][0].isdigit() and set(found["extras"].values()) <= {True, False}
    assert "compiled and ran" in found["a program"] and "GiB free" in found["disk"]
    assert found["sandbox"].startswith("tier")
    (tmp_path / "file").write_text("")
    assert commands.run("doctor", [f"--workdir={tmp_path / 'file'}"]) == 1
    assert "disk       failed: NotADirectoryError" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "kind", "platform"), [(8, "TPU v5 lite", "tpu"), (1, "cpu", "cpu")])
def test_devices_are_told_by_their_platform_which_their_kind_does_not_say(count, kind, platform, monkeypatch, capsys):
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
