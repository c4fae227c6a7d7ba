/* Every mistake of a configuration and the exact message that it gets. */
#include <stdio.h>
#include <string.h>

#include "charl/comm.h"
#include "charl/config.h"
#include "charl/loss.h"
#include "charl/metric.h"
#include "charl/optim.h"
#include "support/support.h"

static charl_status parse(const char *text, charl_config **out)
{
    return charl_config_parse("conf/t.ini", text, strlen(text), NULL, 0, out);
}

#define HEAD "[data]\npath=d.h5\n[model]\ntype=mlp\n" /* four lines */

/* What an expected message names by {losses} and so on, in the order of the registry. */
static const struct {
    const char *text;
    const char *(*name_at)(int i);
    const char *prefix;
} lists[] = {
    {"{losses}", charl_loss_name, ""},
    {"{optimizers}", charl_optimizer_name, ""},
    {"{metrics}", charl_metric_name, ""},
    {"{monitors}", charl_metric_name, "val/"},
    {"{allreduces}", charl_allreduce_algorithm_name, ""},
};

static const char *expand(const char *message, char *out, size_t size)
{
    size_t used = 0;

    while (*message) {
        const char *name;
        size_t i = 0;

        while (i < sizeof lists / sizeof *lists && strncmp(message, lists[i].text, strlen(lists[i].text)) != 0) {
            i++;
        }
        if (i == sizeof lists / sizeof *lists) {
            assert_true(used + 1 < size);
            out[used++] = *message++;
            continue;
        }
        for (int k = 0; (name = lists[i].name_at(k)) != NULL; k++) {
            used += (size_t)snprintf(out + used, size - used, "%s%s%s", k == 0 ? "" : ", ", lists[i].prefix, name);
            assert_true(used < size);
        }
        message += strlen(lists[i].text);
    }
    out[used] = '\0';
    return out;
}

