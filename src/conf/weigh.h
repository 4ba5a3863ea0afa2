/* weigh.h - what one of several gradients counts in their sum (the setting
 * gradient_weight). Any thread. */
#ifndef FL_CONF_WEIGH_H
#define FL_CONF_WEIGH_H

#include "conf/conf.h"

typedef enum fl_weighing {
    FL_WEIGH_EQUALLY,    /* 1 / n */
    FL_WEIGH_BY_SAMPLES, /* its share of all samples */
    FL_WEIGH_SUM         /* 1 */
} fl_weighing;

fl_weighing fl_weighing_of(const fl_conf *conf);

/* Of n gradients with `all` samples, the one with so many. */
double fl_weight(fl_weighing how, double samples, double all, size_t n);

#endif
