/* banned.h - calls that have a better form here. Included by every .c file of
 * src/ through the build (-include); base/alloc.c switches it off. */
#ifndef FL_BASE_BANNED_H
#define FL_BASE_BANNED_H

#ifndef FL_ALLOW_RAW_ALLOC
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <mm_malloc.h> /* what the headers of vector instructions include */
#endif
#undef alloca /* stdlib.h makes it a macro, which cannot be poisoned */
#pragma GCC poison strcpy strcat sprintf vsprintf atoi atol atof strtok
#pragma GCC poison srand gets alloca malloc calloc realloc
/* Headers of others have parameters of this name, so it is only warned of. */
int rand(void) __attribute__((deprecated("use base/rng.h")));
#endif

#endif