static const struct {
    const char *text;
    const char *message;
} bad[] = {
    {HEAD "[optimizer]\nlearning_rte = 1\n",
     "conf/t.ini:6: [optimizer] learning_rte: unknown key (did you mean learning_rate?)"},
    {HEAD "[optimiser]\nlr = 1\n", "conf/t.ini:5: [optimiser]: unknown section (did you mean [optimizer]?)"},
    {HEAD "[zzz]\nlr = 1\n", "conf/t.ini:5: [zzz]: unknown section"},
    {HEAD "[layr conv1]\ntype = relu\n", "conf/t.ini:5: [layr conv1]: unknown section (did you mean [layer conv1]?)"},
    {HEAD "[train]\nlerning_rate = 1\n",
     "conf/t.ini:6: [train] lerning_rate: unknown key (did you mean learning_rate in [optimizer]?)"},
    {HEAD "[train]\nlr = 1\n", "conf/t.ini:6: [train] lr: unknown key (did you mean learning_rate in [optimizer]?)"},
    {HEAD "[train]\nqqqqqqqqqqqq = 1\n", "conf/t.ini:6: [train] qqqqqqqqqqqq: unknown key"},
    {HEAD "[train]\nepochs = ten\n", "conf/t.ini:6: [train] epochs: \"ten\" is not an integer"},
    {HEAD "[train]\nepochs = 3.5\n", "conf/t.ini:6: [train] epochs: \"3.5\" is not an integer"},
    {HEAD "[train]\nepochs =\n", "conf/t.ini:6: [train] epochs: \"\" is not an integer"},
    {HEAD "[train]\nepochs = 0\n", "conf/t.ini:6: [train] epochs: 0 is out of range (1 to 1000000000)"},
    {HEAD "[train]\nepochs = 99999999999999999999\n",
     "conf/t.ini:6: [train] epochs: 99999999999999999999 is out of range (1 to 1000000000)"},
    {HEAD "[run]\nseed = 9223372036854775808\n", "conf/t.ini:6: [run] seed: 9223372036854775808 is too large"},
    {HEAD "[train]\nbatch_size = 8388608G\n",
     "conf/t.ini:6: [train] batch_size: 8388608G is out of range (1 to 1000000000)"},
    {HEAD "[train]\nbatch_size = 99999999999G\n",
     "conf/t.ini:6: [train] batch_size: 99999999999G is out of range (1 to 1000000000)"},
    {HEAD "[train]\nslices = all\n", "conf/t.ini:6: [train] slices: \"all\" is not an integer or auto"},
    {HEAD "[train]\nslices = 3\n", "conf/t.ini:6: [train] slices: 3 slices do not divide batch_size = 256"},
    {HEAD "[train]\nmax_steps = 0\n", "conf/t.ini:6: [train] max_steps: 0 steps: use -1 for no limit, or --dry-run"},
    {HEAD "[train]\nlabel_smoothing = 1\n",
     "conf/t.ini:6: [train] label_smoothing: 1 is out of range (at least 0, below 1)"},
    {"[data]\npath=d.h5\nfold = 4/3\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] fold: \"4/3\" is not K/N, fold K of N: 1/5 to 5/5, say, or none"},
    {HEAD "[train]\nloss = huber\nhuber_delta = 0\n", "conf/t.ini:7: [train] huber_delta: 0 is out of range (above 0)"},
    {HEAD "[train]\ngrad_clip = nan\n", "conf/t.ini:6: [train] grad_clip: \"nan\" is not a number"},
    {HEAD "[train]\ngrad_clip = 0x10\n", "conf/t.ini:6: [train] grad_clip: \"0x10\" is not a number"},
    {HEAD "[train]\ngrad_clip = 1e999\n", "conf/t.ini:6: [train] grad_clip: \"1e999\" is not a number"},
    {HEAD "[train]\ngrad_clip = 1e39\n",
     "conf/t.ini:6: [train] grad_clip: 1e39 is out of range (0, or 1.18e-38 to 3.4e+38 without the sign, as a 32-bit "
     "float)"},
    {HEAD "[train]\ngrad_clip = 1e-50\n",
     "conf/t.ini:6: [train] grad_clip: 1e-50 is out of range (0, or 1.18e-38 to 3.4e+38 without the sign, as a 32-bit "
     "float)"},
    {HEAD "[train]\ngrad_clip = 1e-400\n",
     "conf/t.ini:6: [train] grad_clip: 1e-400 is out of range (0, or 1.18e-38 to 3.4e+38 without the sign, as a 32-bit "
     "float)"},
    {HEAD "[optimizer]\ngroups = a lr_scale=1e-50\n",
     "conf/t.ini:6: [optimizer] groups: \"lr_scale=1e-50\" is not KEY=VALUE with a number from 0 to 1e6"},
    {HEAD "[train]\nloss = nll\n",
     "conf/t.ini:6: [train] loss: \"nll\" is not one of auto, {losses} (did you mean cross_entropy?)"},
    {HEAD "[train]\nprecision = f64\n", "conf/t.ini:6: [train] precision: \"f64\" is not one of f32, bf16, f16, fp8"},
    {HEAD "[train]\nloss_scale = 8\n", "conf/t.ini:6: [train] loss_scale: needs precision = f16"},
    {HEAD "[train]\nprecision = f16\nloss_scale = 12\n", "conf/t.ini:7: [train] loss_scale: must be a power of two"},
    {HEAD "[train]\ngrad_accum_steps = 0\n", "conf/t.ini:6: [train] grad_accum_steps: 0 is out of range (1 to 4096)"},
    {HEAD "[train]\nrecompute = maybe\n",
     "conf/t.ini:6: [train] recompute: \"maybe\" is not one of auto, no, cheap, yes"},
    {HEAD "[train]\nema_decay = 1\n", "conf/t.ini:6: [train] ema_decay: 1 is out of range (at least 0, below 1)"},
    {HEAD "[train]\nearly_stopping_patience = 3\n[eval]\ninterval = 0\n",
     "conf/t.ini:6: [train] early_stopping_patience: needs evaluations: [eval] interval is 0"},
    {HEAD "[optimizer]\ntype = adadelta\n", "conf/t.ini:6: [optimizer] type: \"adadelta\" is not one of {optimizers}"},
    {HEAD "[optimizer]\ngroups = *.bias\n",
     "conf/t.ini:6: [optimizer] groups: \"*.bias\" sets nothing: write PATTERN lr_scale=X "
     "weight_decay=Y"},
    {HEAD "[optimizer]\ngroups = a lr_scale=2, b lr_scale=fast\n",
     "conf/t.ini:6: [optimizer] groups: \"lr_scale=fast\" is not KEY=VALUE with a number from 0 to "
     "1e6"},
    {HEAD "[optimizer]\ngroups = a lr=2\n",
     "conf/t.ini:6: [optimizer] groups: \"lr=2\": a group sets lr_scale and weight_decay"},
    {HEAD "[optimizer]\nbeta1 = fast\n", "conf/t.ini:6: [optimizer] beta1: \"fast\" is not a number"},
    {HEAD "[optimizer]\ntype = lamb\neps = 1e-46\n",
     "conf/t.ini:7: [optimizer] eps: 1e-46 is out of range (at least 1e-37)"},
    {HEAD "[optimizer]\nlearning_rate = 0\n", "conf/t.ini:6: [optimizer] learning_rate: 0 is out of range (above 0)"},
    {HEAD "[optimizer]\ntype = sgd\nnesterov = on\nmomentum = 0\n",
     "conf/t.ini:7: [optimizer] nesterov: needs momentum above 0"},
    {HEAD "[optimizer]\nnesterov = maybe\n", "conf/t.ini:6: [optimizer] nesterov: \"maybe\" is not yes or no"},
    {HEAD "[lora]\nbase = int4\n",
     "conf/t.ini:6: [lora] base: only the weights under adapters are packed: set lora.rank"},
    {HEAD "[scheduler]\ntype = multistep\n", "conf/t.ini: [scheduler] milestones: multistep needs at least one"},
    {HEAD "[scheduler]\ntype = multistep\nmilestones = 3, 2\n",
     "conf/t.ini:7: [scheduler] milestones: must ascend: 2 follows 3"},
    {HEAD "[scheduler]\ntype = multistep\nmilestones = 3,, 5\n",
     "conf/t.ini:7: [scheduler] milestones: \"\" is not an integer"},
    {HEAD "[scheduler]\ntype = cosine\nmin_lr = 1\n", "conf/t.ini:7: [scheduler] min_lr: is larger than learning_rate"},
    {HEAD "[eval]\ninterval = 3 weeks\n", "conf/t.ini:6: [eval] interval: \"3 weeks\" is not an "
                                          "interval: steps (500), epochs (1ep), tokens (10M tokens), time (30m) or 0"},
    {HEAD "[train]\nmax_steps = 2B\n",
     "conf/t.ini:6: [train] max_steps: \"2B\" is not an integer, nor 1 to 1e15 tokens (2B tokens)"},
    {HEAD "[scheduler]\nwarmup_steps = 2e15 tokens\n",
     "conf/t.ini:6: [scheduler] warmup_steps: \"2e15 tokens\" is not an integer, nor 1 to 1e15 tokens (2B tokens)"},
    {HEAD "[eval]\nmetrics = loss, f2\n", "conf/t.ini:6: [eval] metrics: \"f2\" is not one of auto, {metrics}"},
    {HEAD "[eval]\nmetrics = f1, support\n", /* has no value: for reports only */
     "conf/t.ini:6: [eval] metrics: \"support\" is not one of auto, {metrics}"},
    {HEAD "[eval]\nmetrics = auc\n[train]\nloss = l1\n",
     "conf/t.ini:6: [eval] metrics: auc needs loss = cross_entropy, bce, dice or focal"},
    {HEAD "[eval]\nmetrics = perplexity\n[train]\nloss = mse\n",
     "conf/t.ini:6: [eval] metrics: perplexity needs loss = cross_entropy or focal"},
    {HEAD "[log]\nformats = jsonl, parquet\n",
     "conf/t.ini:6: [log] formats: \"parquet\" is not one of jsonl, csv, tensorboard"},
    {HEAD "[checkpoint]\nexport = pt\n",
     "conf/t.ini:6: [checkpoint] export: \"pt\" is not one of none, safetensors, onnx, gguf"},
    {HEAD "[checkpoint]\nkeep_last = 1\n", "conf/t.ini:6: [checkpoint] keep_last: 1 is out of range (2 to 1000000000)"},
    {HEAD "[checkpoint]\nmonitor = val/accuracy\nmode = min\n",
     "conf/t.ini:7: [checkpoint] mode: val/accuracy grows as it gets better: write mode = max, or "
     "leave "
     "it out"},
    {HEAD "[checkpoint]\nmode = max\n", "conf/t.ini:6: [checkpoint] mode: val/loss falls as it gets "
                                        "better: write mode = min, or leave it out"},
    {HEAD "[checkpoint]\nmonitor = accuracy\n",
     "conf/t.ini:6: [checkpoint] monitor: \"accuracy\" is not one of {monitors} (did you mean val/accuracy?)"},
    {HEAD "[checkpoint]\nmonitor = val/accuracy\nmode = max\n[train]\nloss = huber\n",
     "conf/t.ini:6: [checkpoint] monitor: val/accuracy needs loss = cross_entropy, bce, dice or focal"},
    {HEAD "[checkpoint]\nmonitor = val/mae\n[train]\nloss = focal\n",
     "conf/t.ini:6: [checkpoint] monitor: val/mae needs loss = mse, huber, l1, smooth_l1 or quantile"},
    {HEAD "[checkpoint]\nmonitor = val/mae\nmode = max\n[train]\nloss = mse\n",
     "conf/t.ini:7: [checkpoint] mode: val/mae falls as it gets better: write mode = min, or leave "
     "it out"},
    {HEAD "[train]\nloss = kl\n[eval]\nmetrics = mae\n",
     "conf/t.ini:8: [eval] metrics: mae needs loss = mse, huber, l1, smooth_l1 or quantile"},
    {HEAD "[dist]\nallreduce = ring\n", "conf/t.ini:6: [dist] allreduce: \"ring\" is not one of auto, {allreduces}"},
    {HEAD "[dist]\nreduce_dtype = f16\n",
     "conf/t.ini:6: [dist] reduce_dtype: \"f16\" is not one of f32, bf16 (did you mean bf16?)"},
    {HEAD "[dist]\nbalance = fast\n", "conf/t.ini:6: [dist] balance: \"fast\" is not one of even, speed"},
    {HEAD "[profile]\ntrace = yes\n", "conf/t.ini:5: [profile]: unknown section"},
    {HEAD "[device]\nselect = fastest\n", "conf/t.ini:6: [device] select: \"fastest\" is not auto, "
                                          "gpu, cpu, an index, pci:ADDRESS, name:PART or "
                                          "platform:PART"},
    {HEAD "[run]\nmax_time = 1:00\n",
     "conf/t.ini:6: [run] max_time: \"1:00\" is not a time above 0: [D-]HH:MM:SS, 90s, 30m or 2h"},
    {HEAD "[run]\nmax_time = 0:00:00\n",
     "conf/t.ini:6: [run] max_time: \"0:00:00\" is not a time above 0: [D-]HH:MM:SS, 90s, 30m or 2h"},
    {HEAD "[train]\nbatch_size = -18014398509481983k\n",
     "conf/t.ini:6: [train] batch_size: -18014398509481983k is out of range (1 to 1000000000)"},
    {HEAD "[run]\nname = a/b\n", "conf/t.ini:6: [run] name: a name has no / and is not .."},
    {HEAD "[run]\nname = ${name}\n", "conf/t.ini:6: [run] name: ${name} stands for this value itself"},
    {HEAD "[run]\noutput_dir = ${CHARL_NO_SUCH}\n",
     "conf/t.ini:6: [run] output_dir: environment variable CHARL_NO_SUCH is not set"},
    {HEAD "[run]\noutput_dir = a${b\n", "conf/t.ini:6: [run] output_dir: \"${\" without \"}\": "
                                        "write $${ for the characters themselves"},
    {HEAD "[run]\nseed = -1\n", "conf/t.ini:6: [run] seed: -1 is out of range (at least 0)"},
    {"[data]\n[model]\ntype=mlp\n", "conf/t.ini: [data] path: is missing and has no default"},
    {"[data]\npth=d\n[model]\ntype=mlp\n", "conf/t.ini:2: [data] pth: unknown key (did you mean path?)"},
    {"[dat]\npath=d\n[model]\ntype=mlp\n", "conf/t.ini:1: [dat]: unknown section (did you mean [data]?)"},
    {"[data\npath=d\n[model]\ntype=mlp\n", "conf/t.ini:1: section without ]"},
    {HEAD "[train] x\nepochs=3\n", "conf/t.ini:5: text after ]"},
    {"[data]\npath=d\n[modell]\ntype=mlp\n", "conf/t.ini:3: [modell]: unknown section (did you mean [model]?)"},
    {"[data]\npath=d\n", "conf/t.ini: [model] type: sequential needs at least one [layer NAME] section"},
    {"[data]\npath=\n[model]\ntype=mlp\n", "conf/t.ini:2: [data] path: a path is missing"},
    {"[data]\npath=d\naugment=flip, blur:2\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] augment: \"blur:2\" is not flip, crop:PIXELS, rotate:DEGREES, "
     "cutout:PIXELS, mixup:ALPHA, cutmix:ALPHA, resized_crop:AREA, erase:PROBABILITY, brightness, contrast, saturation "
     "or "
     "hue:AMOUNT, randaugment:CHANGES or magnitude:LEVEL"},
    {"[data]\npath=d\naugment=crop:2.5\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] augment: crop needs an integer, as in crop:4, not \"2.5\""},
    {"[data]\npath=d\naugment=mixup\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] augment: mixup needs a number, as in mixup:0.2, not \"\""},
    {"[data]\npath=d\naugment=flip, magnitude:5\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] augment: magnitude applies to randaugment, which is missing"},
    {"[data]\npath=d\naugment=rotate:200\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] augment: rotate:200 is out of range (above 0, at most 180)"},
    {"[data]\npath=d\naugment=cutout:8, cutout:9\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] augment: cutout is given twice"},
    {"[data]\npath=d\nx=/a\n[model]\ntype=mlp\n", "conf/t.ini: [data] y: x and y are given together"},
    {"[data]\npath=d\nsampling=balanced\nshuffle=blocks\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] sampling: draws samples in random order: shuffle must be yes"},
    {"[data]\npath=d\nnormalize=minmax\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] normalize: \"minmax\" is not auto, none or MEANS / DEVIATIONS"},
    {"[data]\npath=d\nnormalize=1,2/3\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] normalize: expected as many deviations as means, 1 to 32 numbers each, "
     "such as 0.5 / 0.25"},
    {"[data]\npath=d\nnormalize=1/0\n[model]\ntype=mlp\n",
     "conf/t.ini:3: [data] normalize: deviations must be positive"},
    {"[data]\npath=d\n[model]\ntype=resnet\ndepth=19\n",
     "conf/t.ini:5: [model] depth: can be 18, 34, 50, 101, 152, or for small images 20, 32, 44, 56"},
    {"[data]\npath=d\n[model]\ntype=gpt\nn_embd=100\n",
     "conf/t.ini:5: [model] n_embd: 100 does not divide among n_head = 12 heads"},
    {"[data]\npath=d\n[model]\ntype=gpt\nn_embd=36\npositions=rotary\n",
     "conf/t.ini:5: [model] n_embd: rotary positions need an even width of each head"},
    {"[data]\npath=d\n[model]\ntype=gpt\nn_kv_head=5\n",
     "conf/t.ini:5: [model] n_kv_head: 5 does not divide n_head = 12"},
    {"[data]\npath=d\nwindow=8\n[model]\ntype=gpt\n", "conf/t.ini:3: [data] window: is 1024 for model.type = gpt"},
    {"[data]\npath=d\n[model]\ntype=cnn\nkernel=4\n", "conf/t.ini:5: [model] kernel: must be odd"},
    {HEAD "hidden = "
          "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33\n",
     "conf/t.ini:5: [model] hidden: more than 32 values"},
    {HEAD "[layer a]\ntype=linear\n",
     "conf/t.ini:5: [layer a]: layers, blocks and outputs belong to model.type = sequential"},
    {"[data]\npath=d\nx=a:/x\ny=b:/y\n[model]\ntype=sequential\n[layer l]\ntype=linear\nout=1\n[output "
     "a]\ninput=l\ntarget=b\n",
     "conf/t.ini:10: [output a]: an input of data.x has this name; give the output another, and set input and target"},
    {"[data]\npath=d\n[layer a]\nout = 3\n", "conf/t.ini:3: [layer a] type: is missing"},
    {"[data]\npath=d\n[layer a]\ntype=relu\n[layer a]\ntype=relu\n",
     "conf/t.ini:5: [layer a]: section given twice (first on line 3)"},
    {"[data]\npath=d\n[layer a]\ntype=relu\ntype=tanh\n",
     "conf/t.ini:5: [layer a] type: given twice (first on line 4)"},
    {HEAD "[layer]\n", "conf/t.ini:5: [layer]: expected [layer NAME]"},
    {HEAD "[train]\nepochs=1\nepochs=2\n", "conf/t.ini:7: [train] epochs: given twice (first on line 6)"},
    {HEAD "[train]\nepochs=1\nmax_epochs=2\n", "conf/t.ini:7: [train] max_epochs: given twice (first on line 6)"},
    {HEAD "[train]\nepochs=1\n[data]\nshuffle=no\n", "conf/t.ini:7: [data]: section given twice (first on line 1)"},
    {"lr = 3\n" HEAD, "conf/t.ini:1: a key must stand below a [section]"},
    {HEAD "[train\n", "conf/t.ini:5: section without ]"},
    {HEAD "[train] x\n", "conf/t.ini:5: text after ]"},
    {HEAD "[tr@in]\n", "conf/t.ini:5: section names have at most 40 letters, digits and underscores"},
    {HEAD "hello\n", "conf/t.ini:5: expected KEY = VALUE or [SECTION]"},
    {HEAD "[train]\nEpochs = 3\n", "conf/t.ini:6: [train] Epochs: unknown key (did you mean epochs?)"},
    {HEAD "[train]\nbatch-size = 3\n", "conf/t.ini:6: [train] batch-size: unknown key (did you mean batch_size?)"},
    {HEAD "[train]\nbatch size = 3\n", "conf/t.ini:6: keys have letters, digits and underscores"},
    {HEAD "[Train]\nepochs = 3\n", "conf/t.ini:5: [Train]: unknown section (did you mean [train]?)"},
    {HEAD "[optimizer]\ntype = Adam\n",
     "conf/t.ini:6: [optimizer] type: \"Adam\" is not one of {optimizers} (did you mean adam?)"},
    {HEAD "[train]\nprecision = fp16\n",
     "conf/t.ini:6: [train] precision: \"fp16\" is not one of f32, bf16, f16, fp8 (did you mean f16?)"},
    {HEAD "[checkpoint]\nmonitor = val/acc\n",
     "conf/t.ini:6: [checkpoint] monitor: \"val/acc\" is not one of {monitors} (did you mean val/accuracy?)"},
    {HEAD "[device]\nselect = cuda:0\n", "conf/t.ini:6: [device] select: \"cuda:0\" is not auto, gpu, cpu, an index, "
                                         "pci:ADDRESS, name:PART or platform:PART (did you mean 0?)"},
    {HEAD "[device]\nselect = CUDA\n", "conf/t.ini:6: [device] select: \"CUDA\" is not auto, gpu, cpu (did you mean "
                                       "gpu?), an index, pci:ADDRESS, name:PART or platform:PART"},
    {HEAD "[dist]\nbucket_mb = 25 kb\n", "conf/t.ini:6: [dist] bucket_mb: \"25 kb\" is not a number; the unit is MB"},
    {HEAD "= 3\n", "conf/t.ini:5: key without a name"},
    {HEAD "a23456789012345678901234567890123456789012 = 3\n", "conf/t.ini:5: key longer than 40 characters"},
    {HEAD "activation = \"relu\n", "conf/t.ini:5: closing quote is missing"},
    {HEAD "activation = \"relu\" x\n", "conf/t.ini:5: text after the closing quote"},
    {HEAD "dropout = 0.1\n  batch_norm = yes\n",
     "conf/t.ini:6: an indented line continues the value above: write keys at the start of the "
     "line"},
    {HEAD "dropout = 0.1\n  0.2\n", "conf/t.ini:5: [model] dropout: \"0.1 0.2\" is not a number"},
    {HEAD "dropout = 0\x01\n", "conf/t.ini:5: control or invisible character U+0001"},
    {"[data]\npath=d\nval_split=2\nbogus=1\n[model]\ntype=mlp\n[train]\nepochs=x\n",
     "conf/t.ini:3: [data] val_split: 2 is out of range (at least 0, below 1)\n"
     "conf/t.ini:4: [data] bogus: unknown key\n"
     "conf/t.ini:8: [train] epochs: \"x\" is not an integer"},
};

