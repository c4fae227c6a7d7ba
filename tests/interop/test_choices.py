#!/usr/bin/python3
"""charl eval --choices gives the log-likelihoods that PyTorch computes, and from them the same answers: of questions in HellaSwag's and
ARC's form, with contexts longer than the window, and however many endings are computed together.

transformers comes from PyPI, beside the distribution's PyTorch; exit code 77 means that either is missing.
"""
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import environment

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch")
    sys.exit(77)
environment.enter("transformers")

# pylint: disable=wrong-import-position
import torch
import transformers

BIN = environment.BIN
WINDOW = 40
os.environ.pop("CHARL_TEST_DATA", None)  # charl warns of variables that it does not know
CONFIG = f"""[run]
seed = 4
[data]
path = text.h5
[model]
type = gpt
n_layer = 2
n_head = 2
n_embd = 32
block_size = {WINDOW}
mlp = gelu_tanh
bias = yes
[train]
batch_size = 16
max_steps = 60
[optimizer]
learning_rate = 1e-2
[device]
share = yes
"""


def run(code, *command, folder):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                          timeout=1500, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n{done.stderr}")
    return done


def make_questions():
    """Words of one or two syllables: the text has some pairs often."""
    draw = random.Random(3)
    words = [a + b for a in ("ba", "ke", "li", "no") for b in ("", "tu", "sha", "é")]
    text = " ".join(w + " " + words[(words.index(w) * 5 + 1) % len(words)] for w in draw.choices(words, k=1500))
    questions = []
    for i in range(24):
        context = " ".join(draw.choices(words, k=draw.choice([2, 4, 14])))
        endings = [" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(draw.choice([2, 4]))]
        right = draw.randrange(len(endings))
        if i % 2:
            questions.append(({"ctx": context, "endings": endings, "label": right if i % 4 == 1 else str(right), "ind": i},
                              context, endings, right))
        else:
            labels = [chr(ord("A") + k) for k in range(len(endings))]
            questions.append(({"question": context, "choices": {"text": endings, "label": labels}, "answerKey": labels[right]},
                              f"Question: {context}\nAnswer:", endings, right))
    return text, questions


def likelihood(model, context, ending):
    """Tokens are bytes."""
    own = (" " + ending).encode()
    tokens = torch.tensor(list(context.encode() + own))
    x, y = tokens[:-1][-WINDOW:], tokens[1:][-WINDOW:]
    with torch.no_grad():
        log = torch.log_softmax(model(x[None]).logits[0].double(), -1)
    return log[torch.arange(len(y)), y][-len(own):].sum().item()


def best(values):
    return max(range(len(values)), key=lambda k: values[k])


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    text, questions = make_questions()
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        (folder / "text.txt").write_text(text)
        (folder / "gpt.ini").write_text(CONFIG)
        (folder / "q.jsonl").write_text("\n".join(json.dumps(q[0]) for q in questions) + "\n\n")
        run(0, BIN / "charl", "data", "import", "text", "text.txt", "--tokenizer", "bytes", "--val-split", 0.1, "-o", "text.h5",
            folder=folder)
        run(0, BIN / "charl-train", "-q", "gpt.ini", "-o", "run", folder=folder)
        run(0, BIN / "charl", "checkpoint", "export", "run/last.h5", "--layout", "huggingface", "-o", "hf", folder=folder)
        done = run(0, BIN / "charl", "eval", "gpt.ini", "run/last.h5", "--choices", "q.jsonl", "--report", folder=folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / "hf").eval()
        *lines, summary = done.stdout.splitlines()
        worst, right, right_norm = 0.0, 0, 0
        for i, (line, (_, context, endings, label)) in enumerate(zip(lines, questions)):
            row = json.loads(line)
            theirs = [likelihood(model, context, e) for e in endings]
            norm = [v / len(e) for v, e in zip(theirs, endings)]
            worst = max(worst, *(abs(a - b) / abs(b) for a, b in zip(row["log_likelihood"], theirs)))
            right += best(theirs) == label
            right_norm += best(norm) == label
            if [row["line"], row["right"], row["chosen"], row["chosen_norm"]] != [i + 1, label, best(theirs), best(norm)]:
                sys.exit(f"question {i}: {line}\n{theirs}")
        n = len(questions)
        want = f"choices questions={n} accuracy={right / n:.6f} accuracy_norm={right_norm / n:.6f}"
        print(f"log-likelihoods differ by {worst:.1e} of theirs at most; {summary}")
        if len(lines) != n or summary != want or not worst < 1e-5 or "its beginning was left out" not in done.stderr:
            sys.exit(f"{len(lines)} answers, {summary}, not {want}; {done.stderr}")
        half = run(0, BIN / "charl", "eval", "gpt.ini", "run/last.h5", "--choices", "q.jsonl", "--report", "train.precision=bf16", folder=folder)
        pairs = [pair for a, b in zip(lines, half.stdout.splitlines()) for pair in zip(json.loads(a)["log_likelihood"], json.loads(b)["log_likelihood"])]
        apart = max(abs(a - b) / abs(a) for a, b in pairs)
        if not 1e-5 < apart < 0.05:
            sys.exit(f"in bf16 log-likelihoods differ by {apart}")
        for bad, message in (('{"ctx": "a", "endings": ["b", "c"], "label": 2}', "bad.jsonl:1: \"label\" is not the number"),
                             ('{"question": "a", "choices": {"text": ["b", "c"], "label": ["A", "B"]}, "answerKey": "C"}',
                              "bad.jsonl:1: \"answerKey\" is none of the labels"),
                             ('{"text": "a"}', "bad.jsonl:1: neither HellaSwag's form"), ('{"ctx": ', "bad.jsonl:1: not JSON at byte 8"),
                             ('{"ctx": "a", "endings": ["b"], "label": 0}', "bad.jsonl:1: there must be a list of 2"),
                             ('{"ctx": "a", "endings": ["b", "' + "c" * 60 + '"], "label": 0}', "bad.jsonl:1: a choice has 61 tokens"),
                             ("", "bad.jsonl: the file is empty"), ("\n", "bad.jsonl has no questions")):
            (folder / "bad.jsonl").write_text(bad)
            done = run(3, BIN / "charl", "eval", "gpt.ini", "run/last.h5", "--choices", "bad.jsonl", folder=folder)
            if message not in done.stderr:
                sys.exit(f"{bad}: {done.stderr}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
