#ifndef CHARL_IO_QUESTIONS_H
#define CHARL_IO_QUESTIONS_H
/** Multiple-choice questions from a file of JSON lines, plain or gzip. */
#include <stdint.h>

#include "charl/status.h"

typedef struct charl__question {
    int64_t line;   /* of the file, from 1 */
    char *context;  /* what the endings continue */
    char **endings; /* [n] without the space that is put in front of them */
    int n, answer;
} charl__question;

typedef struct charl__questions {
    charl__question *items;
    int64_t count;
} charl__questions;

/** Read a file whose lines are objects of HellaSwag's form, {"ctx": "...", "endings": [...], "label": 2}, or ARC's, {"question": "...",
 *  "choices": {"text": [...], "label": [...]}, "answerKey": "B"}, which is asked as "Question: ...\nAnswer:". Other members are left out. Call
 *  charl__questions_fini also after a failure. Blocks. Errors: ERR_DATA  file, line and what is wrong; ERR_CONFIG  built without
 *  libjansson; ERR_NOMEM. */
charl_status charl__questions_read(const char *path, charl__questions *out) CHARL_MUST_CHECK;
void charl__questions_fini(charl__questions *q);

#endif
