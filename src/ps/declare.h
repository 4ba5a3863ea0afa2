/* declare.h - what a job keeps on a server, as text: the program that the server
 * runs, in the form of docs/formats/ir.md.
 *
 *     seed 42
 *     param w : f32[8,2] trainable
 *     var lr : f32[1] persist
 *     op init_table () -> () {table=emb, settings="dim=8 optimizer=adagrad"}
 *     op uniform_random () -> (Out=w) {shape=[8,2]}
 *     op fill_constant () -> (Out=lr) {shape=[1], value=0.1}
 *     op listen_and_serv () -> () {optimize_blocks=[1]} @rpc
 *     block 1 parent 0
 *       var w@GRAD : f32[8,2] data
 *       op sgd (Param=w, Grad=w@GRAD, LearningRate=lr) -> (ParamOut=w) @optimize
 *     end
 *
 * Tables are numbered in the order of the operators that make them, dense
 * blocks in the order of listen_and_serv's list, both from 0. A server knows no
 * optimizers but those in programs: who declares writes the program of one.
 */
#ifndef FL_PS_DECLARE_H
#define FL_PS_DECLARE_H

#include <stddef.h>

#include "base/status.h"

#define FL_DECLARE_BYTES_MAX (16u << 20)

/* Of tables, and of blocks. */
#define FL_DECLARED_MAX 4096

/* Is it text that may be shown? The error names the line. */
FL_MUST_CHECK
fl_status fl_declaration_check(const char *text, size_t len);

/* FL_OK when both say the same; else an error with the first line that differs,
   in both versions, and its number. */
FL_MUST_CHECK
fl_status fl_declaration_compare(const char *mine, const char *theirs);

#endif
