"""The part of test_families.py that runs transformers itself."""
import json

import numpy as np
import torch
import transformers

import test_families as common

STEPS, ROWS, RATE = 20, 8, 1e-3


class Live:
    """A tiny model of a family, made by transformers."""

    def __init__(self, name, settings):
        torch.set_num_threads(1)
        transformers.logging.set_verbosity_error()
        self.name = name
        config = transformers.AutoConfig.for_model(name.split(",")[0], **settings)
        self.model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        self.shapes = {k: list(v.shape) for k, v in self.model.state_dict().items()}
        if config.tie_word_embeddings:
            self.shapes.pop("lm_head.weight")
        self.weights = common.random_weights(name, {k: tuple(v) for k, v in self.shapes.items()})
        self.model.load_state_dict({k: torch.tensor(v) for k, v in self.weights.items()}, strict=False)
        self.model.tie_weights()

    def logits(self, model):
        with torch.no_grad():
            return model(torch.tensor(common.random_tokens().astype(np.int64))).logits.numpy().ravel()

    def record(self):
        config = self.model.config.to_dict()
        architectures = [type(self.model).__name__]
        return {"config": {**{k: v for k, v in config.items() if not k.startswith("_")}, "architectures": architectures},
                "shapes": self.shapes, "logits": [float(f"{x:.9g}") for x in self.logits(self.model)[::common.EVERY]]}

    def check(self, folder, out, weights, logits):
        want = self.logits(self.model)
        common.compare(self.name, "logits", logits, want)
        loaded, info = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True, attn_implementation="eager")
        if type(loaded) is not type(self.model) or any(info.values()):
            raise SystemExit(f"{self.name}: what charl exports loads as {type(loaded).__name__}: {info}")
        common.compare(self.name, "logits of what charl exports", self.logits(loaded.eval()), want)
        self.check_training(folder)

    def check_training(self, folder):
        """20 steps of AdamW: losses and, at the end, the weights."""
        rows = np.random.RandomState(5).randint(0, common.VOCAB, STEPS * ROWS * common.WINDOW + ROWS * common.WINDOW).astype(np.uint16)
        data, run = folder / f"{self.name}-data.h5", folder / f"{self.name}-run"
        rows.tofile(folder / "train.bin")
        rows.tofile(folder / "val.bin")
        common.run(0, common.BIN / "charl", "data", "import", "tokens", folder / "train.bin", "--val-file", folder / "val.bin", "--vocab",
                   common.VOCAB, "-o", data, "--overwrite")
        config = folder / f"{self.name}.ini"
        config.write_text(f"""[run]
output_dir = {run}
[data]
path = {data}
shuffle = no
[model]
from = {folder / self.name}
[init]
from = {folder / self.name}
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
        got = np.array([r["loss"] for r in lines if r["event"] == "train"])
        model = self.model.double().train()
        model.get_input_embeddings().padding_idx = None  # whose row transformers does not train
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
        want = []
        tokens = torch.tensor(rows.astype(np.int64))
        for step in range(STEPS):
            at = step * ROWS * common.WINDOW
            x, y = (tokens[at + k:at + k + ROWS * common.WINDOW].view(ROWS, common.WINDOW) for k in (0, 1))
            loss = torch.nn.functional.cross_entropy(model(x).logits.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            want.append(loss.item())
        common.compare(self.name, "losses of 20 steps", got, np.array(want), 1e-4)
