/* strangers.h - those who know nothing of a job and talk to its ports, or sit
 * on them. */
#ifndef FL_TESTS_FAULTS_STRANGERS_H
#define FL_TESTS_FAULTS_STRANGERS_H

#include <stdbool.h>
#include <sys/types.h>

/* A process that listens on a port and says nothing, or answers as a web
   server. 0 when there is no such kind. */
pid_t stranger_start(const char *kind, int port);

/* Talks to a port; false, with a reason, when it was not answered as it should
   be: the server closes the connection, and says `answer` before when it is not
   empty. Idle connections stay open until this process ends. */
bool attack(const char *kind, int port, const char *answer, const char **why);

#endif
