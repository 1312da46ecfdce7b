/** @file
 * libdit for engines in any language: Ulysses sequence parallelism for attention, without tensors of ours.
 *
 * A session is an exchange plugin opened by name. A layout says which tokens and heads each rank has before
 * and after an exchange. A transfer carries a tensor from one to the other: prepared once, started and waited
 * for as often as wanted, while the caller computes in between. A wire policy makes transfers smaller: in
 * which mode each tensor travels on which links in which layer and step. A schedule is the order in which to
 * compute and to exchange.
 *
 *     sequence layout: some tokens, all heads:  [batch, sequence_rows, heads, head_dim]
 *     head layout:     all tokens, some heads:  [batch, tokens, heads of the rank, head_dim]
 *
 * Functions return a dit_status. Anything but DIT_OK leaves the outputs as they are, and dit_last_error tells
 * which argument was wrong, its value, and what would be right. No exception leaves the library. A handle is
 * used by one thread at a time, and different handles by different threads at once, where MPI was initialised
 * for that (MPI_THREAD_MULTIPLE), also different transfers of one wire; collective calls on a session are
 * made by one thread at a time, and fail on all ranks when one has something wrong in them. Structs
 * begin with struct_size, sizeof the struct as the caller knows it: they grow at their ends, and what a
 * smaller one lacks counts as zero. Pointers may be null only where it says so.
 */
#ifndef DIT_DIT_H
#define DIT_DIT_H

#include <dit/exchange.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIT_VERSION_MAJOR 0 /**< major version of this header */
#define DIT_VERSION_MINOR 1 /**< minor version of this header; before 1.0 it may change the interface */
#define DIT_VERSION_PATCH 0 /**< patch version of this header */

#ifndef DIT_API
#define DIT_API __attribute__((visibility("default")))
#endif

/** @defgroup library The library
 * @{ */
/** Version of the library that is loaded, as "0.1.0". */
DIT_API const char* dit_version(void);
/** What was wrong in this thread's last call that failed; "" when none has. Valid until this thread's next
 * call. */
DIT_API const char* dit_last_error(void);
/** Where warnings go: `log` gets each as a line without a newline, by any thread, and by several at once; it
 * may call the library. Null: to stderr, where they go at first. A line that was under way may still come to
 * the former `log` when this returns: what `user` points to stays. */
DIT_API dit_status dit_set_log(void (*log)(const char* line, void* user), void* user);
/** @} */

/** @defgroup session Sessions
 * @{ */
typedef struct dit_session dit_session; /**< an exchange plugin with an open context: one group of ranks */

/** Opens a plugin: "local" (linked in), a name (libdit-exchange-NAME.so on the search path, see
 * DIT_PLUGIN_PATH) or a path with a slash. `options` may be null: all ranks of the job, no time limit.
 * Collective. */
DIT_API dit_status dit_session_open(const char* plugin, const dit_open_options* options,
                                    dit_session** session);
/** Closes and sets the handle to null; a null handle is a no-op. Collective. Transfers are freed before. */
DIT_API dit_status dit_session_close(dit_session** session);
/** This rank and the number of ranks. */
DIT_API dit_status dit_session_ranks(const dit_session* session, int* rank, int* size);
/** The number of a level, from fast (0) to slow, by its name; "" is the first level that leaves a node, and
 * the number of levels where none does: functions that take a level refuse that one. */
DIT_API dit_status dit_session_level(const dit_session* session, const char* name, int* level);
/** DIT_OK, or what has failed for good so far: an exchange that a device's stream waited for, say, of which
 * the host was told nothing (dit_transfer_wait_stream). Every later call that is collective on the session or
 * starts or waits for such an exchange fails with it, too. Local; waits for nothing. */
DIT_API dit_status dit_session_status(dit_session* session);
/** What was moved since open; totals->struct_size is set by the caller. Not counted is what kernels store
 * into bound targets (dit_transfer_bind). */
DIT_API dit_status dit_session_totals(const dit_session* session, dit_exchange_totals* totals);
/** New sessions of the ranks with equal colour, ordered by key, then rank: one for each guidance branch, say.
 * Collective. colour < 0: *part is null. Parts are closed before the session. */
