/* attr.h - attribute values: text form, comparison, access by index. */
#ifndef FL_IR_ATTR_H
#define FL_IR_ATTR_H

#include "base/arena.h"
#include "base/vec.h"
#include "ir/op.h"
#include "optim/rule.h"

/* Parses the text of one value: true, -1, 0.5, SUM, "a b", [1,2]. Lists and
   strings are copied to the arena. */
FL_MUST_CHECK
fl_status fl_attr_parse(const char *text, fl_attr_type type, fl_arena *arena,
                        fl_attr *out);

/* Copies to the arena and converts where nothing is lost (int to float, int
   to bool 0/1, empty list of any type); false when the types do not fit. */
bool fl_attr_convert(const fl_attr *from, fl_attr_type type, fl_arena *arena,
                     fl_attr *out);

void fl_attr_print(const fl_attr *a, fl_str *out);
bool fl_attr_equal(const fl_attr *a, const fl_attr *b);
const char *fl_attr_type_text(fl_attr_type t);

/* The shortest text that reads back as the same double. */
#define FL_NUMBER_TEXT_MAX 32
const char *fl_number_text(double v, char buf[FL_NUMBER_TEXT_MAX]);

/* The rule and the settings of an update: the rule has the name of the node's
   operator, its settings are attributes. False when there is no such rule. */
bool fl_node_update(const fl_op_node *n, fl_update *out);

#endif
