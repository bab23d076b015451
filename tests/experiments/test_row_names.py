"""The names of the rows."""

from test_results import variant

from dann.experiments.row_names import row_names


def test_a_row_has_its_arguments_unless_it_has_a_name_of_its_own():
    runs = [variant(method=method) for method in ("dann", "cdan a=1 b=[2,3]", "mdd c=1")]
    assert row_names(runs, {"mdd c=1": "MDD, as published", "dann d=1": "other"}) == {
        "dann": "DANN",
        "cdan a=1 b=[2,3]": "CDAN, a=1, b=[2,3]",
        "mdd c=1": "MDD, as published",
    }


def test_a_second_stage_is_after_the_row_that_taught_it():
    first = variant(method="dann regularizer=[entropy,vat]", settings="abcdef")
    path = "method.teacher=runs/a_to_b/dann/{}/seed_${{seed}} method.radius=1"
    taught = [
        variant(method=f"dirt_t {path.format(digest)}", settings=digest[::-1])
        for digest in ("abcdef", "123456")
    ]
    assert list(row_names([first, *taught], {}).values()) == [
        "DANN, regularizer=[entropy,vat]",
        "DIRT-T, after DANN, regularizer=[entropy,vat], method.radius=1",
        "DIRT-T, method.teacher=runs/a_to_b/dann/123456/seed_${seed}, method.radius=1",
    ]
