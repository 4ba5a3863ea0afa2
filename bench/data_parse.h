/* data_parse.h - the figures of parsing, data.<format>.* */
#ifndef BENCH_DATA_PARSE_H
#define BENCH_DATA_PARSE_H

/* Ends the program when anything fails. */
void bench_data_parse(void);

#endif
