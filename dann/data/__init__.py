"""Pairs of domains as batches for `fit`, and the readers that load them.

`dann.data.builders` has TFDS builders of some data sets; importing it imports TFDS.
"""

from dann.data.arrays import arrays
from dann.data.csv_table import csv_table
from dann.data.domain_pair import DomainPair
from dann.data.image_files import ImageFiles
from dann.data.image_folder import image_folder
from dann.data.join_sources import join_sources, leave_one_domain_out
from dann.data.npz import npz
from dann.data.pair import pair
from dann.data.pairs import Pairs
from dann.data.sentiment import sentiment
from dann.data.smartwatch_activities import smartwatch_activities
from dann.data.standardizer import Standardizer
from dann.data.tfds_pair import digits_to_photos, emoji, tfds_pair

# Functions that `data._target_` of a config may name.
READERS = (
    csv_table,
    digits_to_photos,
    emoji,
    image_folder,
    npz,
    sentiment,
    tfds_pair,
    smartwatch_activities,
)
