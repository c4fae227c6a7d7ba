#ifndef CHARL_LOSS_H
#define CHARL_LOSS_H
/** What a model learns from, and the losses that training can minimize.
 *
 *  A loss is a row of a registry: a name, one line of help, the keys that it adds to [train], the kind of target it
 *  learns from, its graph, and what an output of its model means. docs/training.md lists them. */
#include "charl/api.h"

CHARL_BEGIN_DECLS

/** What the target of a sample is. Bits, so that a set of them is an unsigned. */
typedef enum charl_target_kind {
    CHARL_TARGET_CLASS = 1,          /* one of n classes; the model has an output per class */
    CHARL_TARGET_FLAGS = 2,          /* labels that are 0 or 1; an output per label */
    CHARL_TARGET_NUMBERS = 4,        /* real values; an output per value */
    CHARL_TARGET_TOKENS = 8,         /* the next token at every position of a window */
    CHARL_TARGET_PROBABILITIES = 16, /* of n classes; an output per class */
    CHARL_TARGET_MAPS = 32,          /* one of n classes at every pixel or voxel; an output per class and pixel */
    CHARL_TARGET_NOTHING = 64,       /* numbers that are not read: the loss compares rows with each other */
    CHARL_TARGET_INTERVALS = 128     /* besides NUMBERS: the model predicts several quantiles of each value */
} charl_target_kind;

/** Name of loss i = 0, 1, ..., as train.loss takes it; NULL past the last. Local. */
const char *charl_loss_name(int i);

CHARL_END_DECLS

#endif
