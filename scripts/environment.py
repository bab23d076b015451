"""What a script sets before it imports the libraries, which read it then."""

import os
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no remarks of TensorFlow's C++ libraries
# oneDNN's kernels on every processor: a step of the paper's network took 30% less CPU time.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# OpenMP's threads, which are PyTorch's, sleep while they wait: on two cores that other programs
# used too, a step of DANN took 34 ms of CPU time in place of 513.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
