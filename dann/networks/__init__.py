"""Backbones and heads as functional models.

Every backbone function for images returns a functional model from images
`(batch, height, width, channels)`, integer or float, to features `(batch, num_features)`. The model
maps pixels from `input_range` to [-1, 1]. The function raises a `ValueError` if `input_shape` is
not the shape of images or is too small.
"""

from dann.networks.application import application_backbone as application_backbone
from dann.networks.binary_resnet import binary_resnet_backbone as binary_resnet_backbone
from dann.networks.cnn import cnn_backbone as cnn_backbone
from dann.networks.heads import binary_label_head as binary_label_head
from dann.networks.heads import domain_head as domain_head
from dann.networks.heads import label_head as label_head
from dann.networks.lenet import binary_lenet_backbone as binary_lenet_backbone
from dann.networks.lenet import lenet_backbone as lenet_backbone
from dann.networks.mlp import binary_mlp_backbone as binary_mlp_backbone
from dann.networks.mlp import mlp_backbone as mlp_backbone
from dann.networks.mnist import mnist_backbone as mnist_backbone
from dann.networks.time_series import time_series_backbone as time_series_backbone
