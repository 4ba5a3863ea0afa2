/* script.h - one case of cases.txt, played with real processes. */
#ifndef FL_TESTS_FAULTS_SCRIPT_H
#define FL_TESTS_FAULTS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#define RESULT_ROOM 64

typedef struct script {
    const char *flotilla, *trainer; /* programs */
    char *text;   /* the lines of the case; is cut into pieces */
    int line;     /* number of the first one, for messages */
    int number;   /* of the case; cases with different ones share nothing */
    char *result; /* of the first case, RESULT_ROOM bytes; shared by all */
} script;

/* Prints what is worth knowing; false when something was not as it should be.
   No process is left. */
bool script_play(const script *s);

#endif
