#ifndef CHARL_CONFIG_VALUES_H
#define CHARL_CONFIG_VALUES_H
/** The values of a configuration as the modules read them: cfg->train.batch_size. Programs read them by name (charl/config.h), so that new
 *  keys do not affect compiled programs. */
#include "base/error.h"
#include "charl/config.h"

/** The most steps, epochs or seconds of a length or an interval. */
static const int64_t CHARL__LONGEST = 1000000000000; /* 1e12 */

/** Added to a length in tokens, until charl__config_in_steps. Steps are fewer. */
static const int64_t CHARL__TOKENS = INT64_C(1) << 62;

typedef enum charl__interval_unit {
    CHARL__INTERVAL_OFF,
    CHARL__INTERVAL_STEPS,
    CHARL__INTERVAL_TOKENS, /* until charl__config_in_steps */
    CHARL__INTERVAL_EPOCHS,
    CHARL__INTERVAL_SECONDS,
    CHARL__INTERVAL_AUTO /* by what it costs; of keys that have the word */
} charl__interval_unit;

typedef struct charl__interval {
    charl__interval_unit unit;
    int64_t count; /* of the unit; 0 when off */
} charl__interval;

/* The values of a choice, in the order in which the key table lists them. */
typedef enum charl__precision {
    CHARL__PRECISION_F32,
    CHARL__PRECISION_BF16,
    CHARL__PRECISION_F16,
    CHARL__PRECISION_FP8
} charl__precision;

typedef enum charl__products { CHARL__PRODUCTS_FMA, CHARL__PRODUCTS_INTEGER } charl__products;
typedef enum charl__reduce_type { CHARL__REDUCE_F32, CHARL__REDUCE_BF16 } charl__reduce_type;
typedef enum charl__shard_mode {
    CHARL__SHARD_NONE,
    CHARL__SHARD_OPTIMIZER,
    CHARL__SHARD_GRADIENTS,
    CHARL__SHARD_PARAMETERS,
    CHARL__SHARD_AUTO
} charl__shard_mode;
typedef enum charl__offload { CHARL__OFFLOAD_NONE, CHARL__OFFLOAD_OPTIMIZER } charl__offload;
typedef enum charl__shard_group { CHARL__SHARD_GROUP_ALL, CHARL__SHARD_GROUP_NODE } charl__shard_group;
typedef enum charl__balance_rule { CHARL__BALANCE_EVEN, CHARL__BALANCE_SPEED } charl__balance_rule;
typedef enum charl__exact { CHARL__EXACT_AUTO, CHARL__EXACT_DEVICE, CHARL__EXACT_ANYWHERE } charl__exact;
typedef enum charl__nonfinite_rule { CHARL__NONFINITE_STOP, CHARL__NONFINITE_SKIP } charl__nonfinite_rule;
typedef enum charl__decay_1d { CHARL__DECAY_1D_AUTO, CHARL__DECAY_1D_YES, CHARL__DECAY_1D_NO } charl__decay_1d;
typedef enum charl__cache_place { CHARL__CACHE_AUTO, CHARL__CACHE_DEVICE, CHARL__CACHE_NONE } charl__cache_place;
typedef enum charl__checkpoint_parts { CHARL__PARTS_AUTO, CHARL__PARTS_ONE, CHARL__PARTS_RANK } charl__checkpoint_parts;
typedef enum charl__saved_weights { CHARL__SAVED_AUTO, CHARL__SAVED_ALL, CHARL__SAVED_TRAINED } charl__saved_weights;
typedef enum charl__documents { CHARL__DOCUMENTS_CROSS, CHARL__DOCUMENTS_SEPARATE } charl__documents;
typedef enum charl__monitor_mode { CHARL__MONITOR_AUTO, CHARL__MONITOR_MIN, CHARL__MONITOR_MAX } charl__monitor_mode;
typedef enum charl__normalize_kind {
    CHARL__NORMALIZE_AUTO,
    CHARL__NORMALIZE_NONE,
    CHARL__NORMALIZE_GIVEN
} charl__normalize_kind;

typedef struct charl__normalize {
    charl__normalize_kind kind;
    int count; /* GIVEN: channels or columns */
    float mean[CHARL_CONFIG_LIST];
    float std[CHARL_CONFIG_LIST];
} charl__normalize;

/** Fold k of n, from 1; n 0: none. */
typedef struct charl__data_fold {
    int64_t k, n;
} charl__data_fold;

/** Data sets and their weights. */
typedef struct charl__mix {
    int count; /* 0: none */
    const char *path[CHARL_CONFIG_LIST];
    double weight[CHARL_CONFIG_LIST];
} charl__mix;

/** Random augmentation of the training samples; all zero: none. All except mixup are for images. */
typedef struct charl__augment {
    bool flip;                                    /* mirrored left to right, every other one */
    double crop;                                  /* whole pixels */
    double rotate;                                /* degrees */
    double cutout;                                /* whole pixels */
    double mixup;                                 /* alpha of Beta(alpha, alpha) */
    double cutmix;                                /* likewise */
    double resized_crop;                          /* the smallest part of the area */
    double erase;                                 /* probability */
    double brightness, contrast, saturation, hue; /* the maximum of each */
    double randaugment;                           /* number of transforms */
    double magnitude;                             /* of these; 0: 9 */
} charl__augment;

typedef enum charl__noise_schedule {
    CHARL__NOISE_NONE,
    CHARL__NOISE_COSINE,
    CHARL__NOISE_LINEAR
} charl__noise_schedule;
typedef enum charl__denoise { CHARL__DENOISE_VELOCITY, CHARL__DENOISE_NOISE } charl__denoise;

/* Bits of the keys that are sets. */
enum { CHARL__METRICS_AUTO = 1 };

typedef struct charl__config_detail charl__config_detail;

/** The fields of config/section_keys.def, by section. Strings are never NULL. If an integer may be a word such as auto, 0 means that word. */
/* clang-format off */
struct charl_config {
#define CHARL_SECTION_BEGIN(section) struct {
#define CHARL_SECTION_END(section) \
    }                              \
    section;
#define CHARL_KEY(section, type, field, ...) type field;
#define CHARL_FIELD(section, type, field) type field;
#define CHARL_SECTION_OF(section, type) type section;
#include "config/section_keys.def"

    charl__config_detail *detail; /* owned: origins, layers, strings */
};
/* clang-format on */

/** The text of the file as it was read, `*length` bytes and a NUL. Borrowed. */
const char *charl__config_source(const charl_config *cfg, size_t *length);
/** Slices of the global batch: train.slices, or for auto the largest power of two up to 8 that divides train.batch_size. */
int charl__config_slices(const charl_config *cfg);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__config_left, charl_config, charl_config_destroy)

#endif
