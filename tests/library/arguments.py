#!/usr/bin/env python3
"""Write the calls of tests/library/arguments.c: every function of the public headers with every pointer in turn NULL, and with every
floating-point argument, or member of a struct of options, in turn not a number, infinite and minus infinity.

Usage: arguments.py FOLDER-OF-HEADERS > arguments_calls.h

A prototype is read from its header, so a new function is called without anybody adding it here. What a pointer points to comes from the
table OBJECTS, of objects that arguments.c creates; other pointers point to zeros, also in a call without NULL. What must not be called is in
LEFT_OUT, with the reason.
"""
import glob
import os
import re
import sys

LEFT_OUT = {
    "charl_comm_exit": "ends the process",
    "charl_comm_init": "starts MPI",
    "charl_comm_fini": "ends MPI",
    "charl_world_open": "starts MPI",
    "charl_free": "the pointer is the memory",
    "charl_error_set": "variadic, for macros that give everything",
    "charl_error_trace": "for macros that give everything",
    "charl_fail": "variadic; the format is the caller's literal",
}
# Types of which arguments.c has an object, by the name of its variable.
OBJECTS = """device tensor graph var params param optimizer steps dataset loader config checkpoint_reader checkpoint_tensor tokenizer model comm
    data_schema metrics data_parallel reducer allreduce roofline prediction_writer""".split()
# Types whose objects it does not have.
OPAQUE = """run summary eval_report operator_run config_layer layer_build inference learner safetensors team pinned step_rows""".split()
# Called with NULL alone: what they are given is gone afterwards, or they run every operator.
# Structs that begin with their size.
SIZED = set()
ENDS = re.compile(r"_(destroy|close|release|fini|break|end|operator_hash)$")


