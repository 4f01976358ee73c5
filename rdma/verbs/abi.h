/*
 * What this package uses of the binary interfaces of libibverbs and librdmacm,
 * declared here so that the program can be built where their headers are not
 * installed. The interfaces are frozen: structures only grow at their end, and
 * only the libraries allocate those that grew. Where the headers are installed,
 * testdata/abicheck.c compares every offset, size and constant with them.
 *
 * Structures that a library fills in whole are at least as long as its own.
 */
#ifndef NFSRDMA_VERBS_ABI_H
#define NFSRDMA_VERBS_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Objects of libibverbs. The libraries make them; only the fields named here are used. */

struct vb_device {
	void *reserved[2];
	int node_type;
	int transport;
};

struct vb_pd;
struct vb_srq;
struct vb_send_wr;
struct vb_recv_wr;
struct vb_wc;
struct vb_cq;
struct vb_qp;
struct vb_mw;

/* The operations that libibverbs reaches through the context rather than by a symbol. */
struct vb_context_ops {
	void *reserved0[7];
	struct vb_mw *(*alloc_mw)(struct vb_pd *, int type);
	void *bind_mw;
	int (*dealloc_mw)(struct vb_mw *);
	void *reserved1;
	int (*poll_cq)(struct vb_cq *, int n, struct vb_wc *);
	int (*req_notify_cq)(struct vb_cq *, int solicited_only);
	void *reserved2[12];
	int (*post_send)(struct vb_qp *, struct vb_send_wr *, struct vb_send_wr **bad);
	int (*post_recv)(struct vb_qp *, struct vb_recv_wr *, struct vb_recv_wr **bad);
	void *reserved3[5];
};

struct vb_context {
	struct vb_device *device;
	struct vb_context_ops ops;
	int cmd_fd;
	int async_fd;
};

struct vb_pd {
	struct vb_context *context;
};

struct vb_mr {
	struct vb_context *context;
	struct vb_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct vb_mw {
	struct vb_context *context;
	struct vb_pd *pd;
	uint32_t rkey;
	uint32_t handle;
	int type;
};

struct vb_comp_channel {
	struct vb_context *context;
	int fd;
};

struct vb_cq {
	struct vb_context *context;
};

struct vb_qp {
	struct vb_context *context;
};

/* Work requests and completions. */

struct vb_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct vb_send_wr {
	uint64_t wr_id;
	struct vb_send_wr *next;
	struct vb_sge *sg_list;
	int num_sge;
	int opcode;
	unsigned int send_flags;
	uint32_t invalidate_rkey;
	struct {
		uint64_t remote_addr;
		uint32_t rkey;
		uint64_t reserved[2];
	} rdma;
	uint64_t reserved;
	struct {
		struct vb_mw *mw;
		uint32_t rkey;
		struct vb_mr *mr;
		uint64_t addr;
		uint64_t length;
		unsigned int access;
	} bind;
};

struct vb_recv_wr {
	uint64_t wr_id;
	struct vb_recv_wr *next;
	struct vb_sge *sg_list;
	int num_sge;
};

struct vb_wc {
	uint64_t wr_id;
	int status;
	int opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t invalidated_rkey;
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned int wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

/* Attributes. */

struct vb_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

struct vb_qp_init_attr {
	void *qp_context;
	struct vb_cq *send_cq;
	struct vb_cq *recv_cq;
	struct vb_srq *srq;
	struct vb_qp_cap cap;
	int qp_type;
	int sq_sig_all;
};

struct vb_qp_attr {
	int qp_state;
	uint64_t reserved[63];
};

struct vb_device_attr {
	uint64_t reserved0[10];
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t reserved1[3];
	int max_qp_wr;
	unsigned int device_cap_flags;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int reserved2[2];
	int max_qp_init_rd_atom;
	int reserved3[4];
	int max_mw;
	uint64_t reserved4[32];
};

struct vb_async_event {
	void *element;
	int event_type;
};

/* librdmacm. */

struct vb_cm_channel {
	int fd;
};

struct vb_cm_id {
	struct vb_context *verbs;
	struct vb_cm_channel *channel;
	void *context;
	struct vb_qp *qp;
	struct sockaddr_storage src;
	struct sockaddr_storage dst;
};

struct vb_conn_param {
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint32_t qp_num;
};

struct vb_cm_event {
	struct vb_cm_id *id;
	struct vb_cm_id *listen_id;
	int event;
	int status;
	struct vb_conn_param conn;
};

/* Constants, by the names of the interfaces with another prefix. */

enum {
	VB_TRANSPORT_IWARP = 1,

	VB_VENDOR_RXE = 0xffffff, /* what rxe calls its vendor; no header says so */

	VB_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,

	VB_ACCESS_LOCAL_WRITE = 1,
	VB_ACCESS_REMOTE_WRITE = 2,
	VB_ACCESS_REMOTE_READ = 4,
	VB_ACCESS_MW_BIND = 16,

	VB_MW_TYPE_2 = 2,

	VB_QPT_RC = 2,
	VB_QPS_ERR = 6,
	VB_QP_STATE = 1,

	VB_WR_RDMA_WRITE = 0,
	VB_WR_SEND = 2,
	VB_WR_RDMA_READ = 4,
	VB_WR_LOCAL_INV = 7,
	VB_WR_BIND_MW = 8,
	VB_WR_SEND_WITH_INV = 9,

	VB_SEND_SIGNALED = 2,

	VB_WC_SUCCESS = 0,
	VB_WC_WR_FLUSH_ERR = 5,
	VB_WC_WITH_INV = 8,
	VB_WC_WITH_INV_KERNEL = 4, /* the same inside the kernel */

	VB_EVENT_QP_FATAL = 1,
	VB_EVENT_QP_REQ_ERR = 2,
	VB_EVENT_QP_ACCESS_ERR = 3,
	VB_EVENT_DEVICE_FATAL = 8,

	VB_PS_TCP = 0x106,

	VB_CM_ADDR_RESOLVED = 0,
	VB_CM_ADDR_ERROR = 1,
	VB_CM_ROUTE_RESOLVED = 2,
	VB_CM_ROUTE_ERROR = 3,
	VB_CM_CONNECT_REQUEST = 4,
	VB_CM_CONNECT_ERROR = 6,
	VB_CM_UNREACHABLE = 7,
	VB_CM_REJECTED = 8,
	VB_CM_ESTABLISHED = 9,
	VB_CM_DISCONNECTED = 10,
	VB_CM_DEVICE_REMOVAL = 11,
	VB_CM_ADDR_CHANGE = 14,
	VB_CM_TIMEWAIT_EXIT = 15,
};

#endif
