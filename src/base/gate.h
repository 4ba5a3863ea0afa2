/* gate.h - threads that come to rest together between two pieces of work.
 *
 * Each thread goes through the gate before it takes a piece. When somebody has
 * asked for it the gate is closed, and the last thread that comes to it, or
 * leaves, calls the function for all of them; then it is open again. Any thread.
 */
#ifndef FL_BASE_GATE_H
#define FL_BASE_GATE_H

#include <stdbool.h>

typedef struct fl_gate fl_gate;

fl_gate *fl_gate_new(int n_threads, void (*at_rest)(void *arg), void *arg);
void fl_gate_free(fl_gate *g); /* NULL is fine */

/* Before a thread takes its next piece of work. */
void fl_gate_enter(fl_gate *g);

/* A thread takes none any more, once. After one that has failed nobody is
   called any more. */
void fl_gate_leave(fl_gate *g, bool has_failed);

/* Soon the function is called, unless all threads leave before. */
void fl_gate_ask(fl_gate *g);

#endif
