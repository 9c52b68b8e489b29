"""The page of a run: what it shows, several runs side by side, and that no text of a model runs in it."""

import html
import html.parser
import json
import re
import threading
import time
from collections import Counter

import jsonl
import markupsafe
import pytest
from browser import browser
from processes import PATIENCE

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.report import curves, page, watch
from spicejax.report.read import open_run, stages_of

DIFFICULTY = "Difficulty of the Challenger&#39;s questions"
HOSTILE = [  # each that could run adds its number to the title
    "<script>document.title += ' 0'</script>",
    "</script><script>document.title += ' 1'</script>",
    "<img src=x onerror=\"document.title += ' 2'\">",
    '"><svg onload="document.title += \' 3\'"></svg>',
    "<details open ontoggle=\"document.title += ' 4'\">",
    "{{ 7 * 7 }}{% for x in y %}",
    "javascript:document.title+=6",
    "]]></style><iframe srcdoc='<script>parent.document.title += &quot; 7&quot;</script>'>",
]


@pytest.fixture
def make(tmp_path):
    def make(name="run", iterations=6, text="Is it?", **fields):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        cfg = configuration.override(configs.load("spice_nano"), {k.replace("__", "."): v for k, v in fields.items()})
        (folder / "config.json").write_text(json.dumps(configuration.to_json(cfg)))
        rows = [
            {"iteration": i, "reasoner/pass_rate": 0.4, "rejected/no_json": 3, "time/update": 1.0, "time/sampling": 2.0}
            | {"learner/sampler_gap": 2e-7, "learner/sampler_gap_max": 1e-6 * (i + 1), "learner/sampler_kl": 0.0}
            for i in range(iterations)
        ]
        tasks = [
            {"iteration": i, "document_id": f"{text} {k}", "question": f"{text} {i}.{k}", "answer": text, "reward": 1.0}
            | {"pass_rate": k / 8, "said": [text, None], "correct": [True, False], "detail": text}
            for i in range(iterations)
            for k in range(3)
        ]
        documents = [{"iteration": 0, "id": f"{text} {k}", "title": text, "text": f"Read {text}"} for k in range(3)]
        evaluations = [{"iteration": 0, "eval/accuracy": 0.25}, {"iteration": iterations, "eval/accuracy": 0.75}]
        summary = {"name": text, "seconds/compiling": 12.0, "seconds/playing": 30.0}
        files = {"metrics": rows, "tasks": tasks, "documents": documents, "evaluations": evaluations}
        for file, lines in files.items():
            jsonl.write(folder / f"{file}.jsonl", lines)
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "starts.jsonl").write_text(json.dumps({"command": f"train {text}", "devices": text}) + "\n")
        return folder

    return make


def test_what_a_page_shows(make):
    folder = make()
    assert [path.name for path in page.write(folder)] == ["report.png", "report.txt", "report.html"]
    text = (folder / "report.html").read_text()
    for wanted in (
        "0.250 → 0.750", "6 of 96", "2.0e-07 nats mean, 6.0e-06 nats at most", "KL divergence 0.0e+00 nats a token",
        DIFFICULTY, "Pass rates over time", "no json 18",
        "compiling 12 s", "How questions on one document changed", "Read Is it?", "✓ Is it?", "✗ (none)",
        "<span>train</span> <span>Is</span>",
    ):  # fmt: skip
        assert wanted in text, wanted
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", text.replace("http://www.w3.org", ""))


def test_answers_are_shown_with_their_verdicts(make):
    rows = [
        {"said": ["Rome", None], "correct": [True, False]},
        {"said": ["Rome", "Oslo"], "correct": None},
        {"said": ["Rome"], "correct": [True, False]},
        {"said": 7},
    ]
    folder = make(iterations=1)
    jsonl.write(folder / "tasks.jsonl", [{"iteration": 0, "question": "Where?"} | row for row in rows])
    shown = re.findall(r'<span class="(?:right|wrong|unjudged)">(.*?)</span>', page.render([open_run(folder)]))
    assert sorted(shown) == ["· Oslo", "· Rome", "· Rome", "✓ Rome", "✗ (none)"]


