"""Manual pages pass mandoc's lint and name every command, option and key; completion offers commands, options, keys and values: asked of
the programs, and typed at bash, zsh and fish where they are installed."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(os.environ.pop("CHARL_BIN_DIR"))
os.environ.pop("CHARL_TEST_DATA", None)
os.environ["PATH"] = BIN + ":" + os.environ["PATH"]
CONFIG = """[data]
path = digits.h5
[model]
type = sequential
[layer first.one]
type = conv2d
channels = 4
[layer flat]
type = flatten
[optimizer]
type = sgd
"""
checks = failures = 0


def check(ok, what):
    global checks, failures
    checks += 1
    if not ok:
        failures += 1
        print("FAILED:", what)


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    check(done.returncode == 0 and not done.stderr, f"{' '.join(command)}: {done.returncode} {done.stderr[:300]}")
    return done.stdout


def offered(*words):
    """The words that may follow, and what the shell is told."""
    lines = output(words[0], "--complete", *words[1:]).splitlines()
    return {line.split("\t")[0]: line.partition("\t")[2] for line in lines}


def manual_pages():
    pages = {"charl.1": output("charl", "--man"), "charl-train.1": output("charl-train", "--man"),
             "charl-bench.1": output("charl-bench", "--man"), "charl-config.5": output("charl-train", "--man=config")}
    for name, text in pages.items():
        with open(name, "w") as f:
            f.write(text)
    if shutil.which("mandoc"):
        # It looks for the pages that others refer to in the manual of this machine: here are those of charl, and mpirun is Open MPI's.
        lint = subprocess.run(["mandoc", "-Tlint", *pages], capture_output=True, text=True).stdout
        here = {f"referenced manual not found: Xr {' '.join(name.rsplit('.', 1))}" for name in [*pages, "mpirun.1"]}
        found = [line for line in lint.splitlines() if line.split("STYLE: ")[-1].split(" (")[0] not in here]
        check(not found, "mandoc -Tlint: " + "\n".join(found[:8]))
        shown = {name: re.sub(".\b", "", subprocess.run(["mandoc", "-Tutf8", "-Owidth=200", name], capture_output=True, text=True).stdout)
                 for name in pages}
    else:
        print("skipped case: no mandoc, the pages are not rendered")
        shown = {name: text.replace("\\-", "-") for name, text in pages.items()}
    for line in output("charl", "--help").splitlines():
        if line.startswith("  charl "):
            words = re.split(r"  | [A-Z\[]| -", line.strip())[0]
            check(words in shown["charl.1"], f"charl.1 lacks {words}")
    for line in output("charl-bench", "--help").splitlines():
        if line.startswith("  charl-bench "):
            words = re.split(r"  | [A-Z\[]", line.strip())[0]
            check(words in shown["charl-bench.1"], f"charl-bench.1 lacks {words}")
    for option in re.findall(r"--[a-z-]+", output("charl-train", "--help")):
        check(option == "--help" or option in shown["charl-train.1"] or option.strip("-") in pages["charl-train.1"], f"charl-train.1 lacks {option}")
    keys = re.findall(r"^ {2,4}([a-z][a-z0-9_]*)(?: =| \()", output("charl-train", "--help-config"), re.M)
    check(len(keys) > 150, f"only {len(keys)} keys in --help-config")
    for key in set(keys):
        check(re.search(r'^\.It Cm "' + key + '"', pages["charl-config.5"], re.M), f"charl-config.5 lacks {key}")
    os.environ["SOURCE_DATE_EPOCH"] = "86400"
    check(".Dd January 2, 1970\n" in output("charl", "--man"), "SOURCE_DATE_EPOCH is the date of a page")
    del os.environ["SOURCE_DATE_EPOCH"]


def programs():
    check({"train", "data", "checkpoint", "devices"} <= set(offered("charl", "")), "commands")
    check(set(offered("charl", "da")) == {"data"}, "a command")
    check(set(offered("charl", "data", "i")) == {"import", "info"}, "commands of a command")
    check({"csv", "idx", "text"} <= set(offered("charl", "data", "import", "")), "formats")
    check("--label" in offered("charl", "data", "import", "csv", "x.csv", "--"), "options of a format")
    check("--label" not in offered("charl", "data", "import", "npy", "--"), "options of another format")
    check(set(offered("charl", "data", "make", "d")) == {"digits"}, "kinds")
    check(set(offered("charl", "predict", "m.h5", "--format=")) == {"--format=csv", "--format=jsonl", "--format=hdf5"}, "values of an option")
    check(set(offered("charl", "predict", "m.h5", "--format", "")) == {"csv", "jsonl", "hdf5"}, "values of an option, apart")
    check(set(offered("charl-bench", "ste")) == {"step"}, "charl-bench")
    launch = ["charl", "launch", "-n", "4", "--restarts=2"]
    check("--min-ranks" in offered(*launch, "--") and "--dry-run" not in offered(*launch, "--"), "options of charl launch")
    check("--dry-run" in offered(*launch, "c.ini", "--") and "optimizer.type=adam" in offered(*launch, "c.ini", "optimizer.type="), "what charl launch starts")
    check(offered("charl", "nonsense", "") == {}, "an unknown command")
    for train in (["charl-train"], ["charl", "train"]):
        check("--dry-run" in offered(*train, "--"), "options of " + train[-1])
        check(":files" in offered(*train, ""), "the configuration")
        check(":dirs" in offered(*train, "-o", ""), "a folder")
        check({"optimizer.", ":nospace"} <= set(offered(*train, "c.ini", "opt")), "a section")
        found = offered(*train, "c.ini", "optimizer.")
        check({"optimizer.type=", "optimizer.learning_rate=", "optimizer.momentum="} <= set(found), "keys")
        check("optimizer.beta1=" not in found, "a key of another optimizer is left out")
        check("optimizer.beta1=" in offered(*train, "c.ini", "optimizer.type=adamw", "optimizer."), "the optimizer of the command line")
        check("optimizer.beta1=" in offered(*train, "optimizer."), "without a file, all keys")
        check("optimizer.type=adamw" in offered(*train, "c.ini", "optimizer.type=ad"), "values")
        check(set(offered(*train, "c.ini", "device.share=")) == {"device.share=yes", "device.share=no"}, "yes and no")
        check({"layer.first.one.", "layer.flat."} <= set(offered(*train, "c.ini", "layer.")), "layers")
        found = offered(*train, "c.ini", "layer.first.one.")
        check({"layer.first.one.channels=", "layer.first.one.kernel="} <= set(found) and "layer.first.one.p=" not in found, "keys of a layer")
        check("layer.first.one.activation=relu" in offered(*train, "c.ini", "layer.first.one.activation="), "values of a layer")
        check("eval.metrics=loss,accuracy" in offered(*train, "c.ini", "eval.metrics=loss,a"), "an element of a list")
        check(":files" in offered(*train, "c.ini", "data.path="), "a path as a value")
        check("optimizer.type=" in offered(*train, "c.ini", "--set", "optimizer."), "--set")
    with open("broken.ini", "w") as f:
        f.write("[train]\nnonsense\n")
    check("optimizer.type=" in offered("charl-train", "broken.ini", "optimizer."), "a configuration with mistakes")
    for shell in ("bash", "zsh", "fish"):
        check("charl-train" in output("charl", "completion", shell), "charl completion " + shell)


class Shell:
    """A shell at a terminal, at which a line and a tab are typed."""

    def __init__(self, command, start):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", PS1="", HOME=os.getcwd(), INPUTRC="/dev/null")
            os.execvp(command[0], command)
        self.command = command
        self.type(start + "; echo rea''dy\n", b"ready\r\n")

    def type(self, text, mark):
        os.write(self.fd, text.encode())
        got = b""
        end = time.monotonic() + 120
        while mark not in got:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"{self.command[0]}: no answer to {text!r}: {got[-400:]!r}")
            got += os.read(self.fd, 65536)
        return got.decode(errors="replace")

    def complete(self, line):
        """What it makes of the line: its words. They are printed instead of run."""
        got = self.type(line + "\t\x01printf '<%s>\\n' \x05 end\n", b"<end>\r\n")
        return re.findall(r"<([^<>\r\n]*)>\r\n", got)[:-1]

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def shells():
    cases = [("charl dev", ["charl", "devices"]),
             ("charl data mak", ["charl", "data", "make"]),
             ("charl-train c.ini --dry", ["charl-train", "c.ini", "--dry-run"]),
             ("charl-train c.ini optimizer.lear", ["charl-train", "c.ini", "optimizer.learning_rate="]),
             ("charl-train c.ini optimizer.type=adamw optimizer.beta1", ["charl-train", "c.ini", "optimizer.type=adamw", "optimizer.beta1="]),
             ("charl-train c.ini optimizer.type=adam", ["charl-train", "c.ini", "optimizer.type=adam"]),  # or adamw
             ("charl-train c.ini train.precision=bf", ["charl-train", "c.ini", "train.precision=bf16"]),
             ("charl-train c.ini layer.first.one.activation=gelu_", ["charl-train", "c.ini", "layer.first.one.activation=gelu_tanh"]),
             ("charl-train c.ini data.path=oth", ["charl-train", "c.ini", "data.path=other.h5"]),
             ("charl-train --color=ne", ["charl-train", "--color=never"]),
             ("charl-train c.i", ["charl-train", "c.ini"])]
    if shutil.which("bash"):
        start = 'bind "set bell-style none" 2>/dev/null; eval "$(charl completion bash)"'
        bash = Shell(["bash", "--norc", "--noprofile", "-i"], start)
        for line, want in cases:
            got = bash.complete(line)
            check(got == want, f"bash: {line}: {got}, not {want}")
        bash.close()
    else:
        print("skipped case: no bash")
    if shutil.which("zsh"):
        start = 'unsetopt prompt_cr prompt_sp; bindkey -e; autoload -Uz compinit; compinit -u -D; eval "$(charl completion zsh)"'
        zsh = Shell(["zsh", "-f", "-i"], start)
        for line, want in cases:
            if line.endswith("adam"):
                continue  # zsh takes adam for a word and adds a blank
            got = zsh.complete(line)
            check(got == want, f"zsh: {line}: {got}, not {want}")
        zsh.close()
    else:
        print("skipped case: no zsh")
    if shutil.which("fish"):
        for line, want in cases:
            if line.endswith("adam"):
                continue
            script = "charl completion fish | source; complete --do-complete (string unescape -- $argv[1])"
            got = subprocess.run(["fish", "--no-config", "-c", script, line], capture_output=True, text=True, timeout=1500).stdout
            offers = [offer.split("\t")[0] for offer in got.splitlines()]
            check(offers == [want[-1]], f"fish: {line}: {offers}, not {want[-1]}")
    else:
        print("skipped case: no fish")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name, text in (("c.ini", CONFIG), ("other.h5", "")):
        with open(name, "w") as f:
            f.write(text)
    manual_pages()
    programs()
    shells()
    os.chdir("/")
print(f"{checks} checks, {failures} failed")
sys.exit(failures > 0)