DIT_API dit_status dit_session_split(dit_session* session, int colour, int key, dit_session** part);
/** Memory that transfers of a session use again and again, registered with its plugin: on a device peers then
 * store right into it, else what is received passes through memory of the plugin. */
typedef struct dit_registration dit_registration;
/** Registers memory of this rank: null and 0 bytes for none. Collective; all ranks give the same memory_kind
 * (a dit_memory_kind), each memory of any size. It is not needed for anything but speed, and for pushes
 * (dit_transfer_bind). With plugins that prepare no memory it does nothing. */
DIT_API dit_status dit_session_register(dit_session* session, void* memory, size_t bytes, int memory_kind,
                                        int device, dit_registration** registration);
/** Ends it and sets the handle to null; a null handle, on all ranks, is a no-op. Collective, waits for the
 * device. Before the memory is freed, and before the session is closed; refused while transfers are bound to
 * it. */
DIT_API dit_status dit_registration_free(dit_registration** registration);

/** The plugin's own table and context, for exchanges of one's own, on channels of their own or as collective
 * calls of the session. Their layout_id is below 2^32: greater ones are the library's. They live as long as
 * the session. */
DIT_API dit_status dit_session_plugin(const dit_session* session, const dit_exchange_plugin** plugin,
                                      dit_context** context);

/** Ranks as threads of this process, for the plugin "local". */
typedef struct dit_local_group dit_local_group;
/** A group of so many ranks; `ranks_per_node` > 0 makes levels "node" and "world", as if so many ranks shared
 * a node. */
DIT_API dit_status dit_local_group_create(int ranks, int ranks_per_node, dit_local_group** group);
/** What a rank's dit_open_options::communicator must be, for one open by the thread that will use it. Every
 * rank must be opened. Lives as long as the group. */
DIT_API dit_status dit_local_group_member(dit_local_group* group, int rank, void** communicator);
/** Frees and sets the handle to null; a null handle is a no-op. Sessions are closed before. */
DIT_API dit_status dit_local_group_free(dit_local_group** group);
/** @} */

/** @defgroup layout Layouts
 * Pure: every rank computes every rank's part. Any number of tokens, heads and ranks.
 * @{ */
typedef struct dit_layout dit_layout; /**< who holds which tokens and heads */

/** How joint sequences of text and image tokens are laid out, and what to do with many ranks. Or-ed. */
enum dit_layout_flags {
  DIT_LAYOUT_IMAGE_FIRST = 1, /**< the joint sequence is image, text; else text, image */
  DIT_LAYOUT_TEXT_REPLICATED =
      2, /**< every rank has all text tokens in the sequence layout; else each has a part */
  DIT_LAYOUT_ONE_RANK_A_HEAD = 4 /**< refuse more ranks than heads; else ranks share heads, each with all keys
                                    and values and a part of the queries */
};

/** One attention call of all ranks together. */
typedef struct dit_attention_shape {
  size_t struct_size;   /**< sizeof(dit_attention_shape) */
  int64_t batch;        /**< samples, at least 1 */
  int64_t text_tokens;  /**< of a sample; may be 0 */
  int64_t image_tokens; /**< of a sample; may be 0 */
  int64_t heads;        /**< query heads */
  int64_t kv_heads;     /**< key and value heads; divides heads */
  int64_t head_dim;     /**< elements of a head's row */
  unsigned flags;       /**< of dit_layout_flags */
} dit_attention_shape;

/** Half-open. */
typedef struct dit_range {
  int64_t begin; /**< first */
  int64_t end;   /**< one past the last */
} dit_range;

/** What a rank has. */
typedef struct dit_rank_part {
  size_t struct_size;     /**< sizeof(dit_rank_part) */
  dit_range text_tokens;  /**< sequence layout, numbered within text */
  dit_range image_tokens; /**< sequence layout, numbered within image */
  int64_t sequence_rows;  /**< both together: tokens of a sample in the sequence layout, in the joint order */
  dit_range heads;        /**< query heads that the rank attends for */
  dit_range kv_heads;     /**< the key and value heads that those need */
  dit_range query_tokens; /**< of the joint sequence: those that the rank attends for; all, unless heads are
                             shared */
} dit_rank_part;