def test_a_run_that_learns_nothing_says_so(make):
    folder = make()
    idle = {"iteration": 0, "learner/steps": 0.0, "challenger/valid_fraction": 0.0, "rejected/truncated": 3}
    jsonl.write(folder / "metrics.jsonl", [idle])
    page.write(folder)
    why = "no reply is a valid task; commonest reason: truncated (3 of 3): raise spice.challenger_max_new"
    assert f"warning: {why}\n" in (folder / "report.txt").read_text()
    text = (folder / "report.html").read_text()
    assert why in text
    for label, value in {
        "optimizer steps": "0",
        "valid tasks": "0 % of attempts",
        "nothing learnt in": "1 of 1 iterations",
    }.items():
        assert f"<dt>{label}</dt><dd>{value}</dd>" in text, label


def test_the_table_of_a_large_run_is_spread_over_it(make):
    folder = make(iterations=20)
    rows = [{"iteration": i, "question": f"Q{i}.{k}", "answer": "a"} for i in range(20) for k in range(1024)]
    jsonl.write(folder / "tasks.jsonl", rows)
    text = page.render([open_run(folder)])
    shown = Counter(int(i) for i in re.findall(r'class="question">Q(\d+)\.', text))
    assert sorted(shown) == list(range(20)) and max(list(shown.values())[1:]) <= 16  # the newest come first
    assert 90 <= shown[19] <= 110 and sum(shown.values()) <= page.SHOWN + page.NEWEST
    assert f"{sum(shown.values())} of 20480, spread over the run" in text


def test_runs_side_by_side_show_where_they_differ(make, tmp_path, capsys):
    runs = [make("a"), make("b", learner__learning_rate="0.5")]
    assert commands.run("report", [*map(str, runs), f"--out={tmp_path}/both.html"]) == 0
    text = (tmp_path / "both.html").read_text()
    assert re.search(r"<code>learner.learning_rate</code></td><td>[^<]+</td><td>0.5</td>", text)
    legend = re.findall(r"<text[^>]*>([^<]*)</text>", text.partition(DIFFICULTY)[2])
    words = [word for word in legend if word.isalpha() or " " in word]
    assert words[:5] == ["iteration", "pass rate, distance", "a", "b", "pass rate of its questions"]
    assert text.count("<code>learner.") == 1


def test_a_panel_that_one_of_several_runs_has_is_drawn_in_that_runs_colour(make):
    runs = [make("a"), make("b")]
    jsonl.write(runs[0] / "metrics.jsonl", [{"iteration": i, "rejected/no_json": 1} for i in range(3)])
    text = page.render([open_run(run) for run in runs])
    picture = text.partition(DIFFICULTY)[2].partition("</svg>")[0]
    assert curves.COLOURS[1] in picture and curves.COLOURS[0] not in picture
    assert "<text" in picture and ">b</text>" in picture and ">a</text>" not in picture
    alone = page.render([open_run(runs[1])]).partition(DIFFICULTY)[2].partition("</svg>")[0]
    assert curves.COLOURS[0] in alone and ">b</text>" not in alone


def test_the_head_says_when_how_long_and_with_what(make):
    folder = make(iterations=2)
    start = {"time": "2026-11-25T14:17:27+00:00", "python": "3.12.1", "versions": {"jax": "0.11.0", "numpy": "2"}}
    (folder / "starts.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps(start)}\n")
    (folder / "summary.json").write_text(json.dumps({"seconds": 7300.0, "seconds/other": 1.0}))
    text = page.render([open_run(folder)])
    for wanted in (
        "2026-11-25 14:17:27 UTC, 2 starts",
        "jax 0.11.0, python 3.12.1",
        "2.0 hours, of which 2 s in iterations",
    ):
        assert f"<dd>{wanted}</dd>" in text, wanted
    assert re.search(r"<dt>model</dt><dd>nano world, \d+ layers of width \d+</dd>", text)
    (folder / "summary.json").write_text(json.dumps({"seconds": 2.0}))  # of before, when it was that of iterations
    assert "<dd>2 s in iterations</dd>" in page.render([open_run(folder)])


