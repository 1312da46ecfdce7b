/** @file
 * Set-up of the PyTorch operators dit::* (libdit_torch.so): groups of ranks, and attention shapes by name.
 *
 * The operators take the name of an exchange, a string, so that compilers of graphs see plain functions of
 * tensors. What stands behind a name is made here, before the first call and before a CUDA graph is captured:
 * a *group* is an open session of ranks; an *exchange* is one attention shape of a group, with its layout,
 * its wire policy, its four transfers and, on a device, the memory that its results lie in.
 *
 *     start(Tensor x, str exchange, int what, SymInt layer, PREPARE, Tensor? after=None) -> Tensor
 *     finish(Tensor token, str exchange, int what, SymInt layer, Tensor? after=None) -> Tensor
 *     exchange(Tensor x, str exchange, int what, SymInt layer, PREPARE) -> Tensor
 *     gather(Tensor o, str exchange, SymInt layer) -> Tensor
 *     scatter_qkv(Tensor q, Tensor k, Tensor v, str exchange, SymInt layer, Tensor? q_weight=None,
 *                 Tensor? q_text_weight=None, Tensor? k_weight=None, Tensor? k_text_weight=None, REST)
 *         -> (Tensor, Tensor, Tensor)
 *     all_to_all(Tensor(a!) output, Tensor input, int[] output_splits, int[] input_splits, str group) -> ()
 *     all_gather(Tensor x, int dim, SymInt total, str group) -> Tensor
 *     digests(Tensor[] tensors) -> Tensor
 *
 *     PREPARE: Tensor? weight=None, Tensor? text_weight=None, REST
 *     REST:    Tensor? cosine=None, Tensor? sine=None, float epsilon=0.0, int norm=0, int rope=0,
 *              bool round_norm=False
 *
 * `what` is a dit_transfer_kind: 0 query, 1 key, 2 value (sequence layout to head layout), 3 output (back).
 * Tensors are [batch, rows, heads, head_dim] of the exchange's element type and memory; `x` may have any
 * strides whose last is 1, so that a part of a packed QKV product goes as it is. What an operator returns is
 * dense. On a device it lies in a slot of the exchange's memory: when the same `what` has been started
 * `slots` times more, a result that is still held is copied to memory of torch's, and its tensors go there.
 * Only what a captured graph returns stays where it was, to be filled by the next replay. On the host a
 * result is a tensor of its own.
 *
 * `start` returns an empty tensor of the type of `x`, the token, which `finish` takes. It carries nothing but
 * the order: `after` is any tensor that must be there before, mostly another token, and is not read. Between
 * the two `x` is only read, and stays in place: a compiler of graphs must not put other values into its
 * memory (the Python package dit_torch tells Inductor so). One start of a `what` is under way at a time.
 *
 * `norm` (dit_norm), `rope` (dit_rope), `epsilon`, `round_norm` and the tensors `weight`, `text_weight` (fp32
 * or the element type), `cosine` and `sine` (fp32, [tokens, head_dim / 2], all tokens of the joint sequence;
 * or [batch, rows, heads, head_dim / 2] of x's own, with any strides whose last is 1, not all others 0) are
 * those of dit_prepare: RMSNorm and rotary position embedding on the way. Not for value's and output's `what`
 * = 3; `scatter_qkv` does so with q and k.
 *
 * `all_to_all` is torch.distributed's all_to_all_single: rows of the first dimension, `output_splits` and
 * `input_splits` of them from and to each rank; empty lists: even parts. Not under graph capture unless the
 * same shapes went before.
 *
 * `all_gather` puts a tensor together again that is split on dimension `dim`: rank r of n has rows
 * floor(total * r / n) to floor(total * (r + 1) / n) of it, and all ranks get all `total` of them, in memory
 * of torch's. Graph capture as of `all_to_all`.
 *
 * `digests` tells what tensors of one device hold, bit for bit, strides aside: a number of 64 bits for each.
 * Ranks compare such numbers; nothing is exchanged by it.
 *
 * On the host a call of `all_to_all` or `all_gather` that has failed, as a rank did not come in time, is
 * still under way and meets that rank's next one: after such an error the group is closed.
 *
 * All ranks of a group call the operators of its exchanges in the same order. On a device they are put on the
 * caller's current stream (with side_stream their exchange on one of the exchange's, between start and
 * finish) and the host does not wait. Under graph capture nothing is allocated; with a policy see
 * dit_torch_record.
 *
 * Threads: ranks may be threads of one process, with names of their own for each. A group and its exchanges
 * are used by one thread at a time. Functions return a dit_status, DIT_OK is 0; dit_torch_last_error tells
 * the rest. No exception leaves the library, and it uses no Python.
 */
#ifndef DIT_TORCH_H
#define DIT_TORCH_H

