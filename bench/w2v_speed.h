/* w2v_speed.h - skip-gram by sentences against the floor, with reading. */
#ifndef BENCH_W2V_SPEED_H
#define BENCH_W2V_SPEED_H

#include "w2v_text.h"

/* Rows w2v.{pair,shared,table}.t{1,2}.*, on the text of that directory. */
void w2v_measure_speed(const w2v_text *t, const char *dir);

#endif
