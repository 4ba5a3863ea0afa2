/* nearest.h - which of the right words somebody may have meant. */
#ifndef FL_CMD_NEAREST_H
#define FL_CMD_NEAREST_H

/* How many letters have to be added, dropped or changed to get from one word
   to the other; of `b` only the first 32 letters count. */
int nearest_distance(const char *a, const char *b);

#endif
