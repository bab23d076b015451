from pathlib import Path

# `--doctest-modules` would import the modules that the tests share, some of which need TensorFlow.
collect_ignore = [
    path.name for path in Path(__file__).parent.glob("*.py") if not path.match("test_*.py")
]