# Examples of the calls that take floating-point arguments: $name is the number.
CALLS = {
    "charl_replay_ema": 'charl_replay_ema("none", $decay, &(charl_replay_options){sizeof(charl_replay_options)}, "none.h5")',
    "charl_report_paired": "charl_report_paired((double[]){1, 2}, (double[]){1, 3}, 2, $confidence, &(double){0})",
    "charl_scale": "charl_scale(g, x, $factor, $offset)",
    "charl_leaky_relu": "charl_leaky_relu(g, x, $slope)",
    "charl_elu": "charl_elu(g, x, $alpha)",
    "charl_huber": "charl_huber(g, x, x, $delta)",
    "charl_pinball": "charl_pinball(g, x, x, $quantile)",
    "charl_layer_norm": "charl_layer_norm(g, x, NULL, NULL, $eps)",
    "charl_group_norm": "charl_group_norm(g, x, NULL, NULL, 1, $eps)",
    "charl_rms_norm": "charl_rms_norm(g, x, NULL, $eps)",
    "charl_add_rms_norm": "charl_add_rms_norm(g, rows, rows, channels, $eps, NULL)",
    "charl_dropout": "charl_dropout(g, x, $p)",
    "charl_stochastic_depth": "charl_stochastic_depth(g, x, $p)",
    "charl_transform2d": "charl_transform2d(g, x, kind, amount, 0, $white)",
    "charl_metrics_histograms": "charl_metrics_histograms(metrics, 1, params, $gradient_scale)",
    "charl_optimizer_begin": "charl_optimizer_begin(optimizer, $lr)",
    "charl_optimizer_step": "charl_optimizer_step(optimizer, $lr)",
    "charl_steps_set_loss_scale": "charl_steps_set_loss_scale(steps, $scale)",
}
# Of the calls that take structs with such members: the struct, and the call with `s`.
LAYER = 'charl_model_add(fresh_model(), "layer", "%s", &s)'
STRUCTS = {
    "charl_comm_options": ("{0}", "charl_comm_create(&s, (charl_comm **)zeros(0))"),
    "charl_data_parallel_options": (
        "{0}", "charl_data_parallel_create(comm, &whole, &s, (charl_data_parallel **)zeros(0))"),
    "charl_dataset_options": ("{0}", 'charl_dataset_open("data.h5", &s, (charl_dataset **)zeros(0))'),
    "charl_generate_options": (
        '{.prompt = "a", .prompt_bytes = 1, .tokens = 1, .top_p = 1}', 'charl_generate(gpt, "none", &s, ignore_text, NULL)'),
    "charl_import_options": ("{.overwrite = true}", 'charl_import("text", NULL, (const char *const[]){"text.txt"}, 1, "text.h5", &s)'),
    "charl_train_options": ("{.comm = comm}", "charl_train_run(config, &s, zeros(0))"),
    "charl_lora": ('{.rank = 1, .targets = "*"}', "charl_model_set_lora(model, &s)"),
    "charl_param_spec": ('{.name = "p", .shape = {1, {1}}, .init.kind = CHARL_INIT_NORMAL}',
                         "charl_params_add(fresh_params(), &s, (charl_param **)zeros(0))"),
    "charl_param_settings": ("{.lr_scale = 1}", "create_with_settings(s)"),
    "charl_optimizer_config": ("charl_optimizer_defaults(\"adam\")", "create_optimizer(&s)"),
    "charl_schedule": ('charl_schedule_defaults("step")', "charl_schedule_check(&s)"),
    "charl_steps_options": ("{0}", "charl_steps_create(device, &s, (charl_steps **)zeros(0))"),
    "charl_cross_entropy_args": ("{0}", "charl_cross_entropy(g, rows, labels, NULL, &s)"),
    "charl_batch_norm_args": ("{.running_mean = channel, .running_var = channel}", "charl_batch_norm(g, x, &s)"),
    "charl_layer_norm_args": ("{.weight = channels}", "charl_add_layer_norm(g, rows, rows, &s, NULL)"),
    "charl_rotary_args": ("{2, 2, 10000, 8, 1, 4, 8192}", "charl_rotary(g, x, &s)"),
    "charl_attention_args": ("{.heads = 1}", "charl_attention(g, qkv, &s)"),
    "charl_augment2d_args": ("{0}", "charl_augment2d(g, x, NULL, NULL, &s)"),
    "charl_linear_config": ("{.out = 1}", LAYER % "linear"),
    "charl_norm_config": ("{0}", LAYER % "batch_norm"),
    "charl_rms_norm_config": ("{0}", LAYER % "rms_norm"),
    "charl_group_norm_config": ("{.groups = 1}", LAYER % "group_norm"),
    "charl_dropout_config": ("{0}", LAYER % "dropout"),
    "charl_activation_config": ("{0}", LAYER % "elu"),
    "charl_embedding_config": ("{.vocab = 1, .dim = 1}", LAYER % "embedding"),
    "charl_position_embedding_config": ("{.block_size = 1}", LAYER % "position_embedding"),
    "charl_segment_embedding_config": ("{.segments = 1}", LAYER % "segment_embedding"),
    "charl_transformer_block_config": ("{.heads = 1, .depth = 1, .rope_theta = 10000}", LAYER % "transformer_block"),
    "charl_attention_config": ("{.heads = 1}", LAYER % "attention"),
    "charl_class_token_config": ("{0}", LAYER % "class_token"),
    "charl_scale_config": ("{0}", LAYER % "scale"),
    "charl_prelu_config": ("{0}", LAYER % "prelu"),
    "charl_pair_config": ("{.temperature = 1}", LAYER % "pair"),
    "charl_recurrent_config": ("{.hidden_size = 1, .num_layers = 1}", LAYER % "lstm"),
    "charl_mlp_config": ("{hidden, 1, 1}", "charl_model_add_mlp(fresh_model(), &s)"),
    "charl_cnn_config": ("{hidden, 1, 3, {hidden, 1, 1}}", "charl_model_add_cnn(fresh_model(), &s)"),
    "charl_gpt_config": ("{.n_layer = 1, .n_head = 1, .n_embd = 8, .block_size = 4, .vocab = 8}",
                         "charl_model_add_gpt(fresh_model(), &s)"),
}
# Members that only some types read: the type, in the member `type` or as the name of the layer.
TYPES = {("charl_optimizer_config", "momentum"): "sgd", ("charl_schedule", "power"): "poly",
         ("charl_activation_config", "slope"): "leaky_relu"}
# What the message says where it is not the name of the number.
CALLED = {("charl_mlp_config", "dropout"): "fc_drop1: p is", ("charl_cnn_config", "head.dropout"): "fc_drop1: p is",
          ("charl_gpt_config", "dropout"): "drop: p is", ("charl_gpt_config", "logit_softcap"): "lm_head: softcap is",
          ("charl_steps_set_loss_scale", "scale"): "loss scale",
          ("charl_optimizer_begin", "lr"): "learning rate is", ("charl_optimizer_step", "lr"): "learning rate is"}