#include <dit/dit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIT_TORCH_VERSION 10 /**< of this interface and of the operators' schemas */

/** What a group without MPI stands on; see dit/bootstrap.h. */
struct dit_bootstrap;

/** DIT_TORCH_VERSION of the library that is loaded. */
DIT_API int dit_torch_version(void);
/** What was wrong in this thread's last call of these functions that failed; "" when none has. Valid until
 * this thread's next call. */
DIT_API const char* dit_torch_last_error(void);

/** Opens a group of ranks. Collective.
 * @param group    a name that this process does not use yet
 * @param ranks    callbacks; what they point to and `user` stay until the group is closed
 * @param timeout  seconds after which a wait for other ranks fails; 0: never
 * @param config   settings of the exchange plugin "bootstrap", "key=value,key=value"; may be null */
DIT_API int dit_torch_open(const char* group, const struct dit_bootstrap* ranks, double timeout,
                           const char* config);
/** Makes a group of a session that is open. The session stays the caller's and outlives the group. Local. */
DIT_API int dit_torch_attach(const char* group, dit_session* session);
/** This rank's program has failed in the middle of its exchanges: on GPUs ranks that wait for it fail at
 * once, and this rank's next exchange fails with `why`. On hosts the functions of dit_bootstrap have to fail.
 * Local. */
DIT_API int dit_torch_give_up(const char* group, const char* why);
/** After failures of exchanges on GPUs, on whatever ranks: nothing is under way, and what there is stays
 * good, captured graphs, too. Collective. Fails on all ranks alike where that is not possible (between
 * nodes). */
DIT_API int dit_torch_restart(const char* group);
/** Fails where an exchange on a GPU has failed, as far as that is known now. Local. */
DIT_API int dit_torch_check(const char* group);
/** Frees the group's exchanges and closes what dit_torch_open opened. Collective. A name that is not known is
 * a no-op. */
DIT_API int dit_torch_close(const char* group);
/** The group's session, for functions of dit.h. It lives as long as the group. */
DIT_API int dit_torch_session(const char* group, dit_session** session);

/** An attention shape, and how its tensors travel. Alike on all ranks, but for `device`. */
typedef struct dit_torch_attention {
  size_t struct_size;   /**< sizeof(dit_torch_attention) */
  int64_t batch;        /**< samples, at least 1 */
  int64_t text_tokens;  /**< of a sample, on all ranks together; may be 0 */
  int64_t image_tokens; /**< of a sample, on all ranks together; may be 0 */
  int64_t heads;        /**< query heads */
  int64_t kv_heads;     /**< key and value heads; 0: as many as query heads */
  int64_t head_dim;     /**< elements of a head's row */
  unsigned flags;       /**< of dit_layout_flags */
  int element_type;     /**< DIT_ELEMENT_FP32, _BF16 or _FP16 */
  int memory_kind;      /**< DIT_MEMORY_HOST or DIT_MEMORY_CUDA */
  int device;           /**< device number; 0 for host memory */
  int slots;            /**< on a device: results of one `what` that may be held without a copy, at least 1;
                             0: 2 */
  int side_stream;    /**< 1: between start and finish a transfer travels on a stream of the exchange, beside
                           what is put on the caller's; exchange, scatter_qkv and gather do not use it */
  const char* policy; /**< of dit_wire_options; null, "" or "exact": tensors travel as they are */
  const char* off;    /**< levels that carry everything in full, "node,world"; may be null */
  int layers;         /**< with a policy: attention layers; 0: 1 */
  int steps;          /**< with a policy: denoising steps of an image; 0: 1 */
  int branches;       /**< with a policy: guidance branches that pass through one after the other; 0: 1 */
} dit_torch_attention;

/** Who holds what. */
typedef struct dit_torch_shape {
  size_t struct_size;  /**< sizeof(dit_torch_shape) */
  int64_t sequence[4]; /**< of q and of the output in the sequence layout: [batch, rows, heads, head_dim] */
  int64_t sequence_kv[4]; /**< of k and v there */
  int64_t query[4];       /**< of q and of the output in the head layout */
  int64_t key[4];         /**< of k and v there */
  int64_t text[2];        /**< text tokens of this rank in the sequence layout: begin, end */
  int64_t image[2];       /**< image tokens of this rank, numbered within the image: begin, end */
} dit_torch_shape;

/** Makes an exchange. Collective over the group: all ranks make the same ones in the same order.
 * @param exchange   a name that this process does not use yet. Compiled graphs keep it for good: another
 *                   shape gets another name
 * @param group      a group's name
 * @param attention  its shape */
DIT_API int dit_torch_exchange(const char* exchange, const char* group, const dit_torch_attention* attention);
/** Frees it; graphs that were captured with it must not be replayed. Collective. A name that is not known is
 * a no-op. */
