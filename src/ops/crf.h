/* crf.h - what the operators of a chain of tags share. Transition is
 *
 *     row 0      weights of a tag at the beginning
 *     row 1      weights of a tag at the end
 *     row 2 + i  weights of each tag behind tag i
 */
#ifndef FL_OPS_CRF_H
#define FL_OPS_CRF_H

#include "ops/padded.h"

enum { FL_CRF_EMISSION, FL_CRF_TRANSITION, FL_CRF_LABEL, FL_CRF_LENGTH };
enum { FL_CRF_START, FL_CRF_END, FL_CRF_BEHIND };

/* Checks shapes and types of the four inputs. */
FL_MUST_CHECK
fl_status fl_crf_infer(const fl_infer *c);

#endif
