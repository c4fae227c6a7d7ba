/* The operator table, from ops.def. */
#include <string.h>

#include "autograd/custom.h"
#include "autograd/op.h"

const charl__op *const charl__op_table[] = {
#define CHARL_OP(name) &charl_op_##name,
#include "autograd/ops.def"
    NULL,
};
const int charl__op_count = (int)(sizeof charl__op_table / sizeof charl__op_table[0]) - 1;

const charl__op *charl__op_find(const char *name)
{
    for (int i = 0; i < charl__op_count; i++) {
        if (strcmp(charl__op_table[i]->name, name) == 0) {
            return charl__op_table[i];
        }
    }
    return charl__custom_find(name);
}
