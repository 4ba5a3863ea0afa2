#!/bin/sh
# extract_c.sh PAGE - prints the C program of a page: its ```c block.
awk '
/^```/ { on = 0 }
on { print; n++ }
$0 == "```c" { on = 1 }
END { exit n == 0 }' "$1"
