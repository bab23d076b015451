import pytest
from support.configs import composed

from dann.config import ConfigError
from dann.config.known_keys import check_known


@pytest.mark.parametrize(
    "script", ["train", "evaluate", "diagnose", "export", "optimize", "reproduce", "benchmark"]
)
def test_a_config_as_it_is_holds_known_keys(script):
    check_known(composed(script=script))


@pytest.mark.parametrize("value", ["1", "{a:1}", "null"])
@pytest.mark.parametrize("script", ["train", "export"])
def test_a_key_that_nothing_reads_is_refused(script, value):
    with pytest.raises(ConfigError, match=r"no keys beside .*Received: more, stepz$"):
        check_known(composed(f"+stepz={value}", "+more=0", script=script))


@pytest.mark.parametrize("key", ["trainer", "selection", "checkpoint", "paths"])
def test_a_key_of_a_part_that_nothing_reads_is_refused(key):
    with pytest.raises(ConfigError, match=rf"^{key} must hold no keys beside .*Received: stepz$"):
        check_known(composed(f"+{key}.stepz=null"))


@pytest.mark.parametrize("group", ["experiment", "debug"])
def test_a_value_in_the_place_of_a_file_that_sets_keys_is_refused(group):
    with pytest.raises(ConfigError, match=f"^{group} must be the name of a file in conf/{group}"):
        check_known(composed(f"+{group}.more=1"))
    check_known(composed("experiment=recipe", "debug=fast"))


def test_a_part_of_a_network_names_what_it_is():
    for override in ("~network.domain_head._target_", "+network.second={units:3}"):
        with pytest.raises(
            ConfigError, match=r"network.(domain_head|second) must have a `_target_`"
        ):
            check_known(composed(override))


def test_a_value_of_a_network_is_what_a_part_refers_to():
    with pytest.raises(ConfigError, match="network.width must be a part, or .* Received: 3"):
        check_known(composed("+network.width=3"))
    for reference in ("${network.width}", "${..width}"):
        check_known(composed("+network.width=3", f"network.backbone.units={reference}"))
    check_known(composed("network.domain_head=null", "+network.width=null"))