# Numbers that may be anything.
ANY = {
    "charl_constant": "a mask has infinities", "charl_tensor_fill": "any value of a tensor",
    "charl_data_parallel_step": "gives it to charl_optimizer_step",
    "charl_learner_step": "gives it to charl_optimizer_begin",
    "charl_comm_set_timeout": "returns nothing; what is out of range changes nothing",
    "charl_checkpoint_state": "what a run had when it was saved", "charl_checkpoint": "what a run had when it was saved",
    "charl_metric_value": "what was measured",
    "charl_operator_sample": "a constant description", "charl_operator": "a constant description",
    "charl_rope_scaling": "a part of others",
    "charl_init": "a part of charl_param_spec",
}


def text_of(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))


def structs(folder):
    """The floating-point members of every struct, those of structs in it too."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.h"))):
        for name, body in re.findall(r"typedef struct (charl_\w+) \{(.*?)\} \1;", text_of(path), flags=re.S):
            found[name] = [" ".join(m.split()) for m in body.split(";")]

    def members(name):
        for declaration in found.get(name, []):
            m = re.match(r"(?:const )?(\w+) (?!\*)([\w, ]+)$", declaration)
            for member in m.group(2).split(", ") if m else []:
                if m.group(1) in ("float", "double"):
                    yield member
                else:
                    yield from ("%s.%s" % (member, part) for part in members(m.group(1)))
    return {name: list(members(name)) for name in found}


def print_numbers(folder):
    functions = list(prototypes(folder))
    missing, calls = [], []
    for result, name, parameters in functions:
        numbers = [p.split()[-1] for p in split(parameters) if re.match(r"(const )?(float|double) \w+$", p)]
        if numbers and name not in ANY and name not in CALLS:
            missing.append(name)
        for number in numbers if name in CALLS else []:
            call = re.sub(r"\$(\w+)", lambda m: "bad" if m.group(1) == number else "0.5F", CALLS[name])
            calls.append((name, number, "", call, result))
    results = {name: result for result, name, parameters in functions}
    given = set(re.findall(r"const (charl_\w+) \*(?!\*)", " ".join(p for r, n, p in functions)))
    # What the library tells; a struct of settings is told of by no callback.
    told = set(re.findall(r"const (charl_\w+) \*\w+\)", " ".join(
        " ".join(re.findall(r"\(\*\w+\)\(void \*ctx[^()]*\)", text_of(p))) for p in glob.glob(os.path.join(folder, "*.h")))))
    for name, numbers in structs(folder).items():
        if not numbers or name in ANY or name in told or not (name in given or name.endswith(("_config", "_settings"))):
            continue
        if name not in STRUCTS:
            missing.append(name)
            continue
        value, call = STRUCTS[name]
        function = re.match(r"\w+", call).group(0)
        for number in numbers:
            kind = TYPES.get((name, number))
            start = "%s s = %s;\n    " % (name, value if not kind else re.sub(r'"\w+"', '"%s"' % kind, value))
            what = re.sub(r'"layer", "\w+"', '"layer", "%s"' % kind, call) if kind else call
            start += "s.struct_size = sizeof s;\n    " if name in SIZED else ""
            calls.append((name, number, start + "s.%s = bad_of(s.%s);\n    " % (number, number), what, results.get(function, "charl_status")))
    if missing:
        sys.exit("arguments.py has no example with numbers that are none, of " + ", ".join(missing))
    for i, (name, number, start, call, result) in enumerate(calls):
        said = CALLED.get((name, number), number.split(".")[-1])
        if start:
            start = re.sub(r"bad_of\(s\.([\w.]+)\)", r"(__typeof__(s.\1))bad", start)
        print("static void number_%d(float bad)\n{\n    %s%s(\"%s\", \"%s\", \"%s\", bad, %s);\n}" % (
            i, start, "REFUSED" if result == "charl_status" else "REFUSED_VAR", name, number, said, call))
    print("static void (*const number_calls[])(float) = {%s};" % ", ".join("number_%d" % i for i in range(len(calls))))


def prototypes(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.h"))):
        text = text_of(path)
        while "{" in text:
            text = re.sub(r"\{[^{}]*\}", " ", text)
        for declaration in re.sub(r"CHARL_(BEGIN|END)_DECLS", " ", text).split(";"):
            m = re.match(r"(?!typedef)(?!static)(.*?)\b(charl_\w+)\((.*)\)[^()]*(CHARL_PRINTF\(\d, \d\))?$", " ".join(declaration.split()))
            if m:
                yield m.group(1).strip(), m.group(2), m.group(3)


def split(parameters):
    """The parameters of a list, at the commas outside of parentheses."""
    depth, part, parts = 0, "", []
    for c in parameters:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [p for p in parts + [part.strip()] if p != "void"]


def is_pointer(parameter):
    return "*" in parameter or "[" in parameter


def sized(parameter):
    """The type of options that begin with their size, or None."""
    m = re.match(r"const (charl_\w+) \*\w+$", parameter)
    return m.group(1) if m and m.group(1) in SIZED else None


def given(parameter, number):
    """An argument that is there. None: arguments.c has no such object."""
    if sized(parameter):
        return "options(%d, sizeof(%s))" % (number, sized(parameter))
    m = re.match(r"(?:const )?charl_(\w+) \*(?!\*|const)", parameter)
    if m and m.group(1) in OBJECTS:
        return m.group(1)
    if m and m.group(1) in OPAQUE:
        return None
    if "(*" in parameter:
        return "NULL"
    if re.match(r"const char \*const \*?\w*(\[|$)|const char \*const \*", parameter):
        return "texts"
    if re.match(r"const char \*\w+$", parameter):
        return '"none"'
    if is_pointer(parameter):
        return "zeros(%d)" % number
    return None


def value(parameter):
    """An argument that is no pointer."""
    kind = re.sub(r"\w+$", "", parameter).strip().replace("const ", "")
    if kind in ("float", "double"):
        return "0.5"
    if kind in ("int", "int64_t", "size_t", "bool", "uint64_t", "unsigned", "uint32_t"):
        return "(%s)count" % kind
    if kind in ("charl_generated", "charl_generated_line", "charl_chat_message", "charl_log_fn", "charl_comm_on_death", "charl_config_layer_reader"):
        return "NULL"
    return "(%s){0}" % kind


def main():
    names = []
    for path in glob.glob(os.path.join(sys.argv[1], "*.h")):
        with open(path, encoding="utf-8") as f:
            SIZED.update(re.findall(r"typedef struct (\w+) \{\s*size_t struct_size;", f.read()))
    for result, name, parameters in prototypes(sys.argv[1]):
        if name in LEFT_OUT:
            continue
        parameters = split(parameters)
        pointers = [i for i, p in enumerate(parameters) if is_pointer(p)]
        there = {i: given(parameters[i], i) for i in pointers}
        calls = [pointers]  # which are NULL: all, then each, then none
        if not ENDS.search(name) and None not in there.values():
            calls += [[i] for i in pointers] if len(pointers) > 1 else []
            calls.append([])
        print("static void call_%s(void)\n{" % name)
        for null in calls:
            arguments = []
            for i, p in enumerate(parameters):
                if i in null:
                    arguments.append("NULL")
                else:
                    arguments.append(there[i] if i in there else value(p))
            what = ", ".join(re.search(r"(\w+)(\[[^]]*\])?$", parameters[i]).group(1) if "(*" not in parameters[i] else "callback" for i in null)
            call = "%s(%s)" % (name, ", ".join(arguments))
            if result.startswith("charl_status"):
                print('    STATUS("%s", "%s", %s);' % (name, what, call))
            else:
                print('    CALL("%s", "%s", %s);' % (name, what, call))
        for i, p in enumerate(parameters):
            if sized(p) and None not in there.values():
                for form, says in (("zeros(%d)" % i, "struct_size is 0"), ("later(%d, sizeof(%s))" % (i, sized(p)), "does not have")):
                    arguments = [form if k == i else there[k] if k in there else value(q) for k, q in enumerate(parameters)]
                    print('    OPTIONS_REFUSED("%s", "%s", %s(%s));' % (name, says, name, ", ".join(arguments)))
        print("}")
        names.append(name)
    print("static const struct {\n    const char *name;\n    void (*call)(void);\n} calls[] = {")
    for name in names:
        print('    {"%s", call_%s},' % (name, name))
    print("};")
    print_numbers(sys.argv[1])


main()