DIT_API int dit_torch_exchange_free(const char* exchange);
/** What dit_torch_try_policy has found: the time in which a layer's Q, K and V go out and the output comes
 * back, of the slowest rank. */
typedef struct dit_torch_trial {
  size_t struct_size;    /**< sizeof(dit_torch_trial) */
  int pays;              /**< 1: use the policy */
  double exact_seconds;  /**< 0: not tried; eight times that of an eighth of the tokens, when that alone took
                              longer than the policy */
  double policy_seconds; /**< in the middle of an image; 0: not tried */
} dit_torch_trial;

/** Whether an attention's policy, a preset, takes less time between these ranks than exact transfers do, by
 * carrying out both, some times, in exchanges made for it. Not tried are other policies, which somebody has
 * chosen, and presets that leave all links between these ranks alone: they pay. Collective; the same answer
 * on all ranks. */
DIT_API int dit_torch_try_policy(const char* group, const dit_torch_attention* attention,
                                 dit_torch_trial* trial);
/** Seconds in which a layer's Q, K and V go out by exact transfers and the output comes back, of the slowest
 * rank, whatever the attention's policy. Where an eighth of the tokens takes longer than `enough` seconds:
 * eight times that. Collective; the same on all ranks. */
DIT_API int dit_torch_exact_time(const char* group, const dit_torch_attention* attention, double enough,
                                 double* seconds);
/** Bytes that this rank would keep from step to step under an attention's policy ("wire_bytes" of
 * dit_torch_report), before an exchange is made and any of them is allocated; 0 for exact transfers.
 * Collective; ranks may differ. */
DIT_API int dit_torch_wire_bytes(const char* group, const dit_torch_attention* attention, uint64_t* bytes);
/** Whether a name is in use: 1 or 0. */
DIT_API int dit_torch_has_exchange(const char* exchange);
/** This rank's part. shape->struct_size is set by the caller. */
DIT_API int dit_torch_exchange_shape(const char* exchange, dit_torch_shape* shape);
/** With a policy: where the starts that follow take place. Alike on all ranks; at first step 0, branch 0. */
DIT_API int dit_torch_begin_step(const char* exchange, int step, int branch);
/** With a policy: forgets what was sent and received, for a new image. Collective; the name, the memory of
 * results and compiled graphs stay good. A no-op for exact exchanges. */
DIT_API int dit_torch_reset(const char* exchange);

/** Of the pass that begins, as dit_torch_begin_step has told: passes of one `phase` do the same in this
 * exchange, so that a CUDA graph of one may be replayed for the other. -1: not to be captured, as the host
 * takes part in the policy. Local; alike on all ranks. */
DIT_API int dit_torch_phase(const char* exchange, int* phase);
/** From here to dit_torch_recorded starts are counted by themselves, and under a policy they may be captured:
 * who does so replays in the same phase only. Local. */
DIT_API int dit_torch_record(const char* exchange);
/** The end of that. `failed`, on all ranks: nothing of it is replayed; what is under way is given up, and
 * under a policy the exchange is made anew next. *recording: a number, -1 where nothing was started. Local.
 */
DIT_API int dit_torch_recorded(const char* exchange, int failed, int* recording);
/** What was recorded has been replayed: it is counted, and has travelled. Local. */
DIT_API int dit_torch_replayed(const char* exchange, int recording);

/** Facts about an exchange as JSON; at most `bytes` with the final zero. *length, which may be null, is its
 * full length. Local.
 *
 *     {"exchange": "...", "group": "...", "rank": 0, "ranks": 2, "plugin": "...", "memory_kind": "cuda",
 *      "stores": true,              rows go right into the peers' targets
 *      "slots": 2, "side_stream": false,
 *      "started": [q, k, v, o],     transfers started since the exchange was made, without replays of graphs
 *                                   that were not recorded
 *      "levels": [{"name": "node", "peers": 1, "sent_bytes": n, "full_bytes": n, "share": 1.0}, ...],
 *                                   sent by these to peers of the level; what exact ones would have sent; and
 *                                   the share of it that the policy sends over a run
 *      "full_bytes": n,             of all levels
 *      "slot_bytes": n, "workspace_bytes": n, "wire_bytes": n,    memory of this rank
 *      "step": 0, "branch": 0, "policy": "exact", "wire": null or the policy in full, an object} */
DIT_API int dit_torch_report(const char* exchange, char* text, size_t bytes, size_t* length);
/** Whether all ranks of a group reach each other's memory: where they do not policies code what leaves a
 * rank's GPU. */
DIT_API int dit_torch_one_node(const char* group, int* one_node);
/** The plugin's own words about a group (levels, wires, stores), as dit_torch_report gives text. */
DIT_API int dit_torch_describe(const char* group, char* text, size_t bytes, size_t* length);

#ifdef __cplusplus
}
#endif

#endif /* DIT_TORCH_H */
