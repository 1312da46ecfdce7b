/* Linked into address-sanitized programs only. The leak checker names a leak by the modules on its stack, and cannot
 * once MPI has unloaded its plugins; so they stay loaded, and lsan.supp can tell their leaks from ours. */
int dlclose(void* handle);

int dlclose(void* handle) {
  (void)handle;
  return 0;
}
