#!/usr/bin/python3
"""Encoders of texts, as Hugging Face transformers saves them: a tiny BERT, DistilBERT and RoBERTa that classify texts of different lengths. charl
reads each, its probabilities are those of PyTorch (encoders.json), and what charl exports has the same weights and settings.

    test_encoders.py                      with the recorded logits; needs numpy only
    CHARL_TEST_LONG=1 test_encoders.py    also with transformers itself: probabilities, 20 steps of AdamW, strict loading of what charl exports
    test_encoders.py --record             writes encoders.json with the logits of transformers
"""
import csv
import json
import pathlib
import sys
import tempfile

import test_families as common

# pylint: disable=wrong-import-position
import numpy as np

RECORDED = pathlib.Path(__file__).with_name("encoders.json")
CHARL = common.BIN / "charl"
CLASSES, WINDOW, ROWS, STEPS, RATE = 3, 18, 8, 20, 1e-3
COMMON = {"vocab_size": 260, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "max_position_embeddings": 24, "num_labels": CLASSES, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
FAMILIES = {
    "bert": {**COMMON, "layer_norm_eps": 1e-12},
    "bert, tanh": {**COMMON, "hidden_act": "gelu_new", "type_vocab_size": 3, "layer_norm_eps": 1e-5},
    "roberta": {**COMMON, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1},
    "distilbert": {"vocab_size": 260, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 24,
                   "num_labels": CLASSES, "dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
}
REFUSED = {
    "bert": [("position_embedding_type", "relative_key"), ("is_decoder", True), ("hidden_act", "silu")],
    "roberta": [("pad_token_id", 0), ("add_cross_attention", True)],
    "distilbert": [("sinusoidal_pos_embds", True)],
}


def random_texts(rows, seed):
    draw = np.random.RandomState(seed)
    return [("".join(chr(97 + c) for c in draw.randint(0, 26, draw.randint(1, WINDOW + 1))), i % CLASSES) for i in range(rows)]


TRAINED, SHOWN = random_texts(STEPS * ROWS, 1), random_texts(12, 2)


def write_texts(path, texts):
    with open(path, "w", encoding="utf-8", newline="") as f:
        csv.writer(f).writerows([("text", "label"), *((t, "abc"[y]) for t, y in texts)])


def train(name, folder, published):
    """20 steps from the published folder, which also leave a checkpoint of step 0."""
    run = folder / f"{name}-run"
    run.mkdir()
    (run / "CHECKPOINT").touch()
    config = folder / f"{name}.ini"
    config.write_text(f"""[run]
output_dir = {run}
[data]
path = {folder / "texts.h5"}
shuffle = no
[model]
from = {published}
[init]
from = {published}
[train]
max_steps = {STEPS}
batch_size = {ROWS}
[optimizer]
type = adamw
learning_rate = {RATE}
weight_decay = 0
[log]
interval = 1
[device]
share = yes
""")
    common.run(0, common.BIN / "charl-train", "-q", config)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return run / "checkpoints" / "step-00000000.h5", np.array([r["loss"] for r in lines if r["event"] == "train"])


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def predict(folder, checkpoint):
    """Logarithms of the probabilities of all classes."""
    out = folder / "predicted.csv"
    common.run(0, CHARL, "predict", checkpoint, folder / "shown.csv", "--all", "-o", out)
    with open(out, encoding="utf-8") as f:
        return np.log(np.array([[float(v) for v in row[-CLASSES:]] for row in list(csv.reader(f))[1:]]))


def check(name, record, folder):
    weights = common.random_weights(name, {k: tuple(v) for k, v in record["shapes"].items()})
    published = folder / name
    common.write_folder(published, record["config"], weights)
    checkpoint, losses = train(name, folder, published)
    got = predict(folder, checkpoint)
    common.compare(name, "recorded probabilities", got, log_softmax(np.array(record["logits"])))
    return common.check_export(name, folder, checkpoint, weights, record["config"]), weights, got, losses


def check_refused(folder, recorded):
    for name, settings in REFUSED.items():
        for i, (key, value) in enumerate(settings):
            wrong = folder / f"{name}-wrong{i}"
            common.write_folder(wrong, {**recorded[name]["config"], key: value}, {})
            config = folder / "wrong.ini"
            config.write_text(f"[data]\npath = {folder / 'texts.h5'}\n[model]\nfrom = {wrong}\n")
            done = common.run(2, common.BIN / "charl-train", "--print-config", config)
            if f"{key} = " not in done.stderr.decode() or "is not supported" not in done.stderr.decode():
                sys.exit(f"{name}: {key} = {value}: {done.stderr.decode()}")


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        write_texts(folder / "texts.csv", TRAINED)
        write_texts(folder / "shown.csv", SHOWN)
        common.run(0, CHARL, "data", "import", "text-classes", folder / "texts.csv", "--tokenizer", "bytes", "--window", WINDOW, "-o",
                   folder / "texts.h5")
        if common.LONG:
            import encoders_torch # pylint: disable=import-outside-toplevel
            live = {name: encoders_torch.Live(name, settings) for name, settings in FAMILIES.items()}
        if "--record" in sys.argv:
            RECORDED.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v.record())}" for k, v in live.items()) + "\n}\n")
        recorded = json.loads(RECORDED.read_text())
        if sorted(recorded) != sorted(FAMILIES):
            sys.exit(f"not in {RECORDED}: {set(recorded) ^ set(FAMILIES)}")
        for name in FAMILIES:
            results = check(name, recorded[name], folder)
            if common.LONG:
                live[name].check(*results)
        check_refused(folder, recorded)
    return 0


if __name__ == "__main__":
    sys.exit(main())
