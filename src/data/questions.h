#ifndef CHARL_DATA_QUESTIONS_H
#define CHARL_DATA_QUESTIONS_H
/** Input of language models: multiple-choice questions, and prompts, from files of lines. */
#include <stdint.h>

#include "charl/status.h"

typedef struct charl__question {
    int64_t line;   /* of the file, from 1 */
    char *context;  /* text that the endings continue */
    char **endings; /* [n] without the space that is put before them */
    int n, answer;
} charl__question;

typedef struct charl__questions {
    charl__question *items;
    int64_t count;
} charl__questions;

/** Read a file whose lines are objects in HellaSwag's form, {"ctx": "...", "endings": [...], "label": 2}, or ARC's, {"question": "...",
 *  "choices": {"text": [...], "label": [...]}, "answerKey": "B"}, which is asked as "Question: ...\nAnswer:". Other members are ignored. Call
 *  charl__questions_fini even after a failure. Blocks. Errors: ERR_DATA  file, line and what is wrong; ERR_NOMEM. */
charl_status charl__questions_read(const char *path, charl__questions *out) CHARL_MUST_CHECK;
void charl__questions_fini(charl__questions *q);

/** Prompts of a file, plain or gzip, one per line without its end; empty lines are skipped. In a file named .jsonl or .jsonl.gz a line is an
 *  object with a text "prompt". Start from {0}; call charl__prompts_fini even after a failure. Blocks. Errors: as charl__questions_read. */
typedef struct charl__prompts {
    char **items; /* [count] not empty */
    int64_t count;
} charl__prompts;

charl_status charl__prompts_read(const char *path, charl__prompts *out) CHARL_MUST_CHECK;
void charl__prompts_fini(charl__prompts *p);

#endif
