"""The part of test_encoders.py that runs transformers itself."""
import numpy as np
import torch
import transformers

import test_encoders as encoders
import test_families as common


def batch(texts, padding):
    """Tokens of the texts, their bytes, and which of them are not padding."""
    ids = [list(t.encode()) for t, _ in texts]
    tokens = torch.tensor([i + [padding] * (encoders.WINDOW - len(i)) for i in ids])
    return {"input_ids": tokens, "attention_mask": torch.tensor([[1] * len(i) + [0] * (encoders.WINDOW - len(i)) for i in ids])}


class Live:
    """A tiny encoder, made by transformers."""

    def __init__(self, name, settings):
        torch.set_num_threads(1)
        transformers.logging.set_verbosity_error()
        self.name = name
        config = transformers.AutoConfig.for_model(name.split(",")[0], **settings)
        self.padding = config.pad_token_id
        self.model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
        self.shapes = {k: list(v.shape) for k, v in self.model.state_dict().items()}
        weights = common.random_weights(name, {k: tuple(v) for k, v in self.shapes.items()})
        self.model.load_state_dict({k: torch.tensor(v) for k, v in weights.items()})

    def logits(self, model):
        with torch.no_grad():
            return model(**batch(encoders.SHOWN, self.padding)).logits.numpy()

    def record(self):
        config = {k: v for k, v in self.model.config.to_dict().items() if not k.startswith("_")}
        return {"config": {**config, "architectures": [type(self.model).__name__]}, "shapes": self.shapes,
                "logits": [[float(f"{x:.9g}") for x in row] for row in self.logits(self.model)]}

    def check(self, out, weights, got, losses):
        want = self.logits(self.model)
        common.compare(self.name, "probabilities", got, encoders.log_softmax(want.astype(np.float64)))
        loaded, info = transformers.AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True,
                                                                                       attn_implementation="eager")
        if type(loaded) is not type(self.model) or any(info.values()) or len(weights) != len(self.shapes):
            raise SystemExit(f"{self.name}: what charl exports loads as {type(loaded).__name__}: {info}")
        common.compare(self.name, "logits of what charl exports", self.logits(loaded.eval()), want)
        self.check_training(losses)

    def check_training(self, got):
        model = self.model.double().train()
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                module.padding_idx = None  # whose row transformers does not train
        optimizer = torch.optim.AdamW(model.parameters(), lr=encoders.RATE, weight_decay=0.0)
        want = []
        for step in range(encoders.STEPS):
            texts = encoders.TRAINED[step * encoders.ROWS:(step + 1) * encoders.ROWS]
            logits = model(**batch(texts, self.padding)).logits
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor([y for _, y in texts]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            want.append(loss.item())
        common.compare(self.name, "losses of 20 steps", got, np.array(want), 1e-4)