static void test_messages(void **state)
{
    const long live = charl_test_live();

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl_config *c = NULL;
        char want[2000];

        assert_int_equal(parse(bad[i].text, &c), CHARL_ERR_CONFIG);
        assert_string_equal(charl_error_message(), expand(bad[i].message, want, sizeof want));
        assert_null(c);
        assert_int_equal(charl_test_live(), live);
    }
}

static void test_long_lines(void **state)
{
    char text[10000];
    char name[401];
    const char *dir;
    charl_config *c = NULL;

    (void)state;
    memset(name, 'p', 400);
    name[400] = '\0';
    name[200] = ';';
    snprintf(text, sizeof text, HEAD "[run]\noutput_dir = /%s\n", name);
    assert_int_equal(parse(text, &c), CHARL_OK);
    charl_assert_ok(charl_config_get_text(c, "run.output_dir", &dir));
    assert_string_equal(dir + 1, name);
    charl_config_destroy(c);
    snprintf(text, sizeof text, HEAD "[run]\noutput_dir = %09000d\n", 1);
    assert_int_equal(parse(text, &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(),
                        "conf/t.ini:6: line is longer than 8000 bytes: continue it on indented lines");
    assert_int_equal(charl_config_parse("t.ini", "a\0b", 3, NULL, 0, &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "t.ini: not a text file");
}

static void test_many_mistakes_fit_the_message(void **state)
{
    char text[20000] = HEAD "[train]\n";
    charl_config *c = NULL;

    (void)state;
    for (int i = 0; i < 200; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "wrong_%d = 1\n", i);
    }
    assert_int_equal(parse(text, &c), CHARL_ERR_CONFIG);
    assert_non_null(strstr(charl_error_message(), "conf/t.ini:6: [train] wrong_0: unknown key\n"));
    assert_non_null(strstr(charl_error_message(), "\nand "));
    assert_string_equal(charl_error_message() + strlen(charl_error_message()) - 5, " more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_many_mistakes_fit_the_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
