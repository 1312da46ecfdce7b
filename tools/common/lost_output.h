/* What every program of ours is linked with. */
#ifndef TAPA_TOOLS_COMMON_LOST_OUTPUT_H
#define TAPA_TOOLS_COMMON_LOST_OUTPUT_H

#ifdef __cplusplus
extern "C" {
#endif

/* At its end the program is not to wait for the destructors of the libraries that it was linked with:
 * libtorch's forget thousands of operators one by one. Leak checkers look in one of these, so sanitized
 * programs wait all the same. */
void skip_library_destructors(void);

#ifdef __cplusplus
}
#endif

#endif
