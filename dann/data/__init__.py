"""Pairs of domains as batches for `fit`, and the readers that load them."""

from dann.data.arrays import arrays as arrays
from dann.data.csv_table import csv_table as csv_table
from dann.data.domain_pair import DomainPair as DomainPair
from dann.data.image_folder import image_folder as image_folder
from dann.data.join_sources import join_sources as join_sources
from dann.data.join_sources import leave_one_domain_out as leave_one_domain_out
from dann.data.npz import npz as npz
from dann.data.pair import pair as pair
from dann.data.sentiment import sentiment as sentiment
from dann.data.smartwatch_activities import smartwatch_activities as smartwatch_activities
from dann.data.standardizer import Standardizer as Standardizer
from dann.data.tfds_pair import digits_to_photos as digits_to_photos
from dann.data.tfds_pair import emoji as emoji
from dann.data.tfds_pair import tfds_pair as tfds_pair
