#ifndef CHARL_CLI_CHARL_COMPLETION_H
#define CHARL_CLI_CHARL_COMPLETION_H
/** The functions of the shells, from the files in completion/. */
extern const char *const charl__completion_bash;
extern const char *const charl__completion_zsh;
extern const char *const charl__completion_fish;

#endif
