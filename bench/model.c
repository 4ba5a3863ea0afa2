/* model.c - models at rest: what saving, loading and opening cost, against
 * moving the same bytes. */
#include "model_parts.h"

int main(void)
{
    bench_model_table();
    return 0;
}
