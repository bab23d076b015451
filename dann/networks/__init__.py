"""Backbones and heads as functional models."""

from dann.networks.cnn import cnn_backbone
from dann.networks.heads import domain_head, label_head
from dann.networks.mlp import mlp_backbone
from dann.networks.mnist import mnist_backbone

__all__ = ["cnn_backbone", "domain_head", "label_head", "mlp_backbone", "mnist_backbone"]
