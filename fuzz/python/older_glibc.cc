// SPDX-License-Identifier: Apache-2.0
//
// Two functions that the static libstdc++ and libgcc of a new system take from its libc, and that no older
// libc has: arc4random (glibc 2.36) and _dl_find_object (2.35). Defined here they are of this program or
// library alone, which then starts with glibc 2.34 too.

#include <dlfcn.h>
#include <errno.h>
#include <features.h>
#include <link.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

// std::random_device calls it.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t number = 0;
  // At most 256 bytes are given whole or not at all.
  while (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    if (errno != EINTR) std::abort();
  }
  return number;
}

#if __GLIBC_PREREQ(2, 35)

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

// Ends the iteration, by returning 1, at the object whose loaded segment holds the address.
int LookAt(dl_phdr_info* object, size_t, void* data) {
  auto* const search = static_cast<Search*>(data);
  uintptr_t begin = 0, end = 0, table = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    const uintptr_t at = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search->address - at < header.p_memsz) {
      begin = at;
      end = at + header.p_memsz;
    }
    if (header.p_type == PT_GNU_EH_FRAME) table = at;
  }
  if (end == 0) return 0;
  if (table == 0) return -1;
  *search->found = {};
  search->found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search->found->dlfo_map_end = reinterpret_cast<void*>(end);
  search->found->dlfo_eh_frame = reinterpret_cast<void*>(table);
  return 1;
}

}  // namespace

// The unwinder of an exception calls it once for each frame, and reads of the answer no more than where the
// frame's table is.
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(void* address,
                                                                     dl_find_object* found) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(LookAt, &search) == 1 ? 0 : -1;
}

#endif
