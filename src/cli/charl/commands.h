#ifndef CHARL_CLI_CHARL_COMMANDS_H
#define CHARL_CLI_CHARL_COMMANDS_H
/** The commands of `charl`: main.c lists them; each file here implements one or a few. */
#include <charl/checkpoint.h>
#include <charl/dataset.h>
#include "cli/cli.h"

charl__cli_main charl__checkpoint_show_main, charl__checkpoint_verify_main, charl__checkpoint_diff_main,
    charl__checkpoint_export_main, charl__checkpoint_average_main, charl__checkpoint_at_main,
    charl__checkpoint_pack_main, charl__data_import_main, charl__data_make_main, charl__data_info_main,
    charl__data_verify_main, charl__data_sample_main, charl__data_split_main, charl__data_merge_main,
    charl__data_rows_main, charl__data_preview_main, charl__model_show_main, charl__doctor_main, charl__devices_main,
    charl__tune_main, charl__selftest_main, charl__eval_main, charl__predict_main, charl__generate_main,
    charl__replay_main, charl__bisect_main, charl__verify_main, charl__prove_main, charl__golden_main,
    charl__forget_main, charl__influence_main, charl__report_main, charl__model_memory_main, charl__trace_merge_main,
    charl__compare_main, charl__init_main, charl__launch_main, charl__completion_main, charl__sweep_main,
    charl__runs_main, charl__sample_main, charl__plan_main;

/** `charl tune CONFIG --learning-rate`: the range test of the operands' configuration. verbose: print every step. Returns an exit code. */
int charl__tune_rate(const charl__cli_operands *operands, bool verbose, int *argc, char ***argv);
/** Print the contents of the dataset at `path`; returns an exit code. */
int charl__data_show(const char *path);
/** Print text on one line, between quotes; characters that a terminal would not display become '?', and the NUL between documents a line end. */
void charl__data_put_quoted(const char *text, size_t bytes);
/** Print the number of samples of each class in each split, if a sample has one class; with `warns` also a warning if they are unbalanced.
 *  Errors: as charl_dataset_read. */
charl_status charl__data_show_labels(charl_dataset *ds, const charl_dataset_info *info, bool warns);
/** Read training samples for a third of a second, or two thirds if the order matters, and print the number per second. Tokens need a
 *  window of more than one. Errors: as charl_dataset_read. */
charl_status charl__data_show_speed(charl_dataset *ds, const charl_dataset_info *info);

/** Whether NVIDIA's OpenCL library is installed but provides none of the devices. */
bool charl__nvidia_is_hidden(const charl_device_info *devices, int count);
/** A trained model, as named by operands. */
typedef struct charl__trained {
    charl_config *config; /* owned */
    char *path;           /* of the checkpoint */
} charl__trained;

/** Whether `path` is a checkpoint that can be opened, or a run directory with one. Leaves no error message. */
bool charl__is_checkpoint(const char *path);
/** Replace *path by the result of charl_run_checkpoint, valid for the life of the process, and print a note if it is another file. */
charl_status charl__checkpoint_of(char **path) CHARL_MUST_CHECK;
/** The same of n paths. -1, or an exit code. */
int charl__checkpoints_of(char **paths, int n);
/** Move paths that are parts of a checkpoint behind the others, which a pattern for all files of a folder names too: the number of the others, or n if
 *  all are parts. */
int charl__without_parts(char **paths, int n);

/** Shorten each of n paths that names a checkpoint of a run to the run directory. */
void charl__runs_of(char **paths, int n);
/** Reject `model`, an existing file that is not a checkpoint, if one of the n data paths is one: they are swapped. Errors: ERR_CONFIG. */
charl_status charl__check_order(const char *model, const char *const *data, int64_t n) CHARL_MUST_CHECK;

/** Take CHECKPOINT, whose own configuration is used, or CONFIG and CHECKPOINT in any order, and
 *  overrides. A run directory means its last checkpoint. Errors: ERR_CONFIG; those of charl_config_load and charl_checkpoint_open. */
charl_status charl__parse_trained(const charl__cli_operands *operands, charl__trained *out) CHARL_MUST_CHECK;
/** Write a checkpoint's predictions, probabilities or numbers, for every sample of a split of the configuration's data, as `charl predict` does,
 *  in the format given by the file's name. */
charl_status charl__predict_split(const charl_config *config, const char *checkpoint, const char *split,
                                  charl_ema_choice ema, const char *file);
/** Reject the name of a file in a format in which predictions cannot be written. Errors: ERR_CONFIG. */
charl_status charl__prediction_name(const char *path) CHARL_MUST_CHECK;
/** The supported shells; NULL past the last. */
const char *charl__completion_shell(int i);

#endif
