/* golden.h - one case: a file of inputs and the numbers that must come out.
 *
 * Every kind of case has a function run_KIND in run_KIND.c; it reports what
 * is wrong with case_fail and says nothing when all is right. All of them go
 * through the public headers alone.
 */
#ifndef GOLDEN_GOLDEN_H
#define GOLDEN_GOLDEN_H

#include <stdbool.h>

#include "pool.h"
#include "safetensors.h"

typedef struct golden_case {
    const char *path; /* of the file, for messages and for its neighbours */
    const char *name; /* of the file, without folder and ending */
    st_file file;
    pool pool; /* dies with the case */
    int n_failures;
    bool is_quiet; /* failures are counted, not printed */
} golden_case;

/* Prints one line with the path before it. */
void case_fail(golden_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The JSON in a metadata string; freed with cJSON_Delete. Reports and returns
   NULL when it is missing or no object. */
cJSON *case_json(golden_case *c, const char *key);

/* A number of a JSON object, `otherwise` when it has none. */
double json_number(const cJSON *object, const char *key, double otherwise);

void run_op(golden_case *c);
void run_optim(golden_case *c);
void run_lr(golden_case *c);
void run_metric(golden_case *c);
void run_train(golden_case *c);
void run_init(golden_case *c);
void run_dist(golden_case *c);
void run_model(golden_case *c);

#endif
