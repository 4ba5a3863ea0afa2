/* flotilla.h - everything a program that trains needs. What is under
 * experimental/ may change with any version and is included by name. */
#ifndef FLOTILLA_FLOTILLA_H
#define FLOTILLA_FLOTILLA_H

#include "flotilla/abi.h"
#include "flotilla/block.h"
#include "flotilla/data.h"
#include "flotilla/dist.h"
#include "flotilla/eval.h"
#include "flotilla/executor.h"
#include "flotilla/features.h"
#include "flotilla/fleet.h"
#include "flotilla/io.h"
#include "flotilla/job.h"
#include "flotilla/layers.h"
#include "flotilla/log.h"
#include "flotilla/operator.h"
#include "flotilla/optimizer.h"
#include "flotilla/program.h"
#include "flotilla/record.h"
#include "flotilla/scope.h"
#include "flotilla/status.h"
#include "flotilla/table.h"
#include "flotilla/tensor.h"
#include "flotilla/version.h"
#include "flotilla/words.h"

#endif
