/* transpile.h - the inside of a transpiler. Owner thread only. */
#ifndef FL_DIST_TRANSPILE_H
#define FL_DIST_TRANSPILE_H

#include "dist/job.h"
#include "flotilla/dist.h"

struct fl_transpiler {
    fl_job *job; /* has all programs */
};

#endif
