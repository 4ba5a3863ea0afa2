/* abi.h - what lets a program and a library of different age work together.
 *
 * A struct that crosses the boundary begins with its size, which FL_INIT and
 * FL_OPTIONS set: fields that the caller's header did not have yet read as
 * absent, fields that the library does not know yet must be zero.
 *
 *     fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2);
 *     fl_run(exe, program, FL_OPTIONS(fl_run_args, .scope = scope));
 *
 * Structs that come in arrays (fl_tensor, fl_feed, fl_slot, ...) cannot grow:
 * they have reserved fields instead, which must be zero.
 *
 * Everything works in C11 and in C++20. C++ wants options in the order of
 * their declaration, and ends what FL_OPTIONS and FL_ARRAY make with the
 * statement; C ends it with the block.
 */
#ifndef FLOTILLA_ABI_H
#define FLOTILLA_ABI_H

#include <stdint.h>

#if defined(__GNUC__)
#define FL_API __attribute__((visibility("default")))
#define FL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define FL_API
#define FL_MUST_CHECK
#endif

/* FL_INIT(type, .field = value, ...): a struct with its size set.
   FL_OPTIONS(type, .field = value, ...): a pointer to one, for a call.
   FL_ARRAY(type, value, ...): a pointer to these values, for a call. */
#ifdef __cplusplus
#include <initializer_list>
template <class T> inline const T *fl_address(const T &value)
{
    return &value;
}
#define FL_INIT(type, ...)                                                     \
    type                                                                       \
    {                                                                          \
        .size = sizeof(type), __VA_ARGS__                                      \
    }
#define FL_OPTIONS(type, ...) fl_address(FL_INIT(type, __VA_ARGS__))
#define FL_ARRAY(type, ...) (std::initializer_list<type>{ __VA_ARGS__ }.begin())
#else
#define FL_INIT(type, ...) ((type){ .size = sizeof(type), __VA_ARGS__ })
#define FL_OPTIONS(type, ...) (&FL_INIT(type, __VA_ARGS__))
#define FL_ARRAY(type, ...) ((type[]){ __VA_ARGS__ })
#endif

#endif
