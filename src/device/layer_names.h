#ifndef CHARL_DEVICE_LAYER_NAMES_H
#define CHARL_DEVICE_LAYER_NAMES_H
/** Labels of launches, in tables. */

/** In place: replaces numbers between dots by stars, so that repeated layers share a row: h.0.mlp.c_fc and h.1.mlp.c_fc become h.*.mlp.c_fc. */
void charl__layer_names_merge(char *label);

#endif