/** Makes a layout for so many ranks. */
DIT_API dit_status dit_layout_create(const dit_attention_shape* shape, int ranks, dit_layout** layout);
/** Frees and sets the handle to null; a null handle is a no-op. */
DIT_API dit_status dit_layout_free(dit_layout** layout);
/** A rank's part. Heads are those of part `group` of `groups` of the rank's heads (0 of 1: all; parts may be
 * empty). part->struct_size is set by the caller. */
DIT_API dit_status dit_layout_part(const dit_layout* layout, int rank, int group, int groups,
                                   dit_rank_part* part);
/** @} */

/** @defgroup tensor Tensors
 * @{ */
/** A [batch, rows, heads, head_dim] tensor in memory of the caller's; a head's numbers of one row lie
 * together. The shape is the layout's. All strides 0: dense, one number after the other. */
typedef struct dit_tensor {
  void* data;           /**< the first number */
  size_t bytes;         /**< of memory from there on: without strides exactly the tensor's, else at least what
                             the strides reach */
  int64_t batch_stride; /**< in numbers, from sample to sample; at least 0; of a target so many that no two of
                             its numbers share memory */
  int64_t row_stride;   /**< from row to row: 3 * heads * head_dim in a fused QKV product */
  int64_t head_stride;  /**< from head to head */
} dit_tensor;
/** @} */

/** @defgroup wire Wire policies
 * Which tensor travels how on which links, in which layer, step and guidance branch. Anything but "exact" is
 * lossy. A wire is a policy for one run on a session's ranks: transfers that are made with it follow it, and
 * remember for it what they sent and received. Layers may be left out in some steps, and a branch may begin
 * late (a guidance interval): what a transfer sees for the first time of a layer and branch travels as in
 * step 0, whatever the step.
 * @{ */
typedef struct dit_wire dit_wire; /**< a policy, resolved for one run */

/** Numbers of a tensor. */
enum dit_element_type {
  DIT_ELEMENT_FP32 = 0,
  DIT_ELEMENT_BF16 = 1,
  DIT_ELEMENT_FP16 = 2,
  DIT_ELEMENT_8_BIT = 3 /**< fp8 or int8: travels as it is only */
};

/** A policy for a run. */
typedef struct dit_wire_options {
  size_t struct_size; /**< sizeof(dit_wire_options) */
  /** A preset ("exact", "bf16", "fp8", "balanced", ...: dit_wire_presets), V-Major's rule ("paper",
   * "v-major:warmup=5,refresh=10,ratio=linear"), a policy file's text (it begins with a brace), or "@PATH" of
   * such a file. */
  const char* policy;
  int layers;       /**< attention layers of the model */
  int steps;        /**< denoising steps of the run */
  int branches;     /**< 1; 2 when both guidance branches go through the same transfers one after the other */
  int groups;       /**< head groups that the transfers will have; at least 1 */
  int element_type; /**< DIT_ELEMENT_FP32, _BF16 or _FP16; numbers of fp16 that a policy sends in bf16 travel
                         as they are, in as many bytes */
  const char* off;  /**< levels that carry everything in full whatever the policy says, "node,world": those on
                         which coding takes longer than it saves; may be null */
} dit_wire_options;

/** Names of the presets, separated by spaces. */
DIT_API const char* dit_wire_presets(void);
/** Resolves a policy for the session's ranks. Collective. The layout may be freed afterwards; the session
 * must outlive the wire, and the wire its transfers. */
DIT_API dit_status dit_wire_create(dit_session* session, const dit_layout* layout,
                                   const dit_wire_options* options, dit_wire** wire);
/** Frees and sets the handle to null; a null handle is a no-op. Transfers are freed before. */
DIT_API dit_status dit_wire_free(dit_wire** wire);
/** Bytes that this rank will keep from step to step for transfers of all four kinds, all groups and branches,
 * stated before any of them is made: what it remembers, and buffers of late blocks. */
DIT_API dit_status dit_wire_memory_bytes(const dit_wire* wire, uint64_t* bytes);
/** The policy in full, as a policy file; at most `bytes` with the final zero. *length, which may be null, is
 * its full length. */
DIT_API dit_status dit_wire_text(const dit_wire* wire, char* text, size_t bytes, size_t* length);
/** Share of the bytes of full tensors that the policy sends on links of a level (of dit_session_level), over
 * the whole run. */
