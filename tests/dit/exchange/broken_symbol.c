/* Needs a function that nobody has. */
#include "broken_table.h"
void a_function_of_another_library(void);
BROKEN_PLUGIN(a_function_of_another_library())
