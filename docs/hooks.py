"""What mkdocs builds beside the files of docs/: reference pages from the code, the log, links out of docs/."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Files of the repository -> the pages that are made of them
MADE = {
    "LOG.md": "log.md",
    "spicejax/report/glossary.py": "reference/metrics.md",
    "spicejax/run/config.py": "reference/configuration.md",
    "configs": "reference/recipes.md",
}
UPWARD = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#]*)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that no file of docs/ holds."""
    pages = {
        "reference/configuration.md": configuration(),
        "reference/metrics.md": metrics(),
        "reference/recipes.md": recipes(),
        "log.md": inside((ROOT / "LOG.md").read_text(encoding="utf-8")),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links out of docs/ to the page that is made of the file; those to what is no page become their words."""
    depth = page.file.src_uri.count("/")

    def turned(link: re.Match[str]) -> str:
        words, up, path, anchor = link.groups("")
        if path.startswith("runs/"):
            return words  # recorded runs are no pages
        if len(up) <= len("../") * depth:
            return link[0]  # it stays within docs/
        return f"[{words}]({'../' * depth}{MADE[path]}{anchor})" if path in MADE else words

    return UPWARD.sub(turned, markdown)


def inside(text: str) -> str:
    """Text of a file of the repository's root: links into docs/ stay links, others become their words."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^\]]+)\]\((?!#|http)(?!\S+\.(?:md|png)[)#])[^)]*\)", r"\1", text)


def configuration() -> str:
    """Every field with what it takes, its default and its comment."""
    from spicejax import config as configuration
    from spicejax import configs
    from spicejax.fields import allowed, comments

    lines = [
        "# Configuration",
        "",
        "`a.b=c` on the command line changes a field; `spicejax train --config=NAME --help=all` lists those of a "
        "recipe with its values. Defaults are shown here; a field without one is set by every recipe that has its "
        "section.",
    ]
    told: set[type] = set()
    for run in (stage for name in configs.names() for stage in configs.stages(name)):
        for section, cls, rows in configuration.walk(run):
            if cls in told or not rows:
                continue
            told.add(cls)
            defaults = {field.name: field.default for field in dataclasses.fields(cls)}
            lines += ["", f"## {section or 'run'}"]
            for path, hint, _, name in rows:
                given = defaults[name] is not dataclasses.MISSING
                said = f"{allowed(hint)}, default `{configuration.shown(defaults[name])}`" if given else allowed(hint)
                about = comments(cls).get(name, "")
                lines += ["", f"`{path}`", f":   *{said}*" + f"<br>{about}" * bool(about)]
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """The quantities of the files of a run, and what each game's curves show."""
    from spicejax.games import catalogue
    from spicejax.report.glossary import GLOSSARY

    games = {name: catalogue.game(name).game.about for name in catalogue.GAMES}
    known = dict(entry for about in games.values() for entry in about.glossary.items()) | GLOSSARY

    lines = [
        "# Metrics",
        "",
        "What `metrics.jsonl` and `evaluations.jsonl` hold. `*` stands for a role, a reason, a set of questions.",
        "",
        "| name | meaning |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in known.items()),
        "",
        "## The curves of the games",
    ]
    for game, about in games.items():
        lines += [
            "",
            f"### {game}",
            "",
            "| curve | quantities | what it says |",
            "|---|---|---|",
        ]
        for panel in about.panels:
            names = ", ".join(f"`{name}`" for name, _ in panel.series)
            lines.append(f"| {panel.title} | {names} | {panel.meaning} |")
    return "\n".join(lines) + "\n"


def recipes() -> str:
    """What each recipe says of itself."""
    from spicejax import configs

    lines = ["# Recipes", "", "`spicejax configs NAME` prints the same."]
    for name in configs.names():
        summary, _, fields = configs.about(name).partition("\n\n")
        lines += ["", f"## {name}", "", prose(summary), ""]
        for term, body in re.findall(r"^(\w+): +(.*(?:\n +.*)*)", fields, re.M):
            commands, words = parted(body)
            lines += ["```bash", *commands, "```", ""] if commands else []
            if term == "Command" and commands:
                lines += [prose(words), ""]
            else:
                lines.append(f"* **{term}**: {prose(words)}")
    return "\n".join(lines) + "\n"


def parted(body: str) -> tuple[list[str], str]:
    """The commands that a field of a recipe begins with, and what it says behind them."""
    commands, words = [], []
    for line in body.splitlines():
        line = " ".join(line.split())
        if commands and not words and re.match(r"--|[\w.]+=", line):
            commands[-1] += f" {line}"  # it goes on
        elif not words and line.startswith(("python ", "make ")):
            commands.append(line)
        else:
            words.append(line)
    return commands, " ".join(words)


def prose(text: str) -> str:
    """Text that is no Markdown, as Markdown."""
    return re.sub(r"([\\`*_{}\[\]#|])", r"\\\1", html.escape(text, quote=False))
