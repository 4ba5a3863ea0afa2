/* model.c - models at rest: what saving, loading and opening cost, against
 * moving the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "model_parts.h"

bool bench_model_wants(const char *part)
{
    const char *only = getenv("BENCH_MODEL");

    return !only || !strcmp(only, part);
}

uint64_t bench_model_rows(void)
{
    const char *rows = getenv("BENCH_MODEL_ROWS");

    return rows ? strtoull(rows, NULL, 10) : MODEL_ROWS;
}

int main(void)
{
    if (bench_model_wants("job"))
        bench_model_job();
    if (bench_model_wants("fresh"))
        bench_model_fresh();
    if (bench_model_wants("load") || bench_model_wants("save") ||
        bench_model_wants("delta"))
        bench_model_table();
    return 0;
}
