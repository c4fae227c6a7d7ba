/* Manual pages and completion: which is requested, and how a command describes its syntax. */
#include "cli/cli_describe.h"

#include <string.h>
#include <unistd.h>

void charl__cli_describe_command(const char *path, charl__cli_main *run, const char *word,
                                 charl__cli_describer describe, void *ctx)
{
    char name[] = "command", second[64] = "";
    char *argv[] = {name, word ? second : NULL, NULL};

    if (word) {
        strncat(second, word, sizeof second - 1);
    }
    charl__cli_parse_instead(describe, ctx);
    (void)run(path, word ? 2 : 1, argv);
    charl__cli_parse_instead(NULL, NULL);
}

char *charl__cli_beside(const char *program, char path[4096])
{
    const ssize_t length = readlink("/proc/self/exe", path, 4096 - strlen(program) - 1);
    char *slash;

    path[length > 0 ? length : 0] = '\0';
    slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, program);
    return path;
}

bool charl__cli_describe(const charl__cli_self *program, int argc, char **argv, int *code)
{
    if (argc < 2) {
        return false;
    }
    if (strcmp(argv[1], "--complete") == 0) {
        *code = charl__cli_complete(program, argc - 2, argv + 2);
        return true;
    }
    if (argc == 2 && strcmp(argv[1], "--man") == 0) {
        *code = charl__cli_man(program);
        return true;
    }
    if (argc == 2 && strcmp(argv[1], "--man=config") == 0) {
        *code = charl__cli_man_config();
        return true;
    }
    return false;
}
