"""report/glossary.py: every quantity that a run writes is explained."""

import pytest

from spicejax.games import catalogue
from spicejax.report import glossary

ABOUT = [catalogue.game(name).game.about for name in catalogue.GAMES]
# What runs of the games wrote
WRITTEN = """
iteration challenger/documents_without_task challenger/distinct_questions challenger/episodes challenger/equal_groups
challenger/mcq_fraction eval/accuracy eval/accuracy/facts_1 eval/said/general eval/truncated eval/unseen/accuracy
eval/unseen/said/element_state eval/plain/said fault/documents fault/queries learner/clip_fraction learner/grad_norm
learner/kl learner/loss learner/padding learner/sampler_gap learner/skipped learner/slot_padding learner/steps
learner/tis_fraction learner/tokens pool/questions probe/current/pass_rate probe/fixed_reasoner/frontier_distance
proposer/observation_length proposer/tries proposer/valid reasoner/mean_reward reasoner/too_long reasoner/truncated
rejected/answer_leaked rejected/no_question sampler/accepted/solver sampler/padding/solver solver/answered
solver/replayed solver/response_length solver/searches solver/slots_filled solver/well_formed time/checking
time/evaluate time/play time/sampling time/searching time/tokens_per_second time/update verdict/exact verdict/none
""".split()


def test_what_runs_wrote():
    assert not {name for name in WRITTEN if not any(glossary.meaning(name, about) for about in ABOUT)}


@pytest.mark.parametrize("about", ABOUT, ids=catalogue.GAMES)
def test_what_reports_draw(about):
    names = {name for panel in about.panels for name, _ in panel.series}
    assert not {name for name in names if not glossary.meaning(name, about)}


def test_unknown():
    assert glossary.meaning("nobody/knows") == "" != glossary.meaning("search/queries_empty")
