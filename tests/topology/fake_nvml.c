/* Stands for NVML on a node of four GPUs: 0 and 1 are joined by two NVLinks 3.0 and have one each to a
 * switch; 2 has a link that is down, 3 none. PCIe: 4.0 x16, but 3.0 x8 of GPU 3, which is in MIG mode with
 * two parts, 0 and 2. GPU 2 may not write to 3; whether it reads 1 is not known. And for CUDA's driver, of a
 * process that uses the device FAKE_CUDA_DEVICE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
} PciInfo;

static int began;
static int numbers[4] = {0, 1, 2, 3};
static int parts[3] = {300, 301, 302};

static void pci_of(int gpu, PciInfo* info) {
  memset(info, 0, sizeof *info);
  snprintf(info->id, sizeof info->id, "00000000:%02X:00.0", 0x1A + gpu);
}
int nvmlInit_v2(void) {
  began = 1;
  return 0;
}
int nvmlShutdown(void) {
  began = 0;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 4;
  return began ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &numbers[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  snprintf(name, length, "NVIDIA Test %d", *(int*)device);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  pci_of(*(int*)device, info);
  return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* generation) {
  *generation = *(int*)device == 3 ? 3 : 4;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* width) {
  *width = *(int*)device == 3 ? 8 : 16;
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* up) {
  const int gpu = *(int*)device;
  *up = gpu < 2;
  return gpu == 3 || link >= (gpu == 2 ? 1U : 3U) ? 3 : 0;
}
int nvmlDeviceGetNvLinkVersion(void* device, unsigned link, unsigned* version) {
  (void)device, (void)link;
  *version = 4;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  pci_of(link < 2 ? 1 - *(int*)device : 90, info);
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  (void)device;
  *type = link < 2 ? 0 : 2;
  return 0;
}
int nvmlDeviceGetP2PStatus(void* from, void* to, int what, int* status) {
  const int gpu = *(int*)from;
  const int other = *(int*)to;
  *status = gpu == 2 && other == 3 && what == 1 ? 2 : gpu == 2 && other == 1 && what == 0 ? 6 : 0;
  return gpu == 1 && other == 3 ? 3 : 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  const int number = *(int*)device;
  if (number >= 300)
    snprintf(uuid, length, "MIG-30000000-%04d", number - 300);
  else
    snprintf(uuid, length, "GPU-%d0000000-0000", number);
  return 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* later) {
  if (*(int*)device == 0) return 3; /* one that cannot be divided */
  *now = *later = *(int*)device == 3;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  *count = *(int*)device == 3 ? 3 : 0;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** part) {
  (void)device;
  *part = &parts[index];
  return index == 1 ? 6 : 0;
}

int cuCtxGetDevice(int* device) {
  const char* const number = getenv("FAKE_CUDA_DEVICE");
  if (number == NULL) return 201;
  *device = atoi(number);
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  snprintf(text, (size_t)length, "0000:%02X:00.0", 0x1A + device);
  return 0;
}
