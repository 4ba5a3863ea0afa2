/* canon.h - what the canonicalising passes share. They make one operator of
 * what programs of Fluid write with many, before anything else looks at the
 * program: alone, and in each mode. */
#ifndef FL_PASS_CANON_H
#define FL_PASS_CANON_H

#include "pass/dist.h"
#include "pass/match.h"
#include "pass/versions.h"

#endif
