/* server_text.h - pieces of the program that a server is sent, for tests: tables
 * and first values come before SERVE_TEXT, updates behind it. */
#ifndef FL_TESTS_SERVER_TEXT_H
#define FL_TESTS_SERVER_TEXT_H

#define TABLE_TEXT(name, settings)                                             \
    "op init_table () -> () {table=" name ", settings=\"" settings "\"}\n"

/* blocks: their numbers, "1,2" */
#define SERVE_TEXT(blocks)                                                     \
    "op listen_and_serv () -> () {optimize_blocks=[" blocks "]} @rpc\n"

/* A block of n floats that starts as zeros, and is updated by plain SGD with a
   rate of 0.5 of its own. */
#define SGD_START(name, n)                                                     \
    "var " name " : f32[" n "] persist\n"                                      \
    "var " name "_lr : f32[1] persist\n"                                       \
    "op fill_constant () -> (Out=" name ") {shape=[" n "]}\n"                  \
    "op fill_constant () -> (Out=" name "_lr) {shape=[1], value=0.5}\n"
#define SGD_UPDATE(number, name, n)                                            \
    "block " number " parent 0\n"                                              \
    "  var " name "@GRAD : f32[" n "] data\n"                                  \
    "  op sgd (Param=" name ", Grad=" name "@GRAD, LearningRate=" name         \
    "_lr) -> (ParamOut=" name ") @optimize\n"                                  \
    "end\n"

#endif