DIT_API dit_status dit_wire_share(const dit_wire* wire, int level, double* share);
/** Forgets what its transfers have sent and received, as for another image: every layer and branch comes for
 * the first time again. On all ranks between the same starts, when none of the transfers is under way and
 * none has failed. `stream`: of tensors on a device; done behind what is in it. Null for host memory. Local.
 */
DIT_API dit_status dit_wire_forget(dit_wire* wire, void* stream);
/** CUDA graphs of starts: *first is the first step whose exchanges are those of `step`, so that what was
 * captured in one of them may be replayed in the other, by all ranks. In a layer that comes for the first
 * time step 0 counts. -1: not to be captured, as the host takes part (guards, V-Major, "rows", "late"). */
DIT_API dit_status dit_wire_first_alike(const dit_wire* wire, int step, int branch, int* first);
/** A graph of starts of all layers of a branch was replayed: none of them comes for the first time any more.
 * Local. */
DIT_API dit_status dit_wire_replayed(dit_wire* wire, int branch);
/** Sets *pays to 1 when coding pays on links of a level where a rank sends `bytes_per_second`: when it saves
 * more time than it takes on this machine, where it is timed now (some milliseconds). Ranks may come to
 * different answers: let one decide, and make the wire again with the level in `off`. */
DIT_API dit_status dit_wire_pays(const dit_wire* wire, int level, double bytes_per_second, int* pays);
/** With V-Major: chooses the rows that travel in a layer, step and branch, those whose V changed most since
 * they last travelled. `value`: this rank's V in the sequence layout. The start of the V transfer does it by
 * itself, anew in a step that is made again; call it where Q or K start before. A no-op for other policies,
 * and until Q, K and V of all groups have started with what was chosen. Host memory only: where tensors are
 * on a device V starts first, and Q and K behind it in its stream. */
DIT_API dit_status dit_wire_choose_rows(dit_wire* wire, int layer, int step, int branch,
                                        const dit_tensor* value);
/** @} */

/** @defgroup transfer Transfers
 * @{ */
typedef struct dit_transfer dit_transfer; /**< one tensor's way, with the buffers that it needs */

/** What a transfer carries. */
enum dit_transfer_kind {
  DIT_SCATTER_QUERY =
      0, /**< sequence layout -> head layout [batch, query_tokens, heads of the group, head_dim] */
  DIT_SCATTER_KEY = 1,   /**< the same with [batch, tokens, kv_heads of the group, head_dim] */
  DIT_SCATTER_VALUE = 2, /**< as DIT_SCATTER_KEY */
  DIT_GATHER_OUTPUT = 3  /**< attention's output in the head layout of queries -> sequence layout; each group
                            fills its heads and leaves the others alone */
};

/** How a transfer is prepared. */
typedef struct dit_transfer_options {
  size_t struct_size;   /**< sizeof(dit_transfer_options) */
  int kind;             /**< of dit_transfer_kind */
  int group;            /**< 0 .. groups - 1: a part of each rank's heads */
  int groups;           /**< at least 1 */
  size_t element_bytes; /**< of a number: 2 for bf16 */
  const char* label;    /**< for messages and traces; may be null */
  dit_wire* wire;       /**< the policy; null: the tensor travels as it is. Same layout, groups, element, and
                             memory_kind as of the wire's first transfer */
  int memory_kind;      /**< a dit_memory_kind, of both tensors: host, or one that the plugin and this build
                             move. Pointers to device memory are never read on the host */
} dit_transfer_options;

/** Which numbers of a token RMSNorm takes together. */
enum dit_norm {
  DIT_NORM_NONE = 0,
  DIT_NORM_HEAD = 1, /**< those of a head: FLUX, Qwen-Image, SD3.5 */
  DIT_NORM_TOKEN = 2 /**< those of all heads: Wan */
};
/** Which numbers of a head rotary position embedding turns together. */
enum dit_rope {
  DIT_ROPE_NONE = 0,
  DIT_ROPE_INTERLEAVED = 1, /**< 2i and 2i + 1: FLUX, Qwen-Image, Wan; diffusers' use_real_unbind_dim=-1 */
  DIT_ROPE_HALVES = 2       /**< i and i + head_dim / 2: GPT-NeoX; diffusers' use_real_unbind_dim=-2 */
};

