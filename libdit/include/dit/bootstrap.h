/** @file
 * What a program gives to the exchange plugin "bootstrap", which needs no MPI: how its ranks reach each other
 * to begin with. Anything that can gather bytes of all ranks will do: a process group of the program's, a
 * key-value store, sockets.
 *
 * dit_open_options::communicator points to a dit_bootstrap. Host memory goes by its functions, device memory
 * by libtapa's device engine, which they only start. The plugin is libdit-exchange-bootstrap.so, or is linked
 * in with dit_exchange_bootstrap_plugin_v1.
 */
#ifndef DIT_BOOTSTRAP_H
#define DIT_BOOTSTRAP_H

#include <dit/exchange.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A group of ranks as one of them sees it. The struct, and the text of `node`, are copied when a context is
 * opened.
 *
 * The functions are called by a thread of the plugin, one for each context, so never two at once, and by all
 * ranks in the same order. They block until all ranks have come, however long that takes: the plugin keeps
 * the time limit of dit_open_options itself, and the call is then still under way. They return 0, or anything
 * else when they failed; the context is then only good for close. Either way nothing of their arguments is in
 * use any more. They must not call the context, nor throw. `user` stays until `release` is called, or where
 * that is null until close has returned DIT_OK. */
typedef struct dit_bootstrap {
  size_t struct_size; /**< sizeof(dit_bootstrap) */
  int rank;           /**< of this process, 0 to size - 1 */
  int size;           /**< ranks, at least 1 */
  /** Every rank gives `bytes` bytes (alike on all ranks, more than 0), and gets those of all ranks, in order
   * of ranks: size * bytes bytes. Host memory. */
  int (*allgather)(void* user, const void* mine, void* all, size_t bytes);
  /** Bytes for each rank, and from each: arrays of `size` entries, in bytes. What a rank sends is what its
   * receiver expects; a rank's entries for itself are 0. Offsets of empty entries have no meaning. Host
   * memory, which may be null where all entries of a side are 0. Null on all ranks: by allgather, which is
   * slower. */
  int (*alltoallv)(void* user, const void* send, const size_t* send_bytes, const size_t* send_offsets,
                   void* recv, const size_t* recv_bytes, const size_t* recv_offsets);
  void* user;       /**< passed to the functions */
  const char* node; /**< ranks with equal texts share a node; null: the machine's boot id */

  /** Makes the bootstrap of a part of the ranks, for `split`: `ranks` (`count` of them) are its members in
   * their new order. Called on all ranks, for one part after the other; where this rank is no member `part`
   * is null. It fills in `part` (struct_size is set), whose rank is this one's place in `ranks` and whose
   * size is `count`; with a `node` of null it is on this one's node, and so with `reach`. When it fails the
   * split fails on all ranks, and the context stays good. Null on all ranks: contexts cannot be split. */
  int (*make_part)(void* user, const int* ranks, int count, struct dit_bootstrap* part);
  /** No function will be called again with this `user`. Once; for a part, too. May be null. Called by close,
   * or, where close fails because a function does not return, when it has returned, by the plugin's thread.
   * Not when open fails with DIT_ERROR_ARGUMENT. */
  void (*release)(void* user);
  /** What went wrong in the function that has just failed, for messages; copied at once. May be null. */
  const char* (*last_error)(void* user);
  /** Ranks of a node with equal texts reach each other's memory; others are joined by the memory of their
   * host, a level of its own, "host". Null: all of a node do, or those that `on_device` finds. For trials on
   * hosts. */
  const char* reach;
  /** 1 on all ranks: what they exchange is in memory of their `device`s, which are asked whom they reach, by
   * a build with CUDA. Collective in open. */
  int on_device;
  int device; /**< number of this rank's CUDA device, with on_device */
} dit_bootstrap;

/** The plugin's table, where it is linked in: for libdit's loader, or to be called itself. */
const dit_exchange_plugin* dit_exchange_bootstrap_plugin_v1(uint32_t wanted);

#ifdef __cplusplus
}
#endif

#endif /* DIT_BOOTSTRAP_H */
