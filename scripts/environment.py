"""Environment variables that libraries read while they are imported. Scripts import this first."""

import os
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

os.environ["DANN_LAZY_IMPORT"] = "1"  # help and errors of a config need no Keras
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hides log messages of TensorFlow's C++ code
# oneDNN kernels on every processor: a step of the paper's network takes 30% less CPU time.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Waiting OpenMP threads, which PyTorch uses, sleep. On two cores that other programs used too, a
# step of DANN took 34 ms of CPU time instead of 513 ms.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