/** RMSNorm, then rotary position embedding, of a scattered tensor on its way: the source is what the
 * projection left, the target has what attention takes. Pointers are to memory of the tensors' kind and stay
 * until the exchange is done.
 *
 *     x * (1 / sqrt(mean(x^2) + epsilon)) * weight;   a * cosine - b * sine, b * cosine + a * sine
 *
 * Computed in fp32, each product and sum rounded by itself, and rounded once to the element at the end; the
 * same bits on host and device, and however it travels. */
typedef struct dit_prepare {
  size_t struct_size; /**< sizeof(dit_prepare) */
  int element_type;   /**< of dit_element_type, of source and target: DIT_ELEMENT_FP32, _BF16 or _FP16 */
  int norm;           /**< of dit_norm */
  int rope;           /**< of dit_rope; then head_dim is even */
  int round_norm;     /**< 1: the norm's result is rounded to the element before RoPE, as two operators one
                           after the other do; 0: it is not */
  double epsilon;     /**< at least 0 */
  const void* weight; /**< [head_dim], with DIT_NORM_TOKEN [heads, head_dim]; null: ones */
  const void* text_weight;    /**< of text tokens; null: as `weight` */
  int weight_type;            /**< of both: DIT_ELEMENT_FP32, or the element_type */
  const float* cosine;        /**< [tokens, head_dim / 2], all tokens in the order of the joint sequence */
  const float* sine;          /**< likewise */
  int64_t angle_batch_stride; /**< with any of these three cosine and sine are of the source's own numbers:
                                   [batch, rows, heads, head_dim / 2] (LTX-2), and these are their strides, as
                                   dit_tensor has them; 0: the same for all */
  int64_t angle_row_stride;   /**< from row to row */
  int64_t angle_head_stride;  /**< from head to head */
} dit_prepare;

/** Where an exchange takes place. Layer, step and branch are the same on all ranks. */
typedef struct dit_transfer_call {
  size_t struct_size; /**< sizeof(dit_transfer_call) */
  dit_tensor source;  /**< only read; its data may be null when it has no bytes */
  dit_tensor target;  /**< written when the exchange is done, perhaps before; shares no number with source */
  int layer;          /**< with a wire: which of its layers */
  int step;           /**< with a wire: which of its steps */
  int branch;         /**< with a wire: which guidance branch, 0 conditional, 1 not */
  int device;         /**< device number, the same in all calls of a session; with a wire the thread's current
                           device when the transfer was made; 0 for host memory */
  void* stream;       /**< device stream of both tensors; null: the default one */
  const dit_prepare*
      prepare; /**< null: the numbers travel as they are. Alike on all ranks, but for pointers and strides.
                    Not for DIT_GATHER_OUTPUT. Where the target is bound the numbers go from
                  the kernel right into the peers' targets; else into messages, or a dense copy */
  void* exchange_stream; /**< what the exchange itself is put on, behind what `stream` has for it: other work
                              of `stream` goes beside it. null: `stream` */
} dit_transfer_call;

/** Prepares a transfer between the session's ranks. Collective: all ranks make the same transfers in the same
 * order, and it fails on all of them, naming what differs, when they were given other shapes, kinds,
 * element_bytes or wires. The layout may be freed afterwards. */
DIT_API dit_status dit_transfer_create(dit_session* session, const dit_layout* layout,
                                       const dit_transfer_options* options, dit_transfer** transfer);
/** Bytes of the source and of the target tensor on this rank, when they are dense. */
DIT_API dit_status dit_transfer_bytes(const dit_transfer* transfer, size_t* source_bytes,
                                      size_t* target_bytes);
/** [batch, rows, heads, head_dim] of the source and of the target tensor on this rank: four numbers each. */
DIT_API dit_status dit_transfer_shapes(const dit_transfer* transfer, int64_t* source, int64_t* target);
/** Bytes that the transfer's buffers take, but for what a policy remembers or sends late, for the dense copy
 * of the source that starts with `prepare` go through, and for the messages of transfers that start together:
 * the first of them allocates that. */
