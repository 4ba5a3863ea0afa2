/* data.c - how fast data comes in: parsing and the cache on one thread, and how
 * much of its speed training keeps by each way in. */
#include "data_cache.h"
#include "data_parse.h"
#include "data_train.h"

int main(void)
{
    bench_data_parse();
    bench_data_cache();
    bench_data_train();
    return 0;
}
