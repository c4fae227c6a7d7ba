/* The list of losses, and shared functions. */
#include "nn/loss.h"

#include <math.h>
#include <stdio.h>

static const charl__registry losses = {.what = "loss", .built_in = charl__losses};

const charl__loss *charl__loss_at(int i)
{
    return charl__registry_at(&losses, i);
}

const charl__loss *charl__loss_find(const char *name)
{
    return charl__registry_find(&losses, name);
}

const char *charl_loss_name(int i)
{
    const charl__loss *l = charl__loss_at(i);

    return l ? l->row.name : NULL;
}

const char *charl__loss_names(unsigned targets, char *text, size_t size)
{
    const charl__loss *l;
    size_t used = 0;
    int n = 0, at = 0;

    for (int i = 0; (l = charl__loss_at(i)) != NULL; i++) {
        n += (l->targets & targets) != 0;
    }
    text[0] = '\0';
    for (int i = 0; (l = charl__loss_at(i)) != NULL && used < size; i++) {
        if (l->targets & targets) {
            const char *before = at == 0 ? "" : at + 1 < n ? ", " : " or ";
            const int length = snprintf(text + used, size - used, "%s%s", before, l->row.name);

            used += length > 0 ? (size_t)length : 0;
            at++;
        }
    }
    return text;
}

double charl__eval_target(const charl__eval_row *row, int64_t i)
{
    return row->labels ? (double)row->labels[i] : (double)row->numbers[i];
}

int64_t charl__largest(const float *outputs, int64_t n, int64_t stride)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++) {
        best = outputs[i * stride] > outputs[best * stride] ? i : best;
    }
    return best;
}

int64_t charl__eval_pixels(const charl__eval_row *row)
{
    return row->n / row->classes;
}

int64_t charl__eval_predicted(const charl__eval_row *row, int64_t i)
{
    return charl__largest(row->outputs + i, row->classes, charl__eval_pixels(row));
}

double charl__eval_weight(const charl__eval_row *row, int64_t i)
{
    return row->is_map && row->weights ? (double)row->weights[i] : 1.0;
}

double charl__eval_weights(const charl__eval_row *row)
{
    double sum = 0.0;

    for (int64_t i = 0; i < charl__eval_pixels(row); i++) {
        sum += charl__eval_weight(row, i);
    }
    return sum;
}

/* log(sum of exp(outputs)) - outputs[label], shifted by the largest output. */
double charl__eval_cross_entropy(const charl__eval_row *row, int64_t i, int64_t label)
{
    const int64_t pixels = charl__eval_pixels(row);
    const float *outputs = row->outputs + i;
    const double most = (double)outputs[charl__eval_predicted(row, i) * pixels];
    double sum = 0.0;

    for (int64_t c = 0; c < row->classes; c++) {
        sum += exp((double)outputs[c * pixels] - most);
    }
    return most + log(sum) - (double)outputs[label * pixels];
}

/* Over the classes of each pixel. */
static void softmax(const float *outputs, int64_t n, int64_t classes, double *answers)
{
    const int64_t pixels = n / classes;

    for (int64_t p = 0; p < pixels; p++) {
        const double most = (double)outputs[p + pixels * charl__largest(outputs + p, classes, pixels)];
        double sum = 0.0;

        for (int64_t i = p; i < n; i += pixels) {
            answers[i] = exp((double)outputs[i] - most);
            sum += answers[i];
        }
        for (int64_t i = p; i < n; i += pixels) {
            answers[i] /= sum;
        }
    }
}

static void sigmoid(const float *outputs, int64_t n, int64_t classes, double *answers)
{
    (void)classes;
    for (int64_t i = 0; i < n; i++) {
        answers[i] = 1.0 / (1.0 + exp(-(double)outputs[i]));
    }
}

static void identity(const float *outputs, int64_t n, int64_t classes, double *answers)
{
    (void)classes;
    for (int64_t i = 0; i < n; i++) {
        answers[i] = (double)outputs[i];
    }
}

/* A probability that a float cannot hold is taken for the smallest. */
static double log_of(double p)
{
    return log(p > 1e-37 ? p : 1e-37);
}

static double logit(double p)
{
    return log_of(p) - log_of(1.0 - p);
}

static double same(double v)
{
    return v;
}

const charl__answer charl__answer_softmax = {"probability", softmax, log_of};
const charl__answer charl__answer_sigmoid = {"probability", sigmoid, logit};
const charl__answer charl__answer_identity = {"prediction", identity, same};
