"""Reader of emoji in two drawing styles."""

from dann.checks import check_choice
from dann.data.domain_pair import DomainPair
from dann.data.tfds_pair import tfds_pair


def emoji(
    source: str,
    target: str,
    *,
    image_size: int = 48,
    labels: str = "groups",
    cache_dir: str = "~/.cache/dann",
    data_dir: str | None = None,
) -> DomainPair:
    """Pairs two drawing styles of emoji; no concept occurs in two of the four sets.

    The styles are `noto`, `twemoji`, `openmoji`, `emojione`, `emojione_v1`, `fluent_flat` and
    `fluent_high_contrast`; see `dann.data.builders.Emoji` for the origin of the drawings and the
    split of the concepts.

    Args:
        source: Style of the source.
        target: Style of the target, which must differ from the source's.
        image_size: 48 (default) or 128 pixels.
        labels: `"groups"` (default), 7 classes such as food and drink, or `"subgroups"`, 23 classes
            such as fruit.
        cache_dir: Folder of prepared data sets.
        data_dir: Folder that contains `emoji/` with the tarballs of the drawings. Defaults to
            `None`: the current folder.

    Raises:
        OSError: If a tarball is missing; the message has the command that fetches it.
        ImportError: If resvg-py is not installed.
        ValueError: If an argument is not a valid choice.
    """
    from dann.data.builders.emoji import LABELS, SIZES, STYLES

    check_choice("source", source, STYLES)
    check_choice("target", target, [style for style in STYLES if style != source])
    check_choice("image_size", image_size, SIZES)
    check_choice("labels", labels, LABELS)
    return tfds_pair(
        f"emoji/{source}_{image_size}_{labels}",
        f"emoji/{target}_{image_size}_{labels}",
        source_split="source_train",
        source_test_split="source_test",
        target_split="target_train",
        target_test_split="target_test",
        cache_dir=cache_dir,
        data_dir=data_dir or ".",
        source_name=source,
        target_name=target,
    )