def test_watch_says_whether_more_will_come(make):
    going, done = make("going", iterations=2), make("done", iterations=2)
    (done / "summary.json").write_text(json.dumps({"complete": True}))
    (done / "config.json").write_text(json.dumps(json.loads((done / "config.json").read_text()) | {"iterations": 2}))
    text = [page.render([open_run(run) for run in runs], live=5) for runs in ([going], [done], [going, done])]
    assert ["Follows the run while it goes on." in one for one in text] == [True, False, True]
    assert ["Complete: nothing more will come." in one for one in text] == [False, True, False]
    more = json.dumps({"iteration": 2, "reasoner/pass_rate": 0.4}) + "\n"  # it was given more iterations
    (done / "config.json").write_text((going / "config.json").read_text())
    (done / "metrics.jsonl").open("a").write(more)
    assert "Follows the run" in page.render([open_run(done)], live=5)


def test_names_are_no_formulas(make, tmp_path):
    """Of runs and of categories, which are the user's: matplotlib reads $...$ as mathematics, and leaves _ out."""
    runs = [make(name) for name in (r"a$\frac$b", "5$ and 6$", "_hidden")]
    for run in runs:
        rows = [row | {r"eval/accuracy/$\oops$": 0.5} for row in jsonl.read(run / "evaluations.jsonl")]
        jsonl.write(run / "evaluations.jsonl", rows)
    text = page.render([open_run(run) for run in runs])
    legends = "".join(re.findall(r"<text[^>]*>.*?</text>", text))
    for name in (r"a$\frac$b", "5$ and 6$", "_hidden", r"$\oops$"):
        assert f">{name}</text>" in legends or f"> {name}</text>" in legends, name
    assert len(page.write(runs[0])) == 3


def test_a_chain_is_reported_stage_by_stage(make, capsys):
    parent = make("chain/1").parent
    make("chain/2")
    assert [p.name for p in stages_of(parent)] == ["1", "2"]
    assert commands.run("report", [str(parent)]) == 0
    assert capsys.readouterr().out.split() == [
        f"{parent}/{n}/report.{kind}" for n in (1, 2) for kind in ("png", "txt", "html")
    ]


def test_what_is_no_run_is_named(tmp_path, make, capsys):
    assert commands.run("report", [str(tmp_path)]) == 2
    assert "is no work folder of a run" in capsys.readouterr().err
    empty = make("empty", iterations=0)
    assert commands.run("report", [str(empty)]) == 2
    assert "nothing was measured yet" in capsys.readouterr().err
    assert "Nothing was measured yet" not in page.render([open_run(make("other"))])


class Active(html.parser.HTMLParser):
    """Collects what could run."""

    def __init__(self):
        super().__init__()
        self.found, self.scripts = [], 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        if tag in ("iframe", "object", "embed", "img", "base", "form", "link"):
            self.found.append(tag)
        self.found += [name for name, _ in attrs if name.startswith("on") or name in ("srcdoc", "href", "src")]


def test_hostile_text_stays_text(make):
    for n, text in enumerate(HOSTILE):
        rendered = page.render([open_run(make(f"run{n}", text=text))], live=n % 2 * 5)
        active = Active()
        active.feed(rendered)
        # matplotlib's pictures point at their own parts with xlink:href="#..."
        assert active.found == [] and active.scripts == 1, text
        assert "49" not in rendered.partition("<h2>Tasks</h2>")[2] or "{{ 7" not in text
        assert "default-src 'none'; script-src 'sha256-" in html.unescape(rendered)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


SEEN = "[...document.querySelectorAll('tr.task')].filter((row) => row.getClientRects().length)"


