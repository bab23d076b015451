"""The choices of `conf/selection/`."""

import pathlib

from hydra import compose, initialize_config_dir

from dann.config import settings_digest
from dann.selection import SCORES, choose

CONF = pathlib.Path(__file__).parents[2] / "conf"


def composed(*overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", ["paths.run_dir=run", *overrides])


def test_all_computes_every_score():
    assert choose(composed("selection=all").selection.scores) == dict(SCORES)


def test_the_default_computes_some_scores_and_ranks_by_one_of_them():
    selection = composed().selection
    assert selection.rank_by in choose(selection.scores)
    assert composed("selection.scores=[snd,dev]").selection.scores == ["snd", "dev"]


def test_a_run_with_all_scores_has_the_digest_that_it_had_when_they_were_listed():
    listed = "[source_accuracy,entropy,info_max,snd,bnm,mcc,dev,mix_val,reverse_validation]"
    wanted = settings_digest(composed(f"selection.scores={listed}", "selection.keep=snd"))
    assert settings_digest(composed("selection=all", "selection.keep=snd")) == wanted
    assert settings_digest(composed("selection.keep=snd")) != wanted
