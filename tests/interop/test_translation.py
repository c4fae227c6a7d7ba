#!/usr/bin/python3
"""The encoder and decoder of docs/models/encoder-decoder.md, small: it learns to write numbers in words, onnxruntime computes what charl predict
does and translates as the page shows, 2, 3 and 4 ranks have the bits of one, and what does not fit is refused.

onnxruntime and h5py come from PyPI; exit code 77 means that they cannot be had. $CHARL_BIN_DIR holds the programs.
"""
import os
import pathlib
import re
import sys
import tempfile

import environment

environment.enter("onnxruntime")

# pylint: disable=wrong-import-position
import h5py
import numpy as np

from runs import BIN, check_ranks, check_same, losses_of, refused, run

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "models" / "encoder-decoder.md").read_text(encoding="utf-8")
LONG = os.environ.pop("CHARL_TEST_LONG", "") == "1"
SMALL = ["layer.digit.dim=32", "layer.word.dim=32", "layer.encoder.repeat=1", "layer.decoder.repeat=1", "train.epochs=12", "train.slices=4",
         "optimizer.learning_rate=5e-3"]
FORMS = {  # with CHARL_TEST_LONG=1: precisions, and what changes how a step is made
    "bf16": ["train.precision=bf16"], "f16": ["train.precision=f16"], "recompute": ["train.recompute=yes"],
    "lora": ["lora.rank=4", "lora.targets=*attn*, *attention*"], "shard": ["dist.shard=gradients"],
}
REFUSED = [
    (["train.products=integer"], r"train.products = integer does not take padded sequences"),
    (["layer.decoder.parallel=yes"], r"parallel = yes has no attention to a second input"),
    (["layer.decoder.qk_norm=head"], r"qk_norm has no attention to a second input"),
    (["layer.decoder.input=place, memory, digits"], r"transformer_block reads 1 to 2 layers, not 3"),
    (["data.x=digits:/gap:tokens, before:/before:tokens"], r"/gap: row 3 has a token, 5, after -1, which ends a sequence"),
]


def check_ranks_and_forms():
    train = [BIN / "charl-train", "-q", "words.ini", *SMALL]
    short = [*train, "train.max_steps=6"]
    run(0, *train, "-o", "run")
    check_ranks(short, "six", "val/loss", stops=False)
    for name, settings in FORMS.items() if LONG else []:
        run(0, *short, "--simulate-ranks", 2, *settings, *(["init.from=six/last.h5"] if name == "lora" else []), "-o", name)
        if not np.isfinite([float(loss) for loss in losses_of(name)]).all():
            sys.exit(f"{name}: the loss is not finite")
        if name in ("recompute", "shard"):
            check_same("six", name)


def check_answers(program):
    """The last tenth of the rows is what was not trained on."""
    run(0, BIN / "charl", "predict", "run/last.h5", "words.h5", "-o", "p.h5")
    run(0, BIN / "charl", "checkpoint", "export", "run/last.h5", "-o", "words.onnx")
    names = {}
    exec(program, names)  # pylint: disable=exec-used
    with h5py.File("words.h5") as f, h5py.File("p.h5") as p:
        n = p["output"].shape[0]
        digits, before, words = (f[name][-n:].astype("i8") for name in ("digits", "before", "words"))
        logits = names["model"].run(None, {"digits": digits, "before": before})[0]
        counts, best = words >= 0, logits.argmax(2)
        if not np.array_equal(p["output"][:][counts], best[counts]):
            sys.exit("charl predict and onnxruntime name other words")
    accuracy = (best == words)[counts].mean()
    right = 0
    for row in digits[:20]:
        text = "".join(str(d) for d in row if d >= 0)
        right += names["translate"](text) == " ".join(names["spell"](int(text)))
    print(f"words: {accuracy:.3f} right; whole numbers: {right} of 20")
    if accuracy < 0.9 or right < 10:
        sys.exit("the model has not learned to translate")


def check_refusals():
    with h5py.File("words.h5", "a") as f:
        gap = f["digits"][:]
        gap[3] = [1, 2, -1, 5, -1, -1]
        f["gap"] = gap
    bad = refused("words.ini", REFUSED)
    if bad:
        sys.exit("\n".join(bad))
    said = run(3, BIN / "charl", "generate", "words.ini", "run/last.h5", "--prompt", "1")
    if "was trained on named inputs, not on a text" not in said:
        sys.exit(f"charl generate: {said}")


def main():
    data, program = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    config = re.search(r"```ini\n(.*?)```", PAGE, re.S).group(1)
    with tempfile.TemporaryDirectory(prefix="charl-translation-") as folder:
        os.chdir(folder)
        exec(data.replace("2000", "300"), {})  # pylint: disable=exec-used
        pathlib.Path("words.ini").write_text(config, encoding="utf-8")
        check_ranks_and_forms()
        check_answers(data.split("random = ")[0] + program)
        check_refusals()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
