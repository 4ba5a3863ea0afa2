/* data_train.h - training from each way in, against training from memory. */
#ifndef BENCH_DATA_TRAIN_H
#define BENCH_DATA_TRAIN_H

void bench_data_train(void);

#endif