DIT_API dit_status dit_transfer_workspace_bytes(const dit_transfer* transfer, size_t* bytes);
/** Memory of the caller's for these buffers, of the transfer's memory_kind, of any alignment, before the
 * first start: it stays until the transfer is freed and nothing of it is under way. Without it the transfer
 * allocates them at its first start. */
DIT_API dit_status dit_transfer_use_workspace(dit_transfer* transfer, void* workspace, size_t bytes);
/** Starts. All ranks start a transfer equally often; different transfers in any order, as each has its own
 * channel - but transfers of device memory in the same order on all ranks, as they are put on streams. Both
 * tensors stay in place and untouched until the exchange is done: until wait or test say so, or until it was
 * cancelled and `release` was called. Under a policy with a guard it waits for the other ranks' start of the
 * transfer - a thread then starts its transfers in the same order on all ranks - and, with device memory, for
 * what is in the stream before: such a start cannot be captured (DIT_ERROR_UNSUPPORTED). */
DIT_API dit_status dit_transfer_start(dit_transfer* transfer, const dit_transfer_call* call);
/** Sets *done to 1 when the target is complete (then there is nothing to wait for), else to 0. Failures: see
 * wait. */
DIT_API dit_status dit_transfer_test(dit_transfer* transfer, int* done);
/** Binds a target on a device: all ranks learn where it lies on all of them, so that a kernel stores each row
 * right into the target of the rank that attends for it. Starts then name a bound target, the same binding on
 * all ranks. `target` lies in the registration's memory; a transfer may have several. Collective; it fails on
 * all ranks where the plugin has no stores (DIT_CAPABILITY_STORES) or a rank's memory cannot be reached:
 * starts then go by an exchange, with the same bits. The registration outlives the transfer. Not for
 * DIT_GATHER_OUTPUT, nor with a wire. */
DIT_API dit_status dit_transfer_bind(dit_transfer* transfer, dit_registration* registration,
                                     const dit_tensor* target);
/** Starts several transfers of one session, memory kind, device and stream, and elements of one type, in
 * this order; where all targets are bound in one registration by one kernel and one handshake: Q, K and V of
 * a layer. Scatters without wire and bound targets, of up to 16 ranks of which some are on other nodes, go in
 * one exchange, of one message for each rank. All ranks name the same transfers. Each is waited for as if it
 * had been started by itself. */
DIT_API dit_status dit_transfer_start_together(dit_transfer* const* transfers, const dit_transfer_call* calls,
                                               size_t count);
/** For device memory: makes a stream wait for the target, and does not wait itself. What is put into `stream`
 * afterwards sees the target and may overwrite the source. Nothing is under way any more then: the transfer
 * can be started again, in a stream that comes after this one. The way to use transfers in CUDA graphs: start
 * and this call are recorded by a captured stream, after one start that was not captured, with the same use
 * of `prepare`; the transfer and
 * both tensors outlive the graph. Returns at once when nothing is under way. A rank that does not come in
 * time is told by dit_session_status and the next call on the session, once the stream is done: ask before
 * the target is used on the host. */
DIT_API dit_status dit_transfer_wait_stream(dit_transfer* transfer, void* stream);
/** Writes how many of the transfer's exchanges a policy's guard has sent in bf16 so far; 0 without a guard.
 */
DIT_API dit_status dit_transfer_guarded(const dit_transfer* transfer, uint64_t* exchanges);
/** Waits until the target is complete; returns at once when nothing is under way. After DIT_ERROR_TIMEOUT,
 * which names the ranks that are missing where that can be known, the exchange is still under way: wait or
 * test again, or cancel. After another failure the exchange is lost: test and wait say so again, until the
 * next start or a cancel. With a wire whose policy remembers the transfer can then only be freed, on all
 * ranks; a new one may go on at any step. */
DIT_API dit_status dit_transfer_wait(dit_transfer* transfer);
/** Gives up what is under way; the target's contents are undefined then. `release`, which may be null, is
 * called with `user` once source and target are no longer used: now, or in a later call on the session when
 * the late ranks have come, or never when they never come. The transfer may be freed at once, and then waits
 * for nobody; with a wire whose policy remembers (residuals, rows, what comes late) it can only be freed. */
