/* A caller of the interface as it was first. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the table of functions as that caller, or a plugin of its time, knows it. */
size_t old_table_bytes(void);

/* An exchange of one rank by the local plugin: what went wrong, "" for nothing. */
const char* old_exchange(void);

#ifdef __cplusplus
}
#endif
