/* Stands for a libfabric.so.1 of another version: VERSION. Whoever asks it although it does not fit dies of
 * it. */
#include <stdlib.h>

unsigned fi_version(void) {
  return VERSION;
}
int fi_getinfo(unsigned version, const char* node, const char* service, unsigned long flags, void* hints,
               void** info) {
  (void)version, (void)node, (void)service, (void)flags, (void)hints, (void)info;
  abort();
}
void fi_freeinfo(void* info) {
  (void)info;
}
const char* fi_strerror(int code) {
  (void)code;
  return "";
}
