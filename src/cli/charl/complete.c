/* charl completion SHELL: prints the function that completes command lines in a shell. */
#include <stdio.h>
#include <string.h>

#include "cli/charl/commands.h"
#include "cli/charl/completion.h"

static const char *const shells[] = {"bash", "zsh", "fish"};

const char *charl__completion_shell(int i)
{
    return i >= 0 && (size_t)i < sizeof shells / sizeof shells[0] ? shells[i] : NULL;
}

static error_t parse_shell(const charl__cli_operands *o, void *input)
{
    const char *const scripts[] = {charl__completion_bash, charl__completion_zsh, charl__completion_fish};

    for (int i = 0; charl__completion_shell(i); i++) {
        if (strcmp(o->values[0], charl__completion_shell(i)) == 0) {
            *(const char **)input = scripts[i];
            return 0;
        }
    }
    charl__cli_error(0, NULL, "unknown shell: %s; it can be bash, zsh or fish", o->values[0]);
    return EINVAL;
}

int charl__completion_main(const char *path, int argc, char **argv)
{
    static const charl__cli_syntax syntax = {
        NULL, "SHELL",
        "Print the function with which a shell completes commands, options, keys and values. SHELL: bash, zsh or "
        "fish.\vAn installed charl is completed at once. Otherwise:\n  bash  eval \"$(charl completion bash)\"\n  zsh  "
        " eval \"$(charl completion zsh)\"\n  fish  charl completion fish | source"};
    charl__cli_operands shell = {.names = {"SHELL"}, .check = parse_shell};
    const char *script = "";
    const int code = charl__cli_parse(path, &syntax, &shell, argc, argv, &script);

    if (code < 0) {
        fputs(script, stdout);
    }
    return code < 0 ? CHARL__EXIT_OK : code;
}
