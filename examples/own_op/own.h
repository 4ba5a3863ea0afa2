/* own.h - what this library adds to Flotilla. */
#ifndef OWN_H
#define OWN_H

#include <flotilla/flotilla.h>

/* Operator squash, rule sign_mean, format comma_ids, mode tally. */
fl_status own_add(fl_ctx *c);

#endif