def test_the_table_is_searched_sorted_and_opened_in_a_browser(make, tab):
    """Our script runs under the page's own policy: with another hash in it nothing here would happen."""
    folder = make()
    page.write(folder)
    tab.open((folder / "report.html").as_uri())
    assert tab.run(f"{SEEN}.length") == 18 and tab.run("document.querySelector('.found').textContent") == ""
    tab.write(".search", "is 3.1")
    assert tab.run(f"{SEEN}.map((row) => row.cells[2].textContent)") == ["Is it? 3.1"]
    assert tab.run("document.querySelector('.found').textContent") == "1 found"
    tab.write(".search", "nothing has this")
    assert tab.run(f"{SEEN}.length") == 0
    tab.write(".search", " ")
    assert tab.run(f"{SEEN}.length") == 18
    tab.run("document.querySelectorAll('th button')[4].click()")  # pass rate, ascending
    assert tab.run(f"{SEEN}.map((row) => row.cells[4].textContent)") == ["0"] * 6 + ["0.125"] * 6 + ["0.25"] * 6
    tab.run(f"{SEEN}[17].click()")
    assert tab.run("[...document.querySelectorAll('tr.more')].map((row) => row.getClientRects().length)")[-1] == 1


def test_no_width_cuts_what_is_shown_or_leaves_a_row_nearly_empty(make, tab):
    folder = make()
    page.write(folder)
    tab.open((folder / "report.html").as_uri())
    right = "(one) => Math.round(one.getBoundingClientRect().right)"
    for width in (390, 900, 1280):
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert max(tab.run(f"[...document.querySelectorAll('.rows td')].map({right})")) <= width, width
    pictures = "document.querySelector('.pictures')"
    one = tab.run(f"{pictures}.firstElementChild.outerHTML")
    for count in range(2, 9):
        tab.run(f"void ({pictures}.innerHTML = {json.dumps(one * count)})")
        ends = tab.run(f"[{pictures}, {pictures}.lastElementChild].map({right})")
        assert ends[0] == ends[1], f"the last row of {count} pictures is full"
    tab.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize(("escaped", "policy"), [(True, True), (True, False), (False, True), (False, False)])
def test_hostile_text_does_not_run_in_a_browser(make, tab, escaped, policy):
    """Escaped it does not, nor behind the policy, either alone; without both it does, and that is seen."""
    folder = make(text="".join(HOSTILE))
    rendered = page.render([open_run(folder)])
    if not escaped:
        rendered = rendered.replace(str(markupsafe.escape("".join(HOSTILE))), "".join(HOSTILE))
    if not policy:
        rendered = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", rendered)
    (folder / "report.html").write_text(rendered)
    tab.open((folder / "report.html").as_uri())
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tab.run("document.querySelectorAll('tr.more').forEach((row) => { row.hidden = false; })")
    tab.run("new Promise((done) => setTimeout(done, 50))")
    ran, until = set(), time.monotonic() + PATIENCE
    while not (escaped or policy) and len(ran) < 6 and time.monotonic() < until:
        ran |= set(tab.run("document.title").split("spicejax")[1].split())
    assert ran == (set() if escaped or policy else set("012347"))
    assert tab.run("document.title.trim()") == "run · spicejax" or ran
    if escaped:
        tab.write(".search", "nothing has this")
        assert tab.run(f"{SEEN}.length") == 0


def test_the_page_of_a_run_under_way_takes_what_is_new(make, tab):
    folder = make(iterations=2)
    with watch.server([folder], host="127.0.0.1", port=0, every=1) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab.open(f"http://127.0.0.1:{server.server_port}/")
        tab.write(".search", "1.2")
        more = {"iteration": 2, "question": "Later 1.2", "answer": "a"}
        with (folder / "tasks.jsonl").open("a") as file:
            file.write(json.dumps(more) + "\n")
        until = time.monotonic() + PATIENCE
        while tab.run(f"{SEEN}.length") == 1 and time.monotonic() < until:
            time.sleep(0.1)
        assert tab.run(f"{SEEN}.map((row) => row.cells[2].textContent)") == ["Later 1.2", "Is it? 1.2"]
        assert tab.run("document.querySelector('.search').value") == "1.2"
        tab.open("about:blank")
        server.shutdown()
