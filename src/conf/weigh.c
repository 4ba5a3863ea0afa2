/* weigh.c - what one of several gradients counts in their sum. */
#include "conf/weigh.h"

#include <string.h>

fl_weighing fl_weighing_of(const fl_conf *conf)
{
    return !strcmp(conf->gradient_weight, "samples") ? FL_WEIGH_BY_SAMPLES
           : !strcmp(conf->gradient_weight, "sum")   ? FL_WEIGH_SUM
                                                     : FL_WEIGH_EQUALLY;
}

double fl_weight(fl_weighing how, double samples, double all, size_t n)
{
    if (how == FL_WEIGH_SUM)
        return 1;
    if (how == FL_WEIGH_BY_SAMPLES && all > 0)
        return samples / all;
    return 1.0 / (double)n;
}
