#ifndef CHARL_NN_LOSS_H
#define CHARL_NN_LOSS_H
/** The registry of losses. */
#include "base/registry/registry.h"
#include "charl/loss.h"
#include "charl/ops.h"

/** One evaluated row in host memory. The target is labels or numbers; the other is NULL. */
typedef struct charl__eval_row {
    const float *outputs; /* [n]; TOKENS: NULL */
    int64_t n;
    bool is_map;           /* MAPS */
    int64_t classes;       /* MAPS, and FLAGS that are masks: channels, n / classes pixels each; else n */
    int64_t predicted;     /* CLASS: the first of the largest outputs */
    int64_t index;         /* of the row in its split */
    const int32_t *labels; /* CLASS [1]; MAPS [n / classes]; TOKENS, FLAGS, and NUMBERS that are integers [n] */
    const float *numbers;  /* [n] */
    const float *weights;  /* TOKENS [n], MAPS [n / classes]: what each target weighs; NULL: all 1 */
} charl__eval_row;

/** MAPS: what pixel i weighs; 1 for a CLASS. And what those of a row weigh together. */
double charl__eval_weight(const charl__eval_row *row, int64_t i);
double charl__eval_weights(const charl__eval_row *row);

/** Target i of a row of flags or numbers. */
double charl__eval_target(const charl__eval_row *row, int64_t i);
/** Which is the first of the largest of outputs[0], outputs[stride], ..., n of them. */
int64_t charl__largest(const float *outputs, int64_t n, int64_t stride);
/** CLASS, MAPS: pixels of a row, 1 of a CLASS; the class that is predicted at pixel i; -log of the probability of class `label` there. */
int64_t charl__eval_pixels(const charl__eval_row *row);
int64_t charl__eval_predicted(const charl__eval_row *row, int64_t i);
double charl__eval_cross_entropy(const charl__eval_row *row, int64_t i, int64_t label);

/** How an output of a model is read. */
typedef struct charl__answer {
    const char *name; /* of one, for a column: "probability" */
    /* classes: as in charl__eval_row */
    void (*compute)(const float *outputs, int64_t n, int64_t classes, double *answers);
} charl__answer;

extern const charl__answer charl__answer_softmax;  /* probabilities of classes */
extern const charl__answer charl__answer_sigmoid;  /* probability of each label */
extern const charl__answer charl__answer_identity; /* predictions of numbers */

/** A row of the registry. Its keys are keys of [train]. */
typedef struct charl__loss {
    charl_row row;
    /** Bits of charl_target_kind: CLASS, FLAGS, NUMBERS or PROBABILITIES; and MAPS, and TOKENS if it learns from windows of tokens too. */
    unsigned targets;
    /** The loss of each row, f32 [rows] or [rows, window].
     *
     *  CLASS, TOKENS   outputs [rows, (window,) classes] any float   targets i32 [rows(, window)]
     *  MAPS            outputs [rows, pixels, classes] any float     targets i32 [rows, pixels]
     *  others          outputs f32 [rows, ...]                       targets f32, the same shape */
    charl_var *(*build)(charl_graph *g, const void *settings, charl_var *outputs, charl_var *targets);
    /** MAPS, of a loss that is one number for all pixels of a row: the same, f32 [rows], of the pixels whose `counted`, f32 [rows, pixels], is 1 and
     *  not 0. NULL: the loss of a row is the mean over its pixels. */
    charl_var *(*build_counted)(charl_graph *g, const void *settings, charl_var *outputs, charl_var *targets,
                                charl_var *counted);
    /** `build` for one row outside of training, in double: the definition. Of MAPS it takes the pixels that count. */
    double (*reference)(const void *settings, const charl__eval_row *row);
    const charl__answer *answer;
} charl__loss;

/** All of them, charl__loss_NAME in a file of src/nn/loss, and NULL. Made by CMake. */
extern const void *const charl__losses[];

/** Loss i = 0, 1, ...; NULL past the last. By name; NULL if unknown. */
const charl__loss *charl__loss_at(int i);
const charl__loss *charl__loss_find(const char *name);

/** "A, B or C": the losses that learn from one of the kinds `targets`, cut to `size`. Returns text. */
const char *charl__loss_names(unsigned targets, char *text, size_t size);

#endif