DIT_API dit_status dit_transfer_cancel(dit_transfer* transfer, void (*release)(void* user), void* user);
/** Waits, also for what a policy sends late, frees and sets the handle to null; a null handle is a no-op.
 * When the wait fails what is under way is cancelled: the library's buffers stay until they are no longer
 * used, and the caller keeps source and target until the session is closed. */
DIT_API dit_status dit_transfer_free(dit_transfer** transfer);
/** @} */

/** @defgroup schedule Schedules
 * The order in which to compute and to exchange, as data: the caller carries it out. All ranks get the same
 * order, so exchanges start in the same order everywhere.
 * @{ */
typedef struct dit_schedule dit_schedule; /**< an order of steps */

/** What a step does. */
enum dit_step_role {
  DIT_STEP_PREPARE = 0,       /**< embed tokens, or anything before the first block */
  DIT_STEP_VALUE = 1,         /**< norm, modulation, V projection */
  DIT_STEP_QUERY = 2,         /**< Q projection, norm, RoPE */
  DIT_STEP_KEY = 3,           /**< K projection, norm, RoPE */
  DIT_STEP_SCORE = 4,         /**< dit_wire_choose_rows */
  DIT_STEP_SCATTER_VALUE = 5, /**< exchange of V, sequence -> head layout */
  DIT_STEP_SCATTER_QUERY = 6,
  DIT_STEP_SCATTER_KEY = 7,
  DIT_STEP_ATTENTION = 8,
  DIT_STEP_GATHER_OUTPUT = 9, /**< exchange of the attention's output */
  DIT_STEP_FINISH = 10,       /**< output projection, residual */
  DIT_STEP_MLP = 11,          /**< feed-forward, residual */
  DIT_STEP_LAST = 12,         /**< output layer */
  DIT_STEP_MLP_IN = 13,       /**< MLP beside attention: norm's result to the hidden layer */
  DIT_STEP_MLP_OUT = 14       /**< MLP beside attention: hidden layer to what DIT_STEP_FINISH adds */
};

/** Where a block computes its MLP. */
enum dit_mlp_place {
  DIT_MLP_AFTER = 0, /**< of what attention left, in DIT_STEP_MLP */
  DIT_MLP_BESIDE = 1 /**< of what attention is given, too (FLUX's single streams): DIT_STEP_MLP_IN hides the
                          scatters of Q and K, DIT_STEP_MLP_OUT the gather */
};

/** What to do with a step. */
enum dit_action_kind {
  DIT_ACTION_COMPUTE = 0,
  DIT_ACTION_START = 1,   /**< of an exchange */
  DIT_ACTION_WAIT = 2,    /**< for an exchange */
  DIT_ACTION_EXCHANGE = 3 /**< start and wait in one */
};

/** One thing to do. */
typedef struct dit_action {
  int kind;  /**< of dit_action_kind */
  int role;  /**< of dit_step_role */
  int layer; /**< from 0 */
  int unit;  /**< guidance branch or sample, whatever runs independently of the others; from 0 */
  int group; /**< head group; from 0 */
} dit_action;

/** A transformer's forward pass. */
typedef struct dit_schedule_options {
  size_t struct_size; /**< sizeof(dit_schedule_options) */
  const char* name;   /**< "flat", "v-first" or "pipelined" */
  int layers;         /**< at least 1; layers * units * groups is at most 1,000,000 */
  int units;          /**< at least 1 */
  int groups;         /**< head groups, at least 1 */
  int scores;         /**< 1: with DIT_STEP_SCORE, for V-Major */
  const int* mlp;     /**< of dit_mlp_place, `layers` of them; null: DIT_MLP_AFTER in all */
} dit_schedule_options;

/** Makes an order. Pure. */
DIT_API dit_status dit_schedule_create(const dit_schedule_options* options, dit_schedule** schedule);
/** What to do one after the other. The array lives as long as the schedule. */
DIT_API dit_status dit_schedule_actions(const dit_schedule* schedule, const dit_action** actions,
                                        size_t* count);
/** Frees and sets the handle to null; a null handle is a no-op. */
DIT_API dit_status dit_schedule_free(dit_schedule** schedule);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* DIT_DIT_H */
