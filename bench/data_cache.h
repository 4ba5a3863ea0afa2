/* data_cache.h - the figures of the data cache, data.cache.* */
#ifndef BENCH_DATA_CACHE_H
#define BENCH_DATA_CACHE_H

/* Ends the program when anything fails. */
void bench_data_cache(void);

#endif
