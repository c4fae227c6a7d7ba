"""The recipes of launch/ that no test can run here are kept honest: every path, package, command and field in them exists. Dockerfile,
charl.def, k8s-mpijob.yaml, the job scripts, the hostfile."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = os.environ["CHARL_BIN_DIR"]
checks = failures = 0


def check(ok, what):
    global checks, failures
    checks += 1
    if not ok:
        failures += 1
        print("FAILED:", what)


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def known_packages(names):
    """Those of names that the package lists of this machine know; None where it has no lists."""
    if not shutil.which("apt-cache"):
        return None
    known = subprocess.run(["apt-cache", "--names-only", "search", "^openmpi-bin$"], capture_output=True, text=True).stdout
    if "openmpi-bin" not in known:
        return None
    return {name for name in names if subprocess.run(["apt-cache", "show", name], capture_output=True).returncode == 0}


def check_packages(where, text):
    """Packages of apt-get install, and the files of our own."""
    names = []
    for command in re.findall(r"apt-get install ([^&\n]*)", text):
        names += [word for word in command.replace("\\", " ").split() if not word.startswith("-")]
    own = [name for name in names if name.startswith("/packages/")]
    check(set(own) == {"/packages/charl_*.deb", "/packages/libcharl*0.1_*.deb"}, f"{where}: installs {own}")
    names = [name for name in names if not name.startswith("/")]
    check({"openmpi-bin", "pocl-opencl-icd"} <= set(names), f"{where}: installs {names}")
    known = known_packages(names)
    if known is None:
        print(f"skipped case: {where}: this machine has no lists of packages")
    else:
        check(known == set(names), f"{where}: no such packages: {set(names) - known}")


def check_build(where, text):
    """What both images do in the source tree."""
    check("launch/install-deps.sh --package" in text, f"{where}: installs what building packages takes")
    check(os.access(os.path.join(ROOT, "launch/install-deps.sh"), os.X_OK), "launch/install-deps.sh can be run")
    presets = json.loads(read("CMakePresets.json"))
    for preset in re.findall(r"--workflow --preset (\S+)", text):
        check(preset in [p["name"] for p in presets["workflowPresets"]], f"{where}: preset {preset}")
        binary = next(p for p in presets["configurePresets"] if p["name"] == "base")["binaryDir"]
        folder = binary.replace("${sourceDir}/", "").replace("${presetName}", preset)
        check(f"/src/{folder}" in text, f"{where}: the packages lie in {folder}")
    package = read("cmake/CharlPackage.cmake")
    check("CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME charl)" in package and "set(package_of_${library} lib${name}${CHARL_SOVERSION})" in package,
          "names of packages")
    check("OMPI_MCA_btl_vader_single_copy_mechanism=none" in text, f"{where}: Open MPI in a container")
    check(re.search(r"libnvidia-opencl\.so\.1 >/etc/OpenCL/vendors/nvidia\.icd", text), f"{where}: nvidia.icd")


def check_commands(where, text):
    """charl and charl-train as they are called."""
    for command in re.findall(r"\bcharl ([a-z]+)\b(?!-)", re.sub(r"-t charl |# charl in ", "", text)):
        listed = subprocess.run([f"{BIN}/charl", "--complete", command], capture_output=True, text=True).stdout
        check(f"{command}\t" in listed, f"{where}: charl {command}")


def dockerfile():
    text = read("launch/Dockerfile")
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    stages = {}
    for line in re.sub(r"\\\n", " ", plain).splitlines():
        words = line.split()
        if not words:
            continue
        check(words[0] in {"FROM", "COPY", "RUN", "ENV", "WORKDIR", "USER", "CMD"}, f"Dockerfile: {words[0]}")
        if words[0] == "FROM":
            check(words[1] in stages or words[1].startswith("debian:bookworm"), f"Dockerfile: FROM {words[1]}")
            stages[words[3]] = words[1]
        if words[0] == "COPY" and words[1].startswith("--from="):
            check(words[1][7:] in stages, f"Dockerfile: {words[1]}")
        if words[0] == "USER":
            check(words[1] == "root" or f" {words[1]}" in plain[plain.index("useradd"):], f"Dockerfile: USER {words[1]}")
    check(list(stages) == ["build", "base", "nvidia", "cpu"], f"Dockerfile: stages {list(stages)}")
    for target in re.findall(r"--target (\S+)", text):
        check(target in stages, f"Dockerfile: --target {target}")
    check(plain.strip().endswith("USER charl"), "Dockerfile: not root in the end")
    for script in re.findall(r"^RUN ((?:.*\\\n)*.*)", plain, re.M):
        done = subprocess.run(["sh", "-n"], input=script.replace("\\\n", " "), text=True, capture_output=True)
        check(done.returncode == 0, f"Dockerfile: {done.stderr}")
    check_packages("Dockerfile", re.sub(r"\\\n", " ", plain))
    check_build("Dockerfile", plain)
    check_commands("Dockerfile", text)
    for line in read(".dockerignore").split():
        name = line.lstrip("!")
        check("*" not in name or glob.glob(os.path.join(ROOT, name)) or not line.startswith("!"), f".dockerignore: {line}")


def apptainer():
    text = read("launch/charl.def")
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    known = {"%files", "%post", "%environment", "%runscript", "%test", "%labels", "%help"}
    for section in re.findall(r"^%\S+", plain, re.M):
        check(section in known, f"charl.def: {section}")
    stages = re.findall(r"^Stage: (\S+)", plain, re.M)
    for stage in re.findall(r"^%files from (\S+)", plain, re.M):
        check(stage in stages, f"charl.def: %files from {stage}")
    for body in re.findall(r"^%(?:post|environment|runscript|test)\n((?:(?!^[%B]).*\n?)*)", plain, re.M):
        done = subprocess.run(["sh", "-n"], input=body, text=True, capture_output=True)
        check(done.returncode == 0, f"charl.def: {done.stderr}")
    check_packages("charl.def", plain)
    check_build("charl.def", plain)
    check_commands("charl.def", text)


def closed(properties, required=()):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def mpijob():
    try:
        import jsonschema
        import yaml
    except ImportError:
        print("skipped case: k8s-mpijob.yaml: no jsonschema or no yaml")
        return
    integer, text, strings = {"type": "integer", "minimum": 0}, {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    amounts = {"type": "object", "additionalProperties": {"type": ["string", "integer"], "pattern": r"^[0-9.]+(m|[KMGT]i)?$"}}
    container = closed({
        "name": text, "image": text, "command": strings, "args": strings, "workingDir": {"type": "string", "pattern": "^/"},
        "env": {"type": "array", "items": closed({"name": text, "value": text, "valueFrom": closed({"fieldRef": closed({"fieldPath": text}, ["fieldPath"])})}, ["name"])},
        "securityContext": closed({"runAsUser": integer, "capabilities": {"type": "object"}}),
        "resources": closed({"limits": amounts, "requests": amounts}),
        "volumeMounts": {"type": "array", "items": closed({"name": text, "mountPath": text, "readOnly": {"type": "boolean"}}, ["name", "mountPath"])},
    }, ["name", "image"])
    volume = closed({"name": text, "persistentVolumeClaim": closed({"claimName": text, "readOnly": {"type": "boolean"}}, ["claimName"]),
                     "emptyDir": closed({"medium": {"enum": ["", "Memory"]}, "sizeLimit": text})}, ["name"])
    replica = closed({
        "replicas": integer, "restartPolicy": {"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
        "template": closed({"metadata": {"type": "object"}, "spec": closed({
            "containers": {"type": "array", "items": container, "minItems": 1}, "volumes": {"type": "array", "items": volume},
            "nodeSelector": {"type": "object"}, "tolerations": {"type": "array"}}, ["containers"])}, ["spec"]),
    }, ["template"])
    schema = closed({
        "apiVersion": {"const": "kubeflow.org/v2beta1"}, "kind": {"const": "MPIJob"}, "metadata": closed({"name": text, "namespace": text}, ["name"]),
        "spec": closed({
            "slotsPerWorker": integer, "sshAuthMountPath": text, "mpiImplementation": {"enum": ["OpenMPI", "Intel", "MPICH"]},
            "launcherCreationPolicy": text, "runLauncherAsWorker": {"type": "boolean"},
            "runPolicy": closed({"cleanPodPolicy": {"enum": ["None", "Running", "All"]}, "backoffLimit": integer,
                                 "ttlSecondsAfterFinished": integer, "activeDeadlineSeconds": integer, "suspend": {"type": "boolean"}}),
            "mpiReplicaSpecs": closed({"Launcher": replica, "Worker": replica}, ["Launcher", "Worker"])}, ["mpiReplicaSpecs"]),
    }, ["apiVersion", "kind", "metadata", "spec"])
    job = yaml.safe_load(read("launch/k8s-mpijob.yaml"))
    found = [f"{'/'.join(map(str, e.path))}: {e.message}" for e in jsonschema.Draft7Validator(schema).iter_errors(job)]
    check(not found, "k8s-mpijob.yaml: " + "; ".join(found))
    job["spec"]["slotPerWorker"] = 4
    check(list(jsonschema.Draft7Validator(schema).iter_errors(job)), "the schema refuses an unknown field")
    spec = job["spec"]
    launcher, worker = (spec["mpiReplicaSpecs"][name] for name in ("Launcher", "Worker"))
    command = launcher["template"]["spec"]["containers"][0]["command"]
    check(int(command[command.index("-n") + 1]) == worker["replicas"] * spec["slotsPerWorker"], "k8s-mpijob.yaml: ranks")
    limits = worker["template"]["spec"]["containers"][0]["resources"]["limits"]
    check(limits["nvidia.com/gpu"] == spec["slotsPerWorker"], "k8s-mpijob.yaml: GPUs")
    check("openssh-server" in read("launch/Dockerfile"), "the workers' sshd is in the image")
    for part in (launcher, worker):
        pod = part["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        for c in pod["containers"]:
            check({mount["name"] for mount in c["volumeMounts"]} <= volumes, "k8s-mpijob.yaml: volumes")
            check("/dev/shm" in [m["mountPath"] for m in c["volumeMounts"]] or part is launcher, "k8s-mpijob.yaml: /dev/shm")
            check(c["image"].split(":")[0] in read("launch/Dockerfile"), "k8s-mpijob.yaml: image")


def workflow():
    try:
        import yaml
    except ImportError:
        print("skipped case: github-golden.yml: no yaml")
        return
    job = yaml.safe_load(read("launch/github-golden.yml"))
    steps = [step.get("run", "") for step in job["jobs"]["golden"]["steps"]]
    for line in steps:
        check(subprocess.run(["sh", "-n", "-c", line], capture_output=True).returncode == 0, f"github-golden.yml: {line}")
    recorded = re.search(r"^#     (charl golden .*)$", read("launch/github-golden.yml"), re.M).group(1)
    check(steps[-1] == "charl/bin/" + recorded.replace("--steps 20 -o", "--check"), "github-golden.yml: it checks what was recorded")


def scripts():
    for path in sorted(glob.glob(os.path.join(ROOT, "launch", "*.sbatch")) + glob.glob(os.path.join(ROOT, "launch", "*.sh"))):
        name = os.path.basename(path)
        first = open(path).readline()
        shell = "bash" if "bash" in first else "sh"
        done = subprocess.run([shell, "-n", path], capture_output=True, text=True)
        check(done.returncode == 0, f"{name}: {done.stderr}")
        if name.endswith(".sbatch"):
            text = read("launch/" + name)
            for option in ("--time=", "--signal=", "--requeue", "--open-mode=append"):
                check(f"#SBATCH {option}" in text, f"{name}: {option}")
            check("scontrol requeue" in text and "75)" in text, f"{name}: is queued again")
    listed = read("docs/distributed.md")
    for path in glob.glob(os.path.join(ROOT, "launch", "*")):
        name = os.path.basename(path)
        if not name.endswith((".ini", "install-deps.sh", "quickstart.sh")):
            check(name in listed, f"docs/distributed.md does not name launch/{name}")


dockerfile()
apptainer()
mpijob()
workflow()
scripts()
print(f"{checks} checks, {failures} failed")
sys.exit(failures > 0)
