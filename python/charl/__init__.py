"""charl trains neural networks on OpenCL devices, with the same result to the last bit on any number of ranks.

    import charl
    charl.Dataset.write("digits.h5", x=images, y=labels, val_split=0.1)
    run = charl.train("digits.ini", output="runs/digits", data_path="digits.h5")
    run.best["fc1.weight"]                      # a weight, as a NumPy array
    run.model().predict(images)                 # probabilities

The commands charl and charl-train are installed too. docs/python.md describes all.
"""

from ._checkpoint import Checkpoint
from ._dataset import Dataset
from ._library import Error, library
from ._model import Model
from ._train import Run, train

__version__ = library.charl_version().decode()
__all__ = ["Checkpoint", "Dataset", "Error", "Model", "Run", "train", "__version__"]
