/* list_rows: kind and name of every row that the library's functions list, one a line, for test_rows.py. Of operators those that can be
 * checked by name. */
#include <stdio.h>

#include <charl/charl.h>

typedef const char *list(int i);

static void print(const char *kind, list *name_of)
{
    for (int i = 0; name_of(i); i++) {
        printf("%s %s\n", kind, name_of(i));
    }
}

int main(void)
{
    for (int i = 0; charl_operator_name(i); i++) {
        if (charl_operator_takes(charl_operator_name(i), CHARL_F32)) {
            printf("operator %s\n", charl_operator_name(i));
        }
    }
    print("all-reduce", charl_allreduce_algorithm_name);
    print("importer", charl_importer_name);
    print("layer", charl_layer_type_name);
    print("loss", charl_loss_name);
    print("metric", charl_metric_name);
    print("model", charl_model_type_name);
    print("optimizer", charl_optimizer_name);
    print("schedule", charl_schedule_name);
    print("tokenizer", charl_tokenizer_type_name);
    return 0;
}
