/* nearest.h - which of the right words somebody may have meant. */
#ifndef FL_CMD_NEAREST_H
#define FL_CMD_NEAREST_H

/* The nearer of two names to a word, for walking through a list: so_far is NULL
   at first, and what comes out is NULL when neither is near. */
const char *nearer_name(const char *word, const char *so_far, const char *name);

#endif
