#ifndef CHARL_AUTOGRAD_OP_NORM_ROW_NORM_SAMPLES_H
#define CHARL_AUTOGRAD_OP_NORM_ROW_NORM_SAMPLES_H
/** Samples of the gradients of layer_norm and rms_norm, which have the same operands: elements of
 * arrays, given two attributes.
 */
#include "autograd/op/norm/row_norm.h"

#define CHARL_ROW_NORM_GRAD_SAMPLES(usual, large)                                                  \
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5), CHARL_R(F32, 5), CHARL_B(F32, 16, 5)},       \
     .attr = (large),                                                                              \
     .lo = -1,                                                                                     \
     .hi = 1,                                                                                      \
     .terms = 16},                                                                                 \
        {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37)},                                   \
         .n_in = 2,                                                                                \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 37},                                                                             \
        {.in = {CHARL_R(F32, 5, 300), CHARL_R(F32, 5, 300), CHARL_R(F32, 300)},                    \
         .n_in = 3,                                                                                \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 300},                                                                            \
        {.in = {CHARL_R(F32, 3, 1), CHARL_R(F32, 3, 1), CHARL_R(F32, 1)},                          \
         .n_in = 3,                                                                                \
         .attr = (large),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 2},

#define CHARL_ROW_NORM_WGRAD_SAMPLES(usual, large)                                                 \
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5)},                                             \
     .attr = (large),                                                                              \
     .lo = -1,                                                                                     \
     .hi = 1,                                                                                      \
     .terms = 16},                                                                                 \
        {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37)},                                   \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 37},                                                                             \
        {.in = {CHARL_R(F32, 5, 300), CHARL_R(F32, 5, 300)},                                       \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms =                                                                                  \
             300}, /* Blocks of 64 rows: whole ones and a ragged one, per slice; of more than \
                           256 of them taller ones. */    \
        {.in = {CHARL_B(F32, 8, 135, 37), CHARL_B(F32, 8, 135, 37)},                               \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 1080},                                                                           \
        {.in = {CHARL_R(F32, 16449, 2), CHARL_R(F32, 16449, 2)},                                   \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 16449},                                                                          \
        {.in = {CHARL_R(F32, 0, 4), CHARL_R(F32, 0, 4)}, .attr = (usual), .lo = -1, .hi = 1},      \
        {.in = {CHARL_R(F32, 1, 1), CHARL_R(F32, 1, 1)},                                           \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 2},

#define CHARL_ROW_NORM_GRADS_SAMPLES(usual, large)                                                 \
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5), CHARL_R(F32, 5), CHARL_B(F32, 16, 5)},       \
     .attr = (large),                                                                              \
     .lo = -1,                                                                                     \
     .hi = 1,                                                                                      \
     .terms =                                                                                      \
         16}, /* In one pass where a device has groups: slices of a whole block of rows and a \
                      ragged one. */    \
        {.in = {CHARL_B(F32, 8, 67, 520), CHARL_B(F32, 8, 67, 520), CHARL_R(F32, 520)},            \
         .n_in = 3,                                                                                \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 536},                                                                            \
        {.in = {CHARL_R(F32, 5, 16), CHARL_R(F32, 5, 16), CHARL_R(F32, 16), CHARL_R(F32, 5, 16)},  \
         .attr = (usual),                                                                          \
         .lo = -1,                                                                                 \
         .hi = 1,                                                                                  \
         .terms = 16},

#endif
